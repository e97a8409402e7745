"""Batch normalization as a layer: `tf.layers.batch_normalization`.

Source: Ioffe & Szegedy, ICML 2015.
"""

from __future__ import annotations

from typing import Any

from .collections import GraphKeys
from .initializers import Ones, Zeros
from .layer_parts import known_size
from .lined import lined
from .node import Node, convert
from .operators.choosing import when
from .operators.math import cast
from .operators.normalizing import batch_normalization as scaled
from .operators.normalizing import moments
from .operators.shaping import reshape
from .scope import get_default_graph
from .state import Variable, assign_sub, rename
from .variable_scope import get_variable, variable_scope


@lined
def batch_normalization(
    inputs: Any,
    axis: int = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
    moving_mean_initializer: Any = None,
    moving_variance_initializer: Any = None,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
) -> Node:
    """The inputs normalised by channel: by the batch while training, else by moving averages.

    The updates of the averages are in the collection UPDATE_OPS; a training step must run them:

        with control_dependencies(get_collection(GraphKeys.UPDATE_OPS)):
            step = optimizer.minimize(loss)

    Args:
        axis: that of the channels.
        training: True, False, or a node that says it in the run.
    """
    x = convert(inputs)
    size, place = known_size("batch_normalization", x, axis), axis % len(x.shape)
    with variable_scope(name, "batch_normalization", reuse=reuse):

        def made(what: str, initializer: Any, regularizer: Any = None, train: bool = True) -> Any:
            return get_variable(what, [size], x.dtype, initializer, regularizer, train)

        gamma = made("gamma", gamma_initializer or Ones(), gamma_regularizer, trainable)
        beta = made("beta", beta_initializer or Zeros(), beta_regularizer, trainable)
        mean = made("moving_mean", moving_mean_initializer or Zeros(), train=False)
        variance = made("moving_variance", moving_variance_initializer or Ones(), train=False)
        others = [i for i in range(len(x.shape)) if i != place]
        now = moments(x, others)
        mu = when(training, lambda: now[0], lambda: mean.read())
        sigma2 = when(training, lambda: now[1], lambda: variance.read())
        if training is not False:
            _follow(mean, mu, momentum)
            _follow(variance, sigma2, momentum)
        parts = [mu, sigma2, beta if center else None, gamma if scale else None]
        if place != len(x.shape) - 1:
            wide = [size if i == place else 1 for i in range(len(x.shape))]
            parts = [None if part is None else reshape(part, wide) for part in parts]
        return rename(scaled(x, parts[0], parts[1], parts[2], parts[3], epsilon), None)


def _follow(average: Variable, now: Any, momentum: float) -> None:
    """Leave an update of the average in the graph's collection; where nothing changed, none."""
    step = (average - now) * cast(1.0 - momentum, average.dtype)
    get_default_graph().add_to_collection(GraphKeys.UPDATE_OPS, assign_sub(average, step))
