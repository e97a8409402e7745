"""All parameters as one vector, and back."""

from __future__ import annotations

from collections.abc import Iterable

from minitorch.errors import ShapeError
from minitorch.ops.joining import cat
from minitorch.recording import no_grad
from minitorch.tensor import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Return the elements of all parameters, one after another."""
    return cat([param.reshape(-1) for param in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Copy the elements of `vec` into the parameters, in place.

    Raises:
        ShapeError: the vector is longer or shorter than all parameters together.
    """
    listed = list(parameters)
    total = sum(param.numel() for param in listed)
    if vec.shape != (total,):
        raise ShapeError(
            f"vector_to_parameters: got shape {vec.shape}, expected {(total,)}, the number of "
            "elements of all parameters."
        )
    start = 0
    with no_grad():
        for param in listed:
            param.copy_(vec[start : start + param.numel()].reshape(*param.shape))
            start += param.numel()
