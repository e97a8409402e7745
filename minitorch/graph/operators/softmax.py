"""Softmax and the cross-entropies under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from ...errors import GraphError
from ...op import Op
from ...ops import movement
from ...ops.casting import cast_to
from ..core.error_location import lined
from ..core.gradients import StopGradient
from ..core.naming import rename
from ..core.node import Node, build, convert, convert_all
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
        return late(lambda known: _along(op, known, axis, None), (x,), x.dtype)  # type: ignore[no-any-return]
    last = len(x.shape) - 1
    if axis in (-1, last):
        return rename(build(op, (x,)), name)
    return rename(
        movement.transpose(build(op, (movement.transpose(x, axis, last),)), axis, last), name
    )


@lined
def softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, dim: int = -1, name: str | None = None
) -> Node:
    """-sum(labels * log softmax(logits)) over an axis: one loss a row.

    No gradient flows into the labels. The order is that of the TensorFlow paper's listing.
    """
    x = convert(logits)
    y = build(StopGradient(), (cast_to(convert(labels, x.dtype), x.dtype),))
    return rename(_cross_entropy(y, x, dim), name)


def _cross_entropy(y: Node, x: Node, axis: int) -> Node:
    if unknown(x, y):
        return late(lambda a, b: _cross_entropy(a, b, axis), (y, x), x.dtype)  # type: ignore[no-any-return]
    last = len(x.shape) - 1
    if axis not in (-1, last):
        x, y = movement.movedim(x, axis, last), movement.movedim(y, axis, last)
    return build(CrossEntropy(), (y, x))


@lined
def sparse_softmax_cross_entropy_with_logits(
    logits: Any, labels: Any, name: str | None = None
) -> Node:
    """-log softmax(logits) at the class of each row, an integer: one loss a row."""
    y = convert(labels)
    if y.dtype.kind not in "iu":
        raise GraphError(
            f"sparse_softmax_cross_entropy_with_logits: got labels of {y.dtype}, expected integers "
            f"(node {y.name!r} built at {y.location})."
        )
    return rename(build(SparseCrossEntropy(), (y, convert(logits))), name)


@lined
def sigmoid_cross_entropy_with_logits(logits: Any, labels: Any, name: str | None = None) -> Node:
    """Binary cross-entropy of sigmoid(logits), element by element, without overflow."""
    x, z = convert_all(logits, labels)
    return rename(x - x * z + _softplus_of_minus(x), name)


def _softplus_of_minus(x: Node) -> Any:
    """Return log(1 + e^-x) without overflow, with its derivatives at 0 too.

    max(-x, 0) + log(1 + e^-|x|) is the same number, but of its parts neither has a slope at 0,
    which is where weights of zeros begin.
    """
    positive = x >= 0.0
    least = elementwise.where(positive, -x, x)
    return elementwise.where(positive, x * 0.0, -x) + elementwise.log1p(elementwise.exp(least))
