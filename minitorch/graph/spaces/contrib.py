"""The few names of `tf.contrib` that programs of the time could not do without.

`contrib.rnn` has the cells, `contrib.layers` initializers, regularizers and two layers,
`contrib.framework` the sorting and the step's count.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import layers as of_layers
from ..dynamic import rnn_cell, wrapped
from ..dynamic.bidirectional import static_bidirectional_rnn
from ..dynamic.rnn import static_rnn
from ..initializers import GlorotNormal, GlorotUniform, VarianceScaling
from ..nn import l2_loss
from ..node import Node
from ..operators import elementwise, math
from ..operators.ranking import argsort, sort
from ..train.averages import get_global_step, get_or_create_global_step
from . import connected
from .absent import Named, no_attribute


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[Node], Node | None]:
    """Return a function of a variable: scale * sum(v^2) / 2; nothing for scale 0."""
    return lambda v: None if scale == 0.0 else l2_loss(v) * scale


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[Node], Node | None]:
    """Return a function of a variable: scale * sum(|v|); nothing for scale 0."""
    return lambda v: None if scale == 0.0 else math.reduce_sum(elementwise.abs(v)) * scale


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = "float32"
) -> Any:
    """Return Glorot's initializer."""
    return GlorotUniform(seed, dtype) if uniform else GlorotNormal(seed, dtype)


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = "float32",
) -> Any:
    """Return the initializer of He et al., unless told otherwise."""
    return VarianceScaling(factor, mode.lower(), "uniform" if uniform else "normal", seed, dtype)


class layers(metaclass=Named):
    """`tf.contrib.layers`."""

    known_as = "minitorch.graph.spaces.contrib.layers"

    batch_norm = staticmethod(connected.batch_norm)
    flatten = staticmethod(of_layers.flatten)
    fully_connected = staticmethod(connected.fully_connected)
    l1_regularizer = staticmethod(l1_regularizer)
    l2_regularizer = staticmethod(l2_regularizer)
    linear = staticmethod(connected.linear)
    relu = staticmethod(connected.fully_connected)
    variance_scaling_initializer = staticmethod(variance_scaling_initializer)
    xavier_initializer = staticmethod(xavier_initializer)
    xavier_initializer_conv2d = staticmethod(xavier_initializer)


class rnn(metaclass=Named):
    """`tf.contrib.rnn`."""

    known_as = "minitorch.graph.spaces.contrib.rnn"

    BasicLSTMCell = rnn_cell.BasicLSTMCell
    BasicRNNCell = rnn_cell.BasicRNNCell
    DropoutWrapper = wrapped.DropoutWrapper
    GRUCell = rnn_cell.GRUCell
    LSTMCell = wrapped.LSTMCell
    LSTMStateTuple = rnn_cell.LSTMStateTuple
    MultiRNNCell = rnn_cell.MultiRNNCell
    RNNCell = rnn_cell.RNNCell
    ResidualWrapper = wrapped.ResidualWrapper
    static_bidirectional_rnn = staticmethod(static_bidirectional_rnn)
    static_rnn = staticmethod(static_rnn)


class framework(metaclass=Named):
    """`tf.contrib.framework`."""

    known_as = "minitorch.graph.spaces.contrib.framework"

    argsort = staticmethod(argsort)
    get_global_step = staticmethod(get_global_step)
    get_or_create_global_step = staticmethod(get_or_create_global_step)
    sort = staticmethod(sort)


def __getattr__(name: str) -> Any:
    """Raise for a name that is not here, and say what to use."""
    raise no_attribute(__name__, name)
