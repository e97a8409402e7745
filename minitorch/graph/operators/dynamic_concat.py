"""Values joined along an axis whose sizes only the run knows, and cut apart again.

`ops.joining` cuts gradients at places that are known when the graph is built; these look at the
shapes of the inputs when they run.
"""

from __future__ import annotations

from typing import Any

from ...arrays import Array
from ...op import Op, Spec
from ...ops.joining import Cat
from ..core.node import build


class Joined(Cat):
    """The inputs one after another along an axis."""

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Each input gets the piece of the gradient that is where it was."""
        return tuple(
            build(Piece(self.dim, i), (out_grad, *node.inputs)) if wanted else None
            for i, wanted in enumerate(node.wants)
        )


class Piece(Op):
    """Of the first input the part that belongs to input 1 + i: as large, and where it was."""

    reads_inputs = reads_output = False

    def __init__(self, dim: int, i: int) -> None:
        self.dim, self.i = dim, i

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the part."""
        return arrays[0][self._where(arrays)]

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of that input."""
        return Spec(specs[1 + self.i].shape, specs[0].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The gradient in its place, zeros around it."""
        parts = node.inputs[1:]
        return build(InPlace(self.dim, self.i), (out_grad, *parts)), *(None for _ in parts)

    def _where(self, arrays: Any) -> tuple[slice, ...]:
        sizes = [array.shape[self.dim] for array in arrays[1:]]
        start = sum(sizes[: self.i])
        return (*[slice(None)] * self.dim, slice(start, start + sizes[self.i]))


class InPlace(Piece):
    """The first input where input 1 + i was among the joined ones, zeros for the others."""

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return an array as large as all of them together."""
        x, *parts = arrays
        total = sum(part.shape[self.dim] for part in parts)
        shape = (*x.shape[: self.dim], total, *x.shape[self.dim + 1 :])
        out = xp.zeros(shape, dtype=x.dtype)
        out[self._where(arrays)] = x
        return out

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape with the sizes along the axis added."""
        joined = Cat(self.dim).infer(*[Spec(s.shape, specs[0].dtype) for s in specs[1:]])
        return Spec(joined.shape, specs[0].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The piece of the gradient at that place."""
        parts = node.inputs[1:]
        return build(Piece(self.dim, self.i), (out_grad, *parts)), *(None for _ in parts)
