"""The nonlinearities between layers. Each is a row, or made of rows.

A kink takes the slope that torch gives it, most often that of the left side.
"""

import math
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace, as_dtype, float16
from ...arrays.shapes import axis
from ...errors import ArgumentError, ShapeError
from ...op import Kind, Methods
from ..shaping.indexing import narrow
from . import compiled
from .binary import logaddexp_row, maximum, where
from .formulas import Formula
from .rows import binary, operator_of, unary
from .unary import abs, erf, exp, expm1, log1p
from .unary import relu as relu
from .unary import sigmoid as sigmoid
from .unary import tanh as tanh

SQRT_HALF = math.sqrt(0.5)

SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def _normal_density(x: Kind) -> Kind:
    return exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))


def _gelu_grad_plain(xp: Namespace, g: Array, x: Array) -> Any:
    return g * (_normal_cdf(xp, x) + x * (xp.exp(x * x * -0.5) * (1.0 / math.sqrt(2.0 * math.pi))))


_gelu_grad: Any = binary(
    "gelu_grad",
    lambda xp, g, x: compiled.row(xp, "gelu_grad", _gelu_grad_plain, g, x),
    lambda g, a, x, y: _gelu_grad(g, x),
    lambda g, a, x, y: g * a * _normal_density(x) * (2.0 - x * x),
    "The gradient of gelu: that of its result times Φ(x) + x·φ(x).",
    promotes="float",
    reads="x",
)
_gelu = unary(
    "gelu",
    lambda xp, x: compiled.row(xp, "gelu", lambda xp, x: x * _normal_cdf(xp, x), x),
    lambda g, x, y: _gelu_grad(g, x),
    "x·Φ(x), the normal distribution's Φ.",
    promotes="float",
    reads="x",
)


def _normal_cdf(xp: Namespace, x: Array) -> Any:
    return (
        operator_of(erf).compute(xp, x * x.dtype.type(SQRT_HALF) if xp is np else x * SQRT_HALF) + 1
    ) / 2


def gelu(input: Kind, approximate: str = "none") -> Kind:
    """Return x·Φ(x); with approximate="tanh" by its formula with tanh.

    Source: Hendrycks & Gimpel, arXiv:1606.08415, 2016.
    """
    if approximate == "none":
        return _gelu(input)
    if approximate != "tanh":
        raise ArgumentError(f"gelu: got approximate {approximate!r}, expected 'none' or 'tanh'.")
    return _GELU_BY_TANH(input)


def _inner(x: Any) -> Any:
    return (x + x * x * x * 0.044715) * math.sqrt(2.0 / math.pi)


def _gelu_slope_by_tanh(g: Any, x: Any) -> Any:
    t = tanh(_inner(x))
    steep = (x * x * (3.0 * 0.044715) + 1.0) * (1.0 - t * t) * math.sqrt(2.0 / math.pi)
    return g * ((t + 1.0) * 0.5 + x * steep * 0.5)


_GELU_BY_TANH = Formula("gelu", lambda x: x * 0.5 * (tanh(_inner(x)) + 1.0), _gelu_slope_by_tanh)


def _silu_slope(g: Any, x: Any) -> Any:
    gate = sigmoid(x)
    return g * (gate * (x * (1.0 - gate) + 1.0))


_SILU = Formula("silu", lambda x: x * sigmoid(x), _silu_slope)


def silu(x: Kind) -> Kind:
    """Return x·sigmoid(x)."""
    return _SILU(x)


_LOG_SIGMOID = Formula(
    "logsigmoid",
    lambda x: where(x < 0, x, 0.0) - log1p(exp(-abs(x))),
    lambda g, x: g * sigmoid(-x),
)


def logsigmoid(input: Kind) -> Kind:
    """Return ln sigmoid(x)."""
    return _LOG_SIGMOID(input)


def _log_of_sum(a: Any, b: Any) -> Any:
    away, larger = abs(a - b), maximum(a, b)
    return where(away >= 0, larger + log1p(exp(-away)), larger)  # else one is NaN, or two infinite


_LOG_ADD_EXP = Formula(
    "logaddexp",
    _log_of_sum,
    lambda g, a, b: g * sigmoid(a - b),
    lambda g, a, b: g * sigmoid(b - a),
)


def logaddexp(x: Kind, other: Any) -> Kind:
    """Return ln(exp x + exp other), without overflow."""
    tensors = getattr(x, "has_numbers", False) and getattr(other, "has_numbers", False)
    if tensors and as_dtype(x.dtype).itemsize > 2:  # of half the bits NumPy's rounds once
        result: Kind = _LOG_ADD_EXP(x, other)
        return result
    return logaddexp_row(x, other)


def relu6(x: Kind) -> Kind:
    """Return `x` clamped to 0 to 6."""
    return hardtanh(x, 0.0, 6.0)


_LEAKY_RELU = Formula(
    "leaky_relu",
    lambda x, slope: where(x > 0, x, x * slope),
    lambda g, x, slope: where(x > 0, g, g * slope),
)


def leaky_relu(x: Kind, negative_slope: float = 0.01) -> Kind:
    """Return `x` where positive, else negative_slope·x."""
    return _LEAKY_RELU(x, numbers=(negative_slope,))


