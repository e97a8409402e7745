"""Functions of one element: a table of rows, each with its derivative.

In a derivative `g` is the gradient of the result, `x` the input, `y` the result.
`promotes="float"` makes integers floats first; `reads` says whether the derivative looks at the
numbers of the input ("x"), of the result ("y"), of both or of neither.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace, copy_array, dtype_of
from ...op import Kind
from . import compiled
from .rows import NUMBERS, Compute, Partial, binary, unary
from .special import erf_array


def zero(g: Kind, *_: object) -> Kind:
    """Return the derivative of a step: none."""
    return zeros_like(g)


def same(g: Kind, *_: object) -> Kind:
    """Return the derivative of a value by itself, or by a term of a sum."""
    return g


def minus(g: Kind, *_: object) -> Kind:
    """Return the derivative of a difference by what is taken away."""
    return -g


def _float_row(
    name: str, compute: Compute, partial: Partial, says: str, reads: str = "x"
) -> Callable[[Kind], Kind]:
    return unary(name, compute, partial, says, promotes="float", reads=reads)


ENOUGH = 2**13  # bytes, from which on a kernel is faster than NumPy's call
MUCH = 2**16  # the same of a root or a quotient, which NumPy takes as fast as memory gives them


def _kernel_row(name: str, plain: Compute, least: int = ENOUGH, kinds: str = "fd") -> Compute:
    """Return a row's arithmetic: `plain`, but a kernel from so many bytes of these types on."""

    def compute(xp: Namespace, x: Array) -> Array:
        if xp is np and x.nbytes >= least and x.dtype.char in kinds:
            return compiled.row(xp, name, plain, x)
        return plain(xp, x)

    return compute


# ── steps: no slope ─────────────────────────────────────────────────────────────────────────────

zeros_like = unary("zeros_like", lambda xp, x: xp.zeros_like(x), zero, "Zeros.", reads="")
ones_like = unary("ones_like", lambda xp, x: xp.ones_like(x), zero, "Ones.", reads="")


def _sign(xp: Namespace, x: Array) -> Any:
    if dtype_of(x).kind == "b":
        return x != 0
    return compiled.row(xp, "sign", _sign_of_numbers, x)


def _sign_of_numbers(xp: Namespace, x: Array) -> Any:
    signs = xp.sign(x)
    return signs if xp.all(signs == signs) else xp.where(x == x, signs, xp.zeros_like(x))


sign = unary("sign", _sign, zero, "-1, 0 or 1; of NaN 0.", reads="")
floor = unary("floor", lambda xp, x: xp.floor(x), zero, "The integer below.", reads="")
ceil = unary("ceil", lambda xp, x: xp.ceil(x), zero, "The integer above.", reads="")
trunc = unary("trunc", lambda xp, x: xp.trunc(x), zero, "The integer towards 0.", reads="")
frac = unary(
    "frac",
    lambda xp, x: x - xp.trunc(x),
    same,
    "What is left of x without its integer.",
    reads="",
    kinds="f",
)
rint = unary(
    "rint", lambda xp, x: xp.round(x), zero, "The nearest integer.", reads="", kinds=NUMBERS
)

# ── polynomials and pieces ──────────────────────────────────────────────────────────────────────

neg = unary("neg", lambda xp, x: -x, minus, "-x.", reads="", kinds=NUMBERS)
positive = unary(
    "positive",
    lambda xp, x: +x if xp is np else copy_array(x),  # torch's is the array itself
    same,
    "x itself.",
    reads="",
    kinds=NUMBERS,
)
abs = unary("abs", lambda xp, x: xp.abs(x), lambda g, x, y: g * sign(x), "|x|.", reads="x")
square = unary("square", lambda xp, x: x * x, lambda g, x, y: g * (x * 2.0), "x².", reads="x")


SOME = 2**11  # elements, below which `where` is the fastest way to a gradient of relu


def _relu(xp: Namespace, x: Array) -> Array:
    return compiled.row_in_order(xp, "relu", _cut, x, least=compiled.MANY)


def _cut(xp: Namespace, x: Array) -> Array:
    return np.maximum(x, 0) if xp is np else xp.clip(x, min=0)


def _where_open(xp: Namespace, g: Array, y: Array) -> Array:
    """Return g where y is not 0, else 0: also where g is infinite or NaN."""
    return xp.where(y != 0, g, xp.zeros_like(g) if xp is not np else g.dtype.type(0))


