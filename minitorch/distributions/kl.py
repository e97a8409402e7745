"""The divergence of two distributions."""

from typing import Any

from minitorch.errors import DTypeError
from minitorch.tensor.tensor import Tensor


def kl_divergence(p: Any, q: Any) -> Tensor:
    """Return the Kullback-Leibler divergence KL(p || q) in nats, of two of one kind.

    Raises:
        DTypeError: no formula for these two is known.
    """
    if type(p) is not type(q):
        raise DTypeError(
            f"kl_divergence: no formula for {type(p).__name__} and {type(q).__name__}. Estimate "
            "it: the mean of p.log_prob(x) - q.log_prob(x) over x = p.sample((n,))."
        )
    divergence: Tensor = p._divergence(q)
    return divergence
