"""Branches: Switch sends a value one way, Merge takes the one that comes, `cond` is made of both.

A value that was not sent is dead. Whatever uses a dead value, or runs after one, is dead as well
and is not computed; Merge alone lives as soon as one of its inputs does. Fetching a dead value is
an error.

Source: Abadi et al., TensorFlow: A System for Large-Scale Machine Learning, OSDI 2016, section 3.4;
Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ...arrays.library import Namespace, as_dtype, int32
from ...errors import GraphError
from ...op import FixedSpec, Flat, Gradients, KeepsSpec, Op, Spec
from ...ops.elementwise.logic import eq
from ...ops.elementwise.unary import zeros_like
from ..core.gradients import Identity
from ..core.graph import control_dependencies, get_default_graph, in_branches
from ..core.naming import locates_errors, rename
from ..core.node import Node, build, convert
from ..core.structures import flatten_with_rebuild, outline
from ..core.variables import NoOp
from ..shapes.deferred import as_scalar
from .loop_stacks import DEAD, HandleNode, empty, kind_of


class Routing(Op):
    """Base of what decides which values live: no pass may compute it once, or what follows it."""

    pure = False
    ordered = False
    reads_inputs = reads_output = False


class Switch(KeepsSpec, Routing):
    """The first input where the second, a boolean, is `branch`; dead otherwise."""

    may_kill = True

    def __init__(self, branch: bool) -> None:
        self.branch = branch

    def compute(self, xp: Namespace, *arrays: Any) -> Any:
        data, pred = arrays
        return data if bool(pred) is self.branch else DEAD

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """The gradient from this branch, or zeros when the value went the other way."""
        data, pred = node.inputs
        zeros = empty() if isinstance(data, HandleNode) else zeros_like(data)
        other = build(Switch(not self.branch), (zeros, pred), kind=kind_of(data))
        return build(Merge(), (other, out_grad), kind=type(out_grad)), None


class Merge(Routing):
    """The input that is alive; of several the first, of none dead."""

    merges = True

    def compute(self, xp: Namespace, *arrays: Any) -> Any:
        return next((a for a in arrays if a is not DEAD), DEAD)

    def infer(self, *specs: Spec) -> Spec:
        """Return what all inputs have in common; sizes in which they differ are unknown."""
        first = specs[0]
        for spec in specs[1:]:
            if spec.dtype != first.dtype or len(spec.shape) != len(first.shape):
                raise GraphError(
                    f"merge: inputs differ: got {first.dtype} {first.shape} and {spec.dtype} "
                    f"{spec.shape}, expected one dtype and equally many axes. Cast or reshape one."
                )
            sizes = (a if a == b else None for a, b in zip(first.shape, spec.shape, strict=True))
            first = Spec(tuple(sizes), first.dtype)
        return first

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        which = build(MergeIndex(), node.inputs)
        kind = kind_of(out_grad)
        sides = range(len(node.inputs))
        return tuple(build(Switch(True), (out_grad, eq(which, i)), kind=kind) for i in sides)


class MergeIndex(Flat, FixedSpec, Routing):
    """The place of the input that Merge takes."""

    dtype = int32
    merges = True

    def compute(self, xp: Namespace, *arrays: Any) -> Any:
        place = next((i for i, a in enumerate(arrays) if a is not DEAD), None)
        return DEAD if place is None else xp.asarray(place, dtype=xp.int32)


def switch(data: object, pred: object, name: str | None = None) -> tuple[Node, Node]:
    """Return (output_false, output_true): `data` where `pred` says, dead on the other side."""
    value, condition = convert(data), as_predicate("switch", pred)
    sides = [build(Switch(branch), (value, condition)) for branch in (False, True)]
    return rename(sides[0], name), sides[1]


def merge(inputs: Sequence[object], name: str | None = None) -> tuple[Node, Node]:
    """Return (output, index): the input that is alive, and its place among the inputs."""
    values = [convert(value) for value in inputs]
    if not values:
        raise GraphError("merge: got no input, expected one or more.")
    return rename(build(Merge(), values), name), build(MergeIndex(), values)


def as_predicate(where: str, pred: object) -> Node:
    """Return `pred` as a node that is one boolean."""
    node = as_scalar(convert(pred))
    shape = tuple(node.shape)
    if node.dtype != as_dtype(bool) or shape != ():
        raise node.error(
            f"{where}: got a predicate {node.name!r} of {node.dtype} {shape}, expected one "
            "boolean. Compare, or reduce_all."
        )
    return node  # type: ignore[no-any-return]


# ── cond ────────────────────────────────────────────────────────────────────────────────────────


class Branch:
    """One side of a `cond` while it is being built: what comes from outside passes a Switch."""

    def __init__(self, pred: Node, side: bool) -> None:
        self.pred, self.side = pred, side
        self.inside: set[Node] = set()
        self.switched: dict[Node, Node] = {}
        self.pivot = self._send(pred)

    def bring(self, node: Node) -> Node:
        """Return `node` as the branch sees it."""
        if node in self.inside:
            return node
        if node not in self.switched:
            self.switched[node] = self._send(node)
        return self.switched[node]

    def _send(self, node: Node) -> Node:
        outer = get_default_graph().branches
        with in_branches(outer[: outer.index(self)] if self in outer else outer):
            return build(Switch(self.side), (node, self.pred), kind=kind_of(node))


@locates_errors
def cond(
    pred: object,
    true_fn: Callable[[], object] | None = None,
    false_fn: Callable[[], object] | None = None,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """Return what `true_fn` builds where `pred` holds, else what `false_fn` builds.

    Both functions are called now, to build; at run time only one side is computed. They return a
    node, or lists, tuples and dicts of nodes of the same structure. An operation that has no value,
    such as `group` or `minimize`, is run, and stands for the side that was taken.

    Args:
        strict: keep a list or tuple of one as it is, instead of the one.
    Raises:
        GraphError: the predicate is not one boolean, or the sides differ in structure or type.
    """
    sides = two_functions(true_fn, false_fn)
    condition = as_predicate("cond", pred)
    yes = _Side(condition, sides[0], True)  # first, as TensorFlow's programs expect
    no = _Side(condition, sides[1], False)
    if no.outline != yes.outline:
        raise GraphError(
            f"cond: the sides differ in structure: true_fn gives {yes.outline}, false_fn "
            f"{no.outline}. Return as many values from both, in the same lists or dicts."
        )
    pairs = zip(no.outputs, yes.outputs, strict=True)
    merged = [rename(build(Merge(), (a, b), kind=kind_of(a)), name) for a, b in pairs]
    return unpack_single(yes.rebuild(merged), strict)


def two_functions(*sides: Any) -> list[Callable[[], Any]]:
    """Return both; raise TypeError where one is no function."""
    for fn in sides:
        if not callable(fn):
            raise TypeError(
                f"cond: got {type(fn).__name__}, expected two functions that build the sides. "
                "Write lambda: value."
            )
    return list(sides)


def unpack_single(values: Any, strict: bool) -> Any:
    """Return the one value of a list or tuple of one, unless `strict`."""
    is_one = isinstance(values, list | tuple) and len(values) == 1
    return values[0] if is_one and not strict else values


class _Side:
    """What one function of a `cond` builds inside its branch.

    Attributes:
        outputs: the nodes that it gives.
        outline: their structure in words.
        rebuild: puts others in their places.
    """

    def __init__(self, pred: Node, fn: Callable[[], object], side: bool) -> None:
        graph = get_default_graph()
        branch = Branch(pred, side)
        graph.branches = [*graph.branches, branch]
        graph.pivots.add(branch.pivot.id)
        graph.control.append((*graph.control[-1], branch.pivot))
        try:
            result = fn()
            self.outline = outline(result, listed=True)
            leaves, self.rebuild = flatten_with_rebuild(result, listed=True)
            self.outputs = [_pass_on(node, branch.pivot) for node in leaves]
        finally:
            graph.control.pop()
            graph.branches = graph.branches[:-1]


def _pass_on(node: Node, pivot: Node) -> Node:
    """Return what a branch gives for `node`: its value, or the pivot after an operation."""
    if not isinstance(node.op, NoOp):
        return build(Identity(), (node,), kind=kind_of(node))
    with control_dependencies([node]):
        return build(Identity(), (pivot,))
