"""Measures over many batches, under TensorFlow's names: `tf.metrics`.

Each is a pair (value so far, update): the update takes a batch in and gives the new value. Counts
are local variables, set to 0 by `local_variables_initializer`. `metrics_collections` and
`updates_collections` are names of collections of the graph that the two go into.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ...errors import GraphError
from ...ops import elementwise as rows
from ...ops.casting import cast_to
from ..collections import GraphKeys
from ..lined import lined
from ..node import Node, convert
from ..operators.elementwise import equal, logical_and, logical_not, sqrt, where
from ..operators.making import ones_like
from ..operators.math import cast, reduce_sum
from ..operators.shaping import reshape
from ..scope import get_default_graph
from ..state import Variable, assign_add
from ..variable_scope import variable_scope
from .absent import no_attribute
from .names import MEASURES

Metric = tuple[Node, Node]


def _counter(name: str) -> Variable:
    keys = (GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES)
    return Variable(np.float32(0), trainable=False, name=name, collections=keys)


def _share(total: Any, count: Any) -> Node:
    some = count > 0.0
    return where(some, total / where(some, count, ones_like(count)), total * 0.0)


def _quotient(name: str | None, default: str, total: Any, count: Any) -> Metric:
    """Return the ratio of two sums over batches, before and after this batch."""
    with variable_scope(name, default):
        sums, counts = _counter("total"), _counter("count")
        value = _share(sums.read(), counts.read())
        return value, _share(assign_add(sums, total), assign_add(counts, count))


def _collected(found: Metric, of_values: Any, of_updates: Any) -> Metric:
    """Return a metric, its value and its update put into the collections of these names."""
    for node, names in zip(found, (of_values, of_updates), strict=True):
        get_default_graph().add_to_collections(names or (), node)
    return found


def _weighted(values: Node, weights: Any) -> tuple[Node, Node]:
    """Return the sum of the values and how many they are, by weight."""
    x = cast(values, "float32")
    factor = ones_like(x) if weights is None else ones_like(x) * cast(convert(weights), "float32")
    return reduce_sum(x * factor), reduce_sum(factor)


@lined
def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of all values."""
    found = _quotient(name, "mean", *_weighted(convert(values), weights))
    return _collected(found, metrics_collections, updates_collections)


@lined
def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How often predictions are equal to labels."""
    truth, guess = convert(labels), convert(predictions)
    if not truth.shape.is_compatible_with(guess.shape):
        truth, guess = reshape(truth, [-1]), reshape(guess, [-1])
    same = equal(truth, cast(guess, truth.dtype))
    found = _quotient(name, "accuracy", *_weighted(cast_to(same, "float32"), weights))
    return _collected(found, metrics_collections, updates_collections)


def _error(labels: Any, predictions: Any) -> Any:
    return cast(convert(predictions), "float32") - cast(convert(labels), "float32")


@lined
def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of (prediction - label)^2."""
    error = rows.square(_error(labels, predictions))
    found = _quotient(name, "mean_squared_error", *_weighted(error, weights))
    return _collected(found, metrics_collections, updates_collections)


@lined
def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The root of the mean of (prediction - label)^2."""
    value, update = mean_squared_error(labels, predictions, weights, name=name or "rmse")
    found = sqrt(value), sqrt(update)
    return _collected(found, metrics_collections, updates_collections)


@lined
def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """The mean of |prediction - label|."""
    error = rows.abs(_error(labels, predictions))
    found = _quotient(name, "mean_absolute_error", *_weighted(error, weights))
    return _collected(found, metrics_collections, updates_collections)


@lined
def precision(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Of what was predicted true, the share that is."""
    truth, guess = _booleans(labels, predictions)
    found = _quotient(name, "precision", *_hits(truth, guess, guess, weights))
    return _collected(found, metrics_collections, updates_collections)


@lined
def recall(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """Of what is true, the share that was predicted so."""
    truth, guess = _booleans(labels, predictions)
    found = _quotient(name, "recall", *_hits(truth, guess, truth, weights))
    return _collected(found, metrics_collections, updates_collections)


@lined
def false_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Metric:
    """How often what is false was predicted true."""
    truth, guess = _booleans(labels, predictions)
    wrong = cast_to(logical_and(logical_not(truth), guess), "float32")
    with variable_scope(name, "false_positives"):
        count = _counter("count")
        found = count.read(), assign_add(count, _weighted(wrong, weights)[0])
    return _collected(found, metrics_collections, updates_collections)


def _booleans(labels: Any, predictions: Any) -> tuple[Node, Node]:
    truth, guess = cast(convert(labels), "bool"), cast(convert(predictions), "bool")
    if not truth.shape.is_compatible_with(guess.shape):
        raise GraphError(
            f"metrics: shapes differ: labels {truth.shape}, predictions {guess.shape}."
        )
    return truth, guess


def _hits(truth: Node, guess: Node, of: Node, weights: Any) -> tuple[Node, Node]:
    """Return how often both hold, and how often `of` does."""
    both = cast_to(logical_and(truth, guess), "float32")
    return _weighted(both, weights)[0], _weighted(cast_to(of, "float32"), weights)[0]


def __getattr__(name: str) -> Any:
    """Return a name of a module that is loaded when it is first asked for; raise for others."""
    if name in MEASURES:
        return getattr(import_module(MEASURES[name]), name)
    raise no_attribute(__name__, name)
