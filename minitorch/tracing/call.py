"""One call of a compiled program, as the operator that its results remember.

A program with one result that has a gradient is one operator. With several, each result is an
output of a hub.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.arrays import Array, asarray
from minitorch.hub import Arriving
from minitorch.op import Op
from minitorch.tensor import Tensor

if TYPE_CHECKING:
    from minitorch.tracing.program import WayBack


class Call(Op):
    """One call of a program: its tensors, and what the way back needs."""

    on_arrays = True
    reads_output = False

    def __init__(
        self,
        way: WayBack,
        tensors: tuple[Tensor, ...],
        saved: tuple[Array, ...],
        shapes: tuple[tuple[int, ...], ...],
        before: object,
    ) -> None:
        self.way, self.tensors, self.saved, self.before = way, tensors, saved, before
        self.shapes = shapes  # of the outputs that have a gradient

    @property
    def name(self) -> str:
        """The traced function's name."""
        return self.way.program.name

    def attributes(self) -> dict[str, object]:
        """Return nothing: what it holds is numbers."""
        return {}

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Run the way back."""
        way = self.way
        arriving = dict(out_grad.by_place) if isinstance(out_grad, Arriving) else {0: out_grad}
        dtypes = [seed.dtype for seed in way.seeds]
        records = any(isinstance(grad, Tensor) for grad in arriving.values())
        for i, (shape, dtype) in enumerate(zip(self.shapes, dtypes, strict=True)):
            if i not in arriving:  # nobody used this output
                zeros = asarray(np.zeros(shape, dtype), None, way.program.device)
                arriving[i] = Tensor._new(zeros) if records else zeros
        seeds = [arriving[i] for i in range(len(dtypes))]
        found = iter(way.tensors(self, seeds) if records else way.arrays(self, seeds))
        return tuple([next(found) if has else None for has in way.has])
