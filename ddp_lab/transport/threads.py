"""Ranks as threads of one process: the transport for learning, tests and debuggers.

Messages are copies in queues. Timings say nothing about a machine: all ranks share one interpreter
lock. Use them to see an order, never to compare algorithms.
"""

import threading
import time
from collections import deque
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ddp_lab.errors import RankLost
from ddp_lab.transport.base import SENT, NDArray, Receive, Sent, Shape
from ddp_lab.transport.board import (
    Board,
    MemoryBoard,
    deadlock,
    entries,
    inspect,
    is_alone,
    sentence,
    silent,
)
from ddp_lab.transport.header import call_site

Line = tuple[int, int, int]  # the messages from one rank to another on one channel
T = TypeVar("T")

LOOK_S = 0.02  # how long a wait sleeps before it looks at the board


class ThreadWorld:
    """What the ranks of one run share: their messages and their board.

    Invariant: on a line there are messages that no receive was posted for, or receives that have
    no message, in order, but never both.
    """

    def __init__(self, size: int, board: Board | None = None) -> None:
        self.size = size
        self.board: Board = board or MemoryBoard(size)
        self.threads: dict[threading.Thread, int] = {}  # its ranks; -1 is who has no way to it
        self._in_vain: dict[int, Receive] = {}  # by rank: nothing had come for it at a look
        self._arrived: dict[Line, deque[tuple[NDArray, bytes, Any]]] = {}
        self._wanted: dict[Line, deque[Receive]] = {}
        self._locks = [threading.Lock() for _ in range(size)]
        self._changed = [threading.Condition(lock) for lock in self._locks]
        self._sleepers = [0] * size  # threads that wait for it

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

    def post(
        self, src: int, dst: int, channel: int, array: NDArray, header: bytes, note: Any = None
    ) -> None:
        """Give a message to the receive that was posted first for its line, or keep it for one."""
        line = src, dst, channel
        with self._locks[dst]:
            receive = take_first(self._wanted, line)
            if receive is None:
                self._arrived.setdefault(line, deque()).append((array, header, note))
                return
            receive.accept(array, header, note)
            if self._sleepers[dst]:
                self._changed[dst].notify_all()

    def want(self, receive: Receive) -> None:
        """Give a receive the first message of its line, or keep it for one."""
        line = receive.src, receive.dst, receive.channel
        with self._locks[receive.dst]:
            message = take_first(self._arrived, line)
            if message is None:
                self._wanted.setdefault(line, deque()).append(receive)
            else:
                receive.accept(*message)

    def take_in(self, src: int) -> None:
        """Take in what has come from `src`: of threads, all has."""

    def has(self, src: int, dst: int, channel: int) -> bool:
        """Return whether a message is there that nobody asked for yet."""
        self.take_in(src)
        return (src, dst, channel) in self._arrived

    def wait(self, receive: Receive, timeout_s: float | None) -> None:
        """Block until `receive` has its message.

        Raises:
            RankLost, Mismatch, RankTimeout: the message will not come, and why.
        """
        give_up = None if timeout_s is None else time.monotonic() + timeout_s
        self.board.wait(receive.dst, receive.src, call_site())
        try:
            while not self._sleep(receive):
                self._look(receive, give_up, timeout_s)
        finally:
            self._in_vain.pop(receive.dst, None)
            self.board.wait(receive.dst, -1, b"")

    def _sleep(self, receive: Receive) -> bool:
        """Wait for a while; return whether the message is there."""
        dst = receive.dst
        with self._locks[dst]:
            self._sleepers[dst] += 1  # before the look: who completes it looks after that
            if not receive.done:
                self._changed[dst].wait(LOOK_S)
            self._sleepers[dst] -= 1
        return receive.done

    def may_still_come(self, src: int) -> bool:
        """Return whether messages of `src`, which has ended, can still be on the way."""
        return False

    def _look(self, receive: Receive, give_up: float | None, timeout_s: float | None) -> None:
        try:
            inspect(self.board, receive.dst, receive.src)
        except RankLost:
            coming = self.may_still_come(receive.src)  # asked first: what comes meanwhile is seen
            if not receive.done and not coming:
                raise
        if give_up is not None and time.monotonic() > give_up and not receive.done:
            raise silent(receive.dst, receive.src, timeout_s)
        if give_up is None and not self.board.may_go_on():
            receive.waiter = threading.current_thread()
            self._in_vain[receive.dst] = receive  # a wait that may end by itself closes no circle
            self._look_for_circle(receive)

    def _look_for_circle(self, receive: Receive) -> None:
        """Raise if the receiver is the first of those that wait for each other for ever."""
        circle = sorted(self._circle(receive.dst))
        if circle and circle[0] == receive.dst:
            words = sentence(entries(self.board, circle))
            raise deadlock(self.board, receive.dst, receive.src, words)

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
        came = any(receive.done for receive in waits.values())
        stayed = all(self._in_vain.get(rank) is waits[rank] for rank in waits)
        return list(waits) if stayed and not came else []


def take_first(queues: dict[Line, deque[T]], line: Line) -> T | None:
    """Return the first of a line, taken off its queue, None if there is none."""
    queue = queues.get(line)
    if queue is None:
        return None
    first = queue.popleft()
    if not queue:
        del queues[line]  # channels are many, and most used once
    return first


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
