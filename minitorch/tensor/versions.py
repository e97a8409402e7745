"""When memory was last written to: how backward notices that a value it needs was overwritten.

A tensor carries the clock's reading from when it was made; an in-place update advances the clock
and notes the memory it wrote to, which views share. So the way forward pays nothing, and backward
only compares two numbers as long as nothing was updated in between.
"""

import weakref
from typing import Any

from ..arrays.library import Array, owner


class Clock:
    """Counts in-place updates, and remembers the last one of each piece of memory."""

    __slots__ = ("_updates", "now")

    def __init__(self) -> None:
        self.now = 0
        self._updates: dict[int, tuple[int, int, Any]] = {}

    def tick(self, array: Array) -> None:
        """Note that the memory of `array` has just been written to."""
        self.now += 1
        memory = owner(array)
        key = id(memory)
        _, count, watcher = self._updates.get(key, (0, 0, None))
        if watcher is None:
            watcher = weakref.ref(memory, lambda _: self._updates.pop(key, None))
        self._updates[key] = (self.now, count + 1, watcher)

    def last(self, array: Array) -> int:
        """Return when the memory of `array` was last written to; 0 for never."""
        return self._updates.get(id(owner(array)), (0, 0))[0]

    def count(self, array: Array) -> int:
        """Return how often the memory of `array` has been written to."""
        return self._updates.get(id(owner(array)), (0, 0))[1]


clock = Clock()
"""The one clock of the process."""
