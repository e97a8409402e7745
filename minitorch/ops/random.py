"""Random numbers as operators without inputs, and dropout. They are not `pure`."""

from typing import Any

from ..arrays import CPU, Device, DType, as_dtype, cast, device_of
from ..errors import ArgumentError
from ..generator import Generator, default_generator
from ..op import Op, Spec, apply
from .elementwise import zeros_like


class Drawn(Op):
    """Random numbers of a given shape; a dataflow graph draws them anew in each run."""

    on_arrays = True
    pure = False
    reads_inputs = reads_output = False

    def __init__(
        self, shape: tuple[int, ...], dtype: DType, generator: Generator | None = None
    ) -> None:
        self.shape, self.dtype, self.generator = shape, dtype, generator

    def source(self) -> Generator:
        """Return the generator to draw from."""
        return self.generator or default_generator(CPU)

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape and dtype drawn."""
        return Spec(self.shape, self.dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """There are no inputs."""
        return ()


class Uniform(Drawn):
    """Evenly spread in [low, high)."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        low: float = 0.0,
        high: float = 1.0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(shape, dtype, generator)
        self.low, self.high = low, high

    def compute(self, xp: Any, *arrays: Any) -> Any:
        """Return the numbers."""
        drawn = self.source().uniform(self.shape, self.dtype)
        return cast(drawn * (self.high - self.low) + self.low, self.dtype)


class Normal(Drawn):
    """Normally distributed."""

    def __init__(
        self,
        shape: tuple[int, ...],
        dtype: DType,
        mean: float = 0.0,
        std: float = 1.0,
        generator: Generator | None = None,
    ) -> None:
        super().__init__(shape, dtype, generator)
        self.mean, self.std = mean, std

    def compute(self, xp: Any, *arrays: Any) -> Any:
        """Return the numbers."""
        return cast(self.source().normal(self.shape, self.dtype) * self.std + self.mean, self.dtype)


class DropMask(Op):
    """1 / (1 - p) with probability 1 - p, else 0: of the shape, dtype and device of the input."""

    on_arrays = True
    pure = False
    reads_inputs = reads_output = False

    def __init__(self, p: float, generator: Generator | None = None) -> None:
        self.p, self.generator = p, generator

    def compute(self, xp: Any, x: Any) -> Any:
        """Return the mask."""
        dtype = as_dtype(x.dtype)
        source = self.generator or default_generator(_place(x))
        kept = source.uniform(tuple(x.shape), dtype) >= self.p
        return cast(kept, dtype) * (1.0 / (1.0 - self.p))

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the input."""
        return specs[0]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """The mask does not depend on the numbers."""
        return (None,)


def _place(x: Any) -> Device:
    return device_of(x)


def dropout(
    x: Any,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    generator: Generator | None = None,
) -> Any:
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
