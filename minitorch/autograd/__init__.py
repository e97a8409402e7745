"""Torch's names for differentiation."""

from ..backward import backward, grad
from ..gradcheck import gradcheck, gradgradcheck
from ..recording import enable_grad, no_grad, set_grad_enabled
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
