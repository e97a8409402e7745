"""One number where a placeholder was given no shape: a predicate, a probability, a count."""

from __future__ import annotations

from typing import Any

from ...arrays import Array
from ...errors import GraphError
from ...op import Op, Spec
from ...shapes import Shape
from ..core.static_shape import StaticShape, UnknownShape


class AsScalar(Op):
    """The input, which at run time has to be one number.

    Attributes:
        source: the name of the input, for the message.
    """

    reads_inputs = reads_output = False

    def __init__(self, source: str) -> None:
        self.source = source

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the array.

        Raises:
            GraphError: it has axes.
        """
        self._check(tuple(arrays[0].shape))
        return arrays[0]

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of one number."""
        self._check(specs[0].shape)
        return Spec((), specs[0].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return the gradient unchanged."""
        return out_grad

    def _check(self, shape: Shape) -> None:
        if shape != ():
            raise GraphError(
                f"scalar: {self.source!r} has axes: got shape {shape}, expected (), one value. "
                "Feed one, or reduce it."
            )


def as_scalar(node: Any) -> Any:
    """Return `node`; where nothing is known of its shape, as one number, checked at run time."""
    if not isinstance(node.shape, UnknownShape):
        return node
    found = AsScalar(node.name)(node)
    found.shape = StaticShape(())
    return found
