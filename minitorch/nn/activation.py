"""Activations as modules: one line of formula and one of defaults each.

`inplace` is taken for PyTorch's sake and changes nothing: results are always new tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from minitorch.arrays import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.module import Module
from minitorch.nn.parameter import empty_parameter
from minitorch.tensor import Tensor


class Activation(Module):
    """A function of `nn.functional` with its arguments fixed, in the order of `defaults`."""

    function: ClassVar[Callable[..., Any]]
    defaults: ClassVar[Mapping[str, Any]] = {}
    accepts_inplace: ClassVar[bool] = False

    def __init__(self, *args: Any, **kwargs: object) -> None:
        super().__init__()
        names = [*self.defaults, *(["inplace"] if self.accepts_inplace else [])]
        given = dict(zip(names, args, strict=False)) | kwargs
        unknown = sorted(given.keys() - set(names))
        if len(args) > len(names) or unknown:
            got = unknown or list(args)
            raise TypeError(f"{self._get_name()}: got {got}, expected {names or 'no arguments'}.")
        given.pop("inplace", None)
        self.__dict__.update({**self.defaults, **given})

    def forward(self, x: Tensor) -> Tensor:
        """Return the function of `x`, element by element unless the class says otherwise."""
        own = self.__dict__
        result: Tensor = type(self).function(x, **{name: own[name] for name in self.defaults})
        return result

    def extra_repr(self) -> str:
        """Return the arguments."""
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self.defaults)


class ReLU(Activation):
    """max(x, 0)."""

    function = staticmethod(F.relu)
    accepts_inplace = True

    def forward(self, x: Tensor) -> Tensor:
        """Return max(x, 0)."""
        return F.relu(x)  # type: ignore[no-any-return]


class ReLU6(Activation):
    """min(max(x, 0), 6)."""

    function = staticmethod(F.relu6)
    accepts_inplace = True


class LeakyReLU(Activation):
    """x where positive, negative_slope x elsewhere."""

    function = staticmethod(F.leaky_relu)
    defaults: ClassVar[Mapping[str, Any]] = {"negative_slope": 0.01}
    accepts_inplace = True


class ELU(Activation):
    """x where positive, alpha (e^x - 1) elsewhere."""

    function = staticmethod(F.elu)
    defaults: ClassVar[Mapping[str, Any]] = {"alpha": 1.0}
    accepts_inplace = True


class SELU(Activation):
    """ELU with the scale and alpha that keep mean 0 and variance 1."""

    function = staticmethod(F.selu)
    accepts_inplace = True


class GELU(Activation):
    """x Phi(x), exact or by tanh ("none" or "tanh")."""

    function = staticmethod(F.gelu)
    defaults: ClassVar[Mapping[str, Any]] = {"approximate": "none"}


class SiLU(Activation):
    """x sigmoid(x)."""

    function = staticmethod(F.silu)
    accepts_inplace = True


class Mish(Activation):
    """x tanh(softplus(x))."""

    function = staticmethod(F.mish)
    accepts_inplace = True


class Sigmoid(Activation):
    """1 / (1 + e^-x)."""

    function = staticmethod(F.sigmoid)


class Hardsigmoid(Activation):
    """min(max(x / 6 + 1/2, 0), 1)."""

    function = staticmethod(F.hardsigmoid)
    accepts_inplace = True


class LogSigmoid(Activation):
    """log sigmoid(x), without overflow."""

    function = staticmethod(F.logsigmoid)


class Hardswish(Activation):
    """x min(max(x + 3, 0), 6) / 6."""

    function = staticmethod(F.hardswish)
    accepts_inplace = True


class Tanh(Activation):
    """tanh(x)."""

    function = staticmethod(F.tanh)


class Hardtanh(Activation):
    """x cut to [min_val, max_val]."""

    function = staticmethod(F.hardtanh)
    defaults: ClassVar[Mapping[str, Any]] = {"min_val": -1.0, "max_val": 1.0}
    accepts_inplace = True

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        if not self.min_val < self.max_val:
            raise ArgumentError(
                f"Hardtanh: got min_val {self.min_val} and max_val {self.max_val}, expected the "
                "first below the second."
            )


class Softplus(Activation):
    """log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold."""

    function = staticmethod(F.softplus)
    defaults: ClassVar[Mapping[str, Any]] = {"beta": 1.0, "threshold": 20.0}


class Softsign(Activation):
    """x / (1 + |x|)."""

    function = staticmethod(F.softsign)


class GLU(Activation):
    """First half times sigmoid of the second half, along `dim`."""

    function = staticmethod(F.glu)
    defaults: ClassVar[Mapping[str, Any]] = {"dim": -1}


class Softmax(Activation):
    """e^x over its sum along `dim`."""

    function = staticmethod(F.softmax)
    defaults: ClassVar[Mapping[str, Any]] = {"dim": None}


class LogSoftmax(Activation):
    """log softmax(x) along `dim`, without overflow."""

    function = staticmethod(F.log_softmax)
    defaults: ClassVar[Mapping[str, Any]] = {"dim": None}


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
