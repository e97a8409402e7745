"""Cross-entropies of rows: one loss for each, for classes and for distributions over them.

They are what a classifier in a graph runs at every step. Classes lie on the last axis.
"""

from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace, native_device_of
from ...arrays.shapes import Shape, agree, broadcast
from ...compile.class_cross_entropy import NONE
from ...errors import ShapeError
from ...op import Gradients, Methods, Op, Spec, apply
from ..reducing.reduction import sum
from ..shaping.broadcasting import sum_to
from ..shaping.movement import insert_axes
from .cross_entropy import CrossEntropy, CrossEntropyGrad
from .softmax import LogSoftmax, Softmax


class SoftCrossEntropy(Op):
    """-sum(labels * log softmax(logits)) over the last axis; inputs labels, logits."""

    promotes = "float"
    reads_output = False

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        labels, x = arrays
        log_p = LogSoftmax(x.ndim - 1).compute(xp, x)
        dot: Array = np.vecdot(labels, log_p) if xp is np else xp.sum(labels * log_p, axis=-1)
        return -dot

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
        p = Softmax(x.ndim - 1).compute(xp, x)
        how = {"dtype": labels.dtype, **native_device_of(labels)}
        ones = xp.ones(labels.shape[-1:], **how)  # a product is faster than a sum
        p *= (g * (labels @ ones))[..., None]
        p -= labels * g[..., None]
        return p

    def infer(self, *specs: Spec) -> Spec:
        return Spec(broadcast(specs[1].shape, specs[2].shape), specs[2].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """The same written out in operators, differentiated term by term."""
        g, labels, logits = node.inputs
        p = apply(Softmax(len(logits.shape) - 1), logits)
        flow, weight = out_grad * _column(g), sum(labels, -1, True)
        by_p = flow * weight
        by_logits = p * (by_p - sum(by_p * p, -1, True))
        by_g = sum(out_grad * (p * weight - labels), -1)
        by_labels = sum(flow * p, -1, True) - flow
        return by_g, sum_to(by_labels, labels), sum_to(by_logits, logits)


class SparseCrossEntropy(CrossEntropy):
    """-log softmax(logits) at the class of each row; inputs logits, labels (integers)."""

    name = "sparse_softmax_cross_entropy_with_logits"

    def __init__(self) -> None:
        super().__init__(NONE)

    def compute(self, xp: Namespace, x: Array, index: Array) -> Array:
        _check_rows(tuple(index.shape), tuple(x.shape))
        if x.ndim == 2:
            return super().compute(xp, x, index)
        losses = super().compute(xp, _as_matrix(x), index.reshape((-1,)))
        return losses.reshape(tuple(index.shape))

    def infer(self, *specs: Spec) -> Spec:
        x, labels = specs
        _check_rows(labels.shape, x.shape)
        return Spec(broadcast(labels.shape, x.shape[:-1]), x.dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """g (softmax - one_hot(labels))."""
        return apply(SparseCrossEntropyGrad(), *node.inputs, out_grad), None


class SparseCrossEntropyGrad(CrossEntropyGrad):
    """g (softmax(logits) - one_hot(labels)); inputs logits, labels (integers), g."""

    axis = -1

    def __init__(self) -> None:
        super().__init__(NONE)

    def compute(self, xp: Namespace, x: Array, index: Array, g: Array) -> Array:
        if x.ndim == 2:
            return super().compute(xp, x, index, g)
        by_rows = super().compute(xp, _as_matrix(x), index.reshape((-1,)), g.reshape((-1,)))
        return by_rows.reshape(tuple(x.shape))


def _as_matrix(x: Array) -> Array:
    return x.reshape((-1, x.shape[-1]))


def _check_rows(labels: Shape, logits: Shape) -> None:
    """Raise unless there is a label for each row: none is repeated for others."""
    if not logits or not agree(labels, logits[:-1]):
        raise ShapeError(
            "sparse_softmax_cross_entropy_with_logits: not one label a row: got labels of shape "
            f"{labels} for logits of shape {logits}, expected {logits[:-1]}. Reshape or squeeze "
            "the labels."
        )


def _column(g: Methods) -> Any:
    """Return `g` with a last axis of size 1."""
    return insert_axes(g, (len(g.shape),))
