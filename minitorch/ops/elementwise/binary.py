"""Arithmetic on two elements: a table of rows, each with its derivative by either input.

`g` is the gradient of the result `y`; `a` and `b` are the inputs, broadcast against each other. The
rows undo the broadcast. A tie in `maximum` or `minimum` shares its gradient, as in torch.
"""

import operator
from collections.abc import Callable
from typing import Any, overload

import numpy as np

from ...arrays import allocator
from ...arrays.library import HOST_TYPES, Array, Namespace, as_dtype, bool_, dtype_of
from ...errors import ArgumentError, DTypeError
from ...op import Kind, Value, apply
from . import compiled
from .logic import eq
from .rows import NUMBERS, ROWS, Compute, Elementwise, Partial, binary
from .unary import log, minus, same, sigmoid, trunc, zero

SOME = 2**10  # bytes of each of two arrays that broadcast, from which on their result is large
LARGE = 2**17  # bytes of an array that another is repeated for by a kernel
SHARED = min(2**19, allocator.LARGE)  # bytes from which on threads share a call of NumPy's


def _share_large(ufunc: Callable[..., Array], plain: Callable[..., Array]) -> Callable[..., Array]:
    """Return a row's arithmetic: the sign itself, but for NumPy arrays that are or become large."""

    def compute(xp: Namespace, a: Array, b: Array) -> Array:
        if type(a) is np.ndarray:
            size, other = a.nbytes, b.nbytes
            repeats = size > LARGE or other > LARGE or size > SOME < other
            if size >= SHARED or other >= SHARED or (repeats and a.shape != b.shape):
                return compiled.call_on_threads(ufunc, a, b)
        return plain(a, b)

    return compute


def _float_row(
    name: str, compute: Compute, left: Partial, right: Partial, says: str, reads: str = "x"
) -> Callable[[Kind, object], Kind]:
    return binary(name, compute, left, right, says, promotes="float", reads=reads)


add = binary("add", _share_large(np.add, operator.add), same, same, "a + b.", reads="")
sub = binary(
    "sub",
    _share_large(np.subtract, operator.sub),
    same,
    minus,
    "a - b.",
    reads="",
    kinds=NUMBERS,
    promotes="numbers",
)
mul = binary(
    "mul",
    _share_large(np.multiply, operator.mul),
    lambda g, a, b, y: g * b,
    lambda g, a, b, y: g * a,
    "a · b.",
    reads="o",
)
true_divide = _float_row(
    "div",
    _share_large(np.true_divide, operator.truediv),
    lambda g, a, b, y: g / b,
    lambda g, a, b, y: -g * (a / b) / b,
    "a / b.",
    reads="d",
)


def _check_divisor(a: Array, b: Array) -> None:
    """Refuse integers over zero: NumPy gives 0, which is no quotient."""
    if type(b) in HOST_TYPES and dtype_of(a).kind in "iu" and not (b.all() if b.ndim else b):
        raise ArgumentError("division: an integer divided by zero. Convert with .float(), or mask.")


def _checked(name: str) -> Callable[..., Array]:
    """Return the arithmetic of the library's function of that name, which divides."""

    def compute(xp: Namespace, a: Array, b: Array) -> Array:
        _check_divisor(a, b)
        return compiled.pair(xp, name, getattr(xp, name), a, b)

    return compute


_divide_down = _checked("floor_divide")
floor_divide = binary("floor_divide", _divide_down, zero, zero, "⌊a / b⌋.", reads="", kinds=NUMBERS)


def _towards_zero(xp: Namespace, a: Array, b: Array) -> Array:
    """Return trunc(a / b): of integers exact, as an integer."""
    if as_dtype(a.dtype).kind == "f":
        return xp.trunc(a / b)
    below = _divide_down(xp, a, b)
    return xp.where((below < 0) & (below * b != a), below + 1, below)


trunc_divide = binary(
    "trunc_divide", _towards_zero, zero, zero, "trunc(a / b).", reads="", kinds=NUMBERS
)
remainder = binary(
    "remainder",
    _checked("remainder"),
    same,
    lambda g, a, b, y: -g * floor_divide(a, b),
    "a - b·⌊a / b⌋: the sign of b.",
    reads="d",
    kinds=NUMBERS,
)


fmod = binary(
    "fmod",
    _checked("fmod"),
    same,
    lambda g, a, b, y: -g * trunc(a / b),
    "a - b·trunc(a / b): the sign of a.",
    reads="d",
    kinds=NUMBERS,
)


def _by_base(g: Kind, a: Kind, b: Kind, y: object) -> Kind:
    return g * where(eq(b, 0), 0.0, b * power(a, where(eq(b, 0), 1.0, b - 1.0)))


