"""Spark's tree: tasks sum down to the driver in stages, with a barrier after each.

A ring needs all ranks at once: each waits in every step for its neighbour. Spark's tasks run when
a slot is free, and none can count on another's running; so they never talk to each other. They
leave their results, a barrier ends the stage, and the tasks of the next stage fetch them. What
MapReduce calls the shuffle is the same between its two stages.

Source: Zaharia et al., NSDI 2012; `RDD.treeAggregate` of Apache Spark; Dean & Ghemawat, OSDI 2004.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ddp_lab.transport.base import NDArray

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator


def stages_of(partitions: int, depth: int) -> list[int]:
    """Return how many partitions are left after each stage before the driver's, as in Spark.

    Each stage divides their number by about the depth-th root, as long as that saves more than
    one more stage costs.
    """
    scale = max(math.ceil(partitions ** (1 / depth)), 2)
    left = []
    while partitions > scale + math.ceil(partitions / scale):
        partitions //= scale
        left.append(partitions)
    return left


def in_stages(comm: "Communicator", x: NDArray, left: Sequence[int]) -> NDArray | None:
    """Return the sum of all ranks' arrays on rank 0, None elsewhere.

    In each stage partition i goes to partition i modulo the number that is left after it.
    """
    count, mine = comm.size, x.copy()
    for n in left:
        if n <= comm.rank < count:
            comm.send(mine, comm.rank % n)
        for src in range(comm.rank + n, count, n) if comm.rank < n else ():
            comm.combine(mine, comm.recv(src), "sum")
        comm.barrier()  # a stage begins when the one before has ended
        count = n
    return mine if comm.rank == 0 else None
