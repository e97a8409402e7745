"""Elementwise functions under TensorFlow's names: a table, name by name, of the operators below."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import GraphError
from ...exports import own_names
from ...op import apply
from ...ops.elementwise import activation, binary, logic, pointwise
from ...ops.elementwise import unary as unary
from ...ops.elementwise.rows import ROWS, Binary, name_after_row
from ...ops.shaping.joining import stack
from ...ops.shaping.movement import insert_axes
from ..core.naming import locates_errors, rename
from ..core.node import Node, UnknownShape, build, convert, convert_all


def _of_one(row: Callable[..., Node], name: str) -> Callable[..., Node]:
    op = row.op  # type: ignore[attr-defined]  # what the row's function applies

    def call(x: object, name: str | None = None) -> Node:
        result = build(op, (x if isinstance(x, Node) else convert(x),))
        return result if name is None else rename(result, name)

    return _document(call, row, name)


def _of_two(row: Callable[..., Node], name: str) -> Callable[..., Node]:
    op = row.op  # type: ignore[attr-defined]

    def call(x: object, y: object, name: str | None = None) -> Node:
        first = x if isinstance(x, Node) or isinstance(y, Node) else convert(x)
        result = build(op, (first, y))
        return result if name is None else rename(result, name)

    return _document(call, row, name)


def _document(call: Any, function: Any, name: str) -> Callable[..., Node]:
    call.__name__ = call.__qualname__ = name
    call.__doc__ = function.__doc__
    return call  # type: ignore[no-any-return]


def _taking_ties(name: str, wins: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return the row called `name` with TensorFlow's gradient: of a tie the first gets all."""
    row = ROWS[name]
    op = Binary(
        name,
        row.compute,
        (lambda g, a, b, y: g * wins(a, b), lambda g, a, b, y: g * ~wins(a, b)),
        reads="x",
    )
    return name_after_row(lambda x, y: apply(op, x, y), name, f"{row.name} of two.", op)


abs = _of_one(unary.abs, "abs")
ceil = _of_one(unary.ceil, "ceil")
cos = _of_one(unary.cos, "cos")
erf = _of_one(unary.erf, "erf")
exp = _of_one(unary.exp, "exp")
expm1 = _of_one(unary.expm1, "expm1")
floor = _of_one(unary.floor, "floor")
is_finite = _of_one(logic.isfinite, "is_finite")
is_inf = _of_one(logic.isinf, "is_inf")
is_nan = _of_one(logic.isnan, "is_nan")
log = _of_one(unary.log, "log")
log1p = _of_one(unary.log1p, "log1p")
logical_not = _of_one(logic.logical_not, "logical_not")
neg = negative = _of_one(unary.neg, "negative")
reciprocal = _of_one(unary.reciprocal, "reciprocal")
round = _of_one(unary.rint, "round")
rsqrt = _of_one(unary.rsqrt, "rsqrt")
sigmoid = _of_one(unary.sigmoid, "sigmoid")
sign = _of_one(unary.sign, "sign")
sin = _of_one(unary.sin, "sin")
sqrt = _of_one(unary.sqrt, "sqrt")
square = _of_one(unary.square, "square")
tan = _of_one(unary.tan, "tan")
tanh = _of_one(unary.tanh, "tanh")

add = _of_two(binary.add, "add")
divide = truediv = _of_two(binary.true_divide, "divide")
equal = _of_two(logic.eq, "equal")
floordiv = _of_two(binary.floor_divide, "floordiv")
greater = _of_two(logic.gt, "greater")
greater_equal = _of_two(logic.ge, "greater_equal")
less = _of_two(logic.lt, "less")
less_equal = _of_two(logic.le, "less_equal")
logical_and = _of_two(logic.logical_and, "logical_and")
logical_or = _of_two(logic.logical_or, "logical_or")
logical_xor = _of_two(logic.logical_xor, "logical_xor")
maximum = _of_two(_taking_ties("maximum", logic.ge), "maximum")
minimum = _of_two(_taking_ties("minimum", logic.le), "minimum")
mod = floormod = _of_two(binary.remainder, "mod")
mul = multiply = _of_two(binary.mul, "multiply")
not_equal = _of_two(logic.ne, "not_equal")
sub = subtract = _of_two(binary.sub, "subtract")


def log_sigmoid(x: object, name: str | None = None) -> Node:
    """Return ln sigmoid(x)."""
    return rename(activation.logsigmoid(convert(x)), name)


def pow(x: Any, y: object, name: str | None = None) -> Node:
    """Raise `x` to the power `y`, element by element."""
    base = x if isinstance(y, Node) else convert(x)
    return rename(pointwise.pow(base, y), name)


@locates_errors
def squared_difference(x: object, y: object, name: str | None = None) -> Node:
    """(x - y)^2."""
    return rename(unary.square(sub(x, y)), name)


@locates_errors
def clip_by_value(
    t: object, clip_value_min: object, clip_value_max: object, name: str | None = None
) -> Node:
    """`t` cut to the range."""
    return minimum(maximum(convert(t), clip_value_min), clip_value_max, name=name)


@locates_errors
def div(x: object, y: object, name: str | None = None) -> Node:
    """x / y as Python 2 has it: of integers the floor of the quotient."""
    left, right = convert_all(x, y)
    whole = left.dtype.kind in "iu" and right.dtype.kind in "iu"
    return floordiv(left, right, name) if whole else divide(left, right, name)


@locates_errors
def where(condition: object, x: object = None, y: object = None, name: str | None = None) -> Node:
    """Elements of `x` where the condition holds, of `y` elsewhere.

    A condition of one axis chooses whole rows, where there are as many as it is long. Without
    `x` and `y`: the places where the condition holds, a row of int64 each.
    """
    if (x is None) != (y is None):
        raise GraphError("where: got one of x and y, expected both or neither.")
    if x is None:
        return rename(stack(binary.where(convert(condition)), 1), name)
    yes, no = convert_all(x, y)
    return rename(binary.where(_by_row(convert(condition), yes), yes, no), name)


def _by_row(condition: Node, x: Node) -> Node:
    """Return a condition of one axis with an axis of size 1 for each further one of `x`."""
    if isinstance(condition.shape, UnknownShape) or isinstance(x.shape, UnknownShape):
        return condition
    rows = condition.shape[0] if len(condition.shape) == 1 else 0
    if len(condition.shape) != 1 or len(x.shape) < 2 or rows not in (None, x.shape[0]):
        return condition
    return insert_axes(condition, tuple(range(1, len(x.shape))))


select = where


@locates_errors
def add_n(inputs: object, name: str | None = None) -> Node:
    """The sum of nodes of one shape.

    Raises:
        GraphError: there is none.
    """
    if not isinstance(inputs, list | tuple) or not inputs:
        raise GraphError(f"add_n: got {inputs!r}, expected a list of one node or more.")
    total, *others = convert_all(*inputs)
    for value in others:
        total = total + value
    return rename(total, name) if len(inputs) > 1 else total


if not TYPE_CHECKING:
    __all__ = own_names(globals())
