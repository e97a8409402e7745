"""Messages between the ranks of a group: the lower half of `Communicator`."""

import time
from collections.abc import Iterable
from typing import Any, Self

import numpy as np

from ddp_lab.arguments import shape_of, wait_limit
from ddp_lab.arrays import TORCH, dtype_of, lies_in_main_memory, outside, to_numpy
from ddp_lab.errors import InvalidArgument, Mismatch
from ddp_lab.reduction import combine
from ddp_lab.transport import header as headers
from ddp_lab.transport.base import (
    Computes,
    HoldsTensors,
    NDArray,
    Probes,
    Shape,
    SharesMemory,
    Tells,
    Transport,
    Work,
)
from ddp_lab.transport.board import Board, Watched
from ddp_lab.transport.links.link import Hosts, Link, within
from ddp_lab.transport.record import Recorder
from ddp_lab.transport.shm.rendezvous import SharedRendezvous

WHOLE = int | np.integer


class Messenger:
    """Sends and receives arrays between the members of one group, on channels of its own.

    A group's context is a number that no other group of its members has: its plain messages go
    on channel 2 * context, those of its collectives on the channel after.
    """

    def __init__(self, transport: Transport) -> None:
        if not callable(getattr(transport, "isend", None)) or not hasattr(transport, "size"):
            raise InvalidArgument(
                f"Communicator: not a transport: got {transport!r}, expected an object with rank, "
                "size, isend and irecv. Use ddp_lab.launch or ddp_lab.init to get a communicator."
            )
        self._transport = transport
        self._recorder = transport if isinstance(transport, Recorder) else None
        self._carrier = carrier = self._recorder.transport if self._recorder else transport
        # what a call needs, looked for once
        self._board: Board | None = carrier.board if isinstance(carrier, Watched) else None
        self._computes = carrier if isinstance(carrier, Computes) else None
        self._memory = carrier if isinstance(carrier, SharesMemory) else None
        self._tensors = carrier if isinstance(carrier, HoldsTensors) else None
        everybody = tuple(range(transport.size))
        self._all_hosts: Hosts = getattr(carrier, "hosts", (everybody,))
        self.link: Link | None = getattr(carrier, "link", None)  # between hosts, where it is known
        self._join(everybody, transport.rank, 0)

    def _join(self, members: tuple[int, ...], rank: int, context: int) -> None:
        self.rank = rank
        self.size = len(members)
        self._members = members
        self._context = context
        self._channel = 2 * context
        self._stamp = b""  # the header of the collective that this one belongs to, if any
        self._heard = b""  # the header that `take` saw last
        self._rendezvous: SharedRendezvous | None = None
        self._met = False
        self._hosts: Hosts | None = None
        self._neighbours: Self | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(rank={self.rank}, size={self.size})"

    def __reduce__(self) -> str:
        raise TypeError(
            f"a communicator belongs to its rank and cannot be sent or copied: got {self!r}"
        )

    def _fork(self, members: tuple[int, ...], rank: int, context: int) -> Self:
        """Return a communicator of the same class over the same transport, for another group."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._join(members, rank, context)
        return other

    def subset(self, ranks: Iterable[int]) -> Self:
        """Return a view of some of the ranks, within the same collective; only they may use it.

        It is for algorithms. Outside of them, `split` makes a group of its own.
        """
        chosen = list(ranks)
        rank = chosen.index(self.rank) if self.rank in chosen else -1
        view = self._fork(tuple(self._members[r] for r in chosen), rank, self._context)
        view._channel, view._stamp = self._channel, self._stamp
        view._memory = None  # all ranks of the group meet in memory, or none
        return view

    @property
    def hosts(self) -> Hosts:
        """The ranks of this group by the host that they lie on."""
        if self._hosts is None:
            self._hosts = within(self._all_hosts, self._members)
        return self._hosts

    @property
    def host(self) -> int:
        """The index in `hosts` of the one that this rank lies on."""
        return next(i for i, ranks in enumerate(self.hosts) if self.rank in ranks)

    def neighbours(self) -> Self:
        """Return a view of the ranks of this host, within the same collective; for algorithms.

        Unlike those of any other `subset`, they meet in memory where they can: a group whose ranks
        lie on several hosts meets nowhere, so its place in each host's memory is theirs.
        """
        if len(self.hosts) == 1:
            return self
        view = self._neighbours
        if view is None:
            view = self._neighbours = self.subset(self.hosts[self.host])
            view._memory = self._memory
        view._channel, view._stamp = self._channel, self._stamp
        return view

    def on_channel(self, channel: int) -> Self:
        """Return a communicator of the same ranks whose plain messages go on `channel`."""
        other = self._fork(self._members, self.rank, self._context)
        other._channel = channel
        return other

    def aside(self, context: int) -> Self:
        """Return a communicator of the same ranks whose collectives pass by those of this one."""
        return self._fork(self._members, self.rank, context)

    def probe(self, src: int) -> bool:
        """Return whether a message from rank `src` is there for `recv`, without taking it."""
        self._check_rank("probe", src)
        if not isinstance(self._carrier, Probes):
            raise InvalidArgument(
                f"probe: {type(self._transport).__name__} cannot look ahead. Receive from a rank."
            )
        return self._carrier.probe(self._members[src], self._channel)

    def send(self, x: Any, dst: int) -> None:
        """Send a copy of `x` to rank `dst`; the array may be changed afterwards."""
        self.isend(x, dst).wait()

    def isend(self, x: Any, dst: int) -> Work:
        """Start sending a copy of `x` to rank `dst`."""
        self._check_rank("send", dst)
        array, kind = self._array_of(x, "send")
        header = self._stamp or b"send\0%b\0%b" % (headers.call_site(), kind.encode())
        return self._transport.isend(
            array, self._members[dst], channel=self._channel, header=header
        )

    def recv(self, buffer: Any = None, src: int | None = None) -> Any:
        """Return the next array that rank `src` sent here: `recv(src)` or `recv(buffer, src)`.

        Raises:
            Mismatch: the message has another shape or dtype than `buffer`.
            RankLost: rank `src` ended without sending.
        """
        return self.irecv(buffer, src).wait()

    def irecv(self, buffer: Any = None, src: int | None = None) -> "Receiving":
        """Start receiving: `irecv(src)` or `irecv(buffer, src)`; `wait()` returns the array."""
        if src is None:
            buffer, src = None, buffer
        if not isinstance(src, int) and np.ndim(src):
            raise InvalidArgument(
                f"recv: no rank to receive from: got an array of shape {np.shape(src)} in its "
                "place, expected recv(src) or recv(buffer, src). Give the rank last."
            )
        array = None if buffer is None else self._writable(buffer, "recv")
        return Receiving(self, self.expect(src, array), src, buffer, array)

    def expect(self, src: Any, place: NDArray | None) -> Work:
        """Start receiving from rank `src`, into `place` if it fits; its `wait()` checks nothing."""
        self._check_rank("recv", src)
        return self._transport.irecv(self._members[src], channel=self._channel, buffer=place)

    def sendrecv(self, x: Any, dst: int, src: int) -> Any:
        """Send `x` to rank `dst` and return what rank `src` sent, both at the same time."""
        self._check_rank("sendrecv", src)  # before anything is sent
        sent = self.isend(x, dst)
        received = self.recv(src)
        sent.wait()
        return received

    @property
    def takes_turns(self) -> bool:
        """Whether one rank runs at a time, so that none may have a second thread that waits."""
        return bool(getattr(self._carrier, "takes_turns", False))

    def tolerate(self, ranks: Iterable[int]) -> None:
        """Let the failure of one of these ranks end only waits for that rank, from now on.

        A transport whose ranks tell all others of a failure ends every wait otherwise.
        """
        if isinstance(self._carrier, Tells):
            self._carrier.tolerate({self._members[rank] for rank in ranks})

    def empty(self, shape: Shape, dtype: Any = np.float32) -> Any:
        """Return an uninitialised array in the transport's own memory.

        On shared memory, collectives read and write such buffers where they lie. A torch dtype
        gives a torch tensor over the same memory.
        """
        numpy_dtype, kind = dtype_of(dtype)
        return outside(self._transport.empty(shape_of("empty", shape), numpy_dtype), kind)

    def take(self, src: int, buffer: NDArray | None = None) -> NDArray:
        """Return the next array from `src`, checked to belong to this collective."""
        work = self._transport.irecv(self._members[src], channel=self._channel, buffer=buffer)
        array = work.wait()
        self.hear(work.header, src)
        assert array is not None
        return array if buffer is None else self._deliver(array, buffer, src)

    def _deliver(self, array: Any, buffer: Any, src: int) -> Any:
        """Return the buffer that waits for a message, filled with its array.

        Raises:
            Mismatch: the message does not fit the buffer exactly.
        """
        if array is buffer:
            return array
        dtype, shape = array.dtype, array.shape
        if buffer.dtype != dtype or buffer.shape != shape:
            src, rank = self._members[src], self._members[self.rank]
            raise Mismatch(
                f"recv: the message does not fit the buffer: rank {src} sent "
                f"{headers.dtype_name(dtype)} {shape}, rank {rank} expected "
                f"{headers.dtype_name(buffer.dtype)} {buffer.shape}. "
                "Receive into a buffer of the sender's shape and dtype.",
                (src, rank),
            )
        np.copyto(buffer, array)
        return buffer

    @property
    def header(self) -> bytes:
        """The header of the collective that this communicator is bound to."""
        return self._stamp

    def rendezvous(self) -> "SharedRendezvous | None":
        """Return where the ranks of this group meet in shared memory, None if they have none."""
        if not self._met:
            if self._memory is not None:
                self._rendezvous = self._memory.rendezvous(self._context, self._members)
            self._met = True
        return self._rendezvous

    def count_shared(self, n_bytes: int, steps: int, only: int | None = None) -> None:
        """Record that others took `n_bytes` from here, `steps` times, without messages.

        All other ranks did, or `only` one of them.
        """
        if self._recorder is None:
            return
        takers = range(self.size) if only is None else [only]
        for _ in range(steps):
            for taker in takers:
                if taker != self.rank:
                    self._recorder.share(self._members[taker], n_bytes, self._channel)

    @property
    def bytes_a_byte(self) -> float:
        """How many bytes each byte of an array stands for: 1, except in a simulation."""
        return 1.0 if self._computes is None else self._computes.bytes_a_byte

    def charge(self, n_bytes: int) -> None:
        """Account for arithmetic that was not done by `combine`."""
        if self._computes is not None:
            self._computes.compute(n_bytes)

    def now(self) -> float:
        """Return seconds on the machine's clock, or on the transport's own where it has one."""
        return time.perf_counter() if self._computes is None else self._computes.clock

    def elapse(self, seconds: float) -> None:
        """Let time pass on the transport's own clock, if it has one, for work unseen by it."""
        if self._computes is not None:
            self._computes.elapse(seconds)

    def combine(self, into: NDArray, other: NDArray, op: str) -> None:
        """Combine `other` into `into`, element by element, in place."""
        combine(into, other, op)
        if self._computes is not None:
            self._computes.compute(into.nbytes)

    def hear(self, header: bytes, src: int) -> None:
        """Check a header that came from `src`, and remember it."""
        self._heard = header
        if self._stamp and header and header != self._stamp:
            headers.check(self._stamp, header, self._members[self.rank], self._members[src])
            self._stamp = headers.complete_header(self._stamp, header)

    def _array_of(self, x: Any, operation: str) -> tuple[NDArray, str]:
        """Return `x` as an array, and its kind; a tensor of the transport's device stays there."""
        held = None if self._tensors is None else self._tensors.adopt(x)
        return to_numpy(x, operation) if held is None else (held, TORCH)

    def _writable(self, buffer: Any, operation: str) -> NDArray:
        """Return the array that shares `buffer`'s memory."""
        array, _ = self._array_of(buffer, operation)
        if not _shares(array, buffer):
            raise InvalidArgument(
                f"{operation}: cannot write into this buffer: got {type(buffer).__name__}, "
                "expected a writable, contiguous array in memory that the transport reaches. "
                "Pass such an array, or none at all."
            )
        return array

    def _check_rank(self, operation: str, rank: Any) -> None:
        if not isinstance(rank, WHOLE) or not 0 <= rank < self.size:
            raise InvalidArgument(
                f"{operation}: no such rank: got {rank!r}, expected 0 to {self.size - 1}. "
                "Ranks count from 0 within their communicator."
            )


