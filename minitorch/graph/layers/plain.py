"""Layers without a window: dense, pooling, flatten, dropout."""

from __future__ import annotations

import math
from typing import Any

from ...errors import GraphError
from ..lined import lined
from ..naming import rename
from ..nn import dropout as dropped
from ..node import Node, UnknownShape, convert
from ..operators import images
from ..operators.choosing import when
from ..operators.math import matmul
from ..operators.shaping import expand_dims, reshape, shape, squeeze
from ..variable_scope import variable_scope
from .parts import Activation, Weights, ending, known_size, layout


@lined
def dense(
    inputs: Any,
    units: int,
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
    """activation(inputs kernel + bias), over the last axis."""
    x = convert(inputs)
    features = known_size("dense", x, -1)
    weights = Weights(kernel_initializer, kernel_regularizer, kernel_constraint, trainable)
    bias = (bias_initializer, bias_regularizer, bias_constraint)
    end = ending(use_bias, bias, trainable, activation, activity_regularizer)
    with variable_scope(name, "dense", reuse=reuse):
        kernel = weights.made("kernel", [features, units], x.dtype)
        return end.of(rows_times(x, kernel, units), units)


def rows_times(x: Node, kernel: Node, units: int) -> Node:
    """Return the product over the last axis of `x` with a matrix of `units` columns."""
    if len(x.shape) == 2:
        return matmul(x, kernel)
    y = matmul(reshape(x, [-1, kernel.shape[0]]), kernel)
    before = tuple(x.shape)[:-1]
    if None not in before:
        return reshape(y, [*before, units])
    sizes = [shape(x)[i] if n is None else n for i, n in enumerate(before)]
    return reshape(y, [*sizes, units])


@lined
def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Node:
    """The largest of every window of an image."""
    return images.max_pool(inputs, pool_size, strides, padding, layout(data_format), name)


@lined
def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Node:
    """The mean of every window of an image."""
    return images.avg_pool(inputs, pool_size, strides, padding, layout(data_format), name)


@lined
def max_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Node:
    """The largest of every window of a sequence."""
    return _along_time(images.max_pool, inputs, pool_size, strides, padding, data_format, name)


@lined
def average_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: str | None = None,
) -> Node:
    """The mean of every window of a sequence."""
    return _along_time(images.avg_pool, inputs, pool_size, strides, padding, data_format, name)


def _along_time(
    pool: Any, inputs: Any, size: Any, step: Any, padding: str, data_format: str, name: Any
) -> Node:
    """Return a pool over images one pixel high."""
    how = layout(data_format)
    high = 2 if how == "NCHW" else 1
    window, steps = ([1, *(n if isinstance(n, list | tuple) else [n])] for n in (size, step))
    found = pool(expand_dims(inputs, high), window, steps, padding, how)
    return squeeze(found, [high], name)


@lined
def flatten(inputs: Any, name: str | None = None) -> Node:
    """All axes but the first as one."""
    x = convert(inputs)
    if isinstance(x.shape, UnknownShape):
        raise GraphError(f"flatten: {x.name!r} has no shape. Give the placeholder one.")
    sizes = tuple(x.shape)[1:]
    if None in sizes and x.shape[0] is None:
        return reshape(x, [shape(x)[0], -1], name)
    width = -1 if None in sizes else math.prod(n for n in sizes if n is not None)
    return reshape(x, [-1 if x.shape[0] is None else x.shape[0], width], name)


@lined
def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: str | None = None,
) -> Node:
    """While training, each element with probability `rate` 0, the others larger; else the inputs.

    Args:
        training: True, False, or a node that says it in the run.
    """
    x = convert(inputs)
    return rename(when(training, lambda: dropped(x, 1 - rate, noise_shape, seed), lambda: x), name)
