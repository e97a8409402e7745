"""Softmax and the cross-entropies: single operators, and TensorFlow's names for them.

They are what a classifier runs at every step. Fusing them saves a dozen nodes, and the maximum is
subtracted once for all of it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays.library import Array, DType, Namespace, dtype_of
from ...arrays.shapes import broadcast
from ...compile.classes import class_gradient, class_loss
from ...errors import ArgumentError
from ...op import Flat, Gradients, KeepsSpec, Op, Spec, apply
from ...ops.elementwise import unary as rows
from ...ops.elementwise.casting import cast_to
from ...ops.reducing import reduction
from ...ops.shaping import movement
from ...ops.shaping.broadcasting import sum_to
from ...ops.shaping.movement import insert_axes
from ..core.gradients import StopGradient
from ..core.naming import locates_errors, once_known, rename
from ..core.node import Node, build, convert, convert_all
from . import elementwise


class LogSoftmax(KeepsSpec):
    """x - log sum exp x over the last axis."""

    on_arrays = True
    reads_inputs = False
    promotes = "float"

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the logarithm of the softmax."""
        (x,) = arrays
        shifted, _, total = exponentials(xp, x)
        shifted -= xp.log(total)[..., None]
        return shifted

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """g - softmax(x) sum(g)."""
        total = reduction.sum(out_grad, -1, True)
        return (out_grad - rows.exp(node.output) * total,)


class Softmax(LogSoftmax):
    """e^x over its sum along the last axis."""

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the softmax."""
        _, powers, total = exponentials(xp, arrays[0])
        powers /= total[..., None]
        return powers

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """y (g - sum(g y))."""
        y = node.output
        return (y * (out_grad - reduction.sum(out_grad * y, -1, True)),)


class CrossEntropy(Op):
    """-sum(labels * log softmax(logits)) over the last axis; inputs labels, logits."""

    promotes = "float"
    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return one loss for each row."""
        labels, x = arrays
        shifted, _, total = exponentials(xp, x)
        dot = np.vecdot(labels, shifted) if xp is np else xp.sum(labels * shifted, axis=-1)
        losses: Array = xp.log(total) * _row_sum(xp, labels) - dot
        return losses

    def infer(self, *specs: Spec) -> Spec:
        """Return the rows' shape."""
        shape = broadcast(specs[0].shape, specs[1].shape, op="softmax_cross_entropy_with_logits")
        return Spec(shape[:-1], specs[1].dtype)

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """By logits: g (softmax sum(labels) - labels); by labels: -g log softmax."""
        labels, logits = node.inputs
        by_labels = by_logits = None
        if node.wants[0]:
            log_p = apply(LogSoftmax(), logits)
            by_labels = sum_to(-_column(out_grad) * log_p, labels)
        if node.wants[1]:
            by_logits = sum_to(apply(CrossEntropyGrad(), out_grad, labels, logits), logits)
        return by_labels, by_logits


class CrossEntropyGrad(Op):
    """g (softmax(logits) sum(labels) - labels); inputs g, labels, logits."""

    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the gradient by the logits."""
        g, labels, x = arrays
        _, p, total = exponentials(xp, x)
        p *= (g * _row_sum(xp, labels) / total)[..., None]
        p -= labels * g[..., None]
        return p

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of labels and logits together."""
        return Spec(broadcast(specs[1].shape, specs[2].shape), specs[2].dtype)

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """The same written out in operators, differentiated term by term."""
        return by_inputs(out_grad, *node.inputs)


def by_inputs(out_grad: Node, g: Node, labels: Node, logits: Node) -> tuple[Node, Node, Node]:
    """Return the gradients of `CrossEntropyGrad` by its inputs."""
    p = apply(Softmax(), logits)
    weight = reduction.sum(labels, -1, True)
    by_p = out_grad * _column(g) * weight
    by_logits = p * (by_p - reduction.sum(by_p * p, -1, True))
    by_g = reduction.sum(out_grad * (p * weight - labels), -1)
    flow = out_grad * _column(g)
    by_labels = reduction.sum(flow * p, -1, True) - flow
    return by_g, sum_to(by_labels, labels), sum_to(by_logits, logits)


class SparseCrossEntropy(Op):
    """-log softmax(logits) at the class of each row; inputs labels (integers), logits."""

    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return one loss for each row."""
        found = class_loss(*arrays) if xp is np else None
        if found is not None:
            return found
        labels, x = arrays
        _check_labels(labels, x.shape[-1])
        shifted, _, total = exponentials(xp, x)
        picked = xp.take_along_axis(shifted, xp.astype(labels, xp.int64)[..., None], axis=-1)
        losses: Array = xp.log(total) - picked[..., 0]
        return losses

    def infer(self, *specs: Spec) -> Spec:
        """Return the rows' shape."""
        return Spec(
            broadcast(specs[0].shape, specs[1].shape[:-1], op="sparse cross-entropy"),
            specs[1].dtype,
        )

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """g (softmax - one_hot(labels))."""
        labels, logits = node.inputs
        return None, apply(SparseCrossEntropyGrad(), out_grad, labels, logits)


