"""What layers share: the sizes that they need to know, biases, layouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import GraphError
from .initializers import Zeros
from .nn import bias_add
from .node import Node, UnknownShape
from .variable_scope import get_variable

Activation = Callable[[Any], Any]


def known_size(where: str, x: Node, axis: int) -> int:
    """Return the size of an axis, which a layer's variables need.

    Raises:
        GraphError: it is not known.
    """
    size = None if isinstance(x.shape, UnknownShape) or not len(x.shape) else x.shape[axis]
    if size is None:
        raise GraphError(
            f"{where}: the last axis of the inputs has no known size: got {x.name!r} of shape "
            f"{x.shape}. Give the placeholder a shape, or use set_shape."
        )
    return int(size)


def finish(
    x: Any,
    units: int,
    use_bias: bool,
    bias_initializer: Any,
    bias_regularizer: Any,
    activation: Activation | None,
    trainable: bool,
    data_format: str = "channels_last",
) -> Node:
    """Return `x` plus a bias by channel, through the activation."""
    if use_bias:
        bias = get_variable(
            "bias", [units], x.dtype, bias_initializer or Zeros(), bias_regularizer, trainable
        )
        x = bias_add(x, bias, layout(data_format), name="BiasAdd")
    return x if activation is None else activation(x)  # type: ignore[no-any-return]


def layout(data_format: str) -> str:
    """Return the layout of images by its older name."""
    return "NCHW" if data_format == "channels_first" else "NHWC"
