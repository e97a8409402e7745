"""Answers that are kept: a cache of so many bytes, with CLOCK eviction.

CLOCK (Corbató, 1968) comes near to least recently used without moving anything at a hit: entries
stand in a circle, a hit sets a bit, and the hand that looks for room clears bits until it meets an
entry whose bit is clear.

May import: NumPy.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

ENTRY_BYTES = 256  # what an entry costs beside its value: key, place, dictionary
MISS = object()


@dataclass(slots=True)
class _Entry:
    value: Any
    size: int
    used: bool = False


class Cache:
    """Values by key, at most `limit_bytes` of them together."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.n_bytes = 0
        self._circle: OrderedDict[Hashable, _Entry] = OrderedDict()  # from the hand on

    def get(self, key: Hashable) -> Any:
        """Return the value, or `MISS`."""
        entry = self._circle.get(key)
        if entry is None:
            return MISS
        entry.used = True
        return entry.value

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value, unless it is larger than the cache; others make room."""
        size = ENTRY_BYTES + value_bytes(value)
        if key in self._circle or size > self.limit_bytes:
            return
        while self.n_bytes + size > self.limit_bytes:
            key_at_hand, entry = self._circle.popitem(last=False)
            if entry.used:
                entry.used = False
                self._circle[key_at_hand] = entry  # the hand has passed it
            else:
                self.n_bytes -= entry.size
        self._circle[key] = _Entry(value, size)
        self.n_bytes += size


def value_bytes(value: Any) -> int:
    """Return about how much memory a value takes."""
    if isinstance(value, np.ndarray):
        return value.nbytes
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return sum(value_bytes(key) + value_bytes(part) for key, part in value.items())
    if isinstance(value, list):
        return sum(16 + value_bytes(part) for part in value)
    return 8
