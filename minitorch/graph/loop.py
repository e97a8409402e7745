"""`while_loop`: a body that is run as often as a condition says, known only at run time.

The loop is one node. Condition and body are graphs of their own over placeholders for the loop's
variables; what they use from outside is captured as further inputs. Its gradient is a loop again,
backwards over the values that were kept of each round, so a trip count that depends on data is as
good as a fixed one.

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..arrays import Array, float32, namespace
from ..errors import GraphError
from ..op import Spec
from .control import as_predicate
from .gradients import gradients
from .node import Constant, Node, Placeholder, UnknownShape, as_shape, build, convert
from .scope import get_default_graph
from .state import State, StateOp, Variable, rename
from .step import Step


class Values:
    """What a loop hands on: arrays by place; two of them add up place by place."""

    def __init__(
        self, arrays: dict[int, Array], rounds: list[tuple[Array, ...]] | None = None
    ) -> None:
        self.arrays = arrays
        self.rounds = rounds

    def __add__(self, other: Values) -> Values:
        total = dict(self.arrays)
        for i, array in other.arrays.items():
            total[i] = total[i] + array if i in total else array
        return Values(total)


class While(StateOp):
    """The loop itself; inputs are the first values, then what is captured.

    Attributes:
        variables: the placeholders of the loop's variables.
        captured: the outer nodes that condition and body use.
        records: keep the values of every round, for the gradient.
    """

    name = "while"

    def __init__(
        self, test: Node, body: Sequence[Node], variables: Sequence[Node], limit: int | None
    ) -> None:
        self.variables = tuple(variables)
        self.body = tuple(body)
        self.limit = limit
        self.captured = outer_nodes([test, *body], variables)
        self.records = False
        feeds = (*self.variables, *self.captured)
        self._test, self._round = Step([test], feeds), Step(self.body, feeds)

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the last values, with those of every round when they are recorded."""
        count = len(self.variables)
        values, captured = tuple(arrays[:count]), arrays[count:]
        rounds: list[tuple[Array, ...]] = []
        done = 0
        while (self.limit is None or done < self.limit) and self._test(state, (*values, *captured))[
            0
        ]:
            if self.records:
                rounds.append(values)
            values = self._round(state, (*values, *captured))
            done += 1
        return Values(dict(enumerate(values)), rounds)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a scalar: the arrays are taken out by `Output`."""
        return Spec((), float32)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Run the rounds backwards."""
        self.records = True
        back = build(WhileGrad(self), (out_grad, node, *node.inputs))
        return tuple(
            build(Output(i, source), (back,)) if source.dtype.kind == "f" else None
            for i, source in enumerate(node.inputs)
        )


