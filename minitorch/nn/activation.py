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


class Activation(FunctionModule):
    """A function of one tensor, element by element unless the class says otherwise."""

    def extra_repr(self) -> str:
        """Return the arguments."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.defaults)


class ReLU(Activation, options="inplace"):
    """max(x, 0)."""

    function = staticmethod(F.relu)

    def forward(self, *inputs: Tensor) -> Tensor:
        """Return max(x, 0)."""
        return F.relu(*inputs)  # type: ignore[no-any-return]


class ReLU6(Activation, options="inplace"):
    """min(max(x, 0), 6)."""

    function = staticmethod(F.relu6)


class LeakyReLU(Activation, options="negative_slope inplace"):
    """x where positive, negative_slope x elsewhere."""

    function = staticmethod(F.leaky_relu)


class ELU(Activation, options="alpha inplace"):
    """x where positive, alpha (e^x - 1) elsewhere."""

    function = staticmethod(F.elu)


class SELU(Activation, options="inplace"):
    """ELU with the scale and alpha that keep mean 0 and variance 1."""

    function = staticmethod(F.selu)


class GELU(Activation, options="approximate"):
    """x Phi(x), exact or by tanh ("none" or "tanh")."""

    function = staticmethod(F.gelu)


class SiLU(Activation, options="inplace"):
    """x sigmoid(x)."""

    function = staticmethod(F.silu)


class Mish(Activation, options="inplace"):
    """x tanh(softplus(x))."""

    function = staticmethod(F.mish)


class Sigmoid(Activation):
    """1 / (1 + e^-x)."""

    function = staticmethod(F.sigmoid)


class Hardsigmoid(Activation, options="inplace"):
    """min(max(x / 6 + 1/2, 0), 1)."""

    function = staticmethod(F.hardsigmoid)


class LogSigmoid(Activation):
    """log sigmoid(x), without overflow."""

    function = staticmethod(F.logsigmoid)


class Hardswish(Activation, options="inplace"):
    """x min(max(x + 3, 0), 6) / 6."""

    function = staticmethod(F.hardswish)


class Tanh(Activation):
    """tanh(x)."""

    function = staticmethod(F.tanh)


class Hardtanh(Activation, options="min_val max_val inplace"):
    """x cut to [min_val, max_val]."""

    function = staticmethod(F.hardtanh)

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        if not self.min_val < self.max_val:
            raise ArgumentError(
                f"Hardtanh: got min_val {self.min_val} and max_val {self.max_val}, expected the "
                "first below the second."
            )


class Softplus(Activation, options="beta threshold"):
    """log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold."""

    function = staticmethod(F.softplus)


class Softsign(Activation):
    """x / (1 + |x|)."""

    function = staticmethod(F.softsign)


class GLU(Activation, options="dim"):
    """First half times sigmoid of the second half, along `dim`."""

    function = staticmethod(F.glu)


class Softmax(Activation, options="dim"):
    """e^x over its sum along `dim`."""

    function = staticmethod(F.softmax)


class LogSoftmax(Activation, options="dim"):
    """log softmax(x) along `dim`, without overflow."""

    function = staticmethod(F.log_softmax)


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
        slope: Tensor = self.weight
        if self.num_parameters > 1:
            slope = slope.reshape(-1, *[1] * (x.ndim - 2))
        return F.relu(x) - slope * F.relu(-x)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Return the number of slopes."""
        return f"num_parameters={self.num_parameters}"


_fill = init.constant_  # PReLU's argument `init` hides the module
