"""What can only be built once shapes are known: for variables and placeholders without any shape.

`late(build, inputs)` stands for `build(*inputs)`. When a run feeds arrays, `by_shape` builds the
graph again over placeholders of the arrays' shapes, where everything is known. May import nothing
of the graph but static shapes: nodes use it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...arrays import Array, DType
from ...errors import GraphError
from ...op import Op, Spec
from ...shapes import Shape
from ..core.static_shape import UNKNOWN, StaticShape, UnknownShape


class Late(Op):
    """A part of the graph that is built when the shapes of its inputs are known."""

    pure = False
    name = "late"

    def __init__(self, build: Callable[..., Any], dtype: DType) -> None:
        self.build, self.dtype = build, dtype

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Raise: a run builds it first, from the shapes of what is fed."""
        raise GraphError("shape: still not known in this run. Feed what has no shape.")

    def infer(self, *specs: Spec) -> Spec:
        """Return what is known: the dtype."""
        return Spec(UNKNOWN, self.dtype)


def late(build: Callable[..., Any], inputs: Sequence[Any], dtype: DType) -> Any:
    """Return a node that stands for `build(*inputs)`, of a shape not known yet."""
    return Late(build, dtype)(*inputs)


def unknown(*nodes: Any) -> bool:
    """Tell whether the number of axes of one of these is not known."""
    return any(isinstance(node.shape, UnknownShape) for node in nodes)


def deferred(function: Callable[..., Any], *nodes: Any) -> Any:
    """Return `function(*nodes)`, put off until they have a shape if one has none yet."""
    return late(function, nodes, nodes[0].dtype) if unknown(*nodes) else function(*nodes)


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
