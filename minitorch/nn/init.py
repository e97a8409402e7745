"""Starting values of parameters, in place. Fan: how many inputs or outputs meet in one element.

A weight is (outputs, inputs, *kernel), as `Linear` and `Conv` keep theirs.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from minitorch.arrays.generator import Generator, default_generator
from minitorch.arrays.library import float64
from minitorch.errors import ArgumentError
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor

GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}


def _fill(tensor: Tensor, draw: Callable[[Generator], object]) -> Tensor:
    """Overwrite `tensor` with the array that `draw` makes, drawn on the CPU whatever the device."""
    with no_grad():
        tensor.copy_(draw(default_generator()))
    return tensor


def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0) -> Tensor:
    """Fill with numbers uniform in [a, b)."""
    if b < a:
        raise ArgumentError(f"uniform_: got {a} to {b}, expected them in order.")
    return _fill(tensor, lambda rng: rng.uniform(tensor.shape, float64) * (b - a) + a)


def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Fill with numbers of a normal distribution."""
    if std < 0:
        raise ArgumentError(f"normal_: got std {std}, expected 0 or more.")
    return _fill(tensor, lambda rng: rng.normal(tensor.shape, float64) * std + mean)


def trunc_normal_(
    tensor: Tensor, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0
) -> Tensor:
    """Fill with numbers of a normal distribution, those outside [a, b] drawn again."""
    if a >= b or b < mean - 8 * std or a > mean + 8 * std:
        raise ArgumentError(
            f"trunc_normal_: got [{a}, {b}] for mean {mean} and std {std}, expected a range that "
            "the distribution meets."
        )

    def draw(rng: Generator) -> Any:
        numbers = np.asarray(rng.normal(tensor.shape, float64) * std + mean)
        while (outside := (numbers < a) | (numbers > b)).any():
            numbers[outside] = rng.normal((int(outside.sum()),), float64) * std + mean
        return numbers

    return _fill(tensor, draw)


def constant_(tensor: Tensor, val: float) -> Tensor:
    """Fill with one number."""
    with no_grad():
        tensor.fill_(val)
    return tensor


def ones_(tensor: Tensor) -> Tensor:
    """Fill with ones."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Fill with zeros."""
    return constant_(tensor, 0.0)


def eye_(tensor: Tensor) -> Tensor:
    """Fill a matrix with ones on the diagonal, and zeros."""
    if tensor.ndim != 2:
        raise ArgumentError(f"eye_: got shape {tensor.shape}, expected 2 axes.")
    return _fill(tensor, lambda _: np.eye(tensor.shape[0], tensor.shape[1]))


def orthogonal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Fill with an orthogonal matrix times `gain`; axes after the first count as one.

    Source: Saxe, McClelland & Ganguli, ICLR 2014.
    """
    if tensor.ndim < 2:
        raise ArgumentError(f"orthogonal_: got shape {tensor.shape}, expected 2 axes or more.")
    rows = tensor.shape[0]
    columns = tensor.numel() // rows if rows else 0

    def draw(rng: Generator) -> Any:
        flat = rng.normal((max(rows, columns), min(rows, columns)), float64)
        q, r = np.linalg.qr(flat)
        q = q * np.sign(np.diag(r))  # without this the signs are not uniform
        return gain * (q.T if rows < columns else q).reshape(tensor.shape)

    return _fill(tensor, draw)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """Return the factor that keeps the variance through this nonlinearity."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1.0 + slope**2))
    if nonlinearity not in GAINS:
        expected = ", ".join([*GAINS, "leaky_relu"])
        raise ArgumentError(f"calculate_gain: got {nonlinearity!r}, expected one of {expected}.")
    return GAINS[nonlinearity]


def xavier_uniform_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Uniform within gain * sqrt(6 / (fan_in + fan_out)). Source: Glorot & Bengio, AISTATS 2010."""
    bound = gain * math.sqrt(6.0 / sum(_fans(tensor)))
    return uniform_(tensor, -bound, bound)


def xavier_normal_(tensor: Tensor, gain: float = 1.0) -> Tensor:
    """Normal with deviation gain * sqrt(2 / (fan_in + fan_out))."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_fans(tensor))))


def kaiming_uniform_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Uniform within gain * sqrt(3 / fan). Source: He et al., ICCV 2015."""
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return uniform_(tensor, -bound, bound)


def kaiming_normal_(
    tensor: Tensor, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> Tensor:
    """Normal with deviation gain / sqrt(fan)."""
    std = calculate_gain(nonlinearity, a) / math.sqrt(_fan(tensor, mode))
    return normal_(tensor, 0.0, std)


def _fans(tensor: Tensor) -> tuple[int, int]:
    if tensor.ndim < 2:
        raise ArgumentError(
            f"init: got shape {tensor.shape}, expected 2 axes or more (outputs, inputs, *kernel)."
        )
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def _fan(tensor: Tensor, mode: str) -> int:
    if mode not in ("fan_in", "fan_out"):
        raise ArgumentError(f"init: got mode {mode!r}, expected 'fan_in' or 'fan_out'.")
    return _fans(tensor)[mode == "fan_out"]
