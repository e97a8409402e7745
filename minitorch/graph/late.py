"""What can only be built once shapes are known: for variables and placeholders without any shape.

`late(build, inputs)` stands for `build(*inputs)`. When a run feeds arrays, `ByShape` builds the
graph again over placeholders of the arrays' shapes, where everything is known, and keeps one step
for each set of shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..arrays import Array, DType
from ..errors import GraphError
from ..op import Op
from .executors import Run
from .node import UNKNOWN, Node, Placeholder, UnknownShape
from .order import needed, schedule
from .passes.rewrite import like
from .state import State


class Late(Op):
    """A part of the graph that is built when the shapes of its inputs are known."""

    pure = False

    def __init__(self, build: Callable[..., Node]) -> None:
        self.build = build

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Raise: a run builds it first, from the shapes of what is fed."""
        raise GraphError("shape: still not known in this run. Feed what has no shape.")


def late(build: Callable[..., Node], inputs: Sequence[Node], dtype: DType) -> Node:
    """Return a node that stands for `build(*inputs)`, of a shape not known yet."""
    return Node(Late(build), tuple(inputs), UNKNOWN, dtype, "late")


def unknown(*nodes: Node) -> bool:
    """Tell whether the number of axes of one of these is not known."""
    return any(isinstance(node.shape, UnknownShape) for node in nodes)


class ByShape:
    """A step for each set of shapes that is fed; called as a `Step` is."""

    def __init__(
        self, fetches: Sequence[Node], feeds: Sequence[Node], plan: Callable[..., Run]
    ) -> None:
        self.fetches, self.feeds, self.plan = list(fetches), tuple(feeds), plan
        self._steps: dict[tuple[Any, ...], Run] = {}

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the fetched arrays for feeds of these shapes."""
        shapes = tuple(tuple(array.shape) for array in arrays)
        step = self._steps.get(shapes)
        if step is None:
            step = self._steps[shapes] = self._build(shapes)
        return step(state, arrays)

    def _build(self, shapes: Sequence[tuple[int, ...]]) -> Run:
        new: dict[Node, Node] = {}
        for node, shape in zip(self.feeds, shapes, strict=True):
            with like(node):
                new[node] = Placeholder(node.dtype, shape, node.name)
        for node in schedule(self.fetches, set(self.feeds)):
            if node not in new:
                new[node] = _again(node, new)
        return self.plan([new[n] for n in self.fetches], tuple(new[n] for n in self.feeds))


def needs_shapes(fetches: Sequence[Node], feeds: Sequence[Node]) -> bool:
    """Tell whether a run of these can only be planned once the shapes of its feeds are known."""
    return any(isinstance(node.op, Late) for node in needed(fetches, set(feeds)))


def _again(node: Node, new: dict[Node, Node]) -> Node:
    """Return `node` built over the new inputs."""
    inputs = tuple(new.get(source, source) for source in node.inputs)
    control = tuple(new.get(source, source) for source in node.control_inputs)
    if isinstance(node.op, Late):
        with like(node):
            return node.op.build(*inputs)
    if node.op is None or all(a is b for a, b in zip(inputs, node.inputs, strict=True)):
        return node
    if not unknown(node):
        return node.with_inputs(inputs, control)
    with like(node):
        made = node.op(*inputs)
    made.control_inputs = control
    return made  # type: ignore[no-any-return]
