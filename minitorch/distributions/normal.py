"""The normal distribution."""

import math
from collections.abc import Sequence

from minitorch.distributions.distribution import Distribution, as_parameter
from minitorch.ops.shaping.movement import broadcast_tensors
from minitorch.tensor.creation import randn
from minitorch.tensor.tensor import Tensor


class Normal(Distribution):
    """Mean `loc`, standard deviation `scale`: tensors that broadcast, or numbers."""

    has_rsample = True

    def __init__(
        self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None
    ) -> None:
        loc = as_parameter("Normal", "loc", loc, lambda x: x == x, "numbers")
        scale = as_parameter("Normal", "scale", scale, lambda x: x > 0, "more than 0")
        self.loc, self.scale = broadcast_tensors(loc, scale)
        super().__init__(self.loc.shape, validate_args)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    stddev = property(lambda self: self.scale)
    variance = property(lambda self: self.scale**2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extend(sample_shape)
        return self.loc + self.scale * randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value: object) -> Tensor:
        """Return ln of the density at `value`."""
        z = (self._check_value(value, lambda x: x == x, "numbers") - self.loc) / self.scale
        return -0.5 * z * z - self.scale.log() - 0.5 * math.log(2 * math.pi)

    def entropy(self) -> Tensor:
        """Return 1/2 + ln(2 pi) / 2 + ln scale."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    def _divergence(self, q: "Normal") -> Tensor:
        ratio = (self.scale / q.scale) ** 2
        apart = ((self.loc - q.loc) / q.scale) ** 2
        return 0.5 * (ratio + apart - 1 - ratio.log())
