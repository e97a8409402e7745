"""The other collectives done directly: all ranks meet, and each reads what it needs.

Without shared memory, each rank sends each other one exactly the piece that is for it.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

from ddp_lab.collectives import reference
from ddp_lab.collectives.registry import built_in
from ddp_lab.collectives.rows import Rows, copy_into, rows_of, same_place
from ddp_lab.collectives.two_shot import exchange, publish
from ddp_lab.transport.base import NDArray

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator


@built_in("all_gather", "direct", fills=True)
def all_gather(comm: "Communicator", x: NDArray, *, out: Rows | None = None) -> Rows:
    """Return every rank's `x`: each rank reads, or is sent, all others' at once."""
    arrays, rendezvous = publish(comm, x)
    out = np.empty_like(x, shape=(comm.size, *x.shape)) if out is None else out
    rows = rows_of(out)
    for k in range(1, comm.size + 1):  # no two ranks begin with the same one
        rank = (comm.rank + k) % comm.size
        if rank != comm.rank or not same_place(x, rows[rank]):
            rows[rank][...] = arrays[rank]
    if rendezvous is not None:
        rendezvous.leave()
    return out


@built_in("reduce_scatter", "direct", reads=True)
def reduce_scatter(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return row `rank` of the reduction: each rank reads, or is sent, that row of all others."""
    rendezvous = None
    if comm.rendezvous() is None:
        rows = rows_of(reference.all_to_all(comm, x))
    else:
        arrays, rendezvous = publish(comm, x)
        rows = [array[comm.rank, ...] for array in arrays]
    total = rows[0].copy()
    for row in rows[1:]:
        comm.combine(total, row, op)
    if rendezvous is not None:
        rendezvous.leave()
    return total


@built_in("all_to_all", "direct")
def all_to_all(comm: "Communicator", x: NDArray) -> NDArray:
    """Return row `rank` of every rank's `x`."""
    if comm.rendezvous() is None:
        return reference.all_to_all(comm, x)
    arrays, rendezvous = publish(comm, x)
    out = np.empty_like(x)
    for rank, array in enumerate(arrays):
        out[rank] = array[comm.rank]
    if rendezvous is not None:
        rendezvous.leave()
    return out


@built_in("barrier", "direct")
def barrier(comm: "Communicator") -> None:
    """Return once all ranks are here: each tells all others."""
    exchange(comm, np.empty(0, np.uint8))


@built_in("broadcast", "direct", fills=True)
def broadcast(
    comm: "Communicator", x: NDArray | None, *, root: int, out: NDArray | None = None
) -> NDArray:
    """Return the root's `x`: each rank reads it, or is sent it."""
    rendezvous = comm.rendezvous()
    if rendezvous is None:
        return reference.broadcast(comm, x, root=root)
    rendezvous.offer(comm.header, x if comm.rank == root else None)
    if comm.rank != root:
        comm.hear(rendezvous.header_of(root), root)
        x = copy_into(rendezvous.look(root), out)
    rendezvous.leave()
    if comm.rank == root and x is not None:
        comm.count_shared(x.nbytes, 1)
    assert x is not None
    return x


@built_in("gather", "direct", fills=True)
def gather(comm: "Communicator", x: NDArray, *, root: int, out: Rows | None = None) -> Any:
    """Return every rank's `x` at the root, which reads them all, or is sent them."""
    rendezvous = comm.rendezvous()
    if rendezvous is None:
        return reference.gather(comm, x, root=root, out=out)
    rendezvous.offer(comm.header, None if comm.rank == root else x)
    if comm.rank == root:
        out = np.empty_like(x, shape=(comm.size, *x.shape)) if out is None else out
        for rank, row in enumerate(rows_of(out)):
            row[...] = x if rank == root else rendezvous.look(rank)
    rendezvous.leave()
    comm.count_shared(x.nbytes, 1, only=root)
    return out


@built_in("reduce", "direct", reads=True)
def reduce(comm: "Communicator", x: NDArray, *, root: int, op: str) -> NDArray | None:
    """Return the reduction at the root, which reads all arrays in rank order."""
    rendezvous = comm.rendezvous()
    if rendezvous is None:
        return reference.reduce(comm, x.copy(), root=root, op=op)
    rendezvous.offer(comm.header, x)
    total = None
    if comm.rank == root:
        total = rendezvous.look(0).copy()
        for rank in range(1, comm.size):
            comm.combine(total, rendezvous.look(rank), op)
    rendezvous.leave()
    comm.count_shared(x.nbytes, 1, only=root)
    return total
