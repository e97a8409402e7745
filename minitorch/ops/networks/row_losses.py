"""Cross-entropies of rows: one loss for each, for classes and for distributions over them.

They are what a classifier in a graph runs at every step. The maximum is subtracted once for all of
it, and a row of classes is a kernel where one can be compiled.
"""

from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace, dtype_of
from ...arrays.shapes import Shape, broadcast
from ...compile.class_cross_entropy import class_gradient, class_loss
from ...errors import ArgumentError, ShapeError
from ...op import Gradients, KeepsSpec, Methods, Op, Spec, apply
from ..reducing.reduction import sum
from ..shaping.broadcasting import sum_to
from ..shaping.gathering import OneHot
from ..shaping.movement import insert_axes
from .softmax import LogSoftmax, Softmax


class SoftCrossEntropy(Op):
    """-sum(labels * log softmax(logits)) over the last axis; inputs labels, logits."""

    promotes = "float"
    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        labels, x = arrays
        shifted, _, total = exponentials(xp, x)
        dot = np.vecdot(labels, shifted) if xp is np else xp.sum(labels * shifted, axis=-1)
        losses: Array = xp.log(total) * _row_sum(xp, labels) - dot
        return losses

    def infer(self, *specs: Spec) -> Spec:
        shape = broadcast(specs[0].shape, specs[1].shape, op="softmax_cross_entropy_with_logits")
        return Spec(shape[:-1], specs[1].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """By logits: g (softmax sum(labels) - labels); by labels: -g log softmax."""
        labels, logits = node.inputs
        by_labels = by_logits = None
        if node.wants[0]:
            log_p = apply(LogSoftmax(len(logits.shape) - 1), logits)
            by_labels = sum_to(-_column(out_grad) * log_p, labels)
        if node.wants[1]:
            by_logits = sum_to(apply(SoftCrossEntropyGrad(), out_grad, labels, logits), logits)
        return by_labels, by_logits


class SoftCrossEntropyGrad(Op):
    """g (softmax(logits) sum(labels) - labels); inputs g, labels, logits."""

    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        g, labels, x = arrays
        _, p, total = exponentials(xp, x)
        p *= (g * _row_sum(xp, labels) / total)[..., None]
        p -= labels * g[..., None]
        return p

    def infer(self, *specs: Spec) -> Spec:
        return Spec(broadcast(specs[1].shape, specs[2].shape), specs[2].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """The same written out in operators, differentiated term by term."""
        return by_inputs(out_grad, *node.inputs)


def by_inputs(
    out_grad: Methods, g: Methods, labels: Methods, logits: Methods
) -> tuple[Methods, Methods, Methods]:
    """Return the gradients of `SoftCrossEntropyGrad` by its inputs."""
    p = apply(Softmax(len(logits.shape) - 1), logits)
    weight = sum(labels, -1, True)
    by_p = out_grad * _column(g) * weight
    by_logits = p * (by_p - sum(by_p * p, -1, True))
    by_g = sum(out_grad * (p * weight - labels), -1)
    flow = out_grad * _column(g)
    by_labels = sum(flow * p, -1, True) - flow
    return by_g, sum_to(by_labels, labels), sum_to(by_logits, logits)


class SparseCrossEntropy(Op):
    """-log softmax(logits) at the class of each row; inputs labels (integers), logits."""

    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        labels, x = arrays
        _check_rows(tuple(labels.shape), tuple(x.shape))
        by_kernel = class_loss(labels, x) if xp is np and x.ndim == 2 else None
        if by_kernel is not None:
            return by_kernel[0]
        _check_labels(labels, x.shape[-1])
        shifted, _, total = exponentials(xp, x)
        picked = xp.take_along_axis(shifted, xp.astype(labels, xp.int64)[..., None], axis=-1)
        losses: Array = xp.log(total) - picked[..., 0]
        return losses

    def infer(self, *specs: Spec) -> Spec:
        _check_rows(specs[0].shape, specs[1].shape)
        return Spec(broadcast(specs[0].shape, specs[1].shape[:-1]), specs[1].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """g (softmax - one_hot(labels))."""
        labels, logits = node.inputs
        return None, apply(SparseCrossEntropyGrad(), out_grad, labels, logits)


class SparseCrossEntropyGrad(KeepsSpec):
    """g (softmax(logits) - one_hot(labels)); inputs g, labels (integers), logits."""

    like = 2
    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        _check_labels(arrays[1], arrays[2].shape[-1])
        g, labels, x = arrays
        by_kernel = class_gradient(g, labels, x) if xp is np and x.ndim == 2 else None
        if by_kernel is not None:
            return by_kernel
        hot = OneHot(x.shape[-1], dtype_of(x)).compute(xp, labels)
        return SoftCrossEntropyGrad().compute(xp, g, hot, x)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """That of the other operator, with the labels written out."""
        g, labels, logits = node.inputs
        hot = apply(OneHot(logits.shape[-1], logits.dtype), labels)
        by_g, _, by_logits = by_inputs(out_grad, g, hot, logits)
        return by_g, None, by_logits


def _check_rows(labels: Shape, logits: Shape) -> None:
    """Raise unless there is a label for each row: none is repeated for others."""
    pairs = list(zip(labels, logits, strict=False))
    if len(labels) != len(logits) - 1 or any(a != b and None not in (a, b) for a, b in pairs):
        raise ShapeError(
            "sparse_softmax_cross_entropy_with_logits: not one label a row: got labels of shape "
            f"{labels} for logits of shape {logits}, expected {logits[:-1]}. Reshape or squeeze "
            "the labels."
        )


def _check_labels(labels: Array, count: int) -> None:
    """Raise if an array of NumPy's holds a label that is no class."""
    if type(labels) is not np.ndarray or not labels.size:
        return
    bits = labels.view(f"u{labels.itemsize}")  # what is negative is large: one pass is enough
    if bits.max() >= count:
        label = labels.flat[int(bits.argmax())]
        raise ArgumentError(
            f"sparse_softmax_cross_entropy_with_logits: got label {label}, expected 0 to "
            f"{count - 1}, a class of the logits' last axis."
        )


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


def _column(g: Methods) -> Any:
    """Return `g` with a last axis of size 1."""
    return insert_axes(g, (len(g.shape),))
