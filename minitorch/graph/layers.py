"""Layers that make their own variables, under TensorFlow's names: `tf.layers`.

Each opens a variable scope: the name it is given, or its kind made unique ("dense", "dense_1").
Its variables are called `kernel` and `bias` there. A regularizer's loss goes into the collection
REGULARIZATION_LOSSES, and what must run beside training into UPDATE_OPS.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import GraphError
from .conv_layers import conv1d as conv1d
from .conv_layers import conv2d as conv2d
from .conv_layers import conv2d_transpose as conv2d_transpose
from .layer_parts import Activation, finish, known_size, layout
from .lined import lined
from .nn import dropout as dropped
from .node import Node, UnknownShape, convert
from .normalized import batch_normalization as batch_normalization
from .operators import images
from .operators.choosing import when
from .operators.math import matmul
from .operators.shaping import reshape, shape
from .state import rename
from .variable_scope import get_variable, variable_scope


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
    with variable_scope(name, "dense", reuse=reuse):
        kernel = get_variable(
            "kernel", [features, units], x.dtype, kernel_initializer, kernel_regularizer, trainable
        )
        flat = x if len(x.shape) == 2 else reshape(x, [-1, features])
        y: Any = matmul(flat, kernel)
        if len(x.shape) != 2:
            y = _unflattened(y, x, units)
        return finish(y, units, use_bias, bias_initializer, bias_regularizer, activation, trainable)


def _unflattened(y: Node, x: Node, units: int) -> Node:
    """Return rows in the arrangement that the rows of `x` have."""
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
