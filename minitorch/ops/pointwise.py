"""Arithmetic made of rows, or with a parameter: powers, clamps, blends."""

from typing import Any

from ..errors import ArgumentError
from ..op import Op, Spec, Value, apply
from .binary import add as add_row
from .binary import floor_divide, mul, power, true_divide, trunc_divide, where
from .binary import sub as sub_row
from .elementwise import zeros_like


class Power(Op):
    """x to a power that is a Python number."""

    on_arrays = True
    reads_output = False
    name = "pow"

    def __init__(self, exponent: int | float) -> None:
        self.exponent = exponent

    def compute(self, xp: Any, x: Any) -> Any:
        """Return x ** exponent."""
        return x**self.exponent

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of x."""
        return specs[0]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return n·x^(n-1), which is 0 for n = 0 even at x = 0."""
        x, n = node.inputs[0], self.exponent
        if n == 0:
            return (zeros_like(x),)
        if n == 1:
            return (out_grad,)
        return (out_grad * (x * 2.0 if n == 2 else pow(x, n - 1) * float(n)),)


def pow(x: Any, exponent: Any) -> Any:
    """Return `x` to the power `exponent`, a number or a value that broadcasts.

    Raises:
        ArgumentError: an integer to a negative power, which is no integer.
    """
    if not isinstance(exponent, int | float) or isinstance(exponent, bool):
        return apply(power.op, x, exponent)
    if not isinstance(x, Value) and not hasattr(x, "dtype"):
        return apply(power.op, x, exponent)
    floating = "float" in str(x.dtype)
    if not floating and isinstance(exponent, float):
        return apply(power.op, x, exponent)
    if not floating and exponent < 0:
        raise ArgumentError(
            f"pow: integers to a negative power: got exponent {exponent} for {x.dtype}, expected "
            "0 or more. Convert with .float() first."
        )
    return apply(Power(exponent), x)


def add(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """Return a + alpha·b."""
    return add_row(a, b if alpha == 1 else mul(b, alpha))


def sub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """Return a - alpha·b."""
    return sub_row(a, b if alpha == 1 else mul(b, alpha))


def rsub(a: Any, b: Any, *, alpha: Any = 1) -> Any:
    """Return b - alpha·a."""
    return apply(sub_row.op, b, a if alpha == 1 else mul(a, alpha))


def div(a: Any, b: Any, *, rounding_mode: str | None = None) -> Any:
    """Return a / b; rounded to "floor" or "trunc" when asked."""
    if rounding_mode is None:
        return true_divide(a, b)
    if rounding_mode == "floor":
        return floor_divide(a, b)
    if rounding_mode == "trunc":
        return trunc_divide(a, b)
    raise ArgumentError(
        f"div: got rounding_mode {rounding_mode!r}, expected None, 'floor' or 'trunc'."
    )


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    """Return `x` with what is below `min` or above `max` replaced by it; numbers or values.

    Raises:
        ArgumentError: neither bound is given.
    """
    if min is None and max is None:
        raise ArgumentError("clamp: got neither min nor max, expected one of them at least.")
    if max is None:
        return where(x < min, min, x)
    low = x if min is None else where(x < min, min, x)
    return where(low > max, max, low)


def lerp(start: Any, end: Any, weight: Any) -> Any:
    """Return start + weight·(end - start)."""
    return start + weight * (end - start)


def addcmul(x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    """Return x + value·a·b."""
    return x + a * b * value


def addcdiv(x: Any, a: Any, b: Any, *, value: Any = 1) -> Any:
    """Return x + value·a / b."""
    return x + true_divide(a, b) * value
