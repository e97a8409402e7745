"""Ranks as processes of one machine that share memory: the fast transport.

A message is copied into the segment by its sender and out of it by its receiver. Collectives do
better: ranks meet, each says where its array lies, and all read and write where the arrays are
(`rendezvous`). Timings are those of this machine's memory: use them to compare algorithms on shared
memory, not to predict a network.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import numpy.typing as npt

from ddp_lab.errors import OutOfSharedMemory, RankLost
from ddp_lab.transport.base import SENT, NDArray, Receive, Sent, Shape
from ddp_lab.transport.board import deadlock, entries, inspect, is_alone, sentence, silent
from ddp_lab.transport.header import call_site
from ddp_lab.transport.shm.board import ShmBoard
from ddp_lab.transport.shm.rendezvous import SharedRendezvous
from ddp_lab.transport.shm.ring_buffer import Record, RingBuffer
from ddp_lab.transport.shm.segment import MAX_RENDEZVOUS, Arena, Segment
from ddp_lab.transport.tcp.circles import Waits, parse, report_of_circle
from ddp_lab.transport.waiting import Words

SHORT_NAPS = 2  # of a wait: most end soon, and a look takes the core from a peer that computes


class ShmTransport:
    """One rank's end of a segment."""

    def __init__(self, segment: Segment, rank: int, ranks_here: int | None = None) -> None:
        self.rank = rank
        self.size = segment.layout.size
        self.board = ShmBoard(segment)
        self.board.live(rank)
        self.segment = segment
        self.words = Words(segment.words, segment.address, ranks_here or self.size)
        self.arena = Arena(segment, rank)
        self._sources = [Source(self, src) for src in range(self.size)]
        self._targets = [self._ring(rank, dst) for dst in range(self.size)]
        self._locks = [threading.Lock() for _ in range(self.size)]
        self.waits: Waits | None = None  # what ranks of other hosts and groups are told
        self.chains = self.board  # on which ranks of this host show it
        self.numbers: Sequence[int] = range(self.size)  # of the ranks, among all that are told

    def __reduce__(self) -> str:
        raise TypeError("shared memory belongs to the ranks of one run and cannot be sent")

    def _ring(self, src: int, dst: int) -> RingBuffer:
        return RingBuffer(self.segment, self.words, self.segment.layout.ring(src, dst))

    def watch(self, peer: int) -> "Watch":
        """Return what to call while this rank waits for `peer`."""
        return Watch(self, peer)

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        """Send a copy; waits only for room, when `dst` is far behind.

        Meanwhile what others have sent is taken in: they may wait for room, too.
        """
        array = np.ascontiguousarray(array).reshape(array.shape)
        with self._locks[dst]:
            watch = Watch(self, dst, for_room=True)

            def look() -> bool:
                for source in self._sources:
                    source.read()
                return watch()

            try:
                self._targets[dst].write(array, channel, header, self.arena, look)
            finally:
                watch.close()
        return SENT

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> Receive:
        """Receive the next array from `src`."""
        return Receive(self._sources[src], src, self.rank, channel, buffer)

    def probe(self, src: int, channel: int) -> bool:
        """Return whether a message of `src` on this channel waits for a receive."""
        return self._sources[src].has(channel)

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> NDArray:
        """Return an array inside the segment.

        Raises:
            OutOfSharedMemory: this rank's arena is full.
        """
        sizes = (shape,) if isinstance(shape, int | np.integer) else shape
        size = tuple(int(n) for n in sizes)
        array = self.arena.array(size, np.dtype(dtype))
        if array is None:
            raise OutOfSharedMemory(
                f"empty: no room for {size} {np.dtype(dtype)}: this rank's shared memory is full. "
                "Drop buffers that are no longer used. "
                "Help: when_it_does_not_work.html#too-little-memory"
            )
        return array

    def rendezvous(self, context: int, members: tuple[int, ...]) -> SharedRendezvous | None:
        """Return the rendezvous of a communicator, None if there are already too many."""
        if context >= MAX_RENDEZVOUS:
            return None
        return SharedRendezvous(self, context, members)

    def look_beyond(self, waits: Waits) -> None:
        """Follow circles of waits over other hosts, whose ranks hear of this rank by `waits`."""
        self.waits = waits
        waits.post = partial(self.board.post_chain, self.rank)

    def look_beyond_group(self, whole: "ShmTransport", numbers: Sequence[int]) -> None:
        """Follow circles of waits over other groups: the ranks have these numbers in `whole`."""
        self.waits, self.chains, self.numbers = whole.waits, whole.chains, numbers

    def close(self) -> None:
        """Close the descriptor of the segment."""
        self.segment.close()


