"""Convolutions. Legend: N batch, C input channels, O output channels, then 1 or 2 space axes."""

import math
from collections.abc import Sequence
from typing import ClassVar

from minitorch.arrays.library import DeviceLike, DTypeLike
from minitorch.errors import ArgumentError
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter, empty_parameter
from minitorch.tensor.tensor import Tensor

Size = int | tuple[int, ...]


def each_axis(value: int | Sequence[int], axes: int) -> tuple[int, ...]:
    """Return one size for each space axis, of a number or of a sequence."""
    return tuple(value) if hasattr(value, "__iter__") else (value,) * axes


class _Convolution(Module):
    """What the three classes share: sizes, parameters, and their start."""

    axes: ClassVar[int]
    transposed: ClassVar[bool] = False
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, groups, padding_mode)
        strides = each_axis(stride, self.axes)
        if isinstance(padding, str) and (
            self.transposed
            or padding not in ("same", "valid")
            or (padding == "same" and strides != (1,) * self.axes)
        ):
            raise ArgumentError(
                f"{type(self).__name__}: got padding {padding!r} and stride {stride}, expected "
                "numbers, or, not transposed, 'valid' or with stride 1 'same'."
            )
        if min(each_axis(kernel_size, self.axes)) < 1:
            raise ArgumentError(
                f"{type(self).__name__}: got kernel_size {kernel_size}, expected 1 or more."
            )
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = each_axis(kernel_size, self.axes)
        self.stride = strides
        self.padding = padding if isinstance(padding, str) else each_axis(padding, self.axes)
        self.dilation = each_axis(dilation, self.axes)
        self.groups = groups
        self.padding_mode = padding_mode
        first, second = out_channels, in_channels // groups
        if self.transposed:
            first, second = in_channels, out_channels // groups
        self.weight = empty_parameter((first, second, *self.kernel_size), device, dtype)
        self.register_parameter(
            "bias", empty_parameter((out_channels,), device, dtype) if bias else None
        )
        self.reset_parameters()

    def _check(self, in_channels: int, out_channels: int, groups: int, mode: str) -> None:
        name = type(self).__name__
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise ArgumentError(
                f"{name}: got {in_channels} and {out_channels} channels in {groups} groups, "
                "expected numbers that the groups divide."
            )
        modes = ("zeros",) if self.transposed else ("zeros", "reflect", "replicate", "circular")
        if mode not in modes:
            raise ArgumentError(f"{name}: got padding_mode {mode!r}, expected one of {modes}.")

    def reset_parameters(self) -> None:
        """Draw weight and bias anew: uniform within 1 / sqrt(inputs of one output)."""
        fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
        bound = 1.0 / math.sqrt(fan_in) if fan_in else 0.0
        for param in self.parameters():
            init.uniform_(param, -bound, bound)

    def extra_repr(self) -> str:
        """Return what differs from the defaults, as PyTorch does."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}"
        text += f", stride={self.stride}"
        none, ones = (0,) * self.axes, (1,) * self.axes
        usual = {"padding": none, "dilation": ones, "output_padding": none, "groups": 1}
        for name, default in usual.items():
            value = getattr(self, name, default)
            text += "" if value == default else f", {name}={value}"
        text += ", bias=False" if self.bias is None else ""
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_Convolution):
    """A convolution with kernels (O, C / groups, *kernel)."""

    def forward(self, input: Tensor) -> Tensor:
        """Return (N, O, ...) for `input` of (N, C, ...); N may be left out."""
        padding = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._border(), mode=self.padding_mode)
            padding = (0,) * self.axes
        function = F.conv1d if self.axes == 1 else F.conv2d
        result: Tensor = function(
            input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups
        )
        return result

    def _border(self) -> list[int]:
        """Return (before, after) of every axis, last axis first, as `pad` wants it."""
        border: list[int] = []
        for i in reversed(range(self.axes)):
            if isinstance(self.padding, str):
                reach = self.dilation[i] * (self.kernel_size[i] - 1) * (self.padding == "same")
                border += [reach // 2, reach - reach // 2]
            else:
                border += [self.padding[i]] * 2
        return border


class Conv1d(_Conv):
    """Convolution of (N, C, L). Starts uniform within 1 / sqrt(C / groups * kernel)."""

    axes = 1


class Conv2d(_Conv):
    """Convolution of (N, C, H, W). Starts uniform within 1 / sqrt(C / groups * kernel)."""

    axes = 2


class ConvTranspose2d(_Convolution):
    """Transposed convolution of (N, C, H, W), with kernels (C, O / groups, *kernel)."""

    axes, transposed = 2, True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        where = (stride, padding, dilation, groups)
        super().__init__(
            in_channels, out_channels, kernel_size, *where, bias, padding_mode, device, dtype
        )
        self.output_padding = each_axis(output_padding, self.axes)

    def forward(self, input: Tensor) -> Tensor:
        """Return (N, O, ...)."""
        how = (self.stride, self.padding, self.output_padding, self.groups, self.dilation)
        result: Tensor = F.conv_transpose2d(input, self.weight, self.bias, *how)
        return result
