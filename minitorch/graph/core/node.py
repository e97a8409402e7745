"""Node: the symbolic value. It remembers an operator and its inputs; a session computes it.

Nodes are made by the operators themselves (`apply` calls `Node._apply`), by `placeholder`,
`constant` and `Variable`. Each knows its static shape and dtype, the nodes that must run before
it, and the line of the user's program that built it, which is what errors name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from ...arrays.library import DType, DTypeLike, cast, get_default_dtype
from ...arrays.shapes import Shape
from ...errors import GraphError, GraphTypeError, MinitorchError
from ...op import Op, Spec, Value, common_dtype
from ...ops.elementwise.casting import cast_to
from ...ops.elementwise.logic import eq, ne
from ...ops.elementwise.rows import operator_of
from ...ops.methods import Methods
from ...ops.products import linalg
from ...ops.shaping.joining import stack
from ..shapes.deferred import cut, defer, is_cut
from ..shapes.static import UNKNOWN as UNKNOWN
from ..shapes.static import StaticShape as StaticShape
from ..shapes.static import UnknownShape as UnknownShape
from ..shapes.static import as_static
from .constants import constant_array, fill_shape
from .graph import Graph, add_location, call_site, get_default_graph, innermost_session

if TYPE_CHECKING:
    from .fetches import Feeds
    from .session import Session

_ids = count()
EQ, NE = operator_of(eq), operator_of(ne)


def fresh_id() -> int:
    """Return a number higher than that of every node built so far."""
    return next(_ids)


class Node(Methods):
    """One value of a dataflow graph, and how it is computed.

    Attributes:
        op: the operator; None for a placeholder, a constant or a variable.
        inputs: the nodes it is computed from.
        shape, dtype: known before the run; sizes may be None.
        name: unique in its graph.
        control_inputs: nodes that run before it though it does not use their values.
        wants: for each input, whether the sweep in progress asks for its gradient.
        device: where it is to run, as `device("...")` said; None to leave it open.
        built_at: (file, line) of the user's code.
    """

    graph: Graph
    name: str
    control_inputs: tuple[Node, ...]
    device: str | None
    built_at: tuple[str, int]
    wants: tuple[bool, ...]

    __slots__ = (
        "__weakref__", "built_at", "control_inputs", "device", "dtype", "graph", "id", "inputs",
        "name", "op", "shape", "wants",
    )  # fmt: skip

    hooks = None  # the sweep asks every kind of value
    kept: ClassVar[tuple[str, ...]] = ()  # what else a copy over other inputs has

    def __init__(
        self,
        op: Op | None,
        inputs: tuple[Node, ...],
        shape: Shape,
        dtype: DType,
        name: str,
        graph: Graph | None = None,
    ) -> None:
        self.op = op
        self.inputs = inputs
        self.shape = shape if isinstance(shape, UnknownShape) else StaticShape(shape)
        self.dtype = dtype
        self.id = fresh_id()
        self.wants = (True,) * len(inputs)
        (graph or get_default_graph()).receive(self, name)

    __hash__ = object.__hash__  # `==` is elementwise, as the other comparisons are

    def with_inputs(self, inputs: tuple[Node, ...], control: tuple[Node, ...]) -> Node:
        """Return the same node over other inputs: operator, name and line stay."""
        copy = object.__new__(type(self))
        copy.op, copy.inputs, copy.control_inputs = self.op, inputs, control
        copy.shape, copy.dtype = self.shape, self.dtype
        copy.graph, copy.name, copy.built_at = self.graph, self.name, self.built_at
        copy.device = self.device
        copy.id, copy.wants = fresh_id(), (True,) * len(inputs)
        for name in self.kept:
            setattr(copy, name, getattr(self, name))
        return copy

    def _apply(self, op: Op, inputs: tuple[object, ...]) -> Node:
        return build(op, inputs)

    def __matmul__(self, other: object) -> Any:
        return defer(linalg.matmul, *convert_all(self, other))

    def __rmatmul__(self, other: object) -> Any:
        return defer(linalg.matmul, *convert_all(other, self))

    def __getitem__(self, index: Any) -> Any:
        items = index if isinstance(index, tuple) else (index,)
        return cut(self, items) if any(map(is_cut, items)) else super().__getitem__(index)

    def get_shape(self) -> StaticShape:
        """Return the static shape: `x.get_shape().as_list()`, `x.get_shape()[1].value`."""
        return self.shape  # type: ignore[no-any-return]

    @property
    def location(self) -> str:
        """`file:line` of the user's code that built this node."""
        return f"{self.built_at[0]}:{self.built_at[1]}"

    def error(self, message: str) -> GraphError:
        """Return an error that also names this node, and the line that built it."""
        return add_location(GraphError(message), self.built_at, self.name)

    def eval(self, feed_dict: Feeds | None = None, session: Session | None = None) -> Any:
        """Return the value, run in `session` or in the innermost session of a `with` block."""
        by = session or innermost_session(f"eval of {self.name!r}")
        return by.run(self, feed_dict)

    def run(self, feed_dict: Feeds | None = None, session: Session | None = None) -> None:
        """Run this node, for its effect, in `session` or in the innermost session's."""
        self.eval(feed_dict=feed_dict, session=session)

    def _refuse(self, what: str, instead: str) -> NoReturn:
        raise GraphTypeError(
            f"{self.name}: {what}: a node has no value until a session runs it (built at "
            f"{self.location}). {instead}"
        )

    def __eq__(self, other: object) -> Any:
        return self._compare(Methods.__eq__, other)

    def __ne__(self, other: object) -> Any:
        return self._compare(Methods.__ne__, other)

    def _compare(self, compare: Callable[[Any, Any], Any], other: object) -> Any:
        try:
            return compare(self, other)
        except MinitorchError:  # two nodes that cannot be compared are not the same one
            if isinstance(other, Node):
                return NotImplemented
            raise

    def __bool__(self) -> bool:
        by_number = any(getattr(source, "follows", False) for source in self.inputs)
        if by_number or (self.op is not EQ and self.op is not NE):
            self._refuse("used as True or False", "Use graph.cond, or run it first.")
        # `variable in variables`: Python asks whether they are the same
        return (self.inputs[0] is self.inputs[1]) is (self.op is EQ)

    def __iter__(self) -> Iterator[Node]:
        if isinstance(self.shape, UnknownShape) or not self.shape or self.shape[0] is None:
            self._refuse("iterated over", "Its first size is not known; use graph.while_loop.")
        return iter([self[i] for i in range(self.shape[0])])

    def __float__(self) -> float:
        self._refuse("used as a number", "Call Session.run.")

    __int__ = __index__ = __float__

    def __array__(self, *_: object, **__: object) -> Any:
        self._refuse("used as an array", "Call Session.run.")

    def __repr__(self) -> str:
        kind = type(self).__name__ if self.op is None else self.op.name
        return f"<{kind} {self.name!r} shape={self.shape} dtype={self.dtype}>"


