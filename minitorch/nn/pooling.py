"""Pools over windows, over the whole, and borders around an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from minitorch.nn import functional as F
from minitorch.nn.conv import Size, each_axis
from minitorch.nn.module import Module
from minitorch.tensor import Tensor


class _MaxPool(Module):
    """The largest element of every window."""

    axes: ClassVar[int]

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        dilation: Size = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, x: Tensor) -> Any:
        """Return the maxima, and with `return_indices` their places too."""
        function = F.max_pool1d if self.axes == 1 else F.max_pool2d
        how = (self.kernel_size, self.stride, self.padding, self.dilation)
        return function(x, *how, self.ceil_mode, self.return_indices)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The largest of every window of (N, C, L)."""

    axes = 1


class MaxPool2d(_MaxPool):
    """The largest of every window of (N, C, H, W)."""

    axes = 2


class _AvgPool(Module):
    """The mean of every window."""

    axes: ClassVar[int]
    divisor_override: int | None = None

    def __init__(
        self,
        kernel_size: Size,
        stride: Size | None = None,
        padding: Size = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        if self.axes == 1:  # torch shows tuples
            kernel_size, padding = each_axis(kernel_size, 1), each_axis(padding, 1)
            stride = None if stride is None else each_axis(stride, 1)
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def forward(self, x: Tensor) -> Tensor:
        """Return the means."""
        how = (self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)
        if self.axes == 1:
            return F.avg_pool1d(x, *how)
        return F.avg_pool2d(x, *how, self.divisor_override)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPool):
    """The mean of every window of (N, C, L)."""

    axes = 1


class AvgPool2d(_AvgPool):
    """The mean of every window of (N, C, H, W)."""

    axes = 2


class _AdaptivePool(Module):
    """Windows that share the input out evenly, as many as asked for."""

    def __init__(
        self, output_size: int | Sequence[int | None], return_indices: bool = False
    ) -> None:
        super().__init__()
        self.output_size = output_size
        self.return_indices = return_indices

    def extra_repr(self) -> str:
        """Return the output size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """Means of (N, C, L) to a length."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the means."""
        return F.adaptive_avg_pool1d(x, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """Means of (N, C, H, W) to a size; a None keeps the input's."""

    def forward(self, x: Tensor) -> Tensor:
        """Return the means."""
        return F.adaptive_avg_pool2d(x, self.output_size)


# ── borders ─────────────────────────────────────────────────────────────────────────────────────


class _Pad(Module):
    """A border around the last `axes` axes: (before, after) in pairs, last axis first."""

    axes: ClassVar[int]
    mode: ClassVar[str] = "constant"
    value: float = 0.0

    def __init__(self, padding: int | Sequence[int]) -> None:
        super().__init__()
        self.padding = each_axis(padding, 2 * self.axes)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with its border."""
        if self.mode == "constant":
            return F.pad(x, self.padding, value=self.value)
        return F.pad(x, self.padding, mode=self.mode)

    def extra_repr(self) -> str:
        """Return the widths."""
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding: int | Sequence[int], value: float) -> None:
        super().__init__(padding)
        self.value = value

    def extra_repr(self) -> str:
        """Return widths and value."""
        return f"padding={self.padding}, value={self.value}"


def _pad(name: str, base: type[_Pad], axes: int, mode: str, says: str) -> Any:
    """Return a class: the same border for 1 or 2 axes."""
    return type(
        name, (base,), {"axes": axes, "mode": mode, "__doc__": says, "__module__": __name__}
    )


ConstantPad1d = _pad("ConstantPad1d", _ConstantPad, 1, "constant", "One number around (.., L).")

ConstantPad2d = _pad("ConstantPad2d", _ConstantPad, 2, "constant", "One number around (.., H, W).")

ZeroPad1d = _pad("ZeroPad1d", _Pad, 1, "constant", "Zeros around (.., L).")

ZeroPad2d = _pad("ZeroPad2d", _Pad, 2, "constant", "Zeros around (.., H, W).")

ReflectionPad1d = _pad("ReflectionPad1d", _Pad, 1, "reflect", "The input mirrored around (.., L).")

ReflectionPad2d = _pad("ReflectionPad2d", _Pad, 2, "reflect", "The input mirrored at 2 axes.")

ReplicationPad1d = _pad("ReplicationPad1d", _Pad, 1, "replicate", "The rim repeated, (.., L).")

ReplicationPad2d = _pad("ReplicationPad2d", _Pad, 2, "replicate", "The rim repeated at 2 axes.")

CircularPad1d = _pad("CircularPad1d", _Pad, 1, "circular", "The other end's elements, (.., L).")

CircularPad2d = _pad("CircularPad2d", _Pad, 2, "circular", "The other end's elements, 2 axes.")
