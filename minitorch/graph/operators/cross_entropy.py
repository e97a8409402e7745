"""Softmax and the cross-entropies under TensorFlow's names, along any axis."""

from typing import Any

from ...ops.elementwise.casting import cast_to
from ...ops.networks.row_losses import SoftCrossEntropy, SparseCrossEntropy
from ...ops.networks.softmax import LogSoftmax, Softmax
from ...ops.shaping import movement
from ..core.gradients import StopGradient
from ..core.naming import locates_errors, once_known, rename
from ..core.node import Node, build, convert, convert_all
from . import elementwise


def softmax(
    logits: object, axis: int = -1, name: str | None = None, dim: int | None = None
) -> Node:
    """e^x over its sum along an axis."""
    return _along(Softmax, logits, axis if dim is None else dim, name)


def log_softmax(
    logits: object, axis: int = -1, name: str | None = None, dim: int | None = None
) -> Node:
    """The logarithm of the softmax, without overflow."""
    return _along(LogSoftmax, logits, axis if dim is None else dim, name)


@once_known
def _along(kind: type[Softmax | LogSoftmax], logits: object, axis: int, name: str | None) -> Node:
    """Return an operator of `kind` along an axis."""
    x = convert(logits)
    return rename(build(kind(axis % len(x.shape)), (x,)), name)


@locates_errors
def softmax_cross_entropy_with_logits(
    logits: object, labels: object, dim: int = -1, name: str | None = None
) -> Node:
    """-sum(labels * log softmax(logits)) over an axis: one loss a row.

    No gradient flows into the labels. The order is that of the TensorFlow paper's listing.
    """
    x = convert(logits)
    y = build(StopGradient(), (cast_to(convert(labels, x.dtype), x.dtype),))
    return rename(_cross_entropy(y, x, dim), name)


@once_known
def _cross_entropy(y: Node, x: Node, axis: int) -> Node:
    last = len(x.shape) - 1
    if axis not in (-1, last):
        x, y = movement.movedim(x, axis, last), movement.movedim(y, axis, last)
    return build(SoftCrossEntropy(), (y, x))


@locates_errors
def sparse_softmax_cross_entropy_with_logits(
    logits: object, labels: object, name: str | None = None
) -> Node:
    """-log softmax(logits) at the class of each row, an integer: one loss a row."""
    y = convert(labels)
    if y.dtype.kind not in "iu":
        raise y.error(
            f"sparse_softmax_cross_entropy_with_logits: got labels of {y.dtype}, expected integers."
        )
    return rename(build(SparseCrossEntropy(), (convert(logits), y)), name)


@locates_errors
def sigmoid_cross_entropy_with_logits(
    logits: object, labels: object, name: str | None = None
) -> Node:
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
