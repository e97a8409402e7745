"""Functions as modules: activations, dropout, losses, pools, shapes, borders.

The options of each are fixed when it is made; a class says which function and names the options.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from minitorch.arrays.library import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError
from minitorch.exports import own_names
from minitorch.nn import functional as F
from minitorch.nn.conv import each_axis
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor.creation import full
from minitorch.tensor.modes import no_grad
from minitorch.tensor.tensor import Tensor


class _FunctionModule(Module):
    """A module that calls a function; a subclass says which one, and its `options`.

        class Softmax(_FunctionModule, of=F.softmax, options="dim"): ...

    The options stand in torch's order; their defaults are those of the function; "inplace"
    is False, and shown only where it is not.
    """

    function: ClassVar[Callable[..., Any]]
    options: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init_subclass__(cls, of: Callable[..., Any] | None = None, options: str = "") -> None:
        super().__init_subclass__()
        if of is not None:
            parameters = inspect.signature(of).parameters
            cls.function = staticmethod(of)
            cls.options = tuple(options.split())
            cls.defaults = {
                name: False if name == "inplace" else parameters[name].default
                for name in cls.options
                if name in parameters or name == "inplace"
            }

    def __init__(self, *args: Any, **kwargs: object) -> None:
        super().__init__()
        names = self.options
        values = {**self.defaults, **dict(zip(names, args, strict=False)), **kwargs}
        unknown = sorted(values.keys() - set(names))
        if len(args) > len(names) or unknown:
            got = unknown or list(args)
            raise TypeError(f"{self._get_name()}: got {got}, expected {names or 'no arguments'}.")
        for name in self.defaults:
            value = values[name]
            if value is inspect.Parameter.empty:
                raise TypeError(f"{self._get_name()}: got no {name}. Pass one.")
            if name in ("weight", "pos_weight"):  # of the classes: state, but not trained
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *inputs: Tensor, **named: Tensor) -> Tensor:
        options = {name: getattr(self, name) for name in self.defaults}
        if named:
            options.update(named)
        result: Tensor = type(self).function(*inputs, **options)
        return result

    def extra_repr(self) -> str:
        shown = [name for name in self.defaults if name != "inplace" or self.inplace]
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)


# ── activations ───────────────────────────────────────────────────────────────────────────────────


class ReLU(_FunctionModule, of=F.relu, options="inplace"):
    """max(x, 0)."""


class ReLU6(_FunctionModule, of=F.relu6, options="inplace"):
    """min(max(x, 0), 6)."""


class LeakyReLU(_FunctionModule, of=F.leaky_relu, options="negative_slope inplace"):
    """x where positive, negative_slope x elsewhere."""


class ELU(_FunctionModule, of=F.elu, options="alpha inplace"):
    """x where positive, alpha (e^x - 1) elsewhere."""


class SELU(_FunctionModule, of=F.selu, options="inplace"):
    """ELU with the scale and alpha that keep mean 0 and variance 1."""


class GELU(_FunctionModule, of=F.gelu, options="approximate"):
    """x Phi(x), exact or by tanh ("none" or "tanh")."""


class SiLU(_FunctionModule, of=F.silu, options="inplace"):
    """x sigmoid(x)."""


class Mish(_FunctionModule, of=F.mish, options="inplace"):
    """x tanh(softplus(x))."""


class Sigmoid(_FunctionModule, of=F.sigmoid):
    """1 / (1 + e^-x)."""


class Hardsigmoid(_FunctionModule, of=F.hardsigmoid, options="inplace"):
    """min(max(x / 6 + 1/2, 0), 1)."""


class LogSigmoid(_FunctionModule, of=F.logsigmoid):
    """log sigmoid(x), without overflow."""


class Hardswish(_FunctionModule, of=F.hardswish, options="inplace"):
    """x min(max(x + 3, 0), 6) / 6."""


class Tanh(_FunctionModule, of=F.tanh):
    """tanh(x)."""


class Hardtanh(_FunctionModule, of=F.hardtanh, options="min_val max_val inplace"):
    """x cut to [min_val, max_val]; outside and on the bounds the slope is 0."""


class Softplus(_FunctionModule, of=F.softplus, options="beta threshold"):
    """log(1 + e^(beta x)) / beta; x itself where beta x is above the threshold."""


class Softsign(_FunctionModule, of=F.softsign):
    """x / (1 + |x|)."""


class GLU(_FunctionModule, of=F.glu, options="dim"):
    """First half times sigmoid of the second half, along `dim`."""


class Softmax(_FunctionModule, of=F.softmax, options="dim"):
    """e^x over its sum along `dim`."""


class LogSoftmax(_FunctionModule, of=F.log_softmax, options="dim"):
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
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(full((num_parameters,), init, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set every slope to the first one."""
        with no_grad():
            self.weight.fill_(self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return f"num_parameters={self.num_parameters}"


class Dropout(_FunctionModule, of=F.dropout, options="p inplace"):
    """In training each element is 0 with probability p, else x / (1 - p); otherwise x.

    Source: Srivastava et al., JMLR 15, 2014.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        if not 0.0 <= self.p <= 1.0:
            raise ArgumentError(f"{self._get_name()}: got p {self.p}, expected one in [0, 1].")

    def forward(self, input: Tensor) -> Tensor:  # type: ignore[override]
        result: Tensor = type(self).function(input, self.p, self.training, self.inplace)
        return result

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout1d(Dropout, of=F.dropout1d, options="p inplace"):
    """Dropout of whole channels of (N, C, L) or (C, L)."""


class Dropout2d(Dropout, of=F.dropout2d, options="p inplace"):
    """Dropout of whole channels of (N, C, H, W) or (C, H, W)."""


# ── losses ────────────────────────────────────────────────────────────────────────────────────────


class _Loss(_FunctionModule):
    """A function of input and target; `reduction` is "mean", "sum" or "none", as in PyTorch."""

    def extra_repr(self) -> str:
        return ""


class MSELoss(_Loss, of=F.mse_loss, options="reduction"):
    """(x - y)^2."""


class L1Loss(_Loss, of=F.l1_loss, options="reduction"):
    """|x - y|."""


class SmoothL1Loss(_Loss, of=F.smooth_l1_loss, options="reduction beta"):
    """(x - y)^2 / (2 beta) within beta, |x - y| - beta / 2 outside."""


class HuberLoss(_Loss, of=F.huber_loss, options="reduction delta"):
    """(x - y)^2 / 2 within delta, delta (|x - y| - delta / 2) outside."""


class CrossEntropyLoss(
    _Loss, of=F.cross_entropy, options="weight ignore_index reduction label_smoothing"
):
    """-log softmax(x) at the target class, over axis 1; a target of x's shape is probabilities."""


class NLLLoss(_Loss, of=F.nll_loss, options="weight ignore_index reduction"):
    """-x at the target class, where x is already a log probability."""


class BCELoss(_Loss, of=F.binary_cross_entropy, options="weight reduction"):
    """-(y log x + (1 - y) log(1 - x))."""


class BCEWithLogitsLoss(
    _Loss, of=F.binary_cross_entropy_with_logits, options="weight reduction pos_weight"
):
    """Binary cross-entropy of sigmoid(x), without overflow."""


class KLDivLoss(_Loss, of=F.kl_div, options="reduction log_target"):
    """y (log y - x), where x is a log probability."""


class CosineEmbeddingLoss(_Loss, of=F.cosine_embedding_loss, options="margin reduction"):
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1."""


class MarginRankingLoss(_Loss, of=F.margin_ranking_loss, options="margin reduction"):
    """max(0, margin - y (x1 - x2))."""


class TripletMarginLoss(_Loss, of=F.triplet_margin_loss, options="margin p eps swap reduction"):
    """max(0, d(anchor, positive) - d(anchor, negative) + margin)."""


class CosineSimilarity(_FunctionModule, of=F.cosine_similarity, options="dim eps"):
    """The cosine of the angle between the vectors along `dim`."""


# ── pools ─────────────────────────────────────────────────────────────────────────────────────────


class _Pool(_FunctionModule):
    """A pool over windows, which lie side by side unless a stride is given."""

    stride: Any

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.stride = self.kernel_size if self.stride is None else self.stride

    def extra_repr(self) -> str:
        shown = "kernel_size stride padding"
        if "dilation" in self.options:
            shown += " dilation ceil_mode"
        return ", ".join(f"{name}={getattr(self, name)}" for name in shown.split())


_OF_MAX = "kernel_size stride padding dilation return_indices ceil_mode"
_OF_MEAN = "kernel_size stride padding ceil_mode count_include_pad"


class MaxPool1d(_Pool, of=F.max_pool1d, options=_OF_MAX):
    """The largest of every window of (N, C, L); with `return_indices` also where it is."""


class MaxPool2d(_Pool, of=F.max_pool2d, options=_OF_MAX):
    """The largest of every window of (N, C, H, W); with `return_indices` also where it is."""


class AvgPool1d(_Pool, of=F.avg_pool1d, options=_OF_MEAN):
    """The mean of every window of (N, C, L)."""


class AvgPool2d(_Pool, of=F.avg_pool2d, options=f"{_OF_MEAN} divisor_override"):
    """The mean of every window of (N, C, H, W)."""


class AdaptiveAvgPool1d(_FunctionModule, of=F.adaptive_avg_pool1d, options="output_size"):
    """Means of (N, C, L) to a length."""


class AdaptiveAvgPool2d(_FunctionModule, of=F.adaptive_avg_pool2d, options="output_size"):
    """Means of (N, C, H, W) to a size; a None keeps the input's."""


def _flatten(input: Tensor, start_dim: int = 1, end_dim: int = -1) -> Tensor:
    return input.flatten(start_dim, end_dim)


class Flatten(_FunctionModule, of=_flatten, options="start_dim end_dim"):
    """Axes start_dim to end_dim as one; by default all but the first."""


def _unflatten(input: Tensor, dim: int, unflattened_size: tuple[int, ...]) -> Tensor:
    return input.unflatten(dim, unflattened_size)


class Unflatten(_FunctionModule, of=_unflatten, options="dim unflattened_size"):
    """Axis `dim` as several of the given sizes."""


class PixelShuffle(_FunctionModule, of=F.pixel_shuffle, options="upscale_factor"):
    """(N, C r^2, H, W) as (N, C, H r, W r): channels become the pixels between."""


class Upsample(
    _FunctionModule,
    of=F.interpolate,
    options="size scale_factor mode align_corners recompute_scale_factor",
):
    """(N, C, ...) with its last axes made larger, by repeated or by weighted elements."""

    def extra_repr(self) -> str:
        """Return the new size, or the factor, and the mode."""
        name = "size" if self.scale_factor is None else "scale_factor"
        return f"{name}={getattr(self, name)!r}, mode={self.mode!r}"


# ── borders ───────────────────────────────────────────────────────────────────────────────────────


class _Pad(Module):
    """A border around the last `axes` axes: (before, after) in pairs, last axis first."""

    axes: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: int | Sequence[int], value: float | None = None) -> None:
        super().__init__()
        self.padding = each_axis(padding, 2 * self.axes)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode, self.value)

    def extra_repr(self) -> str:
        """Return the widths, and the number around where one was given."""
        if self.value is None:
            return str(self.padding)
        return f"padding={self.padding}, value={self.value}"


