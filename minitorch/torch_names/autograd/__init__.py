"""Torch's names for differentiation."""

from minitorch.backward import backward, grad
from minitorch.gradcheck import gradcheck, gradgradcheck
from minitorch.tensor.function import Function
from minitorch.tensor.modes import enable_grad, no_grad, set_grad_enabled
from minitorch.tensor.tensor import Tensor

from . import functional


def Variable(data: Tensor, requires_grad: bool = False) -> Tensor:
    """Return a tensor over the same numbers: torch's old name for what every tensor is."""
    return data.detach().requires_grad_(requires_grad)


__all__ = [
    "Function",
    "Variable",
    "backward",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "no_grad",
    "set_grad_enabled",
]
