"""What torch waits for: collectives and receives under way, as `torch.distributed.Work`."""

import math
import threading
import time
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from ddp_lab.arrays import TORCH, lies_in_main_memory, outside, to_numpy
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import Mismatch, RankLost, RankTimeout
from ddp_lab.handle import Crew, Handle
from ddp_lab.torch_backend.future import CollectiveFuture, Name
from ddp_lab.transport.base import NDArray
from ddp_lab.transport.board import FAILED, RUNNING, Allowance, fate
from ddp_lab.transport.header import site_of

TorchWork: Any = dist.Work
LOOKS_AWAKE = 20  # for a message from anybody: about what it costs to sleep and to be woken
LOOK_S = 5e-4  # between two looks from then on


class Gathered(list[Any]):
    """What an all-gather fills: lists, of which a future holds one tensor each, as over NCCL.

    It has an axis of ranks; where shapes differ it is the list. torch's quantization hooks take it
    for granted, and so do not work over gloo.
    """


class Running(TorchWork):  # type: ignore[misc]
    """A collective under way on another thread; its callbacks run on those of `crew`."""

    def __init__(self, handle: Handle, tensors: Any, name: Name, crew: Crew) -> None:
        super().__init__()
        self._handle = handle
        self._tensors = tensors
        self._name = name
        self._crew = crew
        self._lock = threading.Lock()
        self._future: CollectiveFuture | None = None

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return True once the collective is complete; raise what it raised."""
        self._handle.wait(timeout.total_seconds() or None)
        return True

    def is_completed(self) -> bool:
        """Return whether it has ended."""
        return self._handle.test()

    def is_success(self) -> bool:
        """Return whether it has ended well."""
        return self._handle.test() and self._handle.exception() is None

    def exception(self) -> BaseException | None:
        """Return what it raised."""
        return self._handle.exception() if self._handle.test() else None

    def result(self) -> Any:
        """Return the tensors that hold the result."""
        return self._tensors

    def get_future(self) -> CollectiveFuture:
        """Return a future of the result, as hooks want it."""
        with self._lock:
            if self._future is None:
                self._future = CollectiveFuture(self._name)
                if self._handle.test():
                    self._settle()
                else:
                    self._handle.when_done(lambda _: self._crew.run(self._settle))
            return self._future

    def _value(self) -> Any:
        """Return the value of the future."""
        if not isinstance(self._tensors, Gathered):
            return self._tensors
        return [
            torch.stack(parts) if len({part.shape for part in parts}) == 1 else parts
            for parts in self._tensors
        ]

    def _settle(self) -> None:
        assert self._future is not None
        error = self._handle.exception()
        if error is None:
            self._future.complete(self._value)
        else:
            self._future.set_exception(error)


class Received(TorchWork):  # type: ignore[misc]
    """A receive that is waited for by whoever wants it; from any rank if `src` is None."""

    def __init__(
        self, tensor: torch.Tensor, comm: Communicator, src: int | None, timeout_s: float
    ) -> None:
        super().__init__()
        self._tensor = tensor
        self._place = place_of(tensor)
        self._comm = comm
        self._timeout_s = timeout_s  # of the group
        self._source = -1 if src is None else src
        self._work = None if src is None else comm.expect(src, self._place)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Return True once the tensor is filled.

        Raises:
            Mismatch: what came has another dtype or size.
            RankTimeout: nothing came within `timeout`, else within the group's.
            RankLost: the rank that is to send, or every other rank, has ended.
        """
        own_s = timeout.total_seconds()
        limit_s = own_s or self._timeout_s
        give_up = time.monotonic() + limit_s
        looks = 0
        while not self._find_sender():
            self._check_senders(give_up, limit_s)
            looks += 1
            time.sleep(LOOK_S if looks > LOOKS_AWAKE else 0)
        assert self._work is not None
        with Limit(self._comm, give_up - time.monotonic(), is_own=own_s > 0):
            values: Any = self._work.wait()
        if values is not self._place:
            source = f"recv: what rank {self._source} sent at {site_of(self._work.header)}"
            fill(self._tensor, outside(values, TORCH), source)
        return True

    def _find_sender(self) -> bool:
        """Return whether it is known who sends, after a look at all ranks."""
        for src in range(self._comm.size) if self._work is None else ():
            if src != self._comm.rank and self._comm.probe(src):
                self._source, self._work = src, self._comm.expect(src, self._place)
                break
        return self._work is not None

    def _check_senders(self, give_up: float, limit_s: float) -> None:
        """Raise if one has failed, as over gloo, if nobody can send any more, or time is over."""
        board = self._comm._board
        others = set(self._comm._members) - {self._comm._transport.rank}
        entries = {} if board is None else {peer: board.read(peer) for peer in others}
        lost = [peer for peer, entry in entries.items() if entry.state == FAILED]
        ended = board is not None and all(e.state != RUNNING for e in entries.values())
        if (lost or ended) and not self._find_sender():  # their last messages may be on the way
            if lost:
                raise RankLost(
                    f"recv: rank {lost[0]} {fate(entries[lost[0]])}: this rank waits for a message "
                    f"from any. Look at what ended rank {lost[0]}.",
                    lost[0],
                )
            raise RankLost("recv: all other ranks have ended. See how many messages each sends.")
        if time.monotonic() > give_up:
            raise RankTimeout(f"recv: no rank sent anything for {limit_s} s. See what they do.")

    def is_completed(self) -> bool:
        """Return whether `wait` would return at once."""
        return self._find_sender() and self._work is not None and self._work.test()

    def source_rank(self) -> int:
        """Return the rank that sent, within the group."""
        return self._source

    _source_rank = source_rank


