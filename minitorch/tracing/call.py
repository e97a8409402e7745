"""One call of a compiled program, as the operator that its results remember.

A program with one result that has a gradient is one operator. With several, each result is an
`Output` of a hub, where their gradients come together before the way back runs once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.arrays import Array, DType, asarray
from minitorch.op import Op
from minitorch.tensor import Tensor

if TYPE_CHECKING:
    from minitorch.tracing.program import WayBack


@dataclass
class Arriving:
    """The gradients of a program's outputs, by place, as they come in."""

    by_place: dict[int, Any]

    hooks = None

    def __add__(self, other: Arriving) -> Arriving:
        total = dict(self.by_place)
        for place, grad in other.by_place.items():
            total[place] = total[place] + grad if place in total else grad
        return Arriving(total)


class Output(Op):
    """One output of a program that has several."""

    on_arrays = True
    reads_inputs = reads_output = False

    def __init__(self, place: int) -> None:
        self.place = place

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Hand the gradient in at this place."""
        return (Arriving({self.place: out_grad}),)


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
        before: Any,
    ) -> None:
        self.way, self.tensors, self.saved, self.before = way, tensors, saved, before
        self.shapes = shapes  # of the outputs that have a gradient

    @property
    def name(self) -> str:
        """The traced function's name."""
        return self.way.program.name

    def attributes(self) -> dict[str, Any]:
        """Return nothing: what it holds is numbers."""
        return {}

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Run the way back."""
        way = self.way
        arriving = out_grad.by_place if isinstance(out_grad, Arriving) else {0: out_grad}
        dtypes = [seed.dtype for seed in way.seeds]
        if any(isinstance(grad, Tensor) for grad in arriving.values()):
            seeds = [
                arriving[i] if i in arriving else Tensor._new(self._zeros(shape, dtype))
                for i, (shape, dtype) in enumerate(zip(self.shapes, dtypes, strict=True))
            ]
            found = iter(way.tensors(self, seeds))
        else:
            arrays = [
                arriving[i] if i in arriving else self._zeros(shape, dtype)
                for i, (shape, dtype) in enumerate(zip(self.shapes, dtypes, strict=True))
            ]
            found = iter(way.arrays(self, arrays))
        return tuple([next(found) if has else None for has in way.has])

    def _zeros(self, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return the gradient of an output that nobody used."""
        return asarray(np.zeros(shape, dtype), None, self.way.program.device)
