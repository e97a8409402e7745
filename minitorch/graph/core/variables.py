"""What outlives a run: variables, and the operators that write them.

A session keeps the values of variables; a node that writes one says so (`writes`), and the plan
runs it after every node that reads the old value. A read that must see a write stands under
`control_dependencies`.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ...arrays.library import (
    CPU,
    Array,
    Device,
    DType,
    DTypeLike,
    Namespace,
    as_dtype,
    get_default_dtype,
    graph_dtype,
)
from ...errors import GraphError
from ...op import FixedSpec, Gradients, KeepsSpec, Op, Spec
from ..shapes.static import agree
from .graph import call_site, control_dependencies, get_default_graph, outside
from .naming import label, rename
from .node import UNKNOWN, Node, UnknownShape, build, convert


class State:
    """The memory of a session, as its operators see it.

    Attributes:
        values: the array of every initialised variable.
        generators: the random generator of every random node.
        lock: held by whoever makes a generator or changes a variable.
    """

    def __init__(self, place: Device = CPU) -> None:
        self.device = place
        self.values: dict[Node, Array] = {}
        self.generators: dict[object, np.random.Generator] = {}
        self.lock = threading.RLock()

    def generator(self, key: object, seed: Sequence[int] | None) -> np.random.Generator:
        """Return the generator of a random node, made at its first use from `seed`."""
        generator = self.generators.get(key)
        if generator is None:
            with self.lock:  # of two threads that come first both get the same
                generator = self.generators.setdefault(key, np.random.default_rng(seed))
        return generator


__all__ = [
    "Variable",
    "all_variables",
    "assign",
    "assign_add",
    "assign_sub",
    "global_variables",
    "global_variables_initializer",
    "group",
    "initialize_all_variables",
    "initialize_variables",
    "no_op",
    "trainable_variables",
    "variables_initializer",
]


class StateOp(Op):
    """An operator that reads or writes the session's memory: `run` instead of `compute`.

    Attributes:
        writes: the variables that it sets.
        ordered: when it runs matters: it has an effect, or sees those of others.
        hands_on: its result may share memory with an input.
        soon: it may run before effects on other things, once its variables' values are not needed.
    """

    pure = False
    reads_inputs = reads_output = False
    writes: "tuple[Variable, ...]" = ()
    ordered = True
    hands_on = False
    soon = False

    def run(self, state: State, *arrays: Array) -> Array:
        """Return the result for these arrays; may change `state`."""
        raise NotImplementedError(f"{self.name}: `run` is not defined. Define it.")

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """Return no gradient for what is written, as in TensorFlow."""
        if self.writes:
            return (None,) * len(node.inputs)
        return super().gradient(out_grad, node)

    def run_in_place(self, state: State, *arrays: Array) -> Array:
        """As `run`, where the plan has proved that nobody needs the variable's old array."""
        return self.run(state, *arrays)

    def runner(self, asked: Sequence[Node]) -> Callable[..., Any]:
        """Return `run` for a plan in which the nodes `asked` use the result."""
        return self.run

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Raise: the operator means something only inside a session."""
        raise GraphError(f"{self.name}: needs a session. Build it from nodes and run it.")


class Read(KeepsSpec, StateOp):
    """The value of a variable at this point of the run."""

    def __init__(self, variable: "Variable") -> None:
        self.variable = variable

    def run(self, state: State, *arrays: Array) -> Array:
        return self.variable.value_in(state)

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        return out_grad


class Variable(Node):
    """A value that a session keeps between runs.

    Args:
        initial_value: a node, an array, a number, or a function that returns one. A string is a
            name instead, and the variable gets its value by `feed_dict`, by `assign`, or as an
            argument of a compiled function.
        trainable: whether optimizers update it unless told which.
    Attributes:
        asked: the name that it was given, which another may have had before.
    """

    __slots__ = ("asked", "initial_value", "initializer", "trainable")

    def __init__(
        self,
        initial_value: object = None,
        trainable: bool = True,
        name: str | None = None,
        dtype: DTypeLike = None,
    ) -> None:
        if isinstance(initial_value, str):
            name, initial_value = initial_value, None
        with outside():
            start = _initial(initial_value, dtype)
            shape = UNKNOWN if start is None else start.shape
            super().__init__(None, (), shape, _dtype(start, dtype), name or "Variable")
            self.asked = self.graph.with_scopes(name or "Variable")
            self.trainable = trainable
            self.initial_value = start
            self.initializer = None if start is None else label(assign(self, start), "init")
        self.graph.add_variable(self)

    def read(self) -> Node:
        """Return this variable as an input of the node being built.

        Under `control_dependencies` that is a read of its own, which sees earlier writes.
        """
        graph = get_default_graph()
        if all(node.id in graph.pivots for node in graph.control[-1]):
            return self
        source: Node = self  # not for its value, but for the way back of the gradient
        for branch in graph.branches:
            source = branch.bring(source)
        return Node(Read(self), (source,), self.shape, self.dtype, f"{self.name}/read")

    read_value = value = read

    def value_in(self, state: State) -> Array:
        """Return the array that a session's memory holds for this variable."""
        try:
            return state.values[self]
        except KeyError:
            raise self.uninitialised_error() from None

    def uninitialised_error(self) -> GraphError:
        """Return the error for a read before the first write."""
        return GraphError(
            f"run: variable {self.name!r} has no value yet (built at {self.location}). Run "
            "initialize_all_variables() first, or feed it."
        )

    def initialized_value(self) -> Node:
        """Return the node that the variable starts from, for another variable's start."""
        if self.initial_value is None:
            raise self.uninitialised_error()
        return self.initial_value

    def assign(self, value: object, name: str | None = None) -> Node:
        """Return a node that writes `value` and gives it."""
        return assign(self, value, name)

    def assign_add(self, value: object, name: str | None = None) -> Node:
        """Return a node that adds `value` and gives the sum."""
        return assign_add(self, value, name)

    def assign_sub(self, value: object, name: str | None = None) -> Node:
        """Return a node that subtracts `value` and gives the difference."""
        return assign_sub(self, value, name)

    def eval(  # type: ignore[override]  # in the order that TensorFlow has for variables
        self, session: Any = None, feed_dict: Any = None
    ) -> Any:
        """Return the value in `session` or in the innermost session of a `with` block."""
        return super().eval(feed_dict, session)


