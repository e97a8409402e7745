"""Several independent distributions as one, whose event has several elements."""

from collections.abc import Sequence
from typing import Any

from minitorch.distributions.distribution import Distribution
from minitorch.errors import ArgumentError
from minitorch.tensor.tensor import Tensor


class Independent(Distribution):
    """`base_distribution` with its last batch axes taken for the event's."""

    def __init__(
        self,
        base_distribution: Any,
        reinterpreted_batch_ndims: int,
        validate_args: bool | None = None,
    ) -> None:
        shape, count = base_distribution.batch_shape, reinterpreted_batch_ndims
        if not 0 <= count <= len(shape):
            raise ArgumentError(
                f"Independent: got {count} axes for batches of shape {tuple(shape)}, expected 0 to "
                f"{len(shape)}."
            )
        kept = len(shape) - count
        super().__init__(shape[:kept], validate_args)
        self.event_shape = (*shape[kept:], *base_distribution.event_shape)
        self.has_rsample = base_distribution.has_rsample
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = count

    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    stddev = property(lambda self: self.base_dist.stddev)
    variance = property(lambda self: self.base_dist.variance)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn: Tensor = self.base_dist.rsample(sample_shape)
        return drawn

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return draws of shape (*sample_shape, *batch_shape, *event_shape)."""
        drawn: Tensor = self.base_dist.sample(sample_shape)
        return drawn

    def log_prob(self, value: object) -> Tensor:
        """Return ln of the density at `value`, a sum over the event's axes."""
        return self._sum(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        """Return the sum of the entropies over the event's axes."""
        return self._sum(self.base_dist.entropy())

    def _divergence(self, q: "Independent") -> Tensor:
        return self._sum(self.base_dist._divergence(q.base_dist))

    def _sum(self, x: Tensor) -> Tensor:
        axes = tuple(range(-self.reinterpreted_batch_ndims, 0))
        return x.sum(axes) if axes else x
