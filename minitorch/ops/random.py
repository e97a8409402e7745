"""Random numbers as operators without inputs, draws by weight, dropout. They are not `pure`."""

from typing import Any

import numpy as np

from ..arrays.generator import Generator, default_generator
from ..arrays.library import (
    CPU,
    Array,
    DType,
    Namespace,
    as_dtype,
    asarray,
    cast,
    device_of,
    int64,
    to_numpy,
)
from ..errors import ArgumentError, ShapeError
from ..op import FixedSpec, Flat, Gradients, KeepsSpec, Kind, Methods, ReadsShapes, Spec, apply
from .elementwise.unary import zeros_like
from .reducing.sorting import order


class Drawn(ReadsShapes, FixedSpec):
    """Random numbers of a given shape; a dataflow graph draws them anew in each run.

    `first` and `second` are the two numbers that say which: a range, or a mean and a deviation.
    """

    pure = False
    shape: tuple[int, ...]

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        first: float = 0.0,
        second: float = 1.0,
        generator: Generator | None = None,
    ) -> None:
        self.shape, self.dtype, self.generator = shape, dtype, generator
        self.first, self.second = first, second

    def source(self) -> Generator:
        """Return the generator to draw from."""
        return self.generator or default_generator(CPU)

    def scale(self, drawn: Array, width: float) -> Array:
        """Return what was drawn times `width`, plus `first`."""
        as_drawn = width == 1 and self.first == 0
        return drawn if as_drawn else cast(drawn * width + self.first, self.dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return ()


class Uniform(Drawn):
    """Evenly spread in [first, second)."""

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        drawn = self.source().uniform(self.shape, self.dtype)
        return self.scale(drawn, self.second - self.first)


class Normal(Drawn):
    """Normally distributed, with mean `first` and deviation `second`."""

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return self.scale(self.source().normal(self.shape, self.dtype), self.second)


class Integers(Drawn):
    """Integers evenly spread from `first` up to but not `second`."""

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return self.source().integers(int(self.first), int(self.second), self.shape, self.dtype)


class Permutation(Drawn):
    """0 up to the size of the one axis, in random order."""

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return self.source().permutation(self.shape[0])


class DropMask(Flat, KeepsSpec):
    """1 / (1 - p) with probability 1 - p, else 0: of the shape, dtype and device of the input."""

    pure = False

    def __init__(self, p: float, generator: Generator | None = None) -> None:
        self.p, self.generator = p, generator

    def compute(self, xp: Namespace, x: Array) -> Array:
        dtype = as_dtype(x.dtype)
        source = self.generator or default_generator(device_of(x))
        drawn = source.uniform(tuple(x.shape), dtype)
        if type(drawn) is np.ndarray:  # over the numbers drawn
            np.greater_equal(drawn, self.p, out=drawn, casting="unsafe")
            drawn *= 1.0 / (1.0 - self.p)
            return drawn
        return cast(drawn >= self.p, dtype) * (1.0 / (1.0 - self.p))


class Multinomial(Flat):
    """Positions drawn with the weights along the last axis."""

    pure = False

    def __init__(
        self, num_samples: int, replacement: bool, generator: Generator | None = None
    ) -> None:
        self.num_samples, self.replacement, self.generator = num_samples, replacement, generator

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the positions; drawn on the host, whatever the device."""
        weights = np.atleast_2d(to_numpy(x)).astype(np.float64)
        fit = np.isfinite(weights) & (weights >= 0)
        if not fit.all() or not (weights.sum(-1) > 0).all():
            raise ArgumentError("multinomial: expected finite weights of 0 or more, not all 0.")
        if not self.replacement and self.num_samples > (weights > 0).sum(-1).min():
            raise ArgumentError(
                f"multinomial: got {self.num_samples} samples, expected at most one for each "
                "weight that is not 0. Pass replacement=True."
            )
        draw = self._with_replacement if self.replacement else self._without
        picked = draw(weights, self.generator or default_generator(CPU))
        return asarray(picked if len(x.shape) > 1 else picked[0], int64, device_of(x))

    def _with_replacement(self, weights: Any, source: Generator) -> Any:
        edges = np.cumsum(weights / weights.sum(-1, keepdims=True), axis=-1)
        points = to_numpy(source.uniform((len(weights), self.num_samples), np.dtype(np.float64)))
        picked = (points[:, :, None] >= edges[:, None, :]).sum(-1)
        last = weights.shape[1] - 1 - (weights[:, ::-1] > 0).argmax(-1)  # where the sums round
        return np.minimum(picked, last[:, None])

    def _without(self, weights: Any, source: Generator) -> Any:
        """Return the first to come, when each comes after an exponential time of its rate."""
        waits = -np.log1p(-to_numpy(source.uniform(weights.shape, np.dtype(np.float64))))
        with np.errstate(divide="ignore"):
            return order(waits / weights, 1, False, self.num_samples)

    def infer(self, *specs: Spec) -> Spec:
        return Spec((*specs[0].shape[:-1], self.num_samples), int64)


def multinomial(
    input: Kind,
    num_samples: int,
    replacement: bool = False,
    *,
    generator: Generator | None = None,
) -> Kind:
    """Return positions drawn with the weights `input` (along the last axis).

    Raises:
        ArgumentError: a negative weight, no weight, or more samples than weights without
            replacement.
        ShapeError: not one or two axes.
    """
    if len(input.shape) not in (1, 2):
        raise ShapeError(f"multinomial: got weights {tuple(input.shape)}, expected 1 or 2 axes.")
    return apply(Multinomial(num_samples, replacement, generator), input)


def dropout(
    x: Kind,
    p: float = 0.5,
    training: bool = True,
    *,
    generator: Generator | None = None,
) -> Kind:
    """Return `x` with each element 0 with probability `p`, the others scaled by 1 / (1 - p).

    Raises:
        ArgumentError: `p` is not a probability.
    """
    if not 0.0 <= p <= 1.0:
        raise ArgumentError(f"dropout: got p = {p}, expected a probability, 0 to 1.")
    if not training or p == 0.0:
        return x
    if p == 1.0:
        return x * zeros_like(x)
    return x * apply(DropMask(p, generator), x)
