"""A virtual clock under real collectives: what they would cost on links of given speed.

The arrays are real and so are the results; only time is made up. A message of n bytes occupies
the sender's way out and the receiver's way in for alpha + n beta seconds, from the moment when
both are free, it was sent and the receiver asked for it. A rank sends and receives at the same
time. Reducing n bytes takes n gamma. Time spent outside of messages and reductions is free.

One thread runs at a time (`TurnWorld`), until it waits for a message that is not there; then the
baton goes to a rank that can go on. With a seed it may also go elsewhere after any send, in an
order that the seed decides: so one program is tried under many orders of delivery. When nobody can
go on, that is a deadlock, known at once.

Use its timings to predict, never as measurements.

Source of the model: Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005.
"""

import random
import threading
from typing import Any

from ddp_lab.errors import Deadlock
from ddp_lab.transport.base import NDArray, Receive, Sent
from ddp_lab.transport.board import RUNNING, entries, inspect, sentence
from ddp_lab.transport.header import call_site
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.threads import ThreadTransport, ThreadWorld


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
        self.board.wait(rank, receive.src, call_site())
        self._waiting[rank] = receive
        self._next()
        self._gates[rank].acquire()
        if not receive.done:
            inspect(self.board, rank, receive.src)
            raise Deadlock(f"recv: no rank can go on: {self._deadlock}", receive.src)
        self.board.wait(rank, -1, b"")

    def _next(self) -> None:
        """Give the baton to a rank that can use it; in a deadlock, to one that will say so."""
        able = [r for r, wanted in sorted(self._waiting.items()) if self._can_go_on(wanted)]
        if not able and self._waiting:
            self._deadlock = self._deadlock or sentence(entries(self.board))
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
        return wanted is None or wanted.done


class TurnTransport(ThreadTransport):
    """One rank's end of a `TurnWorld`."""

    takes_turns = True

    _world: TurnWorld

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Sent:
        """Send a copy; with a seed, others may run before this returns."""
        sent = super().isend(array, dst, channel=channel, header=header)
        self._world.pause(self.rank)
        return sent


class SimWorld(TurnWorld):
    """A world in which every rank has a virtual clock.

    `bytes_a_byte` is how many simulated bytes each real one stands for, so that large arrays can
    be simulated with small ones. Where the world is `buffered`, a message sets off when it is sent,
    asked for or not, and a plain send does not wait for it: so do network cards with memory.
    """

    def __init__(
        self, size: int, link: Link, bytes_a_byte: float = 1.0, *, buffered: bool = False
    ) -> None:
        super().__init__(size)
        self.link = link
        self.bytes_a_byte = bytes_a_byte
        self.buffered = buffered
        self.clocks = [0.0] * size

    def transport(self, rank: int) -> "SimTransport":
        return SimTransport(self, rank)


class SymmetricWorld(SimWorld):
    """A world in which rank 0 stands for all, for programs that do the same on every rank.

    Where each rank sends to the one d places further on, the one d places before sends to rank 0,
    at the same time and just as much; where ranks exchange in pairs, the partner does. So rank 0's
    own messages, taken for those of others, arrive when theirs would, with other numbers in them.
    """

    def __init__(self, size: int, link: Link, bytes_a_byte: float, in_pairs: bool) -> None:
        super().__init__(size, link, bytes_a_byte)
        self._in_pairs = in_pairs

    def post(
        self, src: int, dst: int, channel: int, array: NDArray, header: bytes, note: Any = None
    ) -> None:
        """Put what was sent on the line of the message that arrives in its stead."""
        other = dst if self._in_pairs else -dst % self.size
        super().post(other, src, channel, array, header, note)


class SimTransport(ThreadTransport):
    """One rank's end of a `SimWorld`, with its clock."""

    takes_turns = True

    _world: SimWorld

    def __init__(self, world: SimWorld, rank: int) -> None:
        super().__init__(world, rank)
        self.bytes_a_byte = world.bytes_a_byte
        self.free_out = 0.0
        self.free_in = 0.0

    @property
    def clock(self) -> float:
        """This rank's time in seconds."""
        return self._world.clocks[self.rank]

    @clock.setter
    def clock(self, now: float) -> None:
        self._world.clocks[self.rank] = now

    def compute(self, n_bytes: int) -> None:
        """Let the time pass that it takes to reduce `n_bytes`."""
        self.clock += n_bytes * self._world.bytes_a_byte * self._world.link.gamma

    def elapse(self, seconds: float) -> None:
        """Let time pass for other work."""
        self.clock += seconds

    def duration(self, array: NDArray) -> float:
        """Return how long a message with this array occupies a link."""
        link = self._world.link
        return link.alpha + array.nbytes * self._world.bytes_a_byte * link.beta

    def isend(  # type: ignore[override]
        self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b""
    ) -> "SimSent":
        """Send a copy, as soon as the way out is free."""
        start = max(self.clock, self.free_out)
        self.free_out = start + self.duration(array)
        self._world.post(self.rank, dst, channel, array.copy(), header, start)
        return SimSent(self, self.clock if self._world.buffered else self.free_out)

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> "SimReceive":
        """Receive the next array from `src`; it can start to come from now on."""
        return SimReceive(self, src, channel, buffer)


class SimSent:
    """A send under way, complete when the way out is free again."""

    header = b""

    def __init__(self, transport: SimTransport, end: float) -> None:
        self._transport = transport
        self._end = end

    def wait(self, timeout_s: float | None = None) -> None:
        """Let time pass until the message is out."""
        self._transport.clock = max(self._transport.clock, self._end)

    def test(self) -> bool:
        """Return whether it is out by now."""
        return self._transport.clock >= self._end


class SimReceive(Receive):
    """A receive that lets time pass until its message is in."""

    def __init__(
        self, transport: SimTransport, src: int, channel: int, buffer: NDArray | None
    ) -> None:
        self._transport = transport
        self._asked_at = 0.0 if transport._world.buffered else transport.clock
        self._arrived_at: float | None = None
        super().__init__(transport._world, src, transport.rank, channel, buffer)

    def wait(self, timeout_s: float | None = None) -> NDArray:
        """Return the array; the clock is then at least the time of its arrival."""
        array: NDArray = super().wait(timeout_s)
        transport = self._transport
        if self._arrived_at is None:
            sent_at: Any = self.note
            start = max(sent_at, self._asked_at, transport.free_in)
            self._arrived_at = transport.free_in = start + transport.duration(array)
        transport.clock = max(transport.clock, self._arrived_at)
        return array
