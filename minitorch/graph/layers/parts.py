"""What layers share: the sizes that they need to know, kernels, what follows the product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ...errors import GraphError
from ..collections import GraphKeys
from ..initializers import Zeros
from ..nn import bias_add
from ..node import Node, UnknownShape
from ..operators.shaping import identity
from ..scope import get_default_graph
from ..state import Variable
from ..variable_scope import get_variable

Activation = Callable[[Any], Any]


def known_size(where: str, x: Node, axis: int) -> int:
    """Return the size of an axis, which a layer's variables need.

    Raises:
        GraphError: it is not known.
    """
    size = None if isinstance(x.shape, UnknownShape) or not len(x.shape) else x.shape[axis]
    if size is None:
        raise GraphError(
            f"{where}: axis {axis} of the inputs has no known size: got {x.name!r} of shape "
            f"{x.shape}. Give the placeholder a shape, or use set_shape."
        )
    return int(size)


@dataclass(frozen=True)
class Weights:
    """How a layer makes one of its variables.

    Attributes:
        regularizer: what it gives of the variable goes into REGULARIZATION_LOSSES.
        constraint: what optimizers make of the variable after each of their updates.
    """

    initializer: Any
    regularizer: Any
    constraint: Any
    trainable: bool

    def made(self, name: str, shape: Sequence[int], dtype: Any) -> Variable:
        """Return the variable of that name in the present scope."""
        how = (self.initializer, self.regularizer, self.trainable)
        return get_variable(name, shape, dtype, *how, constraint=self.constraint)


@dataclass(frozen=True)
class Ending:
    """What follows a layer's product.

    Attributes:
        bias: how it makes its bias; None for a layer without one.
        activation: a function of the sum; None for the sum itself.
        activity_regularizer: what it gives of the layer's outputs goes into
            REGULARIZATION_LOSSES.
    """

    bias: Weights | None
    activation: Activation | None
    activity_regularizer: Any = None
    data_format: str = "channels_last"

    def of(self, x: Any, units: int) -> Node:
        """Return `x` plus a bias by channel, through the activation."""
        if self.bias is not None:
            bias = self.bias.made("bias", [units], x.dtype)
            x = bias_add(x, bias, layout(self.data_format), name="BiasAdd")
        found: Node = x if self.activation is None else self.activation(x)
        return penalised(found, self.activity_regularizer)


def ending(
    use_bias: bool,
    bias: tuple[Any, Any, Any],
    trainable: bool,
    activation: Activation | None,
    activity_regularizer: Any,
    data_format: str = "channels_last",
) -> Ending:
    """Return what follows a product; `bias` is (initializer or None for zeros, ...)."""
    start, penalty, limit = bias
    activation = called(activation) if isinstance(activation, str) else activation
    made = Weights(start or Zeros(), penalty, limit, trainable) if use_bias else None
    return Ending(made, activation, activity_regularizer, data_format)


def called(name: str) -> Activation:
    """Return the activation of that name of `nn`, as Keras writes it; "linear" is the identity.

    Raises:
        GraphError: there is none.
    """
    found = (
        identity if name == "linear" else getattr(import_module("minitorch.graph.nn"), name, None)
    )
    if not callable(found):
        raise GraphError(f"layers: got activation {name!r}, expected a function, or a name of nn.")
    return found


def penalised(x: Node, activity_regularizer: Any) -> Node:
    """Return `x`, after what the regularizer gives of it was put among the losses."""
    loss = None if activity_regularizer is None else activity_regularizer(x)
    if loss is not None:
        get_default_graph().add_to_collection(GraphKeys.REGULARIZATION_LOSSES, loss)
    return x


def layout(data_format: str) -> str:
    """Return the layout of images by its older name.

    Raises:
        GraphError: it is neither "channels_last" nor "channels_first".
    """
    found = {"channels_last": "NHWC", "channels_first": "NCHW"}.get(data_format)
    if found is None:
        raise GraphError(
            f"layers: got data_format {data_format!r}, expected 'channels_last' or "
            "'channels_first'."
        )
    return found
