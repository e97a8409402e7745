"""Arithmetic made of rows, or with a parameter: powers, clamps, blends."""

import builtins
import math
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace, as_dtype, bool_, finfo, int64
from ...errors import ArgumentError
from ...op import Gradients, KeepsSpec, Kind, Methods, Spec, Value, apply
from . import compiled
from .binary import add as add_row
from .binary import at_least, at_most, floor_divide, power, true_divide, trunc_divide, where
from .binary import sub as sub_row
from .casting import cast_to, clone
from .formulas import Formula, at_once
from .logic import eq, isfinite, isnan
from .rows import binary, promoted_dtype
from .unary import abs, ones_like, positive, rint, zeros_like
from .unary import square as squared

PRODUCTS = (3, 4, -2)
"""Exponents that are a few multiplications."""


class Power(KeepsSpec):
    """x to a power that is a Python number."""

    on_arrays = True
    reads_output = False
    name = "pow"

    def __init__(self, exponent: int | float) -> None:
        self.exponent = exponent

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return x ** exponent; NumPy asks the C library for the powers of what is negative."""
        if self.exponent in PRODUCTS and compiled.fits(xp, x, least=compiled.FEW):
            steps = (("power", (0,), float(self.exponent)),)
            return compiled.in_order(compiled.kernel(x.dtype, 1, steps), (x,))
        return x**self.exponent

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return n·x^(n-1), which is 0 for n = 0 even at x = 0."""
        x, n = node.inputs[0], self.exponent
        if n == 0:
            return (zeros_like(x),)
        if n == 1:
            return (out_grad,)
        return (out_grad * (x * 2.0 if n == 2 else pow(x, n - 1) * float(n)),)


def pow(input: Kind, exponent: object) -> Kind:
    """Return `input` to the power `exponent`, a number or a value that broadcasts.

    Raises:
        ArgumentError: an integer to a negative power, which is no integer.
    """
    if isinstance(exponent, bool):
        return clone(input) if exponent else ones_like(input)
    exponent = exponent.item() if isinstance(exponent, np.generic) else exponent
    if not isinstance(exponent, int | float):
        return power(input, exponent)
    if not isinstance(input, Value) and not hasattr(input, "dtype"):
        return power(input, exponent)
    floating = "float" in str(input.dtype)
    if not floating and isinstance(exponent, float):
        return power(input, exponent)
    if not floating and exponent < 0:
        raise ArgumentError(
            f"pow: integers to a negative power: got exponent {exponent} for {input.dtype}, "
            "expected 0 or more. Convert with .float() first."
        )
    return apply(
        Power(exponent), cast_to(input, int64) if as_dtype(input.dtype) is bool_ else input
    )


def _by_height(g: Kind, a: Kind, b: Kind) -> Kind:
    """Return g·b / (a² + b²), of the origin, which has no angle, 0."""
    squares = a * a + b * b
    return g * (b * where(eq(squares, 0.0), 0.0, 1.0 / squares))


atan2 = binary(
    "atan2",
    lambda xp, a, b: compiled.pair(xp, "atan2", xp.atan2, a, b),
    lambda g, a, b, y: at_once(_by_height, (g, a, b)),
    lambda g, a, b, y: at_once(_by_height, (-g, b, a)),
    "The angle of the point (b, a).",
    promotes="float",
    reads="x",
)


def square(x: Kind) -> Kind:
    """Return x²; of bools as int64."""
    return squared(cast_to(x, int64) if as_dtype(x.dtype) is bool_ else x)


def add(input: Kind, other: Kind, *, alpha: object = 1) -> Kind:
    """Return a + alpha·b."""
    return add_row(input, other if alpha == 1 else _scale(input, other, alpha))


def sub(input: Kind, other: Kind, *, alpha: object = 1) -> Kind:
    """Return a - alpha·b."""
    return sub_row(input, other if alpha == 1 else _scale(input, other, alpha))


def _scale(a: Kind, b: Kind, alpha: object) -> Kind:
    """Return alpha·b in the dtype of the sum, in which it may fit where it does not in its own."""
    if hasattr(a, "dtype") and hasattr(b, "dtype"):
        specs = [Spec(tuple(v.shape), as_dtype(v.dtype)) for v in (a, b)]
        b = cast_to(b, promoted_dtype(tuple(specs), "common"))
    return b * alpha


def div(input: Kind, other: object, *, rounding_mode: str | None = None) -> Kind:
    """Return a / b; rounded to "floor" or "trunc" when asked."""
    if rounding_mode is None:
        return true_divide(input, other)
    if rounding_mode == "floor":
        return floor_divide(input, other)
    if rounding_mode == "trunc":
        return trunc_divide(input, other)
    raise ArgumentError(
        f"div: got rounding_mode {rounding_mode!r}, expected None, 'floor' or 'trunc'."
    )


