"""Softmax and the cross-entropies under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from ...errors import GraphError
from ...op import Op
from ...ops import movement
from ...ops.casting import cast_to
from ..alike import alike
from ..gradients import StopGradient
from ..lined import lined
from ..naming import rename
from ..node import Node, build, convert
from ..state import Variable
from . import elementwise
from .crossentropy import CrossEntropy, LogSoftmax, Softmax, SparseCrossEntropy
from .late import late, unknown


def softmax(logits: Any, axis: int = -1, name: str | None = None, dim: int | None = None) -> Node:
    """e^x over its sum along an axis."""
    return _along(Softmax(), logits, axis if dim is None else dim, name)


def log_softmax(
    logits: Any, axis: int = -1, name: str | None = None, dim: int | None = None
) -> Node:
    """The logarithm of the softmax, without overflow."""
    return _along(LogSoftmax(), logits, axis if dim is None else dim, name)


@lined
def _along(op: Op, logits: Any, axis: int, name: str | None) -> Node:
    """Return `op`, which works on the last axis, along any axis."""
    x = convert(logits)
    if unknown(x):
        return late(lambda known: _along(op, known, axis, None), (x,), x.dtype)
    last = len(x.shape) - 1
    if axis in (-1, last):
        return rename(build(op, (x,)), name)
    return rename(
        movement.transpose(build(op, (movement.transpose(x, axis, last),)), axis, last), name
    )


@lined
def softmax_cross_entropy_with_logits_v2(
    labels: Any,
    logits: Any,
    axis: int | None = None,
    name: str | None = None,
    dim: int | None = None,
) -> Node:
    """-sum(labels * log softmax(logits)) over an axis: one loss a row, a gradient for both."""
    along = _axis_of("softmax_cross_entropy_with_logits_v2", axis, dim)
    x = convert(logits)
    y = cast_to(convert(labels, x.dtype), x.dtype)
    if unknown(x, y):
        loss = softmax_cross_entropy_with_logits_v2
        return rename(late(lambda a, b: loss(a, b, along), (y, x), x.dtype), name)
    last = len(x.shape) - 1
    if along not in (-1, last):
        x, y = movement.movedim(x, along, last), movement.movedim(y, along, last)
    return rename(build(CrossEntropy(), (y, x)), name)


def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: int | None = None,
    name: str | None = None,
    axis: int | None = None,
) -> Node:
    """The same loss; no gradient flows into the labels.

    Raises:
        GraphError: labels and logits were not given by name; their order differed among versions.
    """
    _by_name("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    given = labels
    if isinstance(labels, Node) and (labels.op is not None or isinstance(labels, Variable)):
        given = build(StopGradient(), (labels,))
    return softmax_cross_entropy_with_logits_v2(given, logits, axis, name, dim)


def _axis_of(where: str, axis: int | None, dim: int | None) -> int:
    """Return the axis by its newer or its older name, the last unless told.

    Raises:
        GraphError: both were given.
    """
    if axis is not None and dim is not None:
        raise GraphError(f"{where}: got axis {axis} and dim {dim}, expected one of them.")
    return next((given for given in (axis, dim) if given is not None), -1)


@lined
def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Node:
    """-log softmax(logits) at the class of each row, an integer: one loss a row."""
    _by_name("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    y = convert(labels)
    if y.dtype.kind not in "iu":
        raise GraphError(
            f"sparse_softmax_cross_entropy_with_logits: got labels of {y.dtype}, expected integers "
            f"(node {y.name!r} built at {y.location})."
        )
    return rename(build(SparseCrossEntropy(), (y, convert(logits))), name)


@lined
def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None, labels: Any = None, logits: Any = None, name: str | None = None
) -> Node:
    """Binary cross-entropy of sigmoid(logits), element by element, without overflow."""
    _by_name("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    x, z = alike("sigmoid_cross_entropy_with_logits", logits, labels)
    return rename(x - x * z + _softplus_of_minus(x), name)


def _softplus_of_minus(x: Node) -> Any:
    """Return log(1 + e^-x) without overflow, with its derivatives at 0 too.

    max(-x, 0) + log(1 + e^-|x|) is the same number, but of its parts neither has a slope at 0,
    which is where weights of zeros begin.
    """
    positive = x >= 0.0
    least = elementwise.where(positive, -x, x)
    return elementwise.where(positive, x * 0.0, -x) + elementwise.log1p(elementwise.exp(least))


def _by_name(where: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None or labels is None or logits is None:
        raise GraphError(f"{where}: got positional arguments, expected labels=... and logits=....")


def weighted_cross_entropy_with_logits(
    targets: Any, logits: Any, pos_weight: Any, name: str | None = None
) -> Node:
    """Binary cross-entropy whose positive part counts `pos_weight` times."""
    x, z, scale = alike("weighted_cross_entropy_with_logits", logits, targets, pos_weight)
    weight = z * (scale - 1.0) + 1.0
    return rename((1.0 - z) * x + weight * _softplus_of_minus(x), name)
