"""Convolutions as layers, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from .layer_parts import Activation, finish, known_size, layout
from .lined import lined
from .node import Node, convert
from .operators import images
from .variable_scope import get_variable, variable_scope


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
    with variable_scope(name, "conv2d", reuse=reuse):
        sizes = [*window, channels, filters]
        kernel = get_variable(
            "kernel", sizes, x.dtype, kernel_initializer, kernel_regularizer, trainable
        )
        steps, apart = images.inner("conv2d", strides), images.inner("conv2d", dilation_rate)
        y = images.conv2d(x, kernel, steps, padding, data_format=how, dilations=apart)
        more = (activation, trainable, data_format)
        return finish(y, filters, use_bias, bias_initializer, bias_regularizer, *more)


@lined
def conv1d(
    inputs: Any,
    filters: int,
    kernel_size: Any,
    strides: Any = 1,
    padding: str = "valid",
    activation: Activation | None = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = None,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Node:
    """A convolution of sequences (N, W, C) with kernels (w, C, filters), and a bias."""
    x = convert(inputs)
    channels = known_size("conv1d", x, -1)
    width = kernel_size if isinstance(kernel_size, int) else kernel_size[0]
    step = strides if isinstance(strides, int) else strides[0]
    with variable_scope(name, "conv1d", reuse=reuse):
        sizes = [width, channels, filters]
        kernel = get_variable(
            "kernel", sizes, x.dtype, kernel_initializer, kernel_regularizer, trainable
        )
        y = images.conv1d(x, kernel, step, padding)
        return finish(
            y, filters, use_bias, bias_initializer, bias_regularizer, activation, trainable
        )


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
    with variable_scope(name, "conv2d_transpose", reuse=reuse):
        sizes = [*window, filters, channels]
        kernel = get_variable(
            "kernel", sizes, x.dtype, kernel_initializer, kernel_regularizer, trainable
        )
        steps = images.inner("conv2d_transpose", strides)
        y = images.conv2d_transpose(x, kernel, [None] * 4, steps, padding, how)
        more = (activation, trainable, data_format)
        return finish(y, filters, use_bias, bias_initializer, bias_regularizer, *more)
