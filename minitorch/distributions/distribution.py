"""`Distribution`: a batch of distributions of single elements."""

from collections.abc import Callable, Sequence

from minitorch.arrays.library import Array, to_numpy
from minitorch.errors import ArgumentError
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor, tensor


class Distribution:
    """Base of the distributions; a subclass gives `rsample` or `sample`, `log_prob`, `entropy`.

    Attributes:
        batch_shape: the shape of the parameters: a distribution for each element.
    """

    has_rsample = False
    event_shape: tuple[int, ...] = ()

    def __init__(self, batch_shape: tuple[int, ...], validate_args: bool | None = None) -> None:
        self.batch_shape = batch_shape
        self._checks_values = validate_args is not False

    def _extend(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of draws.

        Raises:
            ArgumentError: it is no sequence of sizes.
        """
        if not isinstance(sample_shape, Sequence):
            raise ArgumentError(
                f"{type(self).__name__}: got sample_shape {sample_shape!r}, expected a tuple of "
                f"sizes. Write ({sample_shape},)."
            )
        return (*sample_shape, *self.batch_shape)

    def _check_value(self, value: object, holds: Callable[[Array], Array], expected: str) -> Tensor:
        """Return a value that may be drawn, as a tensor.

        Raises:
            ArgumentError: it may not. Nothing is asked with `validate_args=False`, and in a trace.
        """
        drawn = value if isinstance(value, Tensor) else tensor(value)
        asks = self._checks_values and drawn.has_numbers
        if asks and not holds(to_numpy(drawn.array)).all():
            raise ArgumentError(
                f"{type(self).__name__}.log_prob: got {drawn.detach()}, expected {expected}."
            )
        return drawn

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
    name: str, what: str, value: object, holds: Callable[[Tensor], Tensor], expected: str
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
