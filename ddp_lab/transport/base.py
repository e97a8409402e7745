"""The seam under everything: a transport carries arrays between ranks.

Between two ranks, on one channel, messages arrive in the order in which they were sent; the k-th
`irecv` gets the k-th message. There are no tags. A send is buffered: once `isend` returned, the
array may be changed, and a rank that sends before it receives never blocks for that reason.

Whoever implements these four methods, in whatever process, can carry `Communicator`.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy.typing as npt

NDArray: TypeAlias = npt.NDArray[Any]
Shape: TypeAlias = int | Sequence[int]


class Work(Protocol):
    """A send or a receive under way."""

    header: bytes

    def wait(self, timeout_s: float | None = None) -> NDArray | None:
        """Return the array received, or None for a send, once it is complete.

        It is the buffer that was given for it only if it came straight into that.
        """

    def test(self) -> bool:
        """Return whether `wait` would return at once."""


class Transport(Protocol):
    """Ordered channels of arrays between `size` ranks."""

    rank: int
    size: int

    def isend(self, array: NDArray, dst: int, *, channel: int = 0, header: bytes = b"") -> Work:
        """Start sending a copy of `array` to rank `dst`."""

    def irecv(self, src: int, *, channel: int = 0, buffer: NDArray | None = None) -> Work:
        """Start receiving the next array from rank `src`, into `buffer` if it can and fits."""

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> NDArray:
        """Return an uninitialised array in the transport's own memory."""

    def close(self) -> None:
        """Release everything; sends that were waited for still arrive."""


@runtime_checkable
class Computes(Protocol):
    """A transport with a clock of its own, which has to be told of arithmetic."""

    bytes_a_byte: float

    @property
    def clock(self) -> float:
        """This rank's time in seconds."""

    def compute(self, n_bytes: int) -> None:
        """Account for a reduction over `n_bytes` bytes."""

    def elapse(self, seconds: float) -> None:
        """Let time pass for other work."""


@runtime_checkable
class SharesMemory(Protocol):
    """A transport whose ranks see each other's buffers."""

    def rendezvous(self, context: int, members: tuple[int, ...]) -> Any:
        """Return where the ranks of a communicator meet, None if they cannot."""


@runtime_checkable
class HoldsTensors(Protocol):
    """A transport that moves tensors of its own device without taking them off it."""

    def adopt(self, x: Any) -> Any:
        """Return `x` as an array that NumPy's functions work on, None where it is not one."""

    def beside(self, job: Callable[[], Any]) -> Callable[[], Any]:
        """Return a job for another thread, ordered after what this one has queued."""


@runtime_checkable
class Tells(Protocol):
    """A transport that can tell the other ranks of a failure that leaves this process alive."""

    def tell_failure(self, error: BaseException) -> None:
        """Tell the others that a collective of this rank has raised."""

    def tolerate(self, ranks: set[int]) -> None:
        """Let what is told of these ranks end only waits for the rank itself."""


@runtime_checkable
class Leaves(Protocol):
    """A transport whose ranks must not end before the others have what they sent."""

    def leave(self) -> None:
        """Return once all ranks are about to end, or one has failed."""


@runtime_checkable
class Probes(Protocol):
    """A transport that can say whether a message is there without taking it."""

    def probe(self, src: int, channel: int) -> bool:
        """Return whether a message of `src` on this channel waits for a receive."""


class Keeper(Protocol):
    """What brings messages and the receives that were posted for them together."""

    def want(self, receive: "Receive") -> None:
        """Give a receive the first message of its source and channel, or keep it for one."""

    def wait(self, receive: "Receive", timeout_s: float | None) -> None:
        """Block until `receive` has its message."""

    def take_in(self, src: int) -> None:
        """Take in what has come from `src`."""


class Receive:
    """A receive, before and after its message came."""

    header = b""
    done = False
    note: Any = None  # of the transport's own
    waiter: threading.Thread | None = None  # that has looked for it in vain
    _array: Any = None

    def __init__(
        self, keeper: Keeper, src: int, dst: int, channel: int, buffer: NDArray | None
    ) -> None:
        self.src, self.dst, self.channel = src, dst, channel
        self.buffer = buffer
        self._keeper = keeper
        keeper.want(self)

    def accept(self, array: NDArray, header: bytes, note: Any = None) -> None:
        """Take the message; checked only when waited for, so that the waiter gets the error."""
        self._array, self.header, self.note = array, header, note
        self.done = True

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the array."""
        if not self.done:
            self._keeper.wait(self, timeout_s)
        return self._array

    def test(self) -> bool:
        """Return whether the message has come."""
        if not self.done:
            self._keeper.take_in(self.src)
        return self.done


class Sent:
    """The work of a buffered send: complete from the start."""

    __slots__ = ()
    header = b""

    def wait(self, timeout_s: float | None = None) -> None:
        """Return at once."""

    def test(self) -> bool:
        """Return True."""
        return True


SENT = Sent()
