"""The Bernoulli distribution: 1 or 0."""

import math
from collections.abc import Sequence

from minitorch.arrays.library import finfo
from minitorch.distributions.distribution import Distribution, as_parameter
from minitorch.errors import ArgumentError
from minitorch.ops.elementwise.activation import softplus
from minitorch.ops.networks.loss import binary_cross_entropy_with_logits
from minitorch.tensor.creation import bernoulli
from minitorch.tensor.tensor import Tensor


class Bernoulli(Distribution):
    """1 with the probability `probs`, of which `logits` are the log odds, else 0."""

    def __init__(
        self, probs: object = None, logits: object = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ArgumentError("Bernoulli: expected either probs or logits, and not both.")
        if probs is not None:
            self.probs = as_parameter(
                "Bernoulli", "probs", probs, lambda x: (x >= 0) & (x <= 1), "0 to 1"
            )
            tiny = finfo(self.probs.dtype).eps  # so that the odds of 0 and 1 are finite
            clamped = self.probs.clamp(tiny, 1 - tiny)
            self.logits = clamped.log() - (-clamped).log1p()
        else:
            self.logits = as_parameter("Bernoulli", "logits", logits, lambda x: x == x, "numbers")
            self.probs = self.logits.sigmoid()
        super().__init__(self.probs.shape, validate_args)

    mean = property(lambda self: self.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return ones and zeros of shape (*sample_shape, *batch_shape)."""
        return bernoulli(self.probs.detach().expand(*self._extend(sample_shape)))

    def log_prob(self, value: object) -> Tensor:
        """Return ln of the probability of `value`, 0 or 1."""
        drawn = self._check_value(value, lambda x: (x == 0) | (x == 1), "0 or 1")
        shape = (self.logits + drawn).shape
        logits, target = self.logits.expand(*shape), drawn.to(self.logits.dtype).expand(*shape)
        return -binary_cross_entropy_with_logits(logits, target, reduction="none")

    def entropy(self) -> Tensor:
        """Return - p ln p - (1 - p) ln (1 - p)."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def _divergence(self, q: "Bernoulli") -> Tensor:
        """Infinite where q is sure and p is not of the same mind."""
        ones = self.probs * (softplus(-q.logits) - softplus(-self.logits))
        ones = ones.masked_fill(q.probs == 0, math.inf).masked_fill(self.probs == 0, 0.0)
        zeros = (1 - self.probs) * (softplus(q.logits) - softplus(self.logits))
        zeros = zeros.masked_fill(q.probs == 1, math.inf).masked_fill(self.probs == 1, 0.0)
        return ones + zeros
