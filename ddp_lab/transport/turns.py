"""Ranks that take turns: one thread runs at a time, and who is next is reproducible.

A rank runs until it waits for a message that is not there; then the baton goes to a rank that can
go on. With a seed, it may also go elsewhere after any send, in an order that the seed decides: so
one program can be tried under many orders of delivery. When nobody can go on, that is a deadlock,
known at once and not after a timeout.
"""

import random
import threading

from ddp_lab.errors import Deadlock
from ddp_lab.transport.base import NDArray, Sent
from ddp_lab.transport.board import RUNNING, entries, inspect, report
from ddp_lab.transport.header import call_site
from ddp_lab.transport.threads import Receive, ThreadTransport, ThreadWorld


class TurnWorld(ThreadWorld):
    """A world of threads of which one runs at a time."""

    def __init__(self, size: int, seed: int | None = None) -> None:
        super().__init__(size)
        self._random = None if seed is None else random.Random(seed)
        self._gates = [threading.Semaphore(0) for _ in range(size)]
        self._waiting: dict[int, Receive | None] = {}  # ranks off the baton, and for what
        self._begun = 0
        self._lock = threading.Lock()
        self._deadlock = ""

    def transport(self, rank: int) -> ThreadTransport:
        """Return the end of `rank`."""
        return TurnTransport(self, rank)

    def enter(self, rank: int) -> None:
        """Wait for this rank's first turn; the last to come gives it to the first."""
        with self._lock:
            self._waiting[rank] = None
            self._begun += 1
            last = self._begun == self.size
        if last:
            self._next()
        self._gates[rank].acquire()

    def leave(self, rank: int) -> None:
        """Pass the baton on for good."""
        self._next()

    def pause(self, rank: int) -> None:
        """Perhaps let another rank run first."""
        if self._random is not None:
            self._waiting[rank] = None
            self._next()
            self._gates[rank].acquire()

    def wait(self, receive: Receive, timeout_s: float | None) -> None:
        """Let others run until the message is there.

        Raises:
            Deadlock: no rank can go on.
            RankLost, Mismatch: the message will not come, and why.
        """
        rank = receive.dst
        if self.arrive(receive):
            return
        self.board.wait(rank, receive.src, call_site())
        self._waiting[rank] = receive
        self._next()
        self._gates[rank].acquire()
        if not self.arrive(receive):
            inspect(self.board, rank, receive.src)
            raise Deadlock(f"recv: no rank can go on: {self._deadlock}", receive.src)
        self.board.wait(rank, -1, b"")

    def _next(self) -> None:
        """Give the baton to a rank that can use it; in a deadlock, to one that will say so."""
        able = [r for r, wanted in sorted(self._waiting.items()) if self._can_go_on(wanted)]
        if not able and self._waiting:
            self._deadlock = self._deadlock or report(entries(self.board))
            able = [min(self._waiting, key=lambda rank: (not self._is_bereft(rank), rank))]
        if able:
            chosen = able[0] if self._random is None else self._random.choice(able)
            del self._waiting[chosen]
            self._gates[chosen].release()

    def _is_bereft(self, rank: int) -> bool:
        """Return whether `rank` waits for one that has ended: then it is lost, not in a circle."""
        receive = self._waiting[rank]
        return receive is not None and self.board.read(receive.src).state != RUNNING

    def _can_go_on(self, wanted: Receive | None) -> bool:
        return wanted is None or self.arrive(wanted)


class TurnTransport(ThreadTransport):
    """One rank's end of a `TurnWorld`."""

    takes_turns = True

    _world: TurnWorld

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        """Send a copy; with a seed, others may run before this returns."""
        sent = super().isend(array, dst, channel=channel, header=header)
        self._world.pause(self.rank)
        return sent
