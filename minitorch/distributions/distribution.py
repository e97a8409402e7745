"""`Distribution`: a batch of distributions of single elements."""

from collections.abc import Callable, Sequence
from typing import Any

from minitorch.errors import ArgumentError, DTypeError
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor, tensor


class Distribution:
    """Base of the distributions; a subclass gives `rsample` or `sample`, `log_prob`, `entropy`.

    Attributes:
        batch_shape: the shape of the parameters: a distribution for each element.
    """

    has_rsample = False
    event_shape = ()

    def __init__(self, batch_shape: tuple[int, ...]) -> None:
        self.batch_shape = batch_shape

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return draws through which gradients flow to the parameters."""
        raise NotImplementedError(
            f"{type(self).__name__}: has no rsample: its draws are no smooth function of the "
            "parameters. Use sample() and log_prob()."
        )

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return draws of shape (*sample_shape, *batch_shape), without gradient."""
        with no_grad():
            return self.rsample(sample_shape).detach()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(batch_shape={self.batch_shape})"


def as_parameter(
    name: str, what: str, value: object, holds: Callable[[Any], Any], expected: str
) -> Tensor:
    """Return a parameter as a floating tensor.

    Raises:
        ArgumentError: an element is not as expected; NaN never is. A trace has no numbers to ask.
    """
    param = value if isinstance(value, Tensor) else tensor(value)
    param = param if param.dtype.kind == "f" else param.float()
    if param.has_numbers and not bool(holds(param.detach()).all()):
        raise ArgumentError(f"{name}: got {what} {param.detach()}, expected {expected}.")
    return param


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
