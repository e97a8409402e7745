"""Algebraic simplification, as a table: an operator's name on the left, what to try on the right.

A rule sees the inputs after their own rewriting and returns what stands for the result, which must
have the same shape and dtype; that is checked here, once, for all of them. Only rules that are
right for every number are in the table, infinities and NaN included: x * 0 is not 0. One liberty is
TensorFlow's own: x + 0 is x, though it would make 0.0 of -0.0. What is dropped for its shape must
not be what the result dies of.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from ...op import Op
from ...ops.elementwise import binary
from ...ops.elementwise import unary as elementwise
from ...ops.elementwise.rows import operator_of
from ...ops.reducing.reduction import Sum
from ...ops.shaping.movement import Permute, Reshape
from ..control.liveness import deadness_of, die_first
from ..core.node import Constant, Node, UnknownShape
from ..core.order import schedule
from ..memory.aliasing import SHAPED
from .placed import PlaceEach, sum_of_placed
from .rewrite import Rule, UntilSettled, rebuild, rewrite, simple

Simplify = Callable[..., Node | None]


def algebra(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches simplified until no rule applies any more."""
    return rewrite(fetches, UntilSettled(simplifying(fetches, fed)), fed)


def simplifying(fetches: Sequence[Node], fed: Collection[Node]) -> Rule:
    """Return a rule that makes nodes below `fetches` simpler as the table says."""
    order = schedule(fetches, fed)
    deadness, there, fed = deadness_of(order, fed), set(order), set(fed)
    rules_of: dict[Op, Sequence[Simplify]] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        op = node.op
        rules = rules_of.get(op)
        if rules is None:
            kind = op.name if op.name in RULES else type(op).__name__
            rules = rules_of[op] = RULES.get(kind, ())
        if not rules or not fed.isdisjoint(inputs):
            return None
        if isinstance(op, SHAPED) and not all(
            source in there and die_first(node.inputs[:1], source, deadness)
            for source in node.inputs[1:]
        ):
            return None
        for simplify in rules:
            simpler = simplify(node, *inputs)
            if simpler is not None and _same_type(simpler, node):
                return simpler
        return None

    return rule


def _same_type(other: Node, node: Node) -> bool:
    if other.dtype != node.dtype or isinstance(node.shape, UnknownShape):
        return False
    return not isinstance(other.shape, UnknownShape) and tuple(other.shape) == tuple(node.shape)


def _is(node: Node, number: float) -> bool:
    """Tell whether a node is a constant with this number everywhere."""
    if node.op is not None or not isinstance(node, Constant):
        return False
    value = node.value
    return 0 < value.size <= 4096 and value.item(0) == number and bool((value == number).all())


def _of(node: Node, name: str) -> tuple[Node, ...] | None:
    """Return the inputs of a node that is this operator and nothing more."""
    is_it = node.op is not None and node.op.name == name and simple(node)
    return node.inputs if is_it else None


def _add(a: Node, b: Node) -> Node:
    return rebuild(operator_of(binary.add), a, b)


def _sub(a: Node, b: Node) -> Node:
    return rebuild(operator_of(binary.sub), a, b)


def _mul(a: Node, b: Node) -> Node:
    return rebuild(operator_of(binary.mul), a, b)


def _neg(x: Node) -> Node:
    return rebuild(operator_of(elementwise.neg), x)


def _factors_meet(node: Node, a: Node, b: Node) -> Node | None:
    """(x * c) * d is x * (c * d) when both are constants and neither undoes the other.

    Two factors that both enlarge, or both reduce, overflow or vanish at the end if they do so in
    between; (x * 1e30) * 1e-30 may be infinite where x is not.
    """
    inner = _of(a, "mul")
    if not isinstance(b, Constant) or inner is None or not isinstance(inner[1], Constant):
        return None
    c, d = inner[1].value, b.value
    if c.size != 1 or d.size != 1:
        return None
    if node.dtype.kind == "f":
        with np.errstate(all="ignore"):
            size, (first, second) = np.abs(c * d).item(), (abs(c.item()), abs(d.item()))
        alike = first >= 1 <= second or first <= 1 >= second
        if not (alike and np.finfo(node.dtype).tiny <= size < np.inf):
            return None
    return _mul(inner[0], _mul(inner[1], b))


