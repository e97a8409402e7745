"""Convolutions as layers, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from ..lined import lined
from ..node import Node, convert
from ..operators import images
from ..operators.shaping import transpose
from ..variable_scope import variable_scope
from .parts import Activation, Weights, ending, known_size, layout


@lined
def conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Node:
    """A convolution of images with kernels (h, w, C, filters), and a bias."""
    x, how = convert(inputs), layout(data_format)
    channels = known_size("conv2d", x, 1 if how == "NCHW" else -1)
    window = images.inner("conv2d", kernel_size)
    weights = Weights(kernel_initializer, kernel_regularizer, kernel_constraint, trainable)
    bias = (bias_initializer, bias_regularizer, bias_constraint)
    end = ending(use_bias, bias, trainable, activation, activity_regularizer, data_format)
    with variable_scope(name, "conv2d", reuse=reuse):
        kernel = weights.made("kernel", [*window, channels, filters], x.dtype)
        steps, apart = images.inner("conv2d", strides), images.inner("conv2d", dilation_rate)
        y = images.conv2d(x, kernel, steps, padding, data_format=how, dilations=apart)
        return end.of(y, filters)


@lined
def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = 1,
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Node:
    """A convolution of sequences (N, W, C) with kernels (w, C, filters), and a bias."""
    first = layout(data_format) == "NCHW"
    x = transpose(inputs, (0, 2, 1)) if first else convert(inputs)
    channels = known_size("conv1d", x, -1)
    width, step, apart = map(_one, (kernel_size, strides, dilation_rate))
    weights = Weights(kernel_initializer, kernel_regularizer, kernel_constraint, trainable)
    bias = (bias_initializer, bias_regularizer, bias_constraint)
    end = ending(use_bias, bias, trainable, activation, activity_regularizer)
    with variable_scope(name, "conv1d", reuse=reuse):
        kernel = weights.made("kernel", [width, channels, filters], x.dtype)
        y = end.of(images.conv1d(x, kernel, step, padding, dilations=apart), filters)
    return transpose(y, (0, 2, 1)) if first else y


def _one(size: Any) -> int:
    """Return a size that may stand in a list of one."""
    return int(size[0] if isinstance(size, list | tuple) else size)


@lined
def conv2d_transpose(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Node:
    """The transposed convolution, which makes images larger, and a bias."""
    x, how = convert(inputs), layout(data_format)
    channels = known_size("conv2d_transpose", x, 1 if how == "NCHW" else -1)
    window = images.inner("conv2d_transpose", kernel_size)
    weights = Weights(kernel_initializer, kernel_regularizer, kernel_constraint, trainable)
    bias = (bias_initializer, bias_regularizer, bias_constraint)
    end = ending(use_bias, bias, trainable, activation, activity_regularizer, data_format)
    with variable_scope(name, "conv2d_transpose", reuse=reuse):
        kernel = weights.made("kernel", [*window, filters, channels], x.dtype)
        steps = images.inner("conv2d_transpose", strides)
        y = images.conv2d_transpose(x, kernel, [None] * 4, steps, padding, how)
        return end.of(y, filters)


@lined
def separable_conv2d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str = "channels_last",
    dilation_rate: Any = (1, 1),
    depth_multiplier: int = 1,
    activation: Activation | None = None,
    use_bias: bool = True,
    depthwise_initializer: Any = None,
    pointwise_initializer: Any = None,
    bias_initializer: Any = None,
    depthwise_regularizer: Any = None,
    pointwise_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    depthwise_constraint: Any = None,
    pointwise_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Node:
    """Each channel convolved by itself, the results mixed by a 1x1 convolution, and a bias."""
    x, how = convert(inputs), layout(data_format)
    channels = known_size("separable_conv2d", x, 1 if how == "NCHW" else -1)
    window = images.inner("separable_conv2d", kernel_size)
    each = Weights(depthwise_initializer, depthwise_regularizer, depthwise_constraint, trainable)
    mix = Weights(pointwise_initializer, pointwise_regularizer, pointwise_constraint, trainable)
    bias = (bias_initializer, bias_regularizer, bias_constraint)
    end = ending(use_bias, bias, trainable, activation, activity_regularizer, data_format)
    with variable_scope(name, "separable_conv2d", reuse=reuse):
        apart = each.made("depthwise_kernel", [*window, channels, depth_multiplier], x.dtype)
        wide = channels * depth_multiplier
        mixing = mix.made("pointwise_kernel", [1, 1, wide, filters], x.dtype)
        steps = images.inner("separable_conv2d", strides)
        rate = images.inner("separable_conv2d", dilation_rate)
        y = images.separable_conv2d(x, apart, mixing, steps, padding, rate, data_format=how)
        return end.of(y, filters)
