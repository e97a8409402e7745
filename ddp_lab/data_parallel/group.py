"""What the reducer asks of a set of ranks, whatever carries the bytes.

`Group` is the seam between data parallelism and communication. `CommunicatorGroup` (NumPy),
`torch_groups.C10dGroup` (any torch.distributed process group) and
`torch_groups.TorchCommunicatorGroup` are behind it.

May import: the standard library, NumPy.
"""

import json
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ddp_lab.data_parallel.bucketing import ParamSpec
from ddp_lab.data_parallel.errors import ModelMismatch


class Work(Protocol):
    """A collective under way."""

    def wait(self) -> Any:
        """Block until it is done; raise what went wrong."""
        ...


class Group(Protocol):
    """Ranks that reduce flat buffers together, in place, in the order of the calls."""

    @property
    def rank(self) -> int:
        """This rank."""
        ...

    @property
    def size(self) -> int:
        """Number of ranks."""
        ...

    def empty(self, numel: int, dtype: Any) -> Any:
        """Return a flat buffer of the transport's own memory, contents undefined."""
        ...

    def all_reduce(self, flat: Any, op: str = "sum") -> Work:
        """Start reducing `flat` over all ranks in place; `op` is "sum", "min" or "max"."""
        ...

    def broadcast(self, flat: Any, root: int) -> None:
        """Overwrite `flat` on every rank with rank `root`'s; blocks."""
        ...

    def counters(self, values: Sequence[int]) -> Any:
        """Return `values` as an int64 array that `all_reduce` takes."""
        ...


def reduce_counts(group: Group, values: Sequence[int], op: str = "sum") -> list[int]:
    """Return the element-wise reduction of a few integers over the ranks."""
    array = group.counters(values)
    group.all_reduce(array, op).wait()
    return [int(x) for x in array]


def last_rank(group: Group, candidate: bool) -> int:
    """Return the highest rank that is a candidate; the ranks agree on it."""
    (rank,) = reduce_counts(group, [group.rank if candidate else -1], "max")
    return rank


def exchange(group: Group, text: str) -> list[str]:
    """Return every rank's `text`, by rank, with all-reduces alone.

    Each rank fills a row of its own in a matrix of zeros; the sum holds all rows.
    """
    data = text.encode()
    (longest,) = reduce_counts(group, [len(data)], "max")
    rows = [0] * (group.size * longest)
    start = group.rank * longest
    rows[start : start + len(data)] = data
    summed = np.array(reduce_counts(group, rows)).reshape(group.size, longest)
    return [bytes(row.astype(np.uint8)).rstrip(b"\0").decode() for row in summed]


def verify_same_model(group: Group, specs: Sequence[ParamSpec]) -> None:
    """Check that every rank has the same parameters in the same order.

    Two small all-reduces when they agree; only on disagreement are the lists exchanged.

    Raises:
        ModelMismatch: on every rank, naming the first parameter in which two ranks differ.
    """
    mine = [[s.name, list(s.shape), str(s.kind)] for s in specs]
    digest = _digest(json.dumps([entry[1:] for entry in mine]))
    if reduce_counts(group, digest, "min") == reduce_counts(group, digest, "max"):
        return
    everyone = [json.loads(text) for text in exchange(group, json.dumps(mine))]
    raise ModelMismatch.between(everyone)


def _digest(text: str) -> list[int]:
    """Return a hash of `text` that is the same in every process."""
    from hashlib import blake2b

    raw = blake2b(text.encode(), digest_size=16).digest()
    return [int.from_bytes(raw[i : i + 4], "big") for i in range(0, 16, 4)]
