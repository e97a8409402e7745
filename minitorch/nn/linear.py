"""Linear maps. Legend: B batch, I and J input features, O output features."""

from __future__ import annotations

import math

from minitorch.arrays import DeviceLike, DTypeLike
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.function_module import FunctionModule
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter, empty_parameter
from minitorch.tensor import Tensor


class Identity(Module):
    """The input, unchanged; takes and ignores any arguments."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`."""
        return x


class Linear(Module):
    """x_BI W_OI^T + b_O, with any number of leading axes in place of B.

    Both start uniform within 1 / sqrt(in_features) of 0.
    """

    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = empty_parameter((out_features, in_features), device, dtype)
        self.register_parameter(
            "bias", empty_parameter((out_features,), device, dtype) if bias else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        bound = 1.0 / math.sqrt(self.in_features) if self.in_features > 0 else 0.0
        for param in self.parameters():
            init.uniform_(param, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """Return shape (..., O) for an input of shape (..., I)."""
        own = self._parameters
        return F.linear(input, own["weight"], own["bias"])

    def extra_repr(self) -> str:
        """Return the sizes."""
        has_bias = self.bias is not None
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={has_bias}"


def _flatten(x: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    return x.flatten(start_dim, end_dim)


class Flatten(FunctionModule, of=_flatten, options="start_dim end_dim"):
    """Axes start_dim to end_dim as one; by default all but the first."""


def _unflatten(x: Tensor, dim: int, unflattened_size: tuple[int, ...]) -> Tensor:
    return x.unflatten(dim, unflattened_size)


class Unflatten(FunctionModule, of=_unflatten, options="dim unflattened_size"):
    """Axis `dim` as several of the given sizes."""
