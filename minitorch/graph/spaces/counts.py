"""Further measures over many batches, part of `tf.metrics`: counts, areas, classes, ratios.

Each is a pair (value so far, update), as in `metrics`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import GraphError
from ...ops.casting import cast_to
from ..collections import GraphKeys
from ..lined import lined
from ..node import Node, convert
from ..operators.elementwise import abs as size_of
from ..operators.elementwise import greater, less, logical_and, logical_not, where
from ..operators.making import ones_like
from ..operators.math import cast, reduce_sum
from ..operators.matrices import matrix_diag_part
from ..operators.segments import confusion_matrix
from ..operators.shaping import reshape
from ..state import Variable, assign_add
from ..variable_scope import variable_scope
from .metrics import Metric, _booleans, _collected, _quotient, _share, _weighted

EPSILON = 1e-7  # TensorFlow's, beside the ends 0 and 1 of the thresholds


def _counters(name: str, shape: tuple[int, ...]) -> Variable:
    keys = (GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES)
    return Variable(np.zeros(shape, np.float32), trainable=False, name=name, collections=keys)


def _counted(hit: Node, weights: Any, name: str | None, default: str) -> Metric:
    """Return how often something held, before and after this batch."""
    with variable_scope(name, default):
        count = _counters("count", ())
        return count.read(), assign_add(count, _weighted(cast_to(hit, "float32"), weights)[0])


@lined
def true_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How often what is true was predicted so."""
    truth, guess = _booleans(labels, predictions)
    found = _counted(logical_and(truth, guess), weights, name, "true_positives")
    return _collected(found, metrics_collections, updates_collections)


@lined
def true_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How often what is false was predicted so."""
    truth, guess = _booleans(labels, predictions)
    hit = logical_and(logical_not(truth), logical_not(guess))
    found = _counted(hit, weights, name, "true_negatives")
    return _collected(found, metrics_collections, updates_collections)


@lined
def false_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How often what is true was predicted false."""
    truth, guess = _booleans(labels, predictions)
    found = _counted(logical_and(truth, logical_not(guess)), weights, name, "false_negatives")
    return _collected(found, metrics_collections, updates_collections)


@lined
def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Any = None,
) -> Metric:
    """The area under the curve of true over false positives, by trapezoids over thresholds.

    Args:
        predictions: from 0 to 1.
        thresholds: in order, those between 0 and 1; evenly spaced unless given.
    Raises:
        GraphError: another curve than "ROC", or another sum than the trapezoidal.
    """
    if curve != "ROC" or summation_method != "trapezoidal":
        raise GraphError(
            f"auc: got curve {curve!r} and summation_method {summation_method!r}, expected 'ROC' "
            "and 'trapezoidal'."
        )
    inner = np.arange(1, num_thresholds - 1) / (num_thresholds - 1)
    between = inner if thresholds is None else np.asarray(thresholds)
    steps = np.concatenate([[-EPSILON], between, [1 + EPSILON]]).astype(np.float32)
    truth = reshape(cast(convert(labels), "bool"), [1, -1])
    guess = greater(reshape(cast(convert(predictions), "float32"), [1, -1]), steps[:, None])
    weight: Any = 1.0 if weights is None else reshape(cast(convert(weights), "float32"), [1, -1])
    with variable_scope(name, "auc"):
        hits = [logical_and(truth, guess), logical_and(truth, logical_not(guess))]
        hits += [logical_and(logical_not(truth), side) for side in (guess, logical_not(guess))]
        sums = [_counters(f"count_{i}", (len(steps),)) for i in range(4)]
        added = [reduce_sum(cast_to(hit, "float32") * weight, 1) for hit in hits]
        new = [assign_add(total, more) for total, more in zip(sums, added, strict=True)]
        found = _area([total.read() for total in sums]), _area(new)
    return _collected(found, metrics_collections, updates_collections)


