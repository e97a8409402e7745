"""Runs of graphs with parts that are built late: a step for each set of shapes that is fed."""

from collections.abc import Callable, Sequence

import numpy as np

from ...arrays.library import Array
from ...arrays.shapes import Shape, fill_in, numel
from ...errors import MinitorchError, ShapeError
from ...op import Op, Spec
from ..control.loop_stacks import HandleNode, Output, placeholder_like
from ..control.while_op import While
from ..core.gradients import Identity
from ..core.graph import add_location, like
from ..core.node import Constant, Node, build
from ..core.order import list_needed, schedule
from ..core.placeholders import Placeholder
from ..core.variables import State
from ..executors.compiled import Run, check_source
from ..passes.rewrite import PLANNING
from .computed import OfShape, ShapeOf
from .deferred import NOT_TOLD, Late, any_late, unknown
from .sizes import comes_of_none
from .static import as_static

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
                check_source(node)
                new[node] = _rebuild(node, new)
        return self.plan([new[n] for n in self.fetches], tuple(new[n] for n in self.feeds))


def needs_shapes(fetches: Sequence[Node], feeds: Sequence[Node]) -> bool:
    """Tell whether a run of these can only be planned once the shapes of its feeds are known."""
    return any_late(list_needed(fetches, set(feeds)))


def _rebuild(node: Node, new: dict[Node, Node]) -> Node:
    """Return `node` built over the new inputs."""
    inputs = tuple(new.get(source, source) for source in node.inputs)
    control = tuple(new.get(source, source) for source in node.control_inputs)
    if isinstance(node, Placeholder) and node.inputs:  # is not fed
        copy = node.with_inputs(inputs, control)
        copy.shape = inputs[0].shape
        return copy
    if isinstance(node.op, Late):
        with like(node):
            value = _build(node, inputs)
            return build(Identity(), (value,)).with_inputs((value,), control) if control else value
    if isinstance(node.op, While) and (any_late([node]) or _vary(*node.inputs)):
        return _rebuild_loop(node, inputs, control)
    if type(node.op) is Output and isinstance(inputs[0].op, While) and _vary(node):
        variable = inputs[0].op.variables[node.op.slot[1]]
        with like(node):
            return build(Output(node.op.slot, variable), inputs, kind=type(node))
    return _over(node, inputs, control)


def _over(node: Node, inputs: tuple[Node, ...], control: tuple[Node, ...]) -> Node:
    """Return a plain node over the new inputs, of the shape that they give it."""
    sizes = None if node.op is None or control else _sizes(node.op, inputs)
    if sizes is not None:
        with like(node):
            return Constant(sizes)
    if isinstance(node.op, OfShape) and isinstance(inputs[0], Constant):
        count = numel(inputs[1].shape) if len(inputs) > 1 else None
        with like(node):
            return build(OfShape(_fill_in(node, inputs[0].value, count)), inputs)
    pairs = zip((*inputs, *control), (*node.inputs, *node.control_inputs), strict=True)
    if all(a is b for a, b in pairs):
        return node
    if node.op is None or not unknown(node):
        copy = node.with_inputs(inputs, control)
        if node.op is not None and _vary(node) and not unknown(*inputs):
            specs = [Spec(tuple(source.shape), source.dtype) for source in inputs]
            copy.shape = as_static(node.op.infer(*specs).shape)
        return copy
    with like(node):
        rebuilt = node.op(*inputs)
    rebuilt.control_inputs = control
    return rebuilt  # type: ignore[no-any-return]


def _sizes(op: Op, inputs: tuple[Node, ...]) -> Array | None:
    """Return whole numbers that are computed from sizes alone, if an operator gives such."""
    if isinstance(op, ShapeOf):
        return None if _vary(inputs[0]) else np.array(tuple(inputs[0].shape), np.int32)
    whole = (n for n in inputs if isinstance(n, Constant) and n.dtype.kind in "iu")
    fixed = [node.value for node in whole]
    if not fixed or len(fixed) < len(inputs) or not op.pure or isinstance(op, OfShape):
        return None
    array = np.asarray(op.compute(np, *fixed))
    return array if array.dtype.kind in "iu" else None


def _fill_in(node: Node, sizes: Array, count: int | None) -> Shape:
    try:
        return fill_in(sizes.tolist(), count, "shape")
    except ShapeError as error:
        raise add_location(error, node.built_at) from None


def _build(node: Node, inputs: Sequence[Node]) -> Node:
    """Return what waited for these inputs to have shapes."""
    try:
        return node.op.build(*inputs)  # type: ignore[no-any-return]
    except TypeError as error:
        if not comes_of_none(error, inputs):
            raise
        raise node.error(NOT_TOLD) from None
    except MinitorchError as error:
        raise error if "built at" in str(error) else add_location(error, node.built_at) from None


def _vary(*nodes: Node) -> bool:
    """Tell whether something of the shape of one of these was not known before the run."""
    return unknown(*nodes) or any(None in node.shape for node in nodes)


def _rebuild_loop(node: Node, inputs: tuple[Node, ...], control: tuple[Node, ...]) -> Node:
    """Return a loop built over inputs whose shapes are known."""
    loop: While = node.op
    count = len(loop.variables)
    with like(node):
        starts = [placeholder_like(p, p.name) for p in loop.given]
        pairs = zip(loop.entrances, inputs[count:], strict=True)
        fixed: dict[Node, Node] = {p: n for p, n in pairs if isinstance(n, Constant)}
        for placeholder, source in zip(starts, inputs, strict=True):
            if _vary(placeholder):
                placeholder.shape = source.shape
        test, *after = _rebuild_round(loop, starts, fixed)
        while _let_vary(starts[:count], after[:count]):
            test, *after = _rebuild_round(loop, starts, fixed)
        ends = after[:count], starts[:count], starts[count:], after[count:]
        rebuilt = build(While(test, *ends, loop.parallel_iterations), inputs, kind=HandleNode)
    rebuilt.control_inputs = control
    return rebuilt


def _rebuild_round(loop: While, starts: list[Placeholder], fixed: dict[Node, Node]) -> list[Node]:
    """Return a loop's test, its next values and what is kept of a round, built over these."""
    new: dict[Node, Node] = dict(zip(loop.given, starts, strict=True)) | fixed
    ends = [loop.test, *loop.body, *loop.saved]
    for inner in schedule(ends, set(new)):
        if inner not in new:
            new[inner] = _rebuild(inner, new)
    return [new[end] for end in ends]


def _let_vary(variables: Sequence[Placeholder], after: Sequence[Node]) -> bool:
    """Forget the sizes that a round changes; tell whether there were any."""
    changed = False
    for variable, end in zip(variables, after, strict=True):
        if not unknown(variable, end):
            pairs = zip(variable.shape, end.shape, strict=True)
            shape = as_static([a if a == b else None for a, b in pairs])
            changed |= shape != variable.shape
            variable.shape = shape
    return changed
