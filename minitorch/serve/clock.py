"""Clocks: the event loop's, and a virtual one on which nothing waits. Times are milliseconds.

May import: nothing of ours.
"""

import asyncio
import heapq
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


class Timer(Protocol):
    """A call that is due later."""

    def cancel(self) -> None:
        """Have it never made."""


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
        self._count = 0
        self._calls: list[tuple[float, int, _Call]] = []

    def now_ms(self) -> float:
        """Return how far it has been moved."""
        return self._now_ms

    def call_at(self, when_ms: float, callback: Callable[[], object]) -> Timer:
        """Call back when the clock gets there; at the same time in the order of asking."""
        call = _Call(callback)
        self._count += 1
        heapq.heappush(self._calls, (max(when_ms, self._now_ms), self._count, call))
        return call

    def advance(self, by_ms: float) -> None:
        """Let this much time pass, with all calls that are due in it."""
        end_ms = self._now_ms + by_ms
        while self._calls and self._calls[0][0] <= end_ms:
            self._step()
        self._now_ms = end_ms

    def run(self) -> None:
        """Let time pass until no call is due any more."""
        while self._calls:
            self._step()

    def _step(self) -> None:
        self._now_ms, _, call = heapq.heappop(self._calls)
        if not call.cancelled:
            call.callback()


@dataclass(slots=True)
class _Call:
    callback: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True