class Watch:
    """Called while a rank waits for a peer: shows the wait on the board and looks at the peer."""

    __slots__ = (
        "_alone",
        "_calls",
        "_ends",
        "_give_up",
        "_peer",
        "_peers_chain",
        "_peers_wait",
        "_shown",
        "_transport",
    )

    def __init__(
        self,
        transport: ShmTransport,
        peer: int,
        give_up: float | None = None,
        *,
        for_room: bool = False,
    ) -> None:
        self._transport = transport
        self._peer = peer
        self._give_up = give_up
        # A wait that may end by itself, or by a peer that waits, closes no circle.
        self._ends = for_room or give_up is not None or transport.board.may_go_on()
        self._shown = self._alone = False
        self._calls = 0
        self._peers_wait = 0  # the number of the peer's wait at the last look
        self._peers_chain = b""  # what it had posted of its wait at the last look

    def __call__(self) -> bool:
        """Return whether to go on waiting; raise if it is in vain."""
        self._calls += 1
        if self._calls > SHORT_NAPS:
            self._look()
        return self._give_up is None or time.monotonic() < self._give_up

    def _look(self) -> None:
        transport = self._transport
        alone = not self._ends and is_alone()
        if not self._shown or alone is not self._alone:
            # Shown anew once no other thread can send: what one has sent is not yet looked for.
            transport.board.wait(transport.rank, self._peer, call_site())
            self._shown, self._alone = True, alone
            if transport.waits is not None:
                transport.waits.begin()
        if self._peer != transport.rank:
            inspect(transport.board, transport.rank, self._peer)
        if alone:
            self._look_for_circle()

    def _look_for_circle(self) -> None:
        """Raise if this rank is the first of those that wait for each other for ever.

        The caller looks for what it waits for before each look at the peer: so what the peer sent
        before the wait that the last look saw would have been found by now.
        """
        board, rank = self._transport.board, self._transport.rank
        board.note_in_vain(rank, self._peers_wait)
        self._peers_wait = board.wait_number(self._peer)
        circle = sorted(board.circle(rank))
        if circle and circle[0] == rank:
            raise deadlock(board, rank, self._peer, sentence(entries(board, circle)))
        if self._transport.waits is not None:
            self._look_beyond(self._transport.waits)

    def _look_beyond(self, waits: Waits) -> None:
        """Raise if this rank is the first of a circle that leads over other hosts or groups."""
        transport = self._transport
        board, rank, numbers = transport.board, transport.rank, transport.numbers
        shown = replace(board.read(rank), waits_for=numbers[self._peer])
        words = sentence({numbers[rank]: shown}).removesuffix(".")
        circle = waits.close(numbers[rank], words, parse(self._peers_chain))
        if circle and numbers[rank] == min(circle)[0]:
            raise deadlock(board, rank, self._peer, report_of_circle(circle))
        self._peers_chain = transport.chains.read_chain(numbers[self._peer])

    def close(self) -> None:
        """Take the wait off the board."""
        if self._shown:
            self._transport.board.wait(self._transport.rank, -1, b"")


class Source:
    """The messages from one rank, sorted into channels as they are read."""

    def __init__(self, transport: ShmTransport, src: int) -> None:
        self.transport = transport
        self.src = src
        self._ring: RingBuffer = transport._ring(src, transport.rank)
        self._lock = threading.Lock()
        self._arrived: dict[int, deque[tuple[NDArray, bytes]]] = {}
        self._wanted: dict[int, deque[Receive]] = {}

    def want(self, receive: Receive) -> None:
        """Queue a receive; it gets a message that is here already."""
        with self._lock:
            arrived = self._arrived.get(receive.channel)
            if arrived:
                receive.accept(*arrived.popleft())
                if not arrived:
                    del self._arrived[receive.channel]  # channels are many, and most used once
            else:
                self._wanted.setdefault(receive.channel, deque()).append(receive)

    def read(self) -> int:
        """Hand out all messages that have come; return the position up to which."""
        with self._lock:
            while (record := self._ring.peek()) is not None:
                self._hand_out(record)
                self._ring.release(record)
            return self._ring.consumed()  # a message may have come since the last look

    def take_in(self, src: int) -> None:
        """Hand out all messages that have come."""
        self.read()

    def has(self, channel: int) -> bool:
        """Return whether a message is there that nobody asked for yet."""
        self.read()
        return bool(self._arrived.get(channel))

    def _hand_out(self, record: Record) -> None:
        receives = self._wanted.get(record.channel)
        receive = receives.popleft() if receives else None
        if receive is not None and not receives:
            del self._wanted[record.channel]
        target = None if receive is None else receive.buffer
        if target is None or target.dtype != record.dtype or target.shape != record.shape:
            target = np.empty(record.shape, record.dtype)
        target.reshape(-1).view(np.uint8)[:] = record.payload
        if receive is None:
            self._arrived.setdefault(record.channel, deque()).append((target, record.header))
        else:
            receive.accept(target, record.header)

    def wait(self, receive: Receive, timeout_s: float | None) -> None:
        """Block until `receive` has its message."""
        position = self.read()
        if receive.done:
            return
        give_up = None if timeout_s is None else time.monotonic() + timeout_s
        watch = Watch(self.transport, self.src, give_up)
        try:
            while not receive.done:
                came = self._wait_for_more(position, watch)
                position = self.read()
                if not came and not receive.done:
                    raise silent(self.transport.rank, self.src, timeout_s)
        finally:
            watch.close()

    def _wait_for_more(self, position: int, watch: Callable[[], bool]) -> bool:
        words = self.transport.words
        try:
            return words.wait(self._ring.written, position + 1, watch)
        except RankLost:
            if self._ring.position() > position:  # its last message was on the way
                return True
            raise