def _area(counts: Any) -> Node:
    """Return the area for the counts (true positive, false negative, false positive, true)."""
    tp, fn, fp, tn = counts
    recall, fall = (tp + 1e-6) / (tp + fn + 1e-6), fp / (fp + tn + 1e-6)
    return reduce_sum((fall[:-1] - fall[1:]) * (recall[:-1] + recall[1:]) * 0.5)


def _confusion(labels: Any, predictions: Any, num_classes: int, weights: Any) -> Node:
    truth, guess = (cast(reshape(v, [-1]), "int64") for v in (labels, predictions))
    weight = None if weights is None else reshape(weights, [-1])
    return confusion_matrix(truth, guess, num_classes, "float32", weights=weight)


@lined
def mean_iou(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean over classes of intersection over union; classes that never occur do not count.

    The update gives the confusion matrix.
    """
    with variable_scope(name, "mean_iou"):
        total = _counters("total_confusion_matrix", (num_classes, num_classes))
        update = assign_add(total, _confusion(labels, predictions, num_classes, weights))
        matrix = total.read()
        own = matrix_diag_part(matrix)
        union = reduce_sum(matrix, 0) + reduce_sum(matrix, 1) - own
        value = _share(reduce_sum(_shares(own, union)), reduce_sum(_present(union)))
    return _collected((value, update), metrics_collections, updates_collections)


@lined
def mean_per_class_accuracy(
    labels: Any,
    predictions: Any,
    num_classes: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean over classes of how often a row of the class is predicted; the update gives each."""
    with variable_scope(name, "mean_accuracy"):
        total = _counters("total_confusion_matrix", (num_classes, num_classes))
        update = assign_add(total, _confusion(labels, predictions, num_classes, weights))
        shares = [_shares(matrix_diag_part(m), reduce_sum(m, 1)) for m in (total.read(), update)]
        value = reduce_sum(shares[0]) / float(num_classes)
    return _collected((value, shares[1]), metrics_collections, updates_collections)


def _present(count: Node) -> Node:
    return cast(greater(count, 0.0), "float32")


def _shares(part: Node, whole: Node) -> Node:
    """Return the quotients, 0 where there is nothing."""
    some = greater(whole, 0.0)
    return where(some, part / where(some, whole, ones_like(whole)), part * 0.0)


@lined
def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of each element over batches of one shape."""
    x = cast(convert(values), "float32")
    factor = ones_like(x) if weights is None else ones_like(x) * cast(convert(weights), "float32")
    with variable_scope(name, "mean"):
        sizes = tuple(int(n) for n in x.shape)
        total, count = _counters("total_tensor", sizes), _counters("count_tensor", sizes)
        value = _shares(total.read(), count.read())
        update = _shares(assign_add(total, x * factor), assign_add(count, factor))
    return _collected((value, update), metrics_collections, updates_collections)


@lined
def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of |prediction - label| over the normalizer, 0 where that is 0."""
    guess, truth, scale = (cast(convert(v), "float32") for v in (predictions, labels, normalizer))
    error = _shares(size_of(guess - truth), scale)
    found = _quotient(name, "mean_relative_error", *_weighted(error, weights))
    return _collected(found, metrics_collections, updates_collections)


@lined
def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """1 less the mean product of labels and predictions along an axis; both of length 1."""
    guess, truth = cast(convert(predictions), "float32"), cast(convert(labels), "float32")
    products = reduce_sum(guess * truth, dim, keepdims=True)
    with variable_scope(name, "mean_cosine_distance"):
        value, update = _quotient(None, "mean", *_weighted(products, weights))
    found = 1.0 - value, 1.0 - update
    return _collected(found, metrics_collections, updates_collections)


@lined
def percentage_below(
    values: Any,
    threshold: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The share of the values that are below a threshold."""
    below = cast_to(less(convert(values), threshold), "float32")
    found = _quotient(name, "percentage_below_threshold", *_weighted(below, weights))
    return _collected(found, metrics_collections, updates_collections)