_open: Callable[[Kind, object], Kind] = binary(
    "relu_grad",
    lambda xp, g, y: compiled.row_in_order(xp, "relu_grad", _where_open, g, y, least=SOME),
    lambda g, a, b, y: _open(g, b),
    lambda g, a, b, y: zeros_like(b),
    "The gradient of relu: that of its result where the result is not 0: positive, or NaN.",
    reads="x",
)
relu = unary(
    "relu",
    _relu,
    lambda g, x, y: _open(g, y),
    "x where positive, else 0.",
    reads="y",
    kinds=NUMBERS,
)
reciprocal = _float_row(
    "reciprocal",
    _kernel_row("reciprocal", lambda xp, x: 1 / x, MUCH),
    lambda g, x, y: -g * (y * y),
    "1 / x.",
    "y",
)
sqrt = _float_row(
    "sqrt",
    _kernel_row("sqrt", lambda xp, x: xp.sqrt(x), MUCH),
    lambda g, x, y: g / (y * 2.0),
    "The square root of x.",
    "y",
)
rsqrt = _float_row(
    "rsqrt",
    _kernel_row("rsqrt", lambda xp, x: 1 / xp.sqrt(x), MUCH),
    lambda g, x, y: g * (y * y * y) * -0.5,
    "1 / √x.",
    "y",
)

# ── exponentials and logarithms ─────────────────────────────────────────────────────────────────


LN2, LN10 = math.log(2.0), math.log(10.0)
exp = _float_row(
    "exp",
    _kernel_row("exp", lambda xp, x: xp.exp(x)),
    lambda g, x, y: g * y,
    "e to the x.",
    "y",
)
exp2 = _float_row("exp2", lambda xp, x: xp.exp2(x), lambda g, x, y: g * y * LN2, "2 to the x.", "y")
expm1 = _float_row(
    "expm1",
    lambda xp, x: compiled.row(xp, "expm1", lambda xp, x: xp.expm1(x), x),
    lambda g, x, y: g * (y + 1.0),
    "exp(x) - 1, exact.",
    "y",
)
log = _float_row("log", _kernel_row("log", lambda xp, x: xp.log(x)), lambda g, x, y: g / x, "ln x.")
log2 = _float_row("log2", lambda xp, x: xp.log2(x), lambda g, x, y: g / (x * LN2), "log₂ x.")
log10 = _float_row("log10", lambda xp, x: xp.log10(x), lambda g, x, y: g / (x * LN10), "log₁₀ x.")
log1p = _float_row(
    "log1p",
    lambda xp, x: compiled.row(xp, "log1p", lambda xp, x: xp.log1p(x), x),
    lambda g, x, y: g / (x + 1.0),
    "ln(1 + x), exact.",
)
sigmoid = _float_row(
    "sigmoid",
    lambda xp, x: compiled.row(xp, "sigmoid", lambda xp, x: 1 / (1 + xp.exp(-x)), x),
    lambda g, x, y: g * (y * (1.0 - y)),
    "1 / (1 + exp(-x)).",
    "y",
)
# ── circular and hyperbolic functions ───────────────────────────────────────────────────────────

sin = _float_row(
    "sin",
    _kernel_row("sin", lambda xp, x: xp.sin(x), kinds="f"),  # of doubles NumPy's are more exact
    lambda g, x, y: g * cos(x),
    "sin x, radians.",
)
cos: Callable[[Kind], Kind] = _float_row(
    "cos",
    _kernel_row("cos", lambda xp, x: xp.cos(x), kinds="f"),
    lambda g, x, y: -g * sin(x),
    "cos x, radians.",
)
tan = _float_row("tan", lambda xp, x: xp.tan(x), lambda g, x, y: g * (y * y + 1.0), "tan x.", "y")
asin = _float_row(
    "asin", lambda xp, x: xp.asin(x), lambda g, x, y: g * rsqrt(1.0 - x * x), "arcsin x."
)
acos = _float_row(
    "acos", lambda xp, x: xp.acos(x), lambda g, x, y: -g * rsqrt(1.0 - x * x), "arccos x."
)
atan = _float_row("atan", lambda xp, x: xp.atan(x), lambda g, x, y: g / (x * x + 1.0), "arctan x.")
sinh = _float_row("sinh", lambda xp, x: xp.sinh(x), lambda g, x, y: g * cosh(x), "sinh x.")
cosh: Callable[[Kind], Kind] = _float_row(
    "cosh", lambda xp, x: xp.cosh(x), lambda g, x, y: g * sinh(x), "cosh x."
)
tanh = _float_row(
    "tanh",
    _kernel_row("tanh", lambda xp, x: xp.tanh(x), kinds="f"),
    lambda g, x, y: g * (1.0 - y * y),
    "tanh x.",
    "y",
)
atanh = _float_row(
    "atanh", lambda xp, x: xp.atanh(x), lambda g, x, y: g / (1.0 - x * x), "artanh x."
)

_SLOPE = 2.0 / math.sqrt(math.pi)
erf = _float_row(
    "erf",
    lambda xp, x: compiled.row(xp, "erf", erf_array, x, least=1),
    lambda g, x, y: g * exp(x * -x) * _SLOPE,
    "The error function.",
)