def _initial(value: object, dtype: DTypeLike) -> Node | None:
    if value is None:
        return None
    value = value() if callable(value) and not isinstance(value, Node) else value
    node = convert(value, None if dtype is None else graph_dtype(dtype))
    if isinstance(node, Variable):
        raise GraphError(
            f"Variable: starts from variable {node.name!r}, which may have no value yet. "
            "Start from its initialized_value()."
        )
    if isinstance(node.shape, UnknownShape) or None in node.shape:
        raise GraphError(
            f"Variable: the shape of its initial value is not fixed: got {node.shape} from "
            f"{node.name!r}. Give every size."
        )
    return node


def _dtype(start: Node | None, dtype: DTypeLike) -> DType:
    if dtype is not None:
        return graph_dtype(dtype)
    return get_default_dtype() if start is None else start.dtype


# ── writing ─────────────────────────────────────────────────────────────────────────────────────


class Assign(StateOp):
    """Set a variable to the input, or to its sum or difference with the input."""

    def __init__(self, variable: Variable, combine: str = "") -> None:
        self.variable, self.combine = variable, combine
        self.writes = (variable,)

    @property
    def name(self) -> str:
        """assign, assign_add or assign_sub."""
        return f"assign_{self.combine}" if self.combine else "assign"

    def run(self, state: State, *arrays: Array) -> Array:
        """Write a new array; whoever holds the old one keeps it."""
        (value,) = arrays
        with state.lock:  # what a run of another thread adds meanwhile is not lost
            if self.combine:
                old = self.variable.value_in(state)
                new = fresh(old + value if self.combine == "add" else old - value)
            else:
                new = fresh(value)
            _fit(self.variable, new)
            state.values[self.variable] = new
        return new

    def run_in_place(self, state: State, *arrays: Array) -> Array:
        """Overwrite the variable's own array."""
        if not self.combine or self.variable not in state.values:
            return self.run(state, *arrays)
        with state.lock:
            new = self.variable.value_in(state)
            if self.combine == "add":
                new += arrays[0]
            else:
                new -= arrays[0]
        return new

    def infer(self, *specs: Spec) -> Spec:
        shape = self.variable.shape
        return Spec(specs[0].shape if isinstance(shape, UnknownShape) else shape, specs[0].dtype)


