"""Direct algorithms: every rank reads from, or sends to, every other at once.

    one_shot   all ranks get all arrays and reduce them alone: one exchange, (W-1) N bytes a rank
    two_shot   rank r reduces slice r of all, then all get it: two exchanges, 2 (W-1)/W N bytes

Where ranks share memory they meet instead of sending: one_shot reads the others' mailboxes, and
two_shot reads and writes the arrays where they lie, so that nothing is copied at all. Elsewhere
the same exchanges are made of messages. One_shot is for small arrays, where latency is all.
"""

from typing import TYPE_CHECKING

import numpy as np

from ddp_lab.collectives.registry import built_in
from ddp_lab.collectives.rows import copy_into, split_evenly
from ddp_lab.reduction import combiner
from ddp_lab.transport.base import NDArray
from ddp_lab.transport.shm.rendezvous import SharedRendezvous, too_large

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator

BLOCK_BYTES = 256 * 1024  # the inputs and results of a block stay in a second-level cache
ALIGNED = 16  # elements: no two ranks write to the same cache line, whatever the dtype


def exchange(comm: "Communicator", x: NDArray) -> list[NDArray]:
    """Return every rank's `x`, by messages or mailboxes; valid until the next collective."""
    rendezvous = comm.rendezvous()
    if rendezvous is not None and not too_large(x):
        comm.count_shared(x.nbytes, 1)
        return rendezvous.swap(comm.header, x)
    others = [(comm.rank + k) % comm.size for k in range(1, comm.size)]
    works = [comm.isend(x, dst) for dst in others]
    arrays = {src: comm.take(src) for src in reversed(others)}
    for work in works:
        work.wait()
    return [x if rank == comm.rank else arrays[rank] for rank in range(comm.size)]


@built_in("all_reduce", "one_shot", reads=True, fills=True)
def one_shot(comm: "Communicator", x: NDArray, *, op: str, out: NDArray | None = None) -> NDArray:
    """Return the reduction: every rank gets all arrays and combines them in rank order."""
    arrays = exchange(comm, x)
    if comm.size == 1:
        return copy_into(x, out)
    combine = combiner(op, x.dtype)
    # `out` may be `x`, and `x` one of the arrays: rank order then needs an accumulator apart.
    total = np.empty_like(x) if out is None or out is x else out
    combine(arrays[0], arrays[1], total)
    for array in arrays[2:]:
        combine(total, array, total)
    comm.charge((comm.size - 1) * x.nbytes)
    return total if out is None or total is out else copy_into(total, out)


@built_in("all_reduce", "two_shot", reads=True, fills=True)
def two_shot(comm: "Communicator", x: NDArray, *, op: str, out: NDArray | None = None) -> NDArray:
    """Return the reduction, the same bits on each rank: rank r computes slice r for all.

    Of an array outside the shared memory only what the others need goes there, and back: all but
    the own slice.
    """
    rendezvous = comm.rendezvous()
    if comm.size == 1 or rendezvous is None:
        return _two_shot_messages(comm, copy_into(x, out), op)
    box = rendezvous.result(x, out)
    mine, total = x.reshape(-1), (box if out is None else out).reshape(-1)
    own = slice_of(comm.rank, comm.size, x.size)
    elsewhere = (slice(0, own.start), slice(own.stop, x.size))
    source = x if rendezvous.reaches(x) else box
    if source is not x:
        for part in elsewhere:
            source.reshape(-1)[part] = mine[part]
    arrays, results = rendezvous.share(comm.header, source, box)
    arrays[comm.rank], results[comm.rank] = mine, total
    theirs = [results[(comm.rank + k) % comm.size] for k in range(1, comm.size)]
    reduce_slice(comm, arrays, total, theirs, own, op)
    rendezvous.leave()
    comm.count_shared(x.nbytes // comm.size, 2)
    if out is None or out is box:
        return box
    for part in elsewhere:
        total[part] = box.reshape(-1)[part]
    return out


def slice_of(rank: int, size: int, count: int) -> slice:
    """Return the slice of `count` elements that a rank reduces."""
    share = -(-count // (size * ALIGNED)) * ALIGNED
    return slice(min(rank * share, count), min((rank + 1) * share, count))


def reduce_slice(
    comm: "Communicator",
    arrays: list[NDArray],
    total: NDArray,
    elsewhere: list[NDArray],
    own: slice,
    op: str,
) -> None:
    """Reduce this rank's slice of all arrays, block by block, into `total` and `elsewhere`."""
    me, size = comm.rank, comm.size
    block = BLOCK_BYTES // arrays[me].itemsize
    combine = combiner(op, arrays[me].dtype)
    mine, others = arrays[me], [arrays[(me + k) % size] for k in range(1, size)]
    for start in range(own.start, own.stop, block):
        part = slice(start, min(start + block, own.stop))
        into = total[part]
        combine(mine[part], others[0][part], into)
        for other in others[1:]:
            combine(into, other[part], into)
        for target in elsewhere:
            target[part] = into


def _two_shot_messages(comm: "Communicator", work: NDArray, op: str) -> NDArray:
    """Reduce in place: send slice r to rank r, combine, send the sum of the own slice to all."""
    slices = split_evenly(work.reshape(-1), comm.size)
    mine = slices[comm.rank]
    others = [(comm.rank + k) % comm.size for k in range(1, comm.size)]
    works = [comm.isend(slices[dst], dst) for dst in others]
    for src in reversed(others):
        comm.combine(mine, comm.take(src), op)
    works += [comm.isend(mine, dst) for dst in others]
    for src in reversed(others):
        comm.take(src, slices[src])
    for done in works:
        done.wait()
    return work


def publish(comm: "Communicator", x: NDArray) -> tuple[list[NDArray], SharedRendezvous | None]:
    """Return every rank's `x` and the rendezvous to leave once they have been read, if any."""
    rendezvous = comm.rendezvous()
    if rendezvous is None or not too_large(x):
        return exchange(comm, x), None
    comm.count_shared(x.nbytes, 1)
    arrays, _ = rendezvous.share(comm.header, x)
    return [array.reshape(x.shape) for array in arrays], rendezvous