class Output(StateOp):
    """One of the arrays that a loop hands on."""

    def __init__(self, place: int, like: Node) -> None:
        self.place, self.shape, self.dtype = place, like.shape, like.dtype

    def run(self, state: State, *arrays: Array) -> Array:
        """Return the array."""
        return arrays[0].arrays[self.place]

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the loop's variable."""
        return Spec(self.shape, self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Hand the gradient in at this place."""
        return build(Pack(self.place), (out_grad,))


class Pack(StateOp):
    """A gradient with the place where it belongs; several add up."""

    def __init__(self, place: int) -> None:
        self.place = place

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the array by its place."""
        return Values({self.place: arrays[0]})

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a loop."""
        return Spec((), float32)


class WhileGrad(StateOp):
    """The rounds of a loop backwards; inputs are the gradients, the loop, and the loop's inputs."""

    name = "while_grad"

    def __init__(self, loop: While) -> None:
        floats = [v for v in loop.variables if v.dtype.kind == "f"]
        captured = [c for c in loop.captured if c.dtype.kind == "f"]
        self.places = [i for i, v in enumerate(loop.variables) if v.dtype.kind == "f"]
        self.count = len(loop.variables)
        self.captured = [self.count + i for i, c in enumerate(loop.captured) if c.dtype.kind == "f"]
        with apart():
            arriving = [Placeholder(v.dtype, v.shape, "arriving") for v in floats]
            ends = [loop.body[i] for i in self.places]
            found = gradients(ends, [*floats, *captured], list(arriving)) if ends else []
        self.has = [grad is not None for grad in found]
        feeds = (*arriving, *loop.variables, *loop.captured)
        self._round = Step([grad for grad in found if grad is not None], feeds)

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the gradient of every floating input of the loop, by place."""
        given, loop, *inputs = arrays
        captured = inputs[self.count :]
        flowing = [given.arrays.get(i, _zeros(loop.arrays[i])) for i in self.places]
        total = {i: _zeros(inputs[i]) for i in self.captured}
        for values in reversed(loop.rounds):
            found = iter(self._round(state, (*flowing, *values, *captured)))
            grads = [next(found) if has else None for has in self.has]
            flowing = [
                _zeros(values[i]) if grad is None else grad
                for i, grad in zip(self.places, grads, strict=False)
            ]
            for i, grad in zip(self.captured, grads[len(self.places) :], strict=True):
                total[i] = total[i] if grad is None else total[i] + grad
        return Values({**dict(zip(self.places, flowing, strict=True)), **total})

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a loop."""
        return Spec((), float32)


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Sequence[Any],
    shape_invariants: Sequence[Any] | None = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: int | None = None,
) -> Any:
    """Return the loop's variables after `body` has been run as long as `cond` holds.

    Args:
        cond: (*variables) -> one boolean node; called once, to build.
        body: (*variables) -> the variables' next values, of the same dtypes and shapes.
        loop_vars: the first values.
        shape_invariants: a shape for each variable, None for each size that a round may change.
        parallel_iterations, back_prop, swap_memory: taken for TensorFlow's sake; no effect.
        maximum_iterations: stop after so many rounds.
    Returns: a list or tuple as `loop_vars` is; the node itself when there is one variable.
    Raises:
        GraphError: the body gives another number, dtype or shape of values.
    """
    first = [convert(value) for value in loop_vars]
    shapes = [v.shape for v in first] if shape_invariants is None else list(shape_invariants)
    with apart():
        variables = [
            Placeholder(
                v.dtype, as_shape(s) if not isinstance(s, UnknownShape) else None, "loop_var"
            )
            for v, s in zip(first, shapes, strict=True)
        ]
        test = as_predicate("while_loop", cond(*variables))
        found = body(*variables)
        after = [convert(v) for v in (found if isinstance(found, list | tuple) else [found])]
    _check(variables, after)
    loop = While(test, after, variables, maximum_iterations)
    node = rename(build(loop, (*first, *loop.captured)), name)
    outputs = [build(Output(i, v), (node,)) for i, v in enumerate(variables)]
    if len(outputs) == 1:
        return outputs[0]
    return tuple(outputs) if isinstance(loop_vars, tuple) else outputs


def _check(variables: Sequence[Node], after: Sequence[Node]) -> None:
    if len(variables) != len(after):
        raise GraphError(
            f"while_loop: the body gives {len(after)} values, expected {len(variables)}, one for "
            "each variable."
        )
    for i, (old, new) in enumerate(zip(variables, after, strict=True)):
        same = old.dtype == new.dtype
        if same and not isinstance(old.shape, UnknownShape):
            same = not isinstance(new.shape, UnknownShape) and len(old.shape) == len(new.shape)
            same = same and all(
                a is None or a == b for a, b in zip(old.shape, new.shape, strict=True)
            )
        if not same:
            raise GraphError(
                f"while_loop: variable {i} changes from {old.dtype} {old.shape} to {new.dtype} "
                f"{new.shape} in the body (built at {new.location}). Keep it, or say in "
                "shape_invariants which sizes vary."
            )


def outer_nodes(fetches: Sequence[Node], variables: Sequence[Node]) -> tuple[Node, ...]:
    """Return what a loop's graphs use from outside: nodes built before the loop's variables.

    Constants stay where they are, and so do variables that the loop itself writes.
    """
    start = min((v.id for v in variables), default=0)
    found: dict[Node, None] = {}
    inside: dict[Node, None] = {}
    waiting = list(fetches)
    while waiting:
        node = waiting.pop()
        if node in inside or node in found:
            continue
        if node.id < start and not isinstance(node, Constant):
            found[node] = None
            continue
        inside[node] = None
        waiting += [*node.inputs, *node.control_inputs]
    written = {v for node in inside for v in getattr(node.op, "writes", ())}
    return tuple(node for node in found if not (isinstance(node, Variable) and node in written))


@contextmanager
def apart() -> Iterator[None]:
    """Build nodes outside every control dependency and branch that is open."""
    graph = get_default_graph()
    held = graph.control, graph.branches
    graph.control, graph.branches = [()], []
    try:
        yield
    finally:
        graph.control, graph.branches = held


def _zeros(array: Array) -> Array:
    return namespace(array).zeros_like(array)