def _pad(name: str, axes: int, mode: str, says: str) -> type[_Pad]:
    """Return a class: the same border for 1 or 2 axes."""
    return type(
        name, (_Pad,), {"axes": axes, "mode": mode, "__doc__": says, "__module__": __name__}
    )


ConstantPad1d = _pad("ConstantPad1d", 1, "constant", "One number around (.., L).")
ConstantPad2d = _pad("ConstantPad2d", 2, "constant", "One number around (.., H, W).")
ZeroPad1d = _pad("ZeroPad1d", 1, "constant", "Zeros around (.., L).")
ZeroPad2d = _pad("ZeroPad2d", 2, "constant", "Zeros around (.., H, W).")
ReflectionPad1d = _pad("ReflectionPad1d", 1, "reflect", "The input mirrored around (.., L).")
ReflectionPad2d = _pad("ReflectionPad2d", 2, "reflect", "The input mirrored at 2 axes.")
ReplicationPad1d = _pad("ReplicationPad1d", 1, "replicate", "The rim repeated, (.., L).")
ReplicationPad2d = _pad("ReplicationPad2d", 2, "replicate", "The rim repeated at 2 axes.")
CircularPad1d = _pad("CircularPad1d", 1, "circular", "The other end's elements, (.., L).")
CircularPad2d = _pad("CircularPad2d", 2, "circular", "The other end's elements, 2 axes.")

if not TYPE_CHECKING:
    __all__ = own_names(globals())
