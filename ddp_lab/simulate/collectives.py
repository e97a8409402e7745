"""The package's own collectives on the virtual clock."""

import math
from typing import Any

import numpy as np

from ddp_lab.arguments import check_sizes
from ddp_lab.collectives.choose import on_wires
from ddp_lab.collectives.closed_forms import POWERS_OF_TWO
from ddp_lab.collectives.registry import lookup
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.launch.threads import run_threads
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.sim import SimWorld, SymmetricWorld

TIMEOUT_S = 600.0
IN_CIRCLES = {  # each rank sends to the one so many places further on
    ("all_gather", "recursive_doubling"),
    ("all_gather", "ring"),
    ("all_reduce", "ring"),
    ("barrier", "dissemination"),
    ("reduce_scatter", "ring"),
}


def collective(
    name: str,
    algorithm: str,
    n_bytes: float,
    world_size: int,
    alpha: float,
    beta: float,
    gamma: float = 0.0,
) -> float:
    """Return the seconds until the last rank is done, on links of this alpha and beta.

    This runs the real code of the algorithm, message by message, and equals the closed form of
    `ddp_lab.cost` where there is one. As there, `n_bytes` is the size of the whole array. Of
    algorithms that do the same on every rank, such as rings, one rank runs and stands for all.

    Raises:
        UnknownAlgorithm: the collective has no such algorithm.
        InvalidArgument: a size or a link that makes no sense.
    """
    check_sizes("simulate", "collective", n_bytes, world_size, alpha, beta, gamma)
    lookup(name, "reference" if algorithm == "auto" else algorithm)
    if algorithm == "auto":
        algorithm = on_wires(name, int(n_bytes), world_size, link=None)
    # Chunks of equal size for rings (p of them) and for halving (a power of two of them).
    count = math.lcm(world_size, 1 << (world_size.bit_length() - 1))
    link, bytes_a_byte = Link(alpha, beta, gamma), n_bytes / count
    in_pairs = (name, algorithm) in POWERS_OF_TWO and not world_size & (world_size - 1)
    if in_pairs or (name, algorithm) in IN_CIRCLES:
        alone = SymmetricWorld(world_size, link, bytes_a_byte, in_pairs)
        call(Communicator(alone.transport(0)), name, algorithm, count)
        return alone.clocks[0]
    world = SimWorld(world_size, link, bytes_a_byte)
    run_threads(call, world, (name, algorithm, count), TIMEOUT_S)
    return max(world.clocks)


def call(comm: Communicator, name: str, algorithm: str, count: int) -> None:
    """Call a collective on `count` bytes in all, which split evenly among the ranks."""
    whole = np.zeros(count, np.uint8)
    rows: Any = whole.reshape(comm.size, -1)
    arguments: dict[str, tuple[Any, ...]] = {
        "all_gather": (rows[0],),
        "all_to_all": (rows,),
        "barrier": (),
        "gather": (rows[0],),
        "reduce_scatter": (rows,),
        "scatter": (list(rows) if comm.rank == 0 else None,),
    }
    getattr(comm, name)(*arguments.get(name, (whole,)), algorithm=algorithm)
