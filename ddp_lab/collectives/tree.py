"""The binomial tree: ceil(lg W) rounds, in each of which twice as many ranks are reached.

    broadcast from 0, W = 8        round 0   0 -> 4
                                   round 1   0 -> 2   4 -> 6
                                   round 2   0 -> 1   2 -> 3   4 -> 5   6 -> 7

Ranks are counted from the root. The tree sends whole arrays: it wins while latency counts.

Source: Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005.
"""

from typing import TYPE_CHECKING

import numpy as np

from ddp_lab.collectives.closed_forms import rounds
from ddp_lab.collectives.registry import built_in
from ddp_lab.collectives.rows import rows_of
from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.base import NDArray

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator


@built_in("broadcast", "tree")
def broadcast(comm: "Communicator", x: NDArray | None, *, root: int) -> NDArray:
    """Return the root's `x`: who has it sends it on, to ranks ever nearer."""
    place = (comm.rank - root) % comm.size
    distance = 1 << rounds(comm.size)
    while distance > 1:
        distance //= 2
        if place % (2 * distance) == distance:
            x = comm.take((comm.rank - distance) % comm.size)
        elif place % (2 * distance) == 0 and place + distance < comm.size:
            assert x is not None
            comm.isend(x, (comm.rank + distance) % comm.size).wait()
    assert x is not None
    return x


@built_in("reduce", "tree")
def reduce(comm: "Communicator", x: NDArray, *, root: int, op: str) -> NDArray | None:
    """Return the reduction at the root: partial results meet in pairs, ever farther apart."""
    place = (comm.rank - root) % comm.size
    distance = 1
    while distance < comm.size:
        if place % (2 * distance):
            comm.isend(x, (comm.rank - distance) % comm.size).wait()
            return None
        if place + distance < comm.size:
            comm.combine(x, comm.take((comm.rank + distance) % comm.size), op)
        distance *= 2
    return x


@built_in("all_reduce", "tree")
def all_reduce(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return the reduction on every rank: reduce to rank 0, then broadcast."""
    return broadcast(comm, reduce(comm, x, root=0, op=op), root=0)


@built_in("gather", "tree")
def gather(comm: "Communicator", x: NDArray, *, root: int) -> NDArray | None:
    """Return every rank's `x` at the root: each round joins the rows of two neighbours."""
    place = (comm.rank - root) % comm.size
    rows = x[np.newaxis]
    distance = 1
    while distance < comm.size:
        if place % (2 * distance):
            comm.isend(rows, (comm.rank - distance) % comm.size).wait()
            return None
        if place + distance < comm.size:
            rows = np.concatenate([rows, comm.take((comm.rank + distance) % comm.size)])
        distance *= 2
    return np.roll(rows, root, axis=0)


@built_in("scatter", "tree")
def scatter(comm: "Communicator", parts: list[NDArray] | None, *, root: int) -> NDArray:
    """Return part `rank`: who holds rows sends the farther half of them on.

    All parts must have the same shape.
    """
    if parts is not None and len({(part.shape, part.dtype) for part in parts}) > 1:
        raise InvalidArgument(
            f"scatter: the tree sends rows of one array: got parts of shapes "
            f"{[part.shape for part in parts]}, expected equal ones. Use algorithm='reference'."
        )
    place = (comm.rank - root) % comm.size
    rows = None if parts is None else np.roll(np.stack(parts), -root, axis=0)
    distance = 1 << rounds(comm.size)
    while distance > 1:
        distance //= 2
        if place % (2 * distance) == distance:
            rows = comm.take((comm.rank - distance) % comm.size)
        elif place % (2 * distance) == 0 and place + distance < comm.size:
            assert rows is not None
            comm.isend(rows[distance:], (comm.rank + distance) % comm.size).wait()
            rows = rows[:distance]
    assert rows is not None
    return rows_of(rows)[0].copy()


@built_in("barrier", "dissemination")
def barrier(comm: "Communicator") -> None:
    """Return once all ranks are here, after ceil(lg W) rounds of telling rank + 2^k.

    Source: Hensgen, Finkel & Manber, Int. J. Parallel Program. 17(1), 1988.
    """
    nothing = np.empty(0, np.uint8)
    distance = 1
    while distance < comm.size:
        sent = comm.isend(nothing, (comm.rank + distance) % comm.size)
        comm.take((comm.rank - distance) % comm.size)
        sent.wait()
        distance *= 2
