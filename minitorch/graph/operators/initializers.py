"""What variables start from: callables (shape, dtype) -> node, under TensorFlow's names.

Sources: Glorot & Bengio, AISTATS 2010; He et al., ICCV 2015; the general form is TensorFlow's
`variance_scaling_initializer`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...arrays.library import DType, DTypeLike, as_dtype, float32
from ...errors import GraphError
from ..core.node import Constant, Node
from . import random as draws

__all__ = [
    "Initializer",
    "constant_initializer",
    "glorot_normal_initializer",
    "glorot_uniform_initializer",
    "ones_initializer",
    "random_normal_initializer",
    "random_uniform_initializer",
    "truncated_normal_initializer",
    "variance_scaling_initializer",
    "zeros_initializer",
]


LEFT_BY_THE_CUT = 0.87962566103423978
"""The deviation of a standard normal distribution that is cut at two deviations."""


class Initializer:
    """Base: `initializer(shape, dtype=None)` gives a node; of its own dtype unless told."""

    dtype: DTypeLike = float32

    def __call__(self, shape: Sequence[int], dtype: DTypeLike = None) -> Node:
        """Return a node of that shape and dtype."""
        kind = as_dtype(self.dtype if dtype is None else dtype)
        return self._node(tuple(int(n) for n in shape), kind)

    def _node(self, shape: tuple[int, ...], dtype: DType) -> Node:
        raise NotImplementedError(f"{type(self).__name__} does not say what it starts from.")


@dataclass
class Fixed(Initializer):
    """One number, or an array whose last element fills what is left of the shape."""

    value: object = 0
    dtype: DTypeLike = float32

    def _node(self, shape: tuple[int, ...], dtype: DType) -> Node:
        return Constant(np.asarray(self.value, dtype), dtype, shape)


@dataclass
class Zeros(Initializer):
    """Zeros."""

    dtype: DTypeLike = float32
    fill = 0

    def _node(self, shape: tuple[int, ...], dtype: DType) -> Node:
        return Constant(np.full(shape, self.fill, dtype))


class Ones(Zeros):
    """Ones."""

    fill = 1


@dataclass
class Uniform(Initializer):
    """Numbers uniform in [minval, maxval)."""

    minval: float = 0.0
    maxval: float = 1.0
    seed: int | None = None
    dtype: DTypeLike = float32

    def _node(self, shape: tuple[int, ...], dtype: DType) -> Node:
        return draws.random_uniform(shape, self.minval, self.maxval, dtype, self.seed)


@dataclass
class Normal(Initializer):
    """Numbers of a normal distribution."""

    mean: float = 0.0
    stddev: float = 1.0
    seed: int | None = None
    dtype: DTypeLike = float32

    draw = staticmethod(draws.random_normal)

    def _node(self, shape: tuple[int, ...], dtype: DType) -> Node:
        return self.draw(shape, self.mean, self.stddev, dtype, self.seed)


class TruncatedNormal(Normal):
    """Numbers of a normal distribution, those beyond two deviations drawn again."""

    draw = staticmethod(draws.truncated_normal)


@dataclass
class VarianceScaling(Initializer):
    """Random numbers of variance scale / n, for n the fan in, the fan out or their mean.

    Attributes:
        mode: "fan_in", "fan_out" or "fan_avg".
        distribution: "uniform", or "normal": numbers beyond two deviations of a wider one are drawn
            again, so that the variance comes out right.
    """

    scale: float = 1.0
    mode: str = "fan_in"
    distribution: str = "normal"
    seed: int | None = None
    dtype: DTypeLike = float32

    def __post_init__(self) -> None:
        known = self.mode in ("fan_in", "fan_out", "fan_avg")
        if not known or self.distribution not in ("normal", "uniform"):
            raise GraphError(
                f"variance_scaling_initializer: got {self.mode!r} and {self.distribution!r}, "
                "expected 'fan_in', 'fan_out' or 'fan_avg', and 'normal' or 'uniform'."
            )

    def _node(self, shape: tuple[int, ...], dtype: DType) -> Node:
        fan_in, fan_out = _fans(shape)
        n = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2}[self.mode]
        variance = self.scale / max(1.0, n)
        if self.distribution == "normal":
            deviation = math.sqrt(variance) / LEFT_BY_THE_CUT
            return draws.truncated_normal(shape, 0.0, deviation, dtype, self.seed)
        limit = math.sqrt(3.0 * variance)
        return draws.random_uniform(shape, -limit, limit, dtype, self.seed)


def glorot_uniform_initializer(
    seed: int | None = None, dtype: DTypeLike = float32
) -> VarianceScaling:
    """Return the initializer uniform within sqrt(6 / (fan in + fan out)) of 0."""
    return VarianceScaling(1.0, "fan_avg", "uniform", seed, dtype)


def glorot_normal_initializer(
    seed: int | None = None, dtype: DTypeLike = float32
) -> VarianceScaling:
    """Return the normal initializer of variance 2 / (fan in + fan out)."""
    return VarianceScaling(1.0, "fan_avg", "normal", seed, dtype)


def _fans(shape: tuple[int, ...]) -> tuple[float, float]:
    """Return fan in and fan out: the sizes of the last two axes, times those of the others."""
    if len(shape) < 2:
        return float(math.prod(shape)), float(math.prod(shape))
    field = math.prod(shape[:-2])
    return float(field * shape[-2]), float(field * shape[-1])


zeros_initializer = Zeros
ones_initializer = Ones
constant_initializer = Fixed
random_uniform_initializer = Uniform
random_normal_initializer = Normal
truncated_normal_initializer = TruncatedNormal
variance_scaling_initializer = VarianceScaling
