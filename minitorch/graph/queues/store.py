"""The elements of a queue in one session: taken and put by threads that wait for each other.

Whoever waits is woken by what it waits for, by `close`, by the end of the session (`abandon`), or
by its own limit. Nobody waits for ever where every thread that could help is stuck as well.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..spaces.errors import AbortedError, CancelledError, DeadlineExceededError, OutOfRangeError
from ..state import State
from ..waits import waiting

Element = tuple[Any, ...]

LOOK_AROUND_S = 1.0  # after so long a wait it is asked whether anybody is left who could help


class Store:
    """What is in a queue.

    Args:
        name: of the queue, for errors.
        capacity: how many elements it holds at most; 0 for any number.
        least: so many stay behind as long as the queue is open, to be mixed with later ones.
        draw: where a shuffling queue gets its random numbers; None for first in, first out.
        memory: the session's, which says how long anybody may wait, and knows its threads.
    """

    def __init__(
        self,
        name: str,
        capacity: int,
        least: int = 0,
        draw: np.random.Generator | None = None,
        memory: State | None = None,
    ) -> None:
        self.name, self.capacity, self.least = name, capacity, least
        self.draw = draw
        self._memory = State() if memory is None else memory
        self.closed = self.cancelled = self.abandoned = False
        self._elements: deque[Element] = deque()
        self._putting = 0  # puts that began before the queue was closed
        self._changed = threading.Condition()

    def __len__(self) -> int:
        return len(self._elements)

    def put(self, elements: Sequence[Element]) -> None:
        """Add elements at the end, each as soon as there is room.

        Raises:
            AbortedError: the queue was closed before.
            CancelledError: it is closed meanwhile, and pending puts are cancelled.
            DeadlineExceededError: it stays full for too long, or nobody is left to empty it.
        """
        self._memory.take_part()
        with self._changed:
            if self.closed or self.abandoned:
                raise AbortedError(self._says("enqueue", "is closed"))
            self._putting += 1
            try:
                for element in elements:
                    self._wait("enqueue", "is full", self._has_room)
                    if self.cancelled:
                        raise CancelledError(self._says("enqueue", "was closed"))
                    self._elements.append(element)
                    self._changed.notify_all()
            finally:
                self._putting -= 1
                self._changed.notify_all()

    def take(self, count: int, fewer: bool = False) -> list[Element]:
        """Return `count` elements as they come; with `fewer` what is left once it is closed.

        Raises:
            OutOfRangeError: the queue is closed and has not enough; what it has stays there.
            CancelledError: the session is closed meanwhile.
            DeadlineExceededError: it stays empty for too long, or nobody is left to fill it.
        """
        found: list[Element] = []
        self._memory.take_part()
        with self._changed:
            try:
                while len(found) < count:
                    self._wait("dequeue", "is empty", lambda: self._ready() > 0 or self._ended())
                    if not self._ready():
                        break
                    found += self._some(min(self._ready(), count - len(found)))
                    self._changed.notify_all()
            except BaseException:
                self._put_back(found)
                raise
            if len(found) == count or (fewer and found):
                return found
            self._put_back(found)
            raise OutOfRangeError(
                self._says("dequeue", f"is closed and has {len(found)} elements, not {count}")
            )

    def close(self, cancel_pending: bool = False) -> None:
        """Take no further elements; what is there may still be taken."""
        with self._changed:
            self.closed = True
            self.cancelled = self.cancelled or cancel_pending
            self._changed.notify_all()

    def abandon(self) -> None:
        """Wake all who wait, with an error: the session is closed."""
        with self._changed:
            self.closed = self.cancelled = self.abandoned = True
            self._changed.notify_all()

    def _put_back(self, found: list[Element]) -> None:
        self._elements.extendleft(reversed(found))
        self._changed.notify_all()

    def _has_room(self) -> bool:
        return self.cancelled or not self.capacity or len(self._elements) < self.capacity

    def _ended(self) -> bool:
        return self.closed and not self._putting

    def _ready(self) -> int:
        return max(len(self._elements) - (0 if self.closed else self.least), 0)

    def _some(self, count: int) -> list[Element]:
        if self.draw is None:
            return [self._elements.popleft() for _ in range(count)]
        found = []
        for _ in range(count):
            self._elements.rotate(-int(self.draw.integers(len(self._elements))))
            found.append(self._elements.popleft())
        return found

    def _wait(self, what: str, because: str, holds: Callable[[], bool]) -> None:
        """Wait until `holds`; the lock is held before and after."""

        def goes_on() -> bool:
            return holds() or self.abandoned

        limit_s = self._memory.limit_s
        if limit_s is None:
            with waiting(goes_on):
                while not self._changed.wait_for(goes_on, LOOK_AROUND_S):
                    if self._memory.alone():
                        why = f"{because}, and no other thread is left to change that"
                        hint = "Run the other side first, or call train.start_queue_runners."
                        raise DeadlineExceededError(f"{self._says(what, why)} {hint}")
        elif not self._changed.wait_for(goes_on, limit_s):  # who has a limit is never stuck
            raise DeadlineExceededError(self._says(what, f"{because}, and was for {limit_s:g} s"))
        if self.abandoned:
            raise CancelledError(self._says(what, "is gone: its session was closed"))

    def _says(self, what: str, why: str) -> str:
        return f"{what}: queue {self.name!r} {why}."
