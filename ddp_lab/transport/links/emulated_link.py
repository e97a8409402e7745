"""A link between pretended hosts, in real seconds: what it costs, seen on one machine.

Each host has one interface, full duplex, which its ranks share. A message of n bytes begins to
leave when those before it have left, and leaves for n beta seconds; alpha later it begins to come
in at the other host, in the first gap between what that takes in. Its bytes are moved at once by
whatever carries the ranks' messages; their receiver gets them when such a link would have
delivered them, and sleeps until then, so that waiting takes no processor time from other ranks.
"""

import struct
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy.typing as npt

from ddp_lab.transport.base import NDArray, Shape, Transport, Work
from ddp_lab.transport.board import Board, silent
from ddp_lab.transport.links.link import Hosts, Link

ARRIVAL = struct.Struct("<q")  # nanoseconds of the monotonic clock, in front of the header
SECOND = 1_000_000_000
MOST_STRETCHES = 100
PART_WORDS = 2 + 2 * MOST_STRETCHES  # until when the way out is busy; the stretches of the way in
LOOK_S = 0.05  # how long a wait sleeps before it looks whether its time is over


class Interfaces:
    """When each host's interface is busy: its way out until when, its way in in which stretches.

    Of messages that come from several hosts, each takes the first gap that it fits into: one that
    is still in its sender's queue keeps no other waiting.

    Args:
        words: memory that all ranks see; a host's part of it is `PART_WORDS` long.
        parts: where each host's part begins.
        lock: held by who reads and writes them.
    """

    def __init__(
        self,
        words: Any,
        parts: Sequence[int],
        lock: AbstractContextManager[Any],
        now_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._words, self._parts, self._lock, self._now_ns = words, parts, lock, now_ns

    def reserve(self, src: int, dst: int, leaves_ns: int, alpha_ns: int) -> int:
        """Return when a message from host `src` that leaves for so long is in at host `dst`."""
        words, out, into = self._words, self._parts[src], self._parts[dst] + 1
        with self._lock:
            now = self._now_ns()
            leaves: int = max(now, words[out])
            words[out] = leaves + leaves_ns
            if not leaves_ns:
                return leaves + alpha_ns
            stretches = range(into + 1, into + 1 + 2 * words[into], 2)
            busy = [(words[at], words[at + 1]) for at in stretches if words[at + 1] > now]
            begins = first_gap(busy, leaves + alpha_ns, leaves_ns)
            busy = merge_stretches([*busy, (begins, begins + leaves_ns)])
            words[into] = len(busy)
            for at, stretch in enumerate(busy):
                words[into + 1 + 2 * at], words[into + 2 + 2 * at] = stretch
            return begins + leaves_ns


def of_threads(hosts: Hosts, now_ns: Callable[[], int] = time.monotonic_ns) -> Interfaces:
    """Return interfaces whose ranks are threads of one process."""
    n_words = len(hosts) * PART_WORDS
    return Interfaces([0] * n_words, range(0, n_words, PART_WORDS), threading.Lock(), now_ns)


def first_gap(busy: list[tuple[int, int]], earliest: int, length: int) -> int:
    """Return the first time from `earliest` on that is `length` long and not busy."""
    begins = earliest
    for first, last in busy:
        if begins + length <= first:
            break
        begins = max(begins, last)
    return begins


def merge_stretches(stretches: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return them in order, without the gaps of no length, and at most `MOST_STRETCHES`."""
    merged: list[tuple[int, int]] = []
    for first, last in sorted(stretches):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], last
        else:
            merged.append((first, last))
    if len(merged) > MOST_STRETCHES:  # the first gap is the least use
        merged[:2] = [(merged[0][0], merged[1][1])]
    return merged


class EmulatedLink:
    """The way to other hosts: messages of `carrier`, held back until the link would have them."""

    def __init__(self, carrier: Transport, hosts: Hosts, link: Link, ways: Interfaces) -> None:
        self.rank = carrier.rank
        self.size = carrier.size
        self._carrier = carrier
        self._board: Board = carrier.board  # type: ignore[attr-defined]
        self._link = link
        self._ways = ways
        self._host_of = {rank: index for index, host in enumerate(hosts) for rank in host}

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Work:
        """Send a copy, which says when it is there."""
        link = self._link
        leaves_ns, alpha_ns = int(array.nbytes * link.beta * SECOND), int(link.alpha * SECOND)
        src = self._host_of[self.rank]
        arrival = self._ways.reserve(src, self._host_of[dst], leaves_ns, alpha_ns)
        return self._carrier.isend(
            array, dst, channel=channel, header=ARRIVAL.pack(arrival) + header
        )

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> "LateReceive":
        """Receive the next array from `src`, once the link has delivered it."""
        work = self._carrier.irecv(src, channel=channel, buffer=buffer)
        return LateReceive(work, self._board, self.rank, src)

    def probe(self, src: int, channel: int) -> bool:
        """Return whether a message of `src` was sent; to take it may still need a wait."""
        return bool(self._carrier.probe(src, channel))  # type: ignore[attr-defined]

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> NDArray:
        """Return an array of the carrier's."""
        return self._carrier.empty(shape, dtype)

    def close(self) -> None:
        """Do nothing: the carrier belongs to somebody else."""


class LateReceive:
    """A receive whose message is there already, or not yet, as its stamp says."""

    def __init__(self, work: Work, board: Board, rank: int, src: int) -> None:
        self._work = work
        self._board = board
        self._rank, self._src = rank, src

    @property
    def header(self) -> bytes:
        """The sender's header."""
        return self._work.header[ARRIVAL.size :]

    @header.setter
    def header(self, header: bytes) -> None:
        self._work.header = ARRIVAL.pack(0) + header

    def wait(self, timeout_s: float | None = None) -> NDArray | None:
        """Return the array, no sooner than the link would have."""
        limit_s = float("inf") if timeout_s is None else timeout_s
        give_up = min(time.monotonic() + limit_s, self._board.deadline)
        array = self._work.wait(timeout_s)
        while (left_s := self._remaining_ns() / SECOND) > 0:
            if time.monotonic() > min(give_up, self._board.deadline):
                raise silent(self._rank, self._src, timeout_s)
            time.sleep(min(left_s, LOOK_S))
        return array

    def test(self) -> bool:
        """Return whether `wait` would return at once."""
        return self._work.test() and self._remaining_ns() <= 0

    def _remaining_ns(self) -> int:
        (arrival,) = ARRIVAL.unpack_from(self._work.header)
        return int(arrival) - time.monotonic_ns()