class Constant(Node):
    """A value fixed when the graph was built."""

    __slots__ = kept = ("follows", "value")

    def __init__(
        self,
        value: object,
        dtype: DTypeLike = None,
        shape: Any = None,
        name: str = "Const",
        graph: Graph | None = None,
    ) -> None:
        array = constant_array(value, dtype)
        if shape is not None:
            array = fill_shape(array, as_static(shape).as_list(), name)
        super().__init__(None, (), array.shape, array.dtype, name, graph)
        self.value = array
        self.follows = True


def as_shape(shape: object) -> Shape:
    """Return a shape as a tuple of sizes and Nones; None is an unknown number of axes."""
    sizes = as_static(shape)
    return sizes if isinstance(sizes, UnknownShape) else tuple(sizes)


def convert(value: object, dtype: DType | None = None, graph: Graph | None = None) -> Node:
    """Return `value` as a node: itself, or a constant in `graph`, the default one unless given."""
    if isinstance(value, Node):
        return value
    if isinstance(value, Value):
        as_node: Callable[[], Node] | None = getattr(value, "as_node", None)
        if as_node is not None:  # a tensor that is being traced
            return as_node()
        raise GraphError(
            f"graph: got a {type(value).__name__}, expected nodes, arrays or numbers. Feed it "
            "through a placeholder, or pass its .numpy() as a constant."
        )
    if value is None:
        raise GraphError(
            "graph: got None, expected a node, an array or a number. Check that the function "
            "returns what it builds."
        )
    if isinstance(value, list | tuple) and any(isinstance(v, Node) for v in value):
        return stack(convert_all(*value))
    return Constant(value, dtype, graph=graph)


def convert_all(*values: object) -> list[Node]:
    """Return the values as nodes; numbers and lists take the dtype of the nodes beside them.

    A number with a fraction beside integers keeps it, and the dtypes are promoted.
    """
    nodes = [convert(v) if isinstance(v, Value) else v for v in values]
    dtype = next((v.dtype for v in nodes if isinstance(v, Node)), None)

    def beside(value: object) -> Node:
        if isinstance(value, Node):
            return value
        node = convert(value)
        fits = dtype is not None and (dtype.kind == "f" or node.dtype.kind in "biu")
        return convert(value, dtype) if fits else node

    return [beside(v) for v in nodes]