def fresh(array: Array) -> Array:
    """Return a copy of `array` in memory of its own; of a NumPy scalar, a 0-d array."""
    return np.array(array) if isinstance(array, np.ndarray | np.generic) else array.clone()


def _fit(variable: Variable, array: Array) -> None:
    """Raise unless `array` has a shape that the variable can have."""
    if not agree(array.shape, variable.shape):
        got, want = tuple(array.shape), tuple(variable.shape)
        raise GraphError(  # the write that fails is named by whoever runs it
            f"assign: shape differs: got {got}, expected {want}, that of variable "
            f"{variable.name!r} (built at {variable.location})."
        )


def assign(ref: Variable, value: object, name: str | None = None) -> Node:
    """Return a node that writes `value` into the variable and gives it."""
    return _write(ref, value, "", name)


def assign_add(ref: Variable, value: object, name: str | None = None) -> Node:
    """Return a node that adds `value` to the variable and gives the sum."""
    return _write(ref, value, "add", name)


def assign_sub(ref: Variable, value: object, name: str | None = None) -> Node:
    """Return a node that subtracts `value` from the variable and gives the difference."""
    return _write(ref, value, "sub", name)


def _write(ref: Variable, value: object, combine: str, name: str | None) -> Node:
    verb = f"assign_{combine}" if combine else "assign"
    if not isinstance(ref, Variable):
        raise GraphError(
            f"{verb}: got {ref!r}, expected a Variable. Only variables can be written (asked for "
            f"at {':'.join(map(str, call_site()))})."
        )
    node = convert(value, ref.dtype)
    if node.dtype != ref.dtype:
        raise ref.error(
            f"{verb}: dtype differs: got {node.dtype} for variable {ref.name!r} of {ref.dtype}. "
            "Cast the value."
        )
    if not isinstance(node.shape, UnknownShape) and not isinstance(ref.shape, UnknownShape):
        got, want = tuple(node.shape), tuple(ref.shape)
        if not agree(got, want) and not (combine and len(got) <= len(want)):
            raise ref.error(
                f"{verb}: shape differs: got {got} for variable {ref.name!r} of shape {want}."
            )
    return rename(build(Assign(ref, combine), (node,)), name)


# ── order without values ────────────────────────────────────────────────────────────────────────


class NoOp(FixedSpec, StateOp):
    """Compute nothing: a node to run others before it. Fetching it gives None."""

    dtype = as_dtype(bool)
    ordered = False

    def run(self, state: State, *arrays: Array) -> Any:
        return None


def no_op(name: str | None = None) -> Node:
    """Return a node that does nothing."""
    return rename(build(NoOp(), ()), name)


def group(*inputs: Node | Sequence[Node], name: str | None = None) -> Node:
    """Return a node that runs all of `inputs` and gives None."""
    flat: list[Node] = []
    for value in inputs:
        flat += [value] if isinstance(value, Node) else value
    with control_dependencies(flat):
        return no_op(name)


def global_variables() -> list[Variable]:
    """Return the variables of the default graph."""
    return get_default_graph().variables


def trainable_variables() -> list[Variable]:
    """Return the variables that optimizers update."""
    return [v for v in global_variables() if v.trainable]


def initialize_variables(var_list: Iterable[Variable]) -> Node:
    """Return a node that sets each of these variables to its initial value."""
    starts = [v.initializer for v in var_list if v.initializer is not None]
    with control_dependencies(None):
        return group(*starts)


def initialize_all_variables() -> Node:
    """Return a node that sets every variable built so far to its initial value."""
    return initialize_variables(global_variables())


all_variables = global_variables
global_variables_initializer = initialize_all_variables
variables_initializer = initialize_variables