class Receiving:
    """A receive under way."""

    def __init__(self, comm: Messenger, work: Work, src: int, buffer: Any, array: Any) -> None:
        """Keep what the caller gave as buffer, and the array over its memory; both may be None."""
        self._comm = comm
        self._work = work
        self._src = src
        self._buffer = buffer
        self._array = array

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the array, or the buffer, once the message is in it.

        Raises:
            RankTimeout: nothing came for `timeout_s`; waiting again is allowed.
        """
        array = self._work.wait(None if timeout_s is None else wait_limit("recv", timeout_s))
        header = self._work.header
        # a disagreement about a collective says more than one about a buffer
        self._comm.hear(header, self._src)
        assert array is not None
        if self._buffer is None:
            return outside(array, "numpy" if self._comm._stamp else headers.kind_of(header))
        if self._array is not None:
            self._comm._deliver(array, self._array, self._src)
            self._array = None  # once: the caller may change what a second wait returns
        return self._buffer

    def test(self) -> bool:
        """Return whether `wait` would return at once."""
        return self._work.test()


def _shares(array: Any, buffer: Any) -> bool:
    """Return whether `array` lies where `buffer` does, and so is no copy of it."""
    if array.size == 0:
        return True  # there is nothing to write, and torch gives no address
    if not isinstance(array, np.ndarray):
        return array is buffer or bool(array.tensor.data_ptr() == buffer.data_ptr())
    if not array.flags.writeable:
        return False
    if isinstance(buffer, np.ndarray):
        return array is buffer or np.may_share_memory(array, buffer)
    return hasattr(buffer, "is_cpu") and lies_in_main_memory(buffer)  # else it is that of a copy
