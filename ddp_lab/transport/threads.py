"""Ranks as threads of one process: the transport for learning, tests and debuggers.

Messages are copies in queues. Timings say nothing about a machine: all ranks share one interpreter
lock. Use them to see an order, never to compare algorithms.
"""

import threading
import time
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import numpy.typing as npt

from ddp_lab.errors import RankLost
from ddp_lab.transport.base import SENT, NDArray, Sent, Shape, deliver
from ddp_lab.transport.board import (
    Board,
    MemoryBoard,
    deadlock,
    inspect,
    is_alone,
    report_of,
    silent,
)
from ddp_lab.transport.header import call_site

LOOK_S = 0.02  # how long a wait sleeps before it looks at the board


class Line:
    """The messages from one rank to another on one channel, matched to receives in order."""

    def __init__(self) -> None:
        self.arrived: deque[tuple[NDArray, bytes, Any]] = deque()
        self.wanted: deque[Receive] = deque()

    def match(self) -> bool:
        """Give each message to the receive that was posted first; return whether any is left."""
        while self.arrived and self.wanted:
            self.wanted.popleft().accept(*self.arrived.popleft())
        return bool(self.arrived or self.wanted)


class ThreadWorld:
    """What the ranks of one run share: their lines and their board."""

    def __init__(self, size: int, board: Board | None = None) -> None:
        self.size = size
        self.board: Board = board or MemoryBoard(size)
        self.threads: dict[threading.Thread, int] = {}  # its ranks; -1 is who has no way to it
        self._in_vain: dict[int, Receive] = {}  # by rank: nothing had come for it at a look
        self._lines: dict[tuple[int, int, int], Line] = {}
        self._changed = [threading.Condition() for _ in range(size)]

    def transport(self, rank: int) -> "ThreadTransport":
        """Return the end of `rank`."""
        return ThreadTransport(self, rank)

    def enter(self, rank: int) -> None:
        """Called by the thread of `rank` before anything else."""

    def running(self, rank: int) -> AbstractContextManager[None]:
        """Return a context around all that the thread of `rank` does."""
        return nullcontext()

    def leave(self, rank: int) -> None:
        """Called by the thread of `rank` at its end."""

    def line(self, src: int, dst: int, channel: int) -> Line:
        """Return the line, made at first use; `dst`'s lock is held."""
        key = (src, dst, channel)
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = Line()
        return line

    def post(
        self, src: int, dst: int, channel: int, array: NDArray, header: bytes, note: Any = None
    ) -> None:
        """Put a message on its line."""
        with self._changed[dst]:
            self.line(src, dst, channel).arrived.append((array, header, note))
            self._changed[dst].notify_all()

    def want(self, receive: "Receive") -> None:
        """Put a receive on its line."""
        with self._changed[receive.dst]:
            self.line(receive.src, receive.dst, receive.channel).wanted.append(receive)

    def has(self, src: int, dst: int, channel: int) -> bool:
        """Return whether a message is there that nobody asked for yet."""
        with self._changed[dst]:
            line = self._lines.get((src, dst, channel))
            return line is not None and bool(line.arrived)

    def arrive(self, receive: "Receive") -> bool:
        """Match what has arrived; return whether `receive` has its message."""
        with self._changed[receive.dst]:
            return self._match(receive)

    def _match(self, receive: "Receive") -> bool:
        key = (receive.src, receive.dst, receive.channel)
        if not self.line(*key).match():
            del self._lines[key]  # channels are many, and most used once
        return receive.done

    def wait(self, receive: "Receive", timeout_s: float | None) -> None:
        """Block until `receive` has its message.

        Raises:
            RankLost, Mismatch, RankTimeout: the message will not come, and why.
        """
        if self.arrive(receive):
            return
        give_up = None if timeout_s is None else time.monotonic() + timeout_s
        self.board.wait(receive.dst, receive.src, call_site())
        try:
            while not self._sleep(receive):
                self._look(receive, give_up, timeout_s)
        finally:
            self._in_vain.pop(receive.dst, None)
            self.board.wait(receive.dst, -1, b"")

    def _sleep(self, receive: "Receive") -> bool:
        changed = self._changed[receive.dst]
        with changed:
            if not self._match(receive):
                changed.wait(LOOK_S)
            return self._match(receive)

    def may_still_come(self, src: int) -> bool:
        """Return whether messages of `src`, which has ended, can still be on the way."""
        return False

    def _look(self, receive: "Receive", give_up: float | None, timeout_s: float | None) -> None:
        try:
            inspect(self.board, receive.dst, receive.src)
        except RankLost:
            coming = self.may_still_come(receive.src)  # asked first: what comes meanwhile is seen
            if not self.arrive(receive) and not coming:
                raise
        if give_up is not None and time.monotonic() > give_up and not self.arrive(receive):
            raise silent(receive.dst, receive.src, timeout_s)
        if give_up is None and not self.board.may_go_on():
            receive.waiter = threading.current_thread()
            self._in_vain[receive.dst] = receive  # a wait that may end by itself closes no circle
            self._look_for_circle(receive)

    def _look_for_circle(self, receive: "Receive") -> None:
        """Raise if the receiver is the first of those that wait for each other for ever."""
        circle = sorted(self._circle(receive.dst))
        if circle and circle[0] == receive.dst:
            raise deadlock(self.board, receive.dst, receive.src, report_of(self.board, circle))

    def _circle(self, first: int) -> list[int]:
        """Return the ranks that wait for each other for ever, from `first` on; [] if it does not.

        None of them left its wait while all were looked at, and nobody else can send for them, so
        none sent anything meanwhile.
        """
        waits: dict[int, Receive] = {}
        rank = first
        while rank not in waits and (receive := self._in_vain.get(rank)) is not None:
            waits[rank] = receive
            rank = receive.src
        if not waits or rank != first:
            return []
        others = {thread for thread, rank in self.threads.items() if rank not in waits}
        if not is_alone({receive.waiter for receive in waits.values()} | others):
            return []  # another thread of one of these ranks may send yet
        came = any(self.arrive(receive) for receive in waits.values())
        stayed = all(self._in_vain.get(rank) is waits[rank] for rank in waits)
        return list(waits) if stayed and not came else []


