"""Any function of a communicator and an array, on the virtual clock.

The messages are the function's own. What it computes with NumPy on its array takes gamma a byte
too: the array is of a class that charges each arithmetic operation to the rank that runs it.

May import: NumPy, arguments, communicator, transport.links, transport.sim, launch.
"""

import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from ddp_lab.arguments import check_sizes
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.launch.threads import run_threads
from ddp_lab.transport.links.link import Link
from ddp_lab.transport.sim import SimWorld

PARTS = 96  # equal parts of each rank's chunk: 2, 3, 4, 6, 8, 12, 16, 24, 32 or 48 pieces are equal
TIMEOUT_S = 600.0

_here = threading.local()  # the communicator of the rank whose thread this is


class Charged(np.ndarray[Any, Any]):
    """An array whose arithmetic lets time pass on its rank's clock."""

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Compute as NumPy does, and charge the result's bytes."""
        out = kwargs.pop("out", ())
        if out:
            kwargs["out"] = tuple(_plain(x) for x in out)
        result = getattr(ufunc, method)(*(_plain(x) for x in inputs), **kwargs)
        _here.comm.charge(np.asarray(result).nbytes)
        return out[0] if out else np.asarray(result).view(Charged)


def _plain(x: Any) -> Any:
    return x.view(np.ndarray) if isinstance(x, Charged) else x


def program(
    run: Callable[[Any, Any], Any],
    n_bytes: float,
    world_size: int,
    alpha: float,
    beta: float,
    gamma: float = 0.0,
) -> float:
    """Return the seconds until the last rank has ended `run(comm, x)`, x an array of `n_bytes`.

    A message of b bytes takes alpha + b beta on links of which each rank has one out and one in;
    it travels while its sender and its receiver do something else. Combining b bytes takes
    b gamma. Nothing else takes time.

    Raises:
        InvalidArgument: fewer than 0 bytes or than 1 rank.
        RankFailed: `run` raised on a rank.
    """
    check_sizes("simulate.program", "run", n_bytes, world_size)
    count = world_size * PARTS

    def body(comm: Communicator) -> None:
        _here.comm = comm
        run(comm, np.ones(count, np.uint8).view(Charged))

    world = SimWorld(world_size, Link(alpha, beta, gamma), n_bytes / count, buffered=True)
    run_threads(body, world, (), TIMEOUT_S)
    return max(world.clocks)
