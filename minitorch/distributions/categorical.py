"""The categorical distribution: one of K classes."""

import math
from collections.abc import Sequence
from typing import Any

from minitorch.arrays.library import finfo
from minitorch.arrays.shapes import broadcast
from minitorch.distributions.distribution import Distribution, as_parameter
from minitorch.errors import ArgumentError
from minitorch.tensor.tensor import Tensor


class Categorical(Distribution):
    """Classes 0 to K - 1, by weights or by logarithms of them along the last axis, (..., K)."""

    def __init__(
        self, probs: object = None, logits: object = None, validate_args: bool | None = None
    ) -> None:
        if (probs is None) == (logits is None):
            raise ArgumentError("Categorical: expected either probs or logits, and not both.")
        if probs is not None:
            weights = as_parameter(
                "Categorical", "probs", probs, _are_weights, "0 or more, with a finite sum above 0"
            )
            self.probs = weights / weights.sum(-1, keepdim=True)
            tiny = finfo(self.probs.dtype).eps  # so that the logarithm of 0 is finite
            self.logits = self.probs.clamp(tiny, 1 - tiny).log()
        else:
            checked_logits = as_parameter(
                "Categorical", "logits", logits, lambda x: x == x, "numbers"
            )
            self.logits = checked_logits - checked_logits.logsumexp(-1, keepdim=True)
            self.probs = self.logits.softmax(-1)
        super().__init__(tuple(self.logits.shape[:-1]), validate_args)
        self._num_events = int(self.logits.shape[-1])

    mode = property(lambda self: self.probs.argmax(-1))

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Return classes of shape (*sample_shape, *batch_shape)."""
        shape = self._extend(sample_shape)
        rows = self.probs.detach().reshape(-1, self._num_events)
        drawn = rows.multinomial(math.prod(sample_shape), replacement=True)
        return drawn.T.reshape(*shape)

    def log_prob(self, value: object) -> Tensor:
        """Return ln of the probability of the class `value`, which broadcasts with the batch."""
        count = self._num_events
        classes = self._check_value(
            value, lambda x: (x >= 0) & (x < count) & (x % 1 == 0), f"classes, 0 to {count - 1}"
        )
        batch = broadcast(classes.shape, self.batch_shape, op="Categorical.log_prob")
        index = classes.long().expand(*batch).unsqueeze(-1)
        return self.logits.expand(*batch, -1).gather(-1, index).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return - sum p ln p; a class of probability 0 adds nothing."""
        lowest = finfo(self.logits.dtype).min
        return -(self.probs * self.logits.clamp(min=lowest)).sum(-1)

    def _divergence(self, q: "Categorical") -> Tensor:
        """Sum p (ln p - ln q): infinite where q is 0 and p is not, 0 where p is 0."""
        parts = self.probs * (self.logits - q.logits)
        terms = parts.masked_fill(q.probs == 0, math.inf).masked_fill(self.probs == 0, 0.0)
        return terms.sum(-1)


def _are_weights(x: Tensor) -> Tensor:
    if not x.ndim:
        raise ArgumentError(f"Categorical: got probs {x}, expected one axis or more, of classes.")
    total = x.sum(-1, keepdim=True)
    return (x >= 0) & (total > 0) & (total < math.inf)