class Receive:
    """A receive, before and after its message came."""

    def __init__(
        self, world: ThreadWorld, src: int, dst: int, channel: int, buffer: NDArray | None
    ) -> None:
        self.src, self.dst, self.channel = src, dst, channel
        self.header = b""
        self.done = False
        self._world = world
        self.buffer = buffer
        self._array: Any = None
        self.note: Any = None
        self.waiter = threading.current_thread()
        world.want(self)

    def accept(self, array: NDArray, header: bytes, note: Any) -> None:
        """Take the message; checked only when waited for, so that the waiter gets the error."""
        self._array, self.header, self.note = array, header, note
        self.done = True

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the array, or the buffer filled with it."""
        self._world.wait(self, timeout_s)
        self._array = deliver(self._array, self.buffer, self.src, self.dst)
        return self._array

    def test(self) -> bool:
        """Return whether the message has come."""
        return self._world.arrive(self)


class ThreadTransport:
    """One rank's end of a `ThreadWorld`."""

    def __init__(self, world: ThreadWorld, rank: int) -> None:
        self.rank = rank
        self.size = world.size
        self.board = world.board
        self._world = world

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        """Send a copy."""
        self._world.post(self.rank, dst, channel, array.copy(), header)
        return SENT

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> Receive:
        """Receive the next array from `src`."""
        return Receive(self._world, src, self.rank, channel, buffer)

    def probe(self, src: int, channel: int) -> bool:
        """Return whether a message of `src` on this channel waits for a receive."""
        return self._world.has(src, self.rank, channel)

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> NDArray:
        """Return an ordinary array."""
        return np.empty(shape, dtype)

    def close(self) -> None:
        """Do nothing; the queues go with the world."""