def prelu(input: Kind, weight: Methods) -> Kind:
    """Return `input` where positive, else times its weight: one, or one a channel (axis 1).

    Raises:
        ShapeError: the number of weights is neither 1 nor that of the channels.
    """
    rank = len(input.shape)
    count, channels = weight.shape[0] if weight.shape else 1, input.shape[1] if rank > 1 else 1
    if count not in (1, channels):
        raise ShapeError(f"prelu: got {count} weights, expected 1 or {channels}, one a channel.")
    shape = (1, count, *(1,) * (rank - 2)) if rank > 1 else (count,) * rank
    slope: Any = weight.reshape(shape) if input.shape else weight.reshape(())
    values: tuple[Kind, ...] = (input, slope)
    return _PRELU(*values)


_PRELU = Formula(
    "prelu",
    _LEAKY_RELU.function,
    *_LEAKY_RELU.partials,
    lambda g, x, slope: where(x > 0, 0.0, g * x),
)


def hardtanh(x: Kind, min_val: float = -1.0, max_val: float = 1.0) -> Kind:
    """Return `x` clamped; outside and on the bounds the slope is 0.

    Raises:
        ArgumentError: the bounds are the wrong way round.
    """
    if min_val > max_val:
        raise ArgumentError(f"hardtanh: got bounds {min_val} and {max_val}, expected min <= max.")
    return _HARDTANH(x, numbers=(min_val, max_val))


_HARDTANH = Formula(
    "hardtanh",
    lambda x, low, high: where(x <= low, low, where(x >= high, high, x)),
    lambda g, x, low, high: where(x > low, where(x < high, g, 0.0), 0.0),
)
_ELU = Formula(
    "elu",
    lambda x, alpha, scale: where(x > 0, x, expm1(where(x > 0, 0.0, x)) * alpha) * scale,
    lambda g, x, alpha, scale: where(x > 0, g, g * (exp(where(x > 0, 0.0, x)) * alpha)) * scale,
)


def elu(x: Kind, alpha: float = 1.0) -> Kind:
    """Return `x` where positive, else alpha·(exp(x) - 1)."""
    return _ELU(x, numbers=(alpha, 1.0))


def selu(x: Kind) -> Kind:
    """Return the scaled `elu` that keeps mean 0 and variance 1."""
    return _ELU(x, numbers=(SELU_ALPHA, SELU_SCALE))


def softplus(input: Kind, beta: float = 1.0, threshold: float = 20.0) -> Kind:
    """Return ln(1 + exp(beta·x)) / beta, and x, `input`, where beta·x is above the threshold."""
    if as_dtype(input.dtype) == float16:
        threshold = min(threshold, 11.0)  # whose exp overflows at 11.09
    return _SOFTPLUS(input, numbers=(beta, threshold))


def _softplus(x: Any, beta: float, threshold: float) -> Any:
    scaled = x * beta
    linear = scaled > threshold
    return where(linear, x, log1p(exp(where(linear, 0.0, scaled))) / beta)


_SOFTPLUS = Formula(
    "softplus",
    _softplus,
    lambda g, x, beta, threshold: where(x * beta > threshold, g, g * sigmoid(x * beta)),
)


def mish(x: Kind) -> Kind:
    """Return x·tanh(softplus(x))."""
    return x * tanh(softplus(x))


def softsign(input: Kind) -> Kind:
    """Return x / (1 + |x|)."""
    return input / (abs(input) + 1.0)


def hardsigmoid(x: Kind) -> Kind:
    """Return x/6 + 1/2 clamped to 0 to 1."""
    return _HARDSIGMOID(x)


_HARDSIGMOID = Formula(
    "hardsigmoid",
    lambda x: where(x <= -3, 0.0, where(x >= 3, 1.0, x / 6.0 + 0.5)),
    lambda g, x: where(x > -3, where(x < 3, g / 6.0, 0.0), 0.0),
)
_HARDSWISH = Formula(
    "hardswish",
    lambda x: where(x <= -3, 0.0, where(x >= 3, x, x * (x + 3.0) / 6.0)),
    lambda g, x: where(x <= -3, 0.0, where(x >= 3, g, g * (x / 3.0 + 0.5))),
)


def hardswish(x: Kind) -> Kind:
    """Return x·hardsigmoid(x)."""
    return _HARDSWISH(x)


def _gate_slope(g: Any, a: Any, b: Any) -> Any:
    gate = sigmoid(b)
    return g * a * (gate * (1.0 - gate))


_GLU = Formula("glu", lambda a, b: a * sigmoid(b), lambda g, a, b: g * sigmoid(b), _gate_slope)


def glu(input: Kind, dim: int = -1) -> Kind:
    """Return the first half of `input` along `dim` times the sigmoid of the second.

    Raises:
        ShapeError: the size of the axis is odd.
    """
    d = axis(dim, len(input.shape), "glu")
    if not input.shape or input.shape[d] % 2:
        raise ShapeError(f"glu: got shape {tuple(input.shape)}, expected an even size on axis {d}.")
    half = input.shape[d] // 2
    return _GLU(narrow(input, d, 0, half), narrow(input, d, half, half))