def build(op: Op, inputs: Sequence[object], kind: type[Node] = Node) -> Node:
    """Return a new node for `op` of `inputs`, with its static shape and dtype.

    Args:
        kind: the class of the node; most are plain.
    Raises:
        ShapeError, DTypeError, ...: what `op.infer` raises, with the line that built the node.
    """
    graph = _graph_of(op, inputs)
    try:
        if op.promotes:
            nodes = _promote(op, inputs, graph)
        else:
            nodes = tuple([convert(value, None, graph) for value in inputs])
        if graph.control[-1] or graph.branches:
            nodes = _adapt_inputs(nodes, graph)
        if any(isinstance(n.shape, UnknownShape) for n in nodes):
            spec = Spec(UNKNOWN, _guess_dtype(op, nodes))
        else:
            spec = op.infer(*[Spec(tuple(n.shape), n.dtype) for n in nodes])
    except MinitorchError as error:
        raise add_location(error, graph.site or call_site()) from None
    return kind(op, nodes, spec.shape, spec.dtype, op.name, graph)


def _graph_of(op: Op, values: Sequence[object]) -> Graph:
    """Return the graph that `op` of these values belongs to: theirs, else the default one.

    What writes a variable belongs to the variable's.
    """
    first: Node | None = None
    for value in (*getattr(op, "writes", ()), *values):
        if not isinstance(value, Node) or getattr(value, "follows", False):
            continue
        if first is None:
            first = value
        elif first.graph is not value.graph:
            raise GraphError(
                f"{op.name}: nodes of two graphs: {first.name!r} (built at {first.location}, in "
                f"the graph made at {first.graph.location}) and {value.name!r} (built at "
                f"{value.location}, in the graph made at {value.graph.location}). Build both in "
                "one graph."
            )
    return get_default_graph() if first is None else first.graph


def _adapt_inputs(nodes: tuple[Node, ...], graph: Graph) -> tuple[Node, ...]:
    """Return the inputs as a node built now must have them: read in order, inside its branch."""
    with graph.as_default():
        nodes = tuple([n.read() if hasattr(n, "read") else n for n in nodes])
        for branch in graph.branches:
            nodes = tuple(map(branch.bring, nodes))
    return nodes


def _promote(op: Op, inputs: Sequence[object], graph: Graph) -> tuple[Node, ...]:
    """Return the inputs as nodes of one dtype: numbers and arrays follow the nodes beside them."""
    own, loose = inputs[: op.fixed], inputs[op.fixed :]
    dtype = getattr(loose[0], "dtype", None) if loose else None
    if dtype is None or any(getattr(value, "dtype", None) is not dtype for value in loose):
        operands = [_kind_for_promotion(value) for value in loose]
        dtype = common_dtype(op, operands)
    elif op.promotes == "float" and dtype.kind != "f":
        dtype = get_default_dtype()
    first = [convert(value, None, graph) for value in own]
    return (*first, *[_cast(value, dtype, graph) for value in loose])


def _kind_for_promotion(value: object) -> tuple[DType, int] | bool | int | float:
    """Return what promotion asks of an input: of a node its dtype and how many axes it has.

    Of what is no node a number of its kind: beside a node an array decides the kind, not the size.
    """
    if isinstance(value, Value) or value is None:
        node = convert(value)
        return node.dtype, 1 if isinstance(node.shape, UnknownShape) else len(node.shape)
    kind = np.asarray(value).dtype.kind
    return {"b": False, "i": 0, "u": 0}.get(kind, 0.0)


def _cast(value: object, dtype: DType, graph: Graph) -> Node:
    value = convert(value) if isinstance(value, Value) else value
    if not isinstance(value, Node):
        return Constant(np.asarray(value), dtype, graph=graph)
    if value.dtype == dtype:
        return value
    if isinstance(value, Constant):
        return Constant(cast(value.value, dtype), graph=graph)
    return cast_to(value, dtype)


def _guess_dtype(op: Op, nodes: Sequence[Node]) -> DType:
    """Return the dtype of a result whose shape cannot be inferred: that of scalars."""
    try:
        return op.infer(*[Spec((), n.dtype) for n in nodes]).dtype
    except MinitorchError:
        return nodes[0].dtype  # type: ignore[no-any-return]
