"""The ring: each rank speaks only to its neighbours, and all links carry bytes all the time.

    reduce_scatter, W = 4, chunks of rank 0 .. 3 after each step (+ = combined so far)

    step 0: rank r sends chunk r-1 to r+1, which adds it to its own
    step 1: rank r sends chunk r-2, already the sum of two
    step 2: rank r sends chunk r-3, already the sum of three: now rank r+1 has all of its chunk

Every rank sends (W-1)/W of the bytes in each half, the fewest possible, in 2(W-1) messages, the
most of all algorithms: the ring is for large arrays on wires.

Source: Patarasuk & Yuan, J. Parallel Distrib. Comput. 69(2), 2009.
"""

from typing import TYPE_CHECKING

import numpy as np

from ddp_lab.collectives.registry import built_in
from ddp_lab.collectives.rows import Rows, rows_of, same_place, split_evenly
from ddp_lab.transport.base import NDArray

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator


def reduce_chunks(comm: "Communicator", chunks: list[NDArray], op: str) -> None:
    """Reduce in place, so that chunk `rank` is complete on this rank; others are partial sums."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        sent = comm.isend(chunks[(comm.rank - 1 - step) % comm.size], right)
        comm.combine(chunks[(comm.rank - 2 - step) % comm.size], comm.take(left), op)
        sent.wait()


def gather_chunks(comm: "Communicator", chunks: list[NDArray]) -> None:
    """Fill in all chunks, of which chunk `rank` is complete on this rank."""
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    for step in range(comm.size - 1):
        sent = comm.isend(chunks[(comm.rank - step) % comm.size], right)
        comm.take(left, chunks[(comm.rank - step - 1) % comm.size])
        sent.wait()


@built_in("all_reduce", "ring")
def all_reduce(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return the reduction on every rank, the same bits on each.

    W-1 steps of reduce-scatter, then W-1 of all-gather; each rank sends 2(W-1)/W of the bytes,
    whatever W is.
    """
    chunks = split_evenly(x.reshape(-1), comm.size)
    reduce_chunks(comm, chunks, op)
    gather_chunks(comm, chunks)
    return x


@built_in("reduce_scatter", "ring")
def reduce_scatter(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return row `rank` of the reduction, after W-1 steps of (W-1)/W of the bytes in all."""
    rows = rows_of(x)
    reduce_chunks(comm, rows, op)
    return rows[comm.rank].copy()


@built_in("all_gather", "ring", fills=True)
def all_gather(comm: "Communicator", x: NDArray, *, out: Rows | None = None) -> Rows:
    """Return every rank's `x`: each rank passes on what it received last."""
    out = np.empty_like(x, shape=(comm.size, *x.shape)) if out is None else out
    rows = rows_of(out)
    if not same_place(x, rows[comm.rank]):
        rows[comm.rank][...] = x
    gather_chunks(comm, rows)
    return out
