"""Torch's names for differentiation."""

from minitorch.backward import backward, grad
from minitorch.gradcheck import gradcheck, gradgradcheck
from minitorch.tensor.modes import enable_grad, no_grad, set_grad_enabled

from . import functional

__all__ = [
    "backward",
    "enable_grad",
    "functional",
    "grad",
    "gradcheck",
    "gradgradcheck",
    "no_grad",
    "set_grad_enabled",
]
