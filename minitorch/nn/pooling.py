"""Pools over windows and over the whole, borders around an input, and pixels from channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitorch.nn import functional as F
from minitorch.nn.conv import each_axis
from minitorch.nn.function_module import FunctionModule
from minitorch.nn.module import Module
from minitorch.tensor import Tensor


class _Pool(FunctionModule):
    """A pool over windows, which lie side by side unless a stride is given."""

    stride: Any

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self.stride = self.kernel_size if self.stride is None else self.stride

    def extra_repr(self) -> str:
        """Return the sizes."""
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


class AdaptiveAvgPool1d(FunctionModule, of=F.adaptive_avg_pool1d, options="output_size"):
    """Means of (N, C, L) to a length."""


class AdaptiveAvgPool2d(FunctionModule, of=F.adaptive_avg_pool2d, options="output_size"):
    """Means of (N, C, H, W) to a size; a None keeps the input's."""


class PixelShuffle(FunctionModule, of=F.pixel_shuffle, options="upscale_factor"):
    """(N, C r^2, H, W) as (N, C, H r, W r): channels become the pixels between."""


# ── borders ─────────────────────────────────────────────────────────────────────────────────────


class _Pad(Module):
    """A border around the last `axes` axes: (before, after) in pairs, last axis first."""

    axes: ClassVar[int]
    mode: ClassVar[str] = "constant"

    def __init__(self, padding: int | Sequence[int], value: float | None = None) -> None:
        super().__init__()
        self.padding = each_axis(padding, 2 * self.axes)
        self.value = value

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with its border."""
        return F.pad(x, self.padding, self.mode, self.value)

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
