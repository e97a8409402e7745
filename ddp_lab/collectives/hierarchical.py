"""Two levels: within a node first, then among one rank of each node, then within again.

Between nodes, only one copy of the array travels each way, however many ranks a node has: right
for machines with fast links inside and slow ones between. Nodes are runs of neighbouring ranks.

Source: Thakur & Gropp, EuroPVM/MPI 2003, for the idea; NCCL's and Horovod's hierarchical modes.
"""

import math
from typing import TYPE_CHECKING

from ddp_lab.collectives import ring, tree
from ddp_lab.collectives.registry import built_in
from ddp_lab.transport.base import NDArray

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator


def ranks_a_node(size: int) -> int:
    """Return the number of ranks taken for one node: about as many as there are nodes."""
    return max(1, math.isqrt(size))


@built_in("all_reduce", "hierarchical")
def all_reduce(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return the reduction, the same bits on each rank.

    A tree reduces to the first rank of each node, a ring joins these, a tree spreads the result.
    """
    width = ranks_a_node(comm.size)
    first = comm.rank - comm.rank % width
    node = comm.subset(range(first, min(first + width, comm.size)))
    total = tree.reduce(node, x, root=0, op=op)
    if total is not None:
        total = ring.all_reduce(comm.subset(range(0, comm.size, width)), total, op=op)
    return tree.broadcast(node, total, root=0)
