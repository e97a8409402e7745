"""Ranks in a grid with named axes: data x tensor x pipeline parallelism on one set of ranks.

    Mesh(comm, {"dp": 2, "tp": 2})          dp 0: ranks 0 1     tp joins 0 1 and 2 3
                                            dp 1: ranks 2 3     dp joins 0 2 and 1 3

The last axis varies fastest. So put there what talks most: tensor parallelism, whose ranks should
be neighbours on one machine. DeepSpeed and Megatron call this 3D parallelism; torch has DeviceMesh.

May import: NumPy, agreement, communicator, errors, groups.
Source: Narayanan et al., Efficient Large-Scale Language Model Training, SC 2021.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.agreement import agree
from ddp_lab.parallel.groups import communicator_of


class Mesh:
    """Named axes over the ranks of `comm`: `mesh["tp"]` is a Communicator along one of them.

    Attributes:
        comm: all the ranks.
        axes: the size of each axis, by name.
        coordinates: this rank's place on each axis, by name; also its rank in `mesh[name]`.
    Raises:
        Mismatch: ranks ask for other axes; on all of them.
        InvalidArgument: the sizes do not multiply to the number of ranks; on all of them.
    """

    def __init__(self, comm: Any, axes: Mapping[str, int]) -> None:
        self.comm: Communicator = communicator_of("Mesh", comm)
        problem = _problem(axes, self.comm.size)
        shown = dict(axes) if problem is None else repr(axes)
        agree(self.comm, "Mesh", {"axes": shown}, problem)
        self.axes = {name: int(n) for name, n in axes.items()}
        self._groups = self.comm.grid(**self.axes)
        place = np.unravel_index(self.comm.rank, tuple(self.axes.values()))
        self.coordinates = {name: int(at) for name, at in zip(self.axes, place, strict=True)}

    def __getitem__(self, axis: str) -> Communicator:
        if axis not in self._groups:
            raise InvalidArgument(
                f"Mesh: no such axis: got {axis!r} on rank {self.comm.rank}, expected one of "
                f"{', '.join(self.axes)}. Name it when the mesh is made."
            )
        return self._groups[axis]

    def __repr__(self) -> str:
        return f"Mesh({self.axes}, rank={self.comm.rank}, coordinates={self.coordinates})"


def _problem(axes: Any, size: int) -> str | None:
    """Return what is wrong with the axes, None if they cover the ranks."""
    sizes = list(axes.values()) if isinstance(axes, Mapping) else []
    names = all(isinstance(name, str) for name in axes) if sizes else False
    whole = all(isinstance(n, int | np.integer) and not isinstance(n, bool) for n in sizes)
    if names and whole and min(sizes) > 0 and math.prod(sizes) == size:
        return None
    return (
        f"the axes do not cover the ranks: got {axes!r}, expected names with sizes above 0 whose "
        f"product is {size}. Change a size or the number of ranks."
    )
