"""Clocks: the event loop's, and a virtual one on which nothing waits. Times are milliseconds.

May import: nothing of ours.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Protocol


@dataclass(slots=True)
class Call:
    """A call that is due later."""

    callback: Callable[[], object]
    is_due: bool = True

    def cancel(self) -> None:
        """Have it never made."""
        self.is_due = False


Timer = asyncio.TimerHandle | Call


class Clock(Protocol):
    """What serving asks of time."""

    def now_ms(self) -> float:
        """Return the time since some fixed moment."""

    def call_at(self, when_ms: float, callback: Callable[[], object]) -> Timer:
        """Call back at that time, or at once where it has passed; never from inside this call."""


class LoopClock:
    """The clock of the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now_ms(self) -> float:
        """Return the loop's time."""
        return self._loop.time() * 1e3

    def call_at(self, when_ms: float, callback: Callable[[], object]) -> Timer:
        """Call back from the loop."""
        return self._loop.call_at(when_ms / 1e3, callback)


class VirtualClock:
    """Time that passes only when it is told to, and then at once."""

    def __init__(self) -> None:
        self._now_ms = 0.0
        self._calls: list[tuple[float, int, Call]] = []
        self._numbers = count()

    def now_ms(self) -> float:
        """Return how far it has been moved."""
        return self._now_ms

    def call_at(self, when_ms: float, callback: Callable[[], object]) -> Timer:
        """Call back when the clock gets there; at the same time in the order of asking."""
        call = Call(callback)
        heapq.heappush(self._calls, (max(when_ms, self._now_ms), next(self._numbers), call))
        return call

    def advance(self, by_ms: float) -> None:
        """Let this much time pass, with all calls that are due in it."""
        end_ms = self._now_ms + by_ms
        self.run(end_ms)
        self._now_ms = end_ms

    def run(self, until_ms: float = float("inf")) -> None:
        """Make all calls that are due until then."""
        while self._calls and self._calls[0][0] <= until_ms:
            self._now_ms, _, call = heapq.heappop(self._calls)
            if call.is_due:
                call.callback()