class SparseCrossEntropyGrad(Op):
    """g (softmax(logits) - one_hot(labels)); inputs g, labels (integers), logits."""

    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the gradient by the logits."""
        _check_labels(arrays[1], arrays[2].shape[-1])
        found = class_gradient(*arrays) if xp is np else None
        if found is not None:
            return found
        g, labels, x = arrays
        hot = OneHot(x.shape[-1], dtype_of(x)).compute(xp, labels)
        return CrossEntropyGrad().compute(xp, g, hot, x)

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the logits."""
        return specs[2]

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """That of the other operator, with the labels written out."""
        g, labels, logits = node.inputs
        hot = apply(OneHot(logits.shape[-1], logits.dtype), labels)
        by_g, _, by_logits = by_inputs(out_grad, g, hot, logits)
        return by_g, None, by_logits


def _check_labels(labels: Array, count: int) -> None:
    """Raise if an array of NumPy's holds a label that is no class.

    Raises:
        ArgumentError: with the label and the number of classes.
    """
    if type(labels) is not np.ndarray or not labels.size:
        return
    bits = labels.view(f"u{labels.itemsize}")  # what is negative is large: one pass is enough
    if bits.max() >= count:
        label = labels.flat[int(bits.argmax())]
        raise ArgumentError(
            f"sparse_softmax_cross_entropy_with_logits: got label {label}, expected 0 to "
            f"{count - 1}, a class of the logits' last axis."
        )


class OneHot(Flat):
    """A new last axis with 1 at the index and 0 elsewhere; an index out of range gives zeros."""

    reads_inputs = reads_output = False

    def __init__(self, depth: int, dtype: DType) -> None:
        self.depth, self.dtype = depth, dtype

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the zeros and ones."""
        if xp is np:
            out = np.empty((*arrays[0].shape, self.depth), self.dtype)
            np.equal(arrays[0][..., None], np.arange(self.depth), out=out)
            return out
        hit = arrays[0][..., None] == xp.arange(self.depth)
        return xp.astype(hit, getattr(xp, str(self.dtype)))

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape with an axis more."""
        return Spec((*specs[0].shape, self.depth), self.dtype)


def exponentials(xp: Namespace, x: Array) -> tuple[Array, Array, Array]:
    """Return x - m, e^(x - m) and its sum over the last axis, for an m that fits every row.

    The largest element of all is found five times faster than that of each short row, and serves
    as well while no row is so far below it that its sum vanishes.
    """
    if xp is np and x.size:
        shifted = x - x.max()
        powers = np.exp(shifted)
        total = _row_sum(np, powers)
        if total.min() > TINY:  # false also for NaN
            return shifted, powers, total
    shifted = x - xp.max(x, axis=-1, keepdims=True)
    powers = xp.exp(shifted)
    return shifted, powers, _row_sum(xp, powers)


TINY = 1e-25  # far above the smallest float32, 1e-38: what underflowed cannot have counted


def _row_sum(xp: Namespace, x: Array) -> Array:
    """Return the sum over the last axis; for short rows a product with ones is the fastest."""
    if xp is np and x.shape[-1] < LONG:
        return x @ np.ones(x.shape[-1], x.dtype)
    return xp.sum(x, axis=-1)


LONG = 1024  # elements of a row from which NumPy's pairwise sum is both fast and more exact


def _column(g: Node) -> Any:
    return insert_axes(g, (len(g.shape),))


def softmax(
    logits: object, axis: int = -1, name: str | None = None, dim: int | None = None
) -> Node:
    """e^x over its sum along an axis."""
    return _along(Softmax(), logits, axis if dim is None else dim, name)


def log_softmax(
    logits: object, axis: int = -1, name: str | None = None, dim: int | None = None
) -> Node:
    """The logarithm of the softmax, without overflow."""
    return _along(LogSoftmax(), logits, axis if dim is None else dim, name)


@once_known
def _along(op: Op, logits: object, axis: int, name: str | None) -> Node:
    """Return `op`, which works on the last axis, along any axis."""
    x = convert(logits)
    last = len(x.shape) - 1
    if axis in (-1, last):
        return rename(build(op, (x,)), name)
    return rename(
        movement.transpose(build(op, (movement.transpose(x, axis, last),)), axis, last), name
    )


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
    return build(CrossEntropy(), (y, x))


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
    return rename(build(SparseCrossEntropy(), (y, convert(logits))), name)


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