def _power(node: Node, x: Node, exponent: Node | None = None) -> Node | None:
    """x ** n, where n is part of the operator or an input beside x."""
    if exponent is None:
        is_one, is_two = node.op.exponent == 1, node.op.exponent == 2
    else:
        is_one, is_two = _is(exponent, 1.0), _is(exponent, 2.0)
    if is_one:
        return x
    return rebuild(operator_of(elementwise.square), x) if is_two else None


def _permute(node: Node, x: Node) -> Node | None:
    dims = node.op.dims
    if tuple(dims) == tuple(range(len(dims))):
        return x
    if simple(x) and isinstance(x.op, Permute):
        return rebuild(Permute(tuple(x.op.dims[d] for d in dims)), x.inputs[0])
    if simple(x) and isinstance(x.op, PlaceEach) and not x.op.order:
        return rebuild(
            Permute(dims), rebuild(PlaceEach(x.op.patterns, x.op.shape, dims), *x.inputs)
        )
    return None


def _reshape(node: Node, x: Node, *like: Node) -> Node | None:
    if like:
        return None
    if tuple(x.shape) == tuple(node.shape) and None not in x.shape:
        return x
    if simple(x) and isinstance(x.op, Reshape) and len(x.inputs) == 1:
        return rebuild(node.op, x.inputs[0])
    return None


def _drop_if_same_spec(node: Node, x: Node, *like: Node) -> Node | None:
    """Nothing to stretch, to sum, to convert: when the shapes are known and the same."""
    same = None not in x.shape and tuple(x.shape) == tuple(node.shape)
    if not same and like:  # the same node decides both shapes
        same = x is like[0]
    return x if same else None


def _over_leading_axes(node: Node, x: Node, *like: Node) -> Node | None:
    """A sum to the shape of the last axes is a plain sum over those before them."""
    lead = len(x.shape) - len(node.shape)
    if lead < 1 or None in node.shape or node.dtype.kind != "f":
        return None
    if tuple(x.shape[lead:]) != tuple(node.shape):
        return None
    return rebuild(Sum(tuple(range(lead)), False), x)


RULES: dict[str, Sequence[Simplify]] = {
    "add": [
        lambda node, a, b: a if _is(b, 0.0) else None,
        lambda node, a, b: b if _is(a, 0.0) else None,
        lambda node, a, b: _sub(a, i[0]) if (i := _of(b, "neg")) else None,
        lambda node, a, b: _sub(b, i[0]) if (i := _of(a, "neg")) else None,
        sum_of_placed,
    ],
    "sub": [
        lambda node, a, b: a if _is(b, 0.0) else None,
        lambda node, a, b: _add(a, i[0]) if (i := _of(b, "neg")) else None,
    ],
    "mul": [
        lambda node, a, b: a if _is(b, 1.0) else None,
        lambda node, a, b: b if _is(a, 1.0) else None,
        lambda node, a, b: _neg(a) if _is(b, -1.0) else None,
        lambda node, a, b: _neg(b) if _is(a, -1.0) else None,
        lambda node, a, b: (
            _mul(i[0], j[0]) if (i := _of(a, "neg")) and (j := _of(b, "neg")) else None
        ),
        _factors_meet,
    ],
    "div": [lambda node, a, b: a if _is(b, 1.0) else None],
    "neg": [lambda node, x: i[0] if (i := _of(x, "neg")) else None],
    "abs": [
        # an integer's square wraps, and may be negative
        lambda node, x: x if _of(x, "abs") or (x.dtype.kind == "f" and _of(x, "square")) else None,
        lambda node, x: (
            rebuild(node.op, i[0]) if x.dtype.kind != "u" and (i := _of(x, "neg")) else None
        ),
    ],
    "maximum": [lambda node, a, b: a if a is b else None],
    "minimum": [lambda node, a, b: a if a is b else None],
    "relu": [lambda node, x: x if _of(x, "relu") else None],
    "square": [
        lambda node, x: rebuild(node.op, i[0]) if (i := _of(x, "neg") or _of(x, "abs")) else None
    ],
    "pow": [_power],
    "Permute": [_permute],
    "Reshape": [_reshape],
    "ExpandTo": [_drop_if_same_spec],
    "SumTo": [_drop_if_same_spec, _over_leading_axes],
    "Cast": [_drop_if_same_spec],
    "Identity": [lambda node, x: x],
    "StopGradient": [lambda node, x: x],
}
