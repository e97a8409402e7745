"""Batch normalization as a layer: `tf.layers.batch_normalization`.

Source: Ioffe & Szegedy, ICML 2015.
"""

from __future__ import annotations

from typing import Any

from ..collections import GraphKeys
from ..initializers import Ones, Zeros
from ..lined import lined
from ..node import Node, convert
from ..operators.choosing import when
from ..operators.math import cast
from ..operators.normalizing import batch_normalization as scaled
from ..operators.normalizing import moments
from ..operators.shaping import reshape
from ..refusing import refuse
from ..scope import get_default_graph
from ..state import Variable, assign_sub
from ..variable_scope import variable_scope
from .parts import Weights, known_size


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
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: Any = None,
    renorm: bool = False,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
) -> Node:
    """The inputs normalised by channel: by the batch while training, else by moving averages.

    The updates of the averages are in the collection UPDATE_OPS; a training step must run them:

        with control_dependencies(get_collection(GraphKeys.UPDATE_OPS)):
            step = optimizer.minimize(loss)

    Args:
        axis: that of the channels.
        training: True, False, or a node that says it in the run.
        fused: taken for TensorFlow's sake; no effect on the numbers.
    Raises:
        GraphError: `renorm` or `virtual_batch_size` is asked for.
    """
    refuse("batch_normalization", "renorm", renorm, "Use batches that are large enough.")
    refuse("batch_normalization", "virtual_batch_size", virtual_batch_size, "Split the batch.")
    x = convert(inputs)
    size, place = known_size("batch_normalization", x, axis), axis % len(x.shape)
    with variable_scope(name, "batch_normalization", reuse=reuse):

        def made(what: str, start: Any, penalty: Any, limit: Any, train: bool = False) -> Any:
            return Weights(start, penalty, limit, train).made(what, [size], x.dtype)

        gamma = beta = None
        if scale:
            start = gamma_initializer or Ones()
            gamma = made("gamma", start, gamma_regularizer, gamma_constraint, trainable)
        if center:
            start = beta_initializer or Zeros()
            beta = made("beta", start, beta_regularizer, beta_constraint, trainable)
        mean = made("moving_mean", moving_mean_initializer or Zeros(), None, None)
        variance = made("moving_variance", moving_variance_initializer or Ones(), None, None)
        mu, sigma2 = _statistics(x, place, (mean, variance), training, momentum)
        return _applied(x, place, (mu, sigma2, beta, gamma), epsilon)


def _statistics(
    x: Node, place: int, averages: tuple[Variable, Variable], training: Any, momentum: float
) -> list[Node]:
    """Return mean and variance by channel: the batch's while training, else the averages."""
    now = moments(x, [i for i in range(len(x.shape)) if i != place])
    found: list[Node] = []
    for average, of_batch in zip(averages, now, strict=True):
        found.append(_chosen(training, of_batch, average))
        if training is not False:
            _follow(average, found[-1], momentum)
    return found


def _chosen(training: Any, of_batch: Node, average: Variable) -> Node:
    chosen: Node = when(training, lambda: of_batch, lambda: average.read())
    return chosen


def _applied(x: Node, place: int, parts: tuple[Node | None, ...], epsilon: float) -> Node:
    """Return `x` normalised by mean, variance, offset and scale along the axis of the channels."""
    if place != len(x.shape) - 1:
        wide = [x.shape[i] if i == place else 1 for i in range(len(x.shape))]
        parts = tuple(None if part is None else reshape(part, wide) for part in parts)
    mu, sigma2, beta, gamma = parts
    return scaled(x, mu, sigma2, beta, gamma, epsilon)


def _follow(average: Variable, now: Any, momentum: float) -> None:
    """Leave an update of the average in the graph's collection; where nothing changed, none."""
    step = (average - now) * cast(1.0 - momentum, average.dtype)
    get_default_graph().add_to_collection(GraphKeys.UPDATE_OPS, assign_sub(average, step))
