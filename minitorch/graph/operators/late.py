"""What can only be built once shapes are known: for variables and placeholders without any shape.

`late(build, inputs)` stands for `build(*inputs)`. When a run feeds arrays, `ByShape` builds the
graph again over placeholders of the arrays' shapes, where everything is known, and keeps one step
for each set of shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

from ...arrays import Array, DType
from ...errors import GraphError
from ...op import Op
from ..control.history import Opaque, placeholder_like
from ..control.while_op import Output, While
from ..naming import rename
from ..node import UNKNOWN, Node, Placeholder, UnknownShape, build, convert
from ..order import needed, schedule
from ..passes.rewrite import PLANNING, like
from ..running.executors import Run
from ..state import State


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


def once_known(function: Callable[..., Node]) -> Callable[..., Node]:
    """Return `function`, put off until its first argument has a shape, if it has none yet."""
    first = next(iter(signature(function).parameters))

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Node:
        if not args and first in kwargs:
            args = (kwargs.pop(first),)
        if not args:
            return function(**kwargs)  # Python says what is missing
        node = convert(args[0])
        if not unknown(node):
            return function(node, *args[1:], **kwargs)
        name = kwargs.pop("name", None)
        nodes: list[Node] = []
        fill = _without_nodes([node, *args[1:], kwargs], nodes)

        def build(*known: Node) -> Node:
            *values, named = fill(known)
            return function(*values, **named)

        return rename(late(build, nodes, node.dtype), name)

    return call


def _without_nodes(value: Any, nodes: list[Node]) -> Callable[[Sequence[Node]], Any]:
    """Add the nodes in `value` to `nodes`; return what puts others in their places."""
    if isinstance(value, Node):
        at = len(nodes)
        nodes.append(value)
        return lambda known: known[at]
    if type(value) in (list, tuple):
        parts = [_without_nodes(item, nodes) for item in value]
        return lambda known: type(value)([part(known) for part in parts])
    if type(value) is dict:
        named = {key: _without_nodes(item, nodes) for key, item in value.items()}
        return lambda known: {key: part(known) for key, part in named.items()}
    return lambda known: value


MOST_SHAPES = 256  # sets of shapes that a run keeps its steps for


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
            with PLANNING:
                step = self._steps.get(shapes)  # which another may have planned meanwhile
                if step is None:
                    while len(self._steps) >= MOST_SHAPES:
                        del self._steps[next(iter(self._steps))]
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
    return any(_is_late(node) for node in needed(fetches, set(feeds)))


def _is_late(node: Node) -> bool:
    """Tell whether `node` is built late, or is a loop with something inside that is."""
    if isinstance(node.op, While):
        inside = needed([node.op.test, *node.op.body], {*node.op.variables, *node.op.entrances})
        return any(map(_is_late, inside))
    return isinstance(node.op, Late)


def _again(node: Node, new: dict[Node, Node]) -> Node:
    """Return `node` built over the new inputs."""
    inputs = tuple(new.get(source, source) for source in node.inputs)
    control = tuple(new.get(source, source) for source in node.control_inputs)
    if isinstance(node.op, Late):
        with like(node):
            return node.op.build(*inputs)
    if isinstance(node.op, While) and (_is_late(node) or unknown(*node.inputs)):
        return _loop_again(node, inputs, control)
    if isinstance(node.op, Output) and isinstance(inputs[0].op, While) and unknown(node):
        return _output_again(node, inputs[0])
    pairs = zip((*inputs, *control), (*node.inputs, *node.control_inputs), strict=True)
    if all(a is b for a, b in pairs):
        return node
    if node.op is None or not unknown(node):
        return node.with_inputs(inputs, control)
    with like(node):
        made = node.op(*inputs)
    made.control_inputs = control
    return made  # type: ignore[no-any-return]


def _loop_again(node: Node, inputs: tuple[Node, ...], control: tuple[Node, ...]) -> Node:
    """Return a loop built over inputs whose shapes are known."""
    loop: While = node.op
    count = len(loop.variables)
    with like(node):
        variables = [placeholder_like(v, v.name) for v in loop.variables]
        for variable, first in zip(variables, inputs, strict=False):
            if unknown(variable):
                variable.shape = first.shape
        new: dict[Node, Node] = dict(zip(loop.entrances, inputs[count:], strict=True))
        new.update(zip(loop.variables, variables, strict=True))
        ends = [loop.test, *loop.body]
        for inner in schedule(ends, set(new)):
            if inner not in new:
                new[inner] = _again(inner, new)
        test, *body = (new[end] for end in ends)
        fresh = While(test, body, variables, loop.parallel_iterations)
        made = build(fresh, (*inputs[:count], *fresh.captured), kind=Opaque)
    made.control_inputs = control
    return made


def _output_again(node: Node, loop: Node) -> Node:
    """Return a value taken out of a loop that was built again."""
    with like(node):
        variable = loop.op.variables[node.op.slot[1]]
        return build(Output(node.op.slot, variable), (loop,), kind=type(node))