def clamp(input: Kind, min: Any = None, max: Any = None) -> Kind:
    """Return `input` with what is below `min` or above `max` replaced by it; numbers or values.

    Raises:
        ArgumentError: neither bound is given.
    """
    if min is None and max is None:
        raise ArgumentError("clamp: got neither min nor max, expected one of them at least.")
    if as_dtype(input.dtype).kind == "f" and _is_number(min) and _is_number(max):
        if min is None:
            return _CLAMP_MAX(input, numbers=(max,))
        if max is None:
            return _CLAMP_MIN(input, numbers=(min,))
        return _CLAMP(input, numbers=(min, max))
    low = input if min is None else at_least(input, min)
    return low if max is None else at_most(low, max)


def _is_number(bound: Any) -> bool:
    return bound is None or isinstance(bound, int | float)


_CLAMP_MIN = Formula("clamp_min", at_least, lambda g, x, low: where(x >= low, g, 0.0))
_CLAMP_MAX = Formula("clamp_max", at_most, lambda g, x, high: where(x <= high, g, 0.0))
_CLAMP = Formula(
    "clamp",
    lambda x, low, high: at_most(at_least(x, low), high),
    lambda g, x, low, high: where(x >= low, where(x <= high, g, 0.0), 0.0),
)


_LERP = Formula(
    "lerp",
    # which of weight 1 gives `end` exactly
    lambda a, b, w: b - (b - a) * (1 - w) if w >= 0.5 else a + (b - a) * w,
    lambda g, a, b, w: g * (1 - w),
    lambda g, a, b, w: g * w,
)
_ADDCMUL = Formula(
    "addcmul",
    lambda x, a, b, value: x + a * b * value,
    None,
    lambda g, x, a, b, value: g * b * value,
    lambda g, x, a, b, value: g * a * value,
)
_ADDCDIV = Formula(
    "addcdiv",
    lambda x, a, b, value: x + true_divide(a, b) * value,
    None,
    lambda g, x, a, b, value: true_divide(g, b) * value,
    lambda g, x, a, b, value: g * -(true_divide(true_divide(a, b), b)) * value,
)


def lerp(input: Kind, end: Kind, weight: Any) -> Kind:
    """Return start + weight·(end - start)."""
    if isinstance(weight, int | float):
        return _LERP(input, end, numbers=(weight,))
    blended: Kind = input + weight * (end - input)
    return blended


def addcmul(input: Kind, tensor1: Kind, tensor2: Kind, *, value: Any = 1) -> Kind:
    """Return input + value · tensor1 · tensor2."""
    if value == 1:
        return input + tensor1 * tensor2
    return _ADDCMUL(input, tensor1, tensor2, numbers=(value,))


def addcdiv(input: Kind, tensor1: Kind, tensor2: Kind, *, value: Any = 1) -> Kind:
    """Return input + value · tensor1 / tensor2."""
    return _ADDCDIV(input, tensor1, tensor2, numbers=(value,))


def clamp_min(x: Kind, min: object) -> Kind:
    """Return `x`, but at least `min`."""
    return clamp(x, min, None)


def clamp_max(x: Kind, max: object) -> Kind:
    """Return `x`, but at most `max`."""
    return clamp(x, None, max)


def round(x: Kind, *, decimals: int = 0) -> Kind:
    """Return `x` rounded to `decimals` places, halves to even."""
    if not decimals:
        return rint(x)
    scale = 10.0 ** builtins.abs(decimals)
    return rint(x * scale) / scale if decimals > 0 else rint(x / scale) * scale


def nan_to_num(
    x: Kind, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None
) -> Kind:
    """Return `x` with NaN and infinities replaced; by default by 0 and the largest numbers."""
    dtype = as_dtype(x.dtype)
    if dtype.kind != "f":
        return positive(x) if dtype.kind != "b" else x
    largest = finfo(dtype).max
    most, least = largest if posinf is None else posinf, -largest if neginf is None else neginf
    return _NAN_TO_NUM(x, numbers=(nan, most, least))


_NAN_TO_NUM = Formula(
    "nan_to_num",
    lambda x, nan, most, least: where(
        isnan(x), nan, where(eq(x, math.inf), most, where(eq(x, -math.inf), least, x))
    ),
    lambda g, x, *_: where(abs(x) < math.inf, g, 0.0),
)


def isclose(
    input: Kind, other: Kind, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Kind:
    """Return where |a - b| <= atol + rtol·|b|, and where infinities are equal."""
    if rtol < 0 or atol < 0:
        raise ArgumentError(f"isclose: got rtol {rtol} and atol {atol}, expected 0 or more.")
    if as_dtype(input.dtype).kind != "f":  # differences of bools and of unsigned are none
        input, other = cast_to(input, "float64"), cast_to(other, "float64")
    finite = isfinite(input) & isfinite(other)
    close = eq(input, other) | (finite & (abs(input - other) <= abs(other) * rtol + atol))
    return close | (isnan(input) & isnan(other)) if equal_nan else close


def allclose(
    input: Methods,
    other: Methods,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> bool:
    """Tell whether `isclose` holds everywhere."""
    return bool(isclose(input, other, rtol, atol, equal_nan).all())


def equal(input: Kind, other: Kind) -> bool:
    """Tell whether two values have the same shape and the same elements."""
    return tuple(input.shape) == tuple(other.shape) and bool((input == other).all())