def place_of(tensor: torch.Tensor) -> NDArray | None:
    """Return an array over a tensor's memory, None where no message can go straight into it."""
    is_dense = tensor.layout == torch.strided and not tensor.is_quantized
    return to_numpy(tensor, "recv")[0] if is_dense and lies_in_main_memory(tensor) else None


class Limit:
    """Around what this thread waits for: has it end after so many seconds.

    `is_own` says whether the call has set the limit; that of the group ends it, and nobody goes on.
    """

    def __init__(self, comm: Communicator, timeout_s: float, *, is_own: bool) -> None:
        self._allowance = Allowance() if comm._board is None else comm._board.allowance
        self._allowance.end = time.monotonic() + timeout_s
        self._allowance.may_go_on = is_own

    def __enter__(self) -> None:
        """Do nothing: it holds already."""

    def __exit__(self, *_: object) -> None:
        self._allowance.end, self._allowance.may_go_on = math.inf, False


def fill(tensor: torch.Tensor, values: torch.Tensor, source: str = "the result") -> None:
    """Copy `values` into `tensor`, whatever their strides.

    Raises:
        Mismatch: they differ in dtype or size; the message begins with `source`.
    """
    if values.dtype != tensor.dtype or values.numel() != tensor.numel():
        raise Mismatch(
            f"{source} does not fit: got {values.dtype} {tuple(values.shape)}, expected "
            f"{tensor.dtype} {tuple(tensor.shape)}. Give both ranks tensors of one dtype and size."
        )
    values = values.reshape(tensor.shape)
    with torch.no_grad():
        if 0 in tensor.stride():
            tensor, values = _once(tensor, values)
        tensor.copy_(values)


def _once(tensor: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the elements of an expanded tensor that lie apart, and their values.

    The gradient of a sum is such a tensor. Where the values of elements at one place differ, as
    after a rank that has no such tensor, torch is left to refuse them.
    """
    for dim, stride in enumerate(tensor.stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            first = values.narrow(dim, 0, 1)
            if not bool(((values == first) | (values != values)).all()):
                break
            tensor, values = tensor.narrow(dim, 0, 1), first
    return tensor, values


def fill_all(tensors: list[torch.Tensor], values: list[torch.Tensor], operation: str) -> None:
    """Copy the value of each rank into its tensor."""
    for rank, (tensor, value) in enumerate(zip(tensors, values, strict=True)):
        fill(tensor, value, f"{operation}: what rank {rank} has for this one")
