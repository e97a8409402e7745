"""What the reducer asks of a set of ranks, whatever carries the bytes.

`Group` is the seam between data parallelism and communication. `CommunicatorGroup` (NumPy arrays),
`process_groups.C10dGroup` (any torch.distributed process group) and
`process_groups.TorchCommunicatorGroup` are behind it.

May import: NumPy, agreement, bucketing, errors, transport. Communicators come from outside.
"""

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from ddp_lab.data_parallel.bucketing import ParamSpec
from ddp_lab.data_parallel.errors import ModelMismatch
from ddp_lab.parallel.agreement import all_same, exchange
from ddp_lab.transport.base import NDArray

WORD = 8  # bytes of the integers that groups reduce


class Work(Protocol):
    """A collective under way."""

    def wait(self) -> Any:
        """Block until it is done; raise what went wrong."""


class AtWait:
    """A collective that is made when it is waited for, on the thread that waits."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._callbacks: list[Callable[[AtWait], None]] = []

    def wait(self) -> Any:
        """Make it."""
        result = self._call()
        for callback in self._callbacks:
            callback(self)
        return result

    def when_done(self, callback: Callable[["AtWait"], None]) -> None:
        """Call `callback(self)` once it has been made."""
        self._callbacks.append(callback)


class Group(Protocol):
    """Ranks that reduce flat buffers together, in place, in the order of the calls."""

    rank: int
    size: int

    def empty(self, numel: int, dtype: Any) -> Any:
        """Return a flat buffer of the transport's own memory, contents undefined."""

    def all_reduce(self, flat: Any, op: str = "sum", at_wait: bool = False) -> Work:
        """Start reducing `flat` over all ranks in place; `op` is "sum", "min" or "max".

        With `at_wait` it may be left to the work's `wait`, which then needs no other thread. Every
        rank passes the same, for that is where it stands in the order of the calls.
        """

    def broadcast(self, flat: Any, root: int) -> None:
        """Overwrite `flat` on every rank with rank `root`'s; blocks."""

    def counters(self, values: Sequence[int] | NDArray) -> Any:
        """Return `values` as an int64 array that `all_reduce` takes."""


class CommunicatorGroup(Group):
    """Reduces flat arrays in place, on the communicator's own thread, in the order of the calls.

    `algorithm` is a name of `ddp_lab.algorithms("all_reduce")`, a learner's own included.
    """

    def __init__(self, communicator: Any, algorithm: str = "auto") -> None:
        self.communicator = communicator
        self.algorithm = algorithm
        self.rank: int = communicator.rank
        self.size: int = communicator.size

    def empty(self, numel: int, dtype: Any) -> Any:
        return self.communicator.empty((numel,), dtype)

    def all_reduce(self, flat: Any, op: str = "sum", at_wait: bool = False) -> Work:
        call = partial(self.communicator.all_reduce, flat, op, self.algorithm, out=flat)
        work: Work = AtWait(call) if at_wait else call(async_op=True)
        return work

    def broadcast(self, flat: Any, root: int) -> None:
        flat[...] = self.communicator.broadcast(flat, root)

    def counters(self, values: Sequence[int] | NDArray) -> Any:
        return np.array(values, dtype=np.int64)


def as_group(value: Any) -> CommunicatorGroup | None:
    """Return a Communicator as a group, one that is such a group as it is, None for all else."""
    if isinstance(value, CommunicatorGroup):
        return value
    names = ("rank", "size", "all_reduce", "broadcast", "empty", "split")
    return CommunicatorGroup(value) if all(hasattr(value, name) for name in names) else None


def reduce_counts(group: Group, values: Sequence[int], op: str = "sum") -> list[int]:
    """Return the element-wise reduction of a few integers over the ranks."""
    array = group.counters(values)
    group.all_reduce(array, op).wait()
    return [int(x) for x in array]


def last_rank(group: Group, candidate: bool) -> int:
    """Return the highest rank that is a candidate; the ranks agree on it."""
    (rank,) = reduce_counts(group, [group.rank if candidate else -1], "max")
    return rank


def gather_rows(group: Group, row: NDArray) -> NDArray:
    """Return every rank's `row`, by rank, with one all-reduce; all are of one size and dtype.

    Each rank fills a row of its own in a matrix of zeros, eight bytes a number; the sum holds all
    rows.
    """
    words = -(-row.nbytes // WORD)
    rows = np.zeros((group.size, words), np.int64)
    rows[group.rank] = np.frombuffer(row.tobytes().ljust(words * WORD, b"\0"), np.int64)
    flat = group.counters(rows.reshape(-1))
    group.all_reduce(flat).wait()
    summed = np.asarray(flat.tolist(), np.int64).reshape(rows.shape)
    return summed.view(np.uint8)[:, : row.nbytes].copy().view(row.dtype)


def verify_same_model(group: Group, specs: Sequence[ParamSpec]) -> None:
    """Check that every rank has the same parameters in the same order.

    One small all-reduce when they agree; only on disagreement are the lists exchanged.

    Raises:
        ModelMismatch: on every rank, naming the first parameter in which two ranks differ.
    """
    mine = json.dumps([[s.name, list(s.shape), str(s.kind)] for s in specs]).encode()
    gather = partial(gather_rows, group)
    if not all_same(gather, mine):
        everyone = [json.loads(text) for text in exchange(gather, mine)]
        mismatch = ModelMismatch.between(everyone)
        if mismatch is not None:
            raise mismatch
