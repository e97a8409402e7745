"""Answers that are kept: a cache of so many bytes, with CLOCK eviction.

CLOCK (Corbató, 1968) comes near to least recently used without moving anything at a hit: entries
stand in a circle, a hit sets a bit, and the hand that looks for room clears bits until it meets an
entry whose bit is clear.

May import: nothing of ours.
"""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

ENTRY_BYTES = 256  # what an entry costs beside its value: key, place, dictionary
MISS = object()


class Cache:
    """Values by key, at most `limit_bytes` of them together."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        self.n_bytes = 0
        self._circle: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()  # from the hand on
        self._used: set[Hashable] = set()

    def get(self, key: Hashable) -> Any:
        """Return the value, or `MISS`."""
        entry = self._circle.get(key)
        if entry is None:
            return MISS
        self._used.add(key)
        return entry[0]

    def put(self, key: Hashable, value: Any) -> None:
        """Keep a value, unless it is larger than the cache; others make room."""
        size = ENTRY_BYTES + value_bytes(value)
        if key in self._circle or size > self.limit_bytes:
            return
        while self.n_bytes + size > self.limit_bytes:
            key_at_hand, entry = self._circle.popitem(last=False)
            if key_at_hand in self._used:
                self._used.remove(key_at_hand)
                self._circle[key_at_hand] = entry  # the hand has passed it
            else:
                self.n_bytes -= entry[1]
        self._circle[key] = value, size
        self.n_bytes += size


def value_bytes(value: object) -> int:
    """Return about how much memory a value takes."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        return sum(16 + value_bytes(part) for part in value)
    return len(value) if isinstance(value, str) else getattr(value, "nbytes", 8)
