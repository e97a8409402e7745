"""Hypercube algorithms: in round k, each rank exchanges with the one whose number differs in bit k.

    recursive_doubling    whole arrays, lg W rounds: lg W (a + N b)
    halving_doubling      halves of halves, then back: 2 lg W a + 2 (W-1)/W N b

When W is no power of two, the first ranks pair up before and after: of each pair the odd one
stands for both in the cube.

Source: Thakur, Rabenseifner & Gropp, Int. J. High Perform. Comput. Appl. 19(1), 2005.
"""

from typing import TYPE_CHECKING

import numpy as np

from ddp_lab.collectives.registry import built_in
from ddp_lab.transport.base import NDArray

if TYPE_CHECKING:
    from ddp_lab.communicator.communicator import Communicator


class Cube:
    """The largest hypercube within the ranks, and this rank's corner of it, -1 if it has none."""

    def __init__(self, comm: "Communicator") -> None:
        self.comm = comm
        self.size = 1 << (comm.size.bit_length() - 1)
        self._paired = 2 * (comm.size - self.size)
        if comm.rank < self._paired:
            self.corner = comm.rank // 2 if comm.rank % 2 else -1
        else:
            self.corner = comm.rank - self._paired // 2

    def rank(self, corner: int) -> int:
        """Return the rank at a corner."""
        return 2 * corner + 1 if 2 * corner < self._paired else corner + self._paired // 2

    def fold(self, x: NDArray, op: str) -> None:
        """Combine the arrays of the ranks without a corner into those of their partners."""
        comm = self.comm
        if self.corner < 0:
            comm.isend(x, comm.rank + 1).wait()
        elif comm.rank < self._paired:
            comm.combine(x, comm.take(comm.rank - 1), op)

    def unfold(self, x: NDArray) -> None:
        """Give the result to the ranks without a corner."""
        comm = self.comm
        if self.corner < 0:
            comm.take(comm.rank + 1, x)
        elif comm.rank < self._paired:
            comm.isend(x, comm.rank - 1).wait()


def swap(comm: "Communicator", x: NDArray, peer: int) -> NDArray:
    """Return the peer's array for ours."""
    coming = comm.irecv(peer)  # first, so that it can come in while ours leaves
    sent = comm.isend(x, peer)
    received: NDArray = coming.wait()
    sent.wait()
    return received


@built_in("all_reduce", "recursive_doubling")
def recursive_doubling(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return the reduction, the same bits on each rank, after lg W exchanges of whole arrays."""
    cube = Cube(comm)
    cube.fold(x, op)
    distance = 1
    while cube.corner >= 0 and distance < cube.size:
        comm.combine(x, swap(comm, x, cube.rank(cube.corner ^ distance)), op)
        distance *= 2
    cube.unfold(x)
    return x


@built_in("all_reduce", "halving_doubling")
def halving_doubling(comm: "Communicator", x: NDArray, *, op: str) -> NDArray:
    """Return the reduction, the same bits on each rank: halve the part to add, then double it."""
    cube = Cube(comm)
    cube.fold(x, op)
    if cube.corner >= 0:
        _halve_and_double(comm, cube, x.reshape(-1), op)
    cube.unfold(x)
    return x


def _halve_and_double(comm: "Communicator", cube: Cube, flat: NDArray, op: str) -> None:
    parts = [(0, flat.size)]  # what this rank worked on before each halving
    distance = cube.size // 2
    while distance:
        low, high = parts[-1]
        middle = (low + high) // 2
        upper = bool(cube.corner & distance)
        keep, give = ((middle, high), (low, middle)) if upper else ((low, middle), (middle, high))
        received = swap(comm, flat[slice(*give)], cube.rank(cube.corner ^ distance))
        comm.combine(flat[slice(*keep)], received, op)
        parts.append(keep)
        distance //= 2
    distance = 1
    while distance < cube.size:
        have, want = parts.pop(), parts[-1]
        peer = cube.rank(cube.corner ^ distance)
        other = (
            (want[0], have[0]) if have[1] == want[1] and have[0] != want[0] else (have[1], want[1])
        )
        coming = comm.irecv(flat[slice(*other)], peer)
        sent = comm.isend(flat[slice(*have)], peer)
        coming.wait()
        sent.wait()
        distance *= 2


@built_in("all_gather", "recursive_doubling")
def all_gather(comm: "Communicator", x: NDArray) -> NDArray:
    """Return every rank's `x` after ceil(lg W) rounds, the rows known doubling in each.

    Bruck's form, which takes any number of ranks: rows are kept in order of distance from here.
    """
    rows = x[np.newaxis]
    while len(rows) < comm.size:
        count = min(len(rows), comm.size - len(rows))
        sent = comm.isend(rows[:count], (comm.rank - len(rows)) % comm.size)
        received = comm.take((comm.rank + len(rows)) % comm.size)
        sent.wait()
        rows = np.concatenate([rows, received])
    return np.roll(rows, comm.rank, axis=0)
