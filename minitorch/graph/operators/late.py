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
from ..core.static_shape import UNKNOWN, UnknownShape


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
