"""Runs of graphs with parts that are built late: a step for each set of shapes that is fed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...arrays.library import Array
from ..control.loop_stacks import HandleNode, Output, placeholder_like
from ..control.while_op import While
from ..core.graph import like
from ..core.node import Node, Placeholder, build
from ..core.order import list_needed, schedule
from ..core.variables import State
from ..executors.compiled import Run
from ..passes.rewrite import PLANNING
from .deferred import Late, unknown

MOST_SHAPES = 256  # sets of shapes that a run keeps its steps for


class ByShape:
    """A step for each set of shapes that is fed; called as a `Step` is."""

    def __init__(
        self, fetches: Sequence[Node], feeds: Sequence[Node], plan: Callable[..., Run]
    ) -> None:
        self.fetches, self.feeds, self.plan = list(fetches), tuple(feeds), plan
        self._steps: dict[tuple[tuple[int, ...], ...], Run] = {}

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
                new[node] = _rebuild(node, new)
        return self.plan([new[n] for n in self.fetches], tuple(new[n] for n in self.feeds))


def needs_shapes(fetches: Sequence[Node], feeds: Sequence[Node]) -> bool:
    """Tell whether a run of these can only be planned once the shapes of its feeds are known."""
    return any(_is_late(node) for node in list_needed(fetches, set(feeds)))


def _is_late(node: Node) -> bool:
    """Tell whether `node` is built late, or is a loop with something inside that is."""
    if isinstance(node.op, While):
        return any(map(_is_late, node.op.nodes()))
    return isinstance(node.op, Late)


def _rebuild(node: Node, new: dict[Node, Node]) -> Node:
    """Return `node` built over the new inputs."""
    inputs = tuple(new.get(source, source) for source in node.inputs)
    control = tuple(new.get(source, source) for source in node.control_inputs)
    if isinstance(node.op, Late):
        with like(node):
            return node.op.build(*inputs)  # type: ignore[no-any-return]
    if isinstance(node.op, While) and (_is_late(node) or unknown(*node.inputs)):
        return _rebuild_loop(node, inputs, control)
    if isinstance(node.op, Output) and isinstance(inputs[0].op, While) and unknown(node):
        variable = inputs[0].op.variables[node.op.slot[1]]
        with like(node):
            return build(Output(node.op.slot, variable), inputs, kind=type(node))
    pairs = zip((*inputs, *control), (*node.inputs, *node.control_inputs), strict=True)
    if all(a is b for a, b in pairs):
        return node
    if node.op is None or not unknown(node):
        return node.with_inputs(inputs, control)
    with like(node):
        rebuilt = node.op(*inputs)
    rebuilt.control_inputs = control
    return rebuilt  # type: ignore[no-any-return]


def _rebuild_loop(node: Node, inputs: tuple[Node, ...], control: tuple[Node, ...]) -> Node:
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
                new[inner] = _rebuild(inner, new)
        test, *body = (new[end] for end in ends)
        fresh = While.capture(test, body, variables, loop.parallel_iterations)
        rebuilt = build(fresh, (*inputs[:count], *fresh.captured), kind=HandleNode)
    rebuilt.control_inputs = control
    return rebuilt
