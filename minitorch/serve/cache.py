"""Answers that are kept: a cache of so many bytes, with CLOCK eviction.

CLOCK (Corbató, 1968) comes near to least recently used without moving anything at a hit: entries
stand in a circle, a hit sets a bit, and the hand that looks for room clears bits until it meets an
entry whose bit is clear.

May import: NumPy.
"""

from collections.abc import Hashable
from typing import Any

import numpy as np

ENTRY_BYTES = 256  # what an entry costs beside its value: key, place, dictionary
MISS = object()


class Cache:
    """Values by key, at most `limit_bytes` of them together."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.n_bytes = 0
        self._at: dict[Hashable, int] = {}
        self._ring: list[_Entry | None] = []
        self._free: list[int] = []
        self._hand = 0

    def __len__(self) -> int:
        return len(self._at)

    def get(self, key: Hashable) -> Any:
        """Return the value, or `MISS`."""
        at = self._at.get(key)
        if at is None:
            return MISS
        entry = self._ring[at]
        assert entry is not None
        entry.used = True
        return entry.value

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value, unless it is larger than the cache; others make room."""
        size = ENTRY_BYTES + value_bytes(value)
        if key in self._at or size > self.limit_bytes:
            return
        while self.n_bytes + size > self.limit_bytes:
            self._evict()
        entry = _Entry(key, value, size)
        if self._free:
            at = self._free.pop()
            self._ring[at] = entry
        else:
            at = len(self._ring)
            self._ring.append(entry)
        self._at[key] = at
        self.n_bytes += size

    def _evict(self) -> None:
        while True:
            self._hand = (self._hand + 1) % len(self._ring)
            entry = self._ring[self._hand]
            if entry is None:
                continue
            if not entry.used:
                break
            entry.used = False
        self._ring[self._hand] = None
        self._free.append(self._hand)
        del self._at[entry.key]
        self.n_bytes -= entry.size


class _Entry:
    __slots__ = ("key", "size", "used", "value")

    def __init__(self, key: Hashable, value: Any, size: int) -> None:
        self.key = key
        self.value = value
        self.size = size
        self.used = False


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
