"""Activations as modules: a line of formula each, and the names of the options."""

from __future__ import annotations

from minitorch.arrays import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.function_module import FunctionModule
from minitorch.nn.module import Module
from minitorch.nn.parameter import empty_parameter
from minitorch.tensor import Tensor


class ReLU(FunctionModule, of=F.relu, options="inplace"):
    """max(x, 0)."""

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return max(x, 0)."""
        return F.relu(*inputs)  # type: ignore[no-any-return]


class ReLU6(FunctionModule, of=F.relu6, options="inplace"):
    """min(max(x, 0), 6)."""


class LeakyReLU(FunctionModule, of=F.leaky_relu, options="negative_slope inplace"):
    """x where positive, negative_slope x elsewhere."""


class ELU(FunctionModule, of=F.elu, options="alpha inplace"):
    """x where positive, alpha (e^x - 1) elsewhere."""


class SELU(FunctionModule, of=F.selu, options="inplace"):
    """ELU with the scale and alpha that keep mean 0 and variance 1."""


class GELU(FunctionModule, of=F.gelu, options="approximate"):
    """x Phi(x), exact or by tanh ("none" or "tanh")."""


class SiLU(FunctionModule, of=F.silu, options="inplace"):
    """x sigmoid(x)."""


class Mish(FunctionModule, of=F.mish, options="inplace"):
    """x tanh(softplus(x))."""


class Sigmoid(FunctionModule, of=F.sigmoid):
    """1 / (1 + e^-x)."""


class Hardsigmoid(FunctionModule, of=F.hardsigmoid, options="inplace"):
    """min(max(x / 6 + 1/2, 0), 1)."""


class LogSigmoid(FunctionModule, of=F.logsigmoid):
    """log sigmoid(x), without overflow."""


class Hardswish(FunctionModule, of=F.hardswish, options="inplace"):
    """x min(max(x + 3, 0), 6) / 6."""


class Tanh(FunctionModule, of=F.tanh):
    """tanh(x)."""


class Hardtanh(FunctionModule, of=F.hardtanh, options="min_val max_val inplace"):
    """x cut to [min_val, max_val]."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        if not self.min_val < self.max_val:
            raise ArgumentError(
                f"Hardtanh: got min_val {self.min_val} and max_val {self.max_val}, expected the "
                "first below the second."
            )


class Softplus(FunctionModule, of=F.softplus, options="beta threshold"):
    """log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold."""


class Softsign(FunctionModule, of=F.softsign):
    """x / (1 + |x|)."""


class GLU(FunctionModule, of=F.glu, options="dim"):
    """First half times sigmoid of the second half, along `dim`."""


class Softmax(FunctionModule, of=F.softmax, options="dim"):
    """e^x over its sum along `dim`."""


class LogSoftmax(FunctionModule, of=F.log_softmax, options="dim"):
    """log softmax(x) along `dim`, without overflow."""


class PReLU(Module):
    """x where positive, a learned slope times x elsewhere; one slope, or one a channel (axis 1)."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.weight = empty_parameter((num_parameters,), device, dtype)
        _fill(self.weight, init)

    def forward(self, x: Tensor) -> Tensor:
        """Return the piecewise linear function of `x`."""
        return F.prelu(x, self.weight)

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.num_parameters}"


_fill = init.constant_  # PReLU's argument `init` hides the module