def _by_exponent(g: Kind, a: Kind, b: Kind, y: Kind) -> Kind:
    flat = eq(a, 0) & (b >= 0)
    return g * where(flat, 0.0, y * log(where(flat, 1.0, a)))


def _raise_to(xp: Namespace, a: Array, b: Array) -> Array:
    """Return a to the b; of integers to negative powers what is left of the fraction: 0, 1, -1."""
    if dtype_of(a).kind != "i" or not xp.any(b < 0):
        return xp.pow(a, b)
    odd = xp.where(b % 2 == 1, a, a * a)
    return xp.where(b < 0, xp.where(abs(a) == 1, odd, a * 0), xp.pow(a, xp.where(b < 0, b * 0, b)))


power = binary("pow", _raise_to, _by_base, _by_exponent, "a to the b.", kinds=NUMBERS)


def _unless(g: Kind, loses: Any, ties: Any) -> Any:
    """Return the gradient of what does not lose, half of a tie's: NaN, which wins, loses never."""
    return where(loses, 0.0, where(ties, g * 0.5, g))


maximum = binary(
    "maximum",
    lambda xp, a, b: xp.maximum(a, b),
    lambda g, a, b, y: _unless(g, a < b, a == b),
    lambda g, a, b, y: _unless(g, b < a, a == b),
    "The larger; a tie shares the gradient.",
    reads="x",
)
minimum = binary(
    "minimum",
    lambda xp, a, b: xp.minimum(a, b),
    lambda g, a, b, y: _unless(g, a > b, a == b),
    lambda g, a, b, y: _unless(g, b > a, a == b),
    "The smaller; a tie shares the gradient.",
    reads="x",
)
at_least = binary(
    "clamp_min",
    lambda xp, a, b: xp.maximum(a, b),
    lambda g, a, b, y: where(a >= b, g, 0.0),
    lambda g, a, b, y: where(a < b, g, 0.0),
    "The larger; a tie is the left one's, and NaN gets no gradient.",
    reads="x",
)
at_most = binary(
    "clamp_max",
    lambda xp, a, b: xp.minimum(a, b),
    lambda g, a, b, y: where(a <= b, g, 0.0),
    lambda g, a, b, y: where(a > b, g, 0.0),
    "The smaller; a tie is the left one's, and NaN gets no gradient.",
    reads="x",
)


xlogy = _float_row(
    "xlogy",
    lambda xp, a, b: xp.where((a == 0) & ~xp.isnan(b), a * 0, a * xp.log(b)),
    lambda g, a, b, y: g * where((a == 0) & (b <= 0), 0.0, log(b)),
    lambda g, a, b, y: g * a / b,
    "a·ln b, and 0 where a is 0.",
)
logaddexp_row = _float_row(
    "logaddexp",
    lambda xp, a, b: xp.logaddexp(a, b),
    lambda g, a, b, y: g * sigmoid(a - b),
    lambda g, a, b, y: g * sigmoid(b - a),
    "ln(exp a + exp b).",
)

# ── choosing ────────────────────────────────────────────────────────────────────────────────────

_WHERE = ROWS["where"] = Elementwise(
    "where",
    lambda xp, c, a, b: compiled.where(c, a, b) if xp is np else xp.where(c, a, b),
    (
        lambda g, c, a, b, y: None,
        lambda g, c, a, b, y: where(c, g, 0.0),
        lambda g, c, a, b, y: where(c, 0.0, g),
    ),
    reads="x",
    fixed=1,
)
_WHERE.reads_indices = True


@overload
def where(condition: Kind) -> tuple[Kind, ...]: ...


@overload
def where(condition: Kind, input: object, other: object) -> Kind: ...


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """Return `input` where `condition` holds, else `other`; alone, the indices where it holds.

    Raises:
        DTypeError: the condition is not boolean.
    """
    if input is None and other is None:
        from ..shaping.indexing import nonzero

        return nonzero(condition, as_tuple=True)
    kind = getattr(condition, "dtype", None)
    if kind is not bool_ and not isinstance(condition, bool) and not str(kind).endswith("bool"):
        raise DTypeError(
            f"where: the condition has dtype {kind}, expected bool. Compare: where(x > 0, ...)."
        )
    if isinstance(input, Value) or isinstance(other, Value) or isinstance(condition, Value):
        return apply(_WHERE, condition, input, other)
    if not hasattr(input, "dtype") and not hasattr(other, "dtype"):
        return np.where(condition, input, other)
    return apply(_WHERE, condition, input, other)
