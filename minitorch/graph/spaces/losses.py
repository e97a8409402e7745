"""Losses as single numbers, weighted and collected, under TensorFlow's names: `tf.losses`.

Each goes into the collection LOSSES, which `get_total_loss` adds up.
"""

from __future__ import annotations

import builtins
from typing import Any

from ...errors import GraphError
from ...ops import elementwise as rows
from ...ops.casting import cast_to
from ..collections import GraphKeys
from ..lined import lined
from ..naming import rename
from ..nn import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from ..node import Constant, Node, convert
from ..operators.elementwise import add_n, log, maximum, minimum, not_equal, where
from ..operators.making import ones_like
from ..operators.math import cast, reduce_sum
from ..operators.shaping import reshape, squeeze
from ..scope import get_default_graph


class Reduction:
    """How the losses of elements become one number."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"


@lined
def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Node:
    """The losses times their weights as one number: the sum over how many weights are not 0."""
    x = convert(losses)
    factor = cast(convert(weights), x.dtype)
    total: Any = x * factor
    if reduction == Reduction.MEAN:
        total = _ratio(reduce_sum(total), reduce_sum(factor * ones_like(x)))
    elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
        total = _ratio(reduce_sum(total), reduce_sum(ones_like(x)))
    elif reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
        present = cast_to(not_equal(factor, 0.0), x.dtype) * ones_like(x)
        total = _ratio(reduce_sum(total), reduce_sum(present))
    elif reduction == Reduction.SUM:
        total = reduce_sum(total)
    elif reduction != Reduction.NONE:
        raise GraphError(f"losses: got reduction {reduction!r}, expected one of Reduction's.")
    total = rename(total, scope)
    if loss_collection:
        get_default_graph().add_to_collection(loss_collection, total)
    return total  # type: ignore[no-any-return]


def _ratio(total: Node, count: Node) -> Node:
    """Return the quotient, 0 where nothing was counted."""
    one = where(count > 0.0, count, ones_like(count))
    return where(count > 0.0, total / one, total * 0.0)


def _pair(where_: str, labels: Any, predictions: Any) -> tuple[Node, Node]:
    """Return labels and predictions in one dtype.

    Raises:
        GraphError: their shapes differ.
    """
    if labels is None or predictions is None:
        raise GraphError(f"{where_}: got None, expected labels and predictions.")
    y = convert(predictions)
    truth = cast(convert(labels, y.dtype), y.dtype)
    if not truth.shape.is_compatible_with(y.shape):
        raise GraphError(
            f"{where_}: shapes differ: labels {truth.shape} and predictions {y.shape}. Reshape one."
        )
    return truth, y


@lined
def mean_squared_error(
    labels: Any, predictions: Any, weights: Any = 1.0, *args: Any, **how: Any
) -> Node:
    """The mean of (prediction - label)^2."""
    truth, y = _pair("mean_squared_error", labels, predictions)
    return compute_weighted_loss(rows.square(y - truth), weights, *args, **how)


@lined
def absolute_difference(
    labels: Any, predictions: Any, weights: Any = 1.0, *args: Any, **how: Any
) -> Node:
    """The mean of |prediction - label|."""
    truth, y = _pair("absolute_difference", labels, predictions)
    return compute_weighted_loss(rows.abs(y - truth), weights, *args, **how)


@lined
def huber_loss(
    labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0, *args: Any, **how: Any
) -> Node:
    """The mean of d^2 / 2 for errors d up to delta, of delta |d| - delta^2 / 2 beyond.

    Source: Huber, Annals of Mathematical Statistics 35, 1964.
    """
    truth, y = _pair("huber_loss", labels, predictions)
    error = rows.abs(y - truth)
    inside = minimum(error, delta)
    return compute_weighted_loss(
        rows.square(inside) * 0.5 + (error - inside) * delta, weights, *args, **how
    )


@lined
def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    *args: Any,
    **how: Any,
) -> Node:
    """The mean of -label log(prediction) - (1 - label) log(1 - prediction)."""
    truth, p = _pair("log_loss", labels, predictions)
    loss = -truth * log(p + epsilon) - (1.0 - truth) * log(1.0 - p + epsilon)
    return compute_weighted_loss(loss, weights, *args, **how)


@lined
def hinge_loss(labels: Any, logits: Any, weights: Any = 1.0, *args: Any, **how: Any) -> Node:
    """The mean of max(0, 1 - s logit), for s = 1 of label 1 and -1 of label 0."""
    truth, x = _pair("hinge_loss", labels, logits)
    return compute_weighted_loss(maximum(1.0 - (truth * 2.0 - 1.0) * x, 0.0), weights, *args, **how)


@lined
def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int | None = None,
    weights: Any = 1.0,
    *args: Any,
    dim: int | None = None,
    **how: Any,
) -> Node:
    """The mean of 1 - labels . predictions along an axis; both of length 1."""
    truth, y = _pair("cosine_distance", labels, predictions)
    along = axis if axis is not None else dim
    if along is None:
        raise GraphError("cosine_distance: got no axis. Say along which the vectors lie.")
    return compute_weighted_loss(
        1.0 - reduce_sum(truth * y, along, keepdims=True), weights, *args, **how
    )


@lined
def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0.0,
    *args: Any,
    **how: Any,
) -> Node:
    """The mean cross-entropy of rows of logits with rows of labels."""
    labels, x = _pair("softmax_cross_entropy", onehot_labels, logits)
    if label_smoothing:
        labels = labels * (1.0 - label_smoothing) + label_smoothing / x.shape[-1]
    loss = softmax_cross_entropy_with_logits(labels=labels, logits=x)
    return compute_weighted_loss(loss, weights, *args, **how)


@lined
def sparse_softmax_cross_entropy(
    labels: Any, logits: Any, weights: Any = 1.0, *args: Any, **how: Any
) -> Node:
    """The mean cross-entropy of rows of logits with a class each."""
    y, x = convert(labels), convert(logits)
    if y.shape.ndims is not None and y.shape.ndims == x.shape.ndims and y.shape[-1] == 1:
        y = squeeze(y, [-1])
    loss = sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
    return compute_weighted_loss(loss, weights, *args, **how)


@lined
def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0.0,
    *args: Any,
    **how: Any,
) -> Node:
    """The mean of the binary cross-entropies of sigmoid(logits)."""
    labels, x = _pair("sigmoid_cross_entropy", multi_class_labels, logits)
    if label_smoothing:
        labels = labels * (1.0 - label_smoothing) + 0.5 * label_smoothing
    loss = sigmoid_cross_entropy_with_logits(labels=labels, logits=x)
    return compute_weighted_loss(loss, weights, *args, **how)


@lined
def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: Any = GraphKeys.LOSSES,
) -> Node:
    """The sum over rows of the mean squared difference between the errors of a row's elements.

    Args:
        weights: a number, or one for each row.
    """
    truth, y = _pair("mean_pairwise_squared_error", labels, predictions)
    error, axes = y - truth, list(range(1, len(y.shape)))
    n = reduce_sum(ones_like(error), axes)
    squares, total = reduce_sum(rows.square(error), axes), reduce_sum(error, axes)
    pairs = maximum(n * (n - 1.0), 1.0)
    loss = 2.0 * (n * squares - rows.square(total)) / pairs
    factor = cast(convert(weights), loss.dtype)
    each = reshape(factor, [-1]) if len(factor.shape) else factor
    return compute_weighted_loss(loss, each, scope, loss_collection, Reduction.SUM)


# ── what has been collected ─────────────────────────────────────────────────────────────────────


def add_loss(loss: Node, loss_collection: Any = GraphKeys.LOSSES) -> None:
    """Put a loss into the collection."""
    get_default_graph().add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: Any = GraphKeys.LOSSES) -> list[Node]:
    """Return the losses that have been collected."""
    return get_default_graph().get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Node]:
    """Return what the regularizers of variables gave."""
    return get_default_graph().get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: str | None = None, name: str | None = None) -> Node:
    """Return the sum of what the regularizers gave, 0 if there is none."""
    found = get_regularization_losses(scope)
    return add_n(found, name=name) if found else Constant(0.0)


def get_total_loss(add_regularization_losses: bool = True, name: str | None = None) -> Node:
    """Return the sum of all losses that have been collected.

    Raises:
        GraphError: there is none.
    """
    found = builtins.list(get_losses())
    if add_regularization_losses:
        found += get_regularization_losses()
    if not found:
        raise GraphError("get_total_loss: no loss has been collected. Build one first.")
    return add_n(found, name=name)
