"""The obvious algorithms: everything goes through one rank. What all others must agree with.

The root receives in rank order and combines in rank order, so the result is one fixed sum. Its
cost grows with the number of ranks, in messages and in bytes at the root: that is the lesson.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ddp_lab.collectives.registry import built_in
from ddp_lab.collectives.rows import Rows, rows_of
from ddp_lab.transport.base import NDArray

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator


@built_in("broadcast", "reference")
def broadcast(comm: "Communicator", x: NDArray | None, *, root: int) -> NDArray:
    """Return the root's `x`: the root sends it to each rank in turn."""
    if comm.rank != root:
        return comm.take(root)
    assert x is not None
    for work in [comm.isend(x, dst) for dst in range(comm.size) if dst != root]:
        work.wait()
    return x


@built_in("scatter", "reference")
def scatter(comm: "Communicator", parts: Sequence[NDArray] | None, *, root: int) -> NDArray:
    """Return part `rank` of the root's parts: the root sends each rank its own."""
    if comm.rank != root:
        return comm.take(root)
    assert parts is not None
    for work in [comm.isend(parts[dst], dst) for dst in range(comm.size) if dst != root]:
        work.wait()
    return parts[root]


@built_in("gather", "reference", fills=True)
def gather(comm: "Communicator", x: NDArray, *, root: int, out: Rows | None = None) -> Any:
    """Return every rank's `x` at the root, which receives from each in turn."""
    if comm.rank != root:
        comm.isend(x, root).wait()
        return None
    out = np.empty_like(x, shape=(comm.size, *x.shape)) if out is None else out
    for src, row in enumerate(rows_of(out)):
        if src == root:
            row[...] = x
        else:
            comm.take(src, row)
    return out


@built_in("reduce", "reference")
def reduce(comm: "Communicator", x: NDArray, *, root: int, op: str) -> NDArray | None:
    """Return the reduction at the root, combined there in rank order."""
    if comm.rank != root:
        comm.isend(x, root).wait()
        return None
    total = x if root == 0 else comm.take(0)
    for src in range(1, comm.size):
        comm.combine(total, x if src == root else comm.take(src), op)
    return total


@built_in("all_reduce", "reference")
def all_reduce(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return the reduction on every rank: reduce to rank 0, then broadcast."""
    return broadcast(comm, reduce(comm, x, root=0, op=op), root=0)


@built_in("all_gather", "reference")
def all_gather(comm: "Communicator", x: NDArray) -> NDArray:
    """Return every rank's `x` on every rank: gather at rank 0, then broadcast."""
    return broadcast(comm, gather(comm, x, root=0), root=0)


@built_in("reduce_scatter", "reference")
def reduce_scatter(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return row `rank` of the reduction: reduce to rank 0, then scatter its rows."""
    total = reduce(comm, x, root=0, op=op)
    return scatter(comm, None if total is None else rows_of(total), root=0)


@built_in("all_to_all", "reference")
def all_to_all(comm: "Communicator", x: NDArray) -> NDArray:
    """Return row `rank` of every rank's `x`: each rank sends each of the others one row."""
    rows = rows_of(x)
    works = [
        comm.isend(rows[(comm.rank + k) % comm.size], (comm.rank + k) % comm.size)
        for k in range(1, comm.size)
    ]
    out = np.empty_like(x)
    out[comm.rank] = x[comm.rank]
    for k in range(1, comm.size):
        src = (comm.rank - k) % comm.size
        out[src] = comm.take(src)
    for work in works:
        work.wait()
    return out


@built_in("barrier", "reference")
def barrier(comm: "Communicator") -> None:
    """Return once all ranks are here: each tells rank 0, which then tells each."""
    nothing = np.empty(0, np.uint8)
    broadcast(comm, gather(comm, nothing, root=0), root=0)
