"""A virtual clock under real collectives: what they would cost on links of given speed.

The arrays are real and so are the results; only time is made up. A message of n bytes occupies
the sender's way out and the receiver's way in for alpha + n beta seconds, from the moment when
both are free, it was sent and the receiver asked for it. A rank sends and receives at the same
time. Reducing n bytes takes n gamma. Time spent outside of messages and reductions is free.

Use its timings to predict, never as measurements.

Source of the model: Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005.
"""

from typing import Any

from ddp_lab.transport.base import NDArray
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.threads import Receive, ThreadTransport
from ddp_lab.transport.turns import TurnWorld


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
        """Return the end of `rank`."""
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
        array = super().wait(timeout_s)
        transport = self._transport
        if self._arrived_at is None:
            sent_at: Any = self.note
            start = max(sent_at, self._asked_at, transport.free_in)
            self._arrived_at = transport.free_in = start + transport.duration(array)
        transport.clock = max(transport.clock, self._arrived_at)
        return array
