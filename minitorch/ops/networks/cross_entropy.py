"""Cross-entropy of classes: the loss and its gradient as one operator each, and the general case.

Without weights, one class a row or a pixel is `CrossEntropy`: of rows it makes no table of
probabilities. Its gradient is an operator too, `CrossEntropyGrad`, so that it stays one pass.
"""

import math
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace, as_dtype, cast, dtype_of
from ...compile.class_cross_entropy import NONE
from ...errors import ArgumentError, DTypeError, ShapeError
from ...op import Gradients, KeepsSpec, Kind, Methods, Spec, apply
from ..elementwise import compiled
from ..elementwise.binary import where
from ..elementwise.casting import cast_to
from ..elementwise.logic import ne
from ..reducing.reduction import sum
from ..shaping.adding import inside
from ..shaping.gathering import Gather, add_along
from ..shaping.movement import flatten, insert_axes, permute, reshape
from .loss import reduce_loss
from .nll_loss import ClassShares, OfClasses, nll_loss, select_counted_rows, weigh
from .softmax import LogSoftmax, Softmax


class CrossEntropy(OfClasses):
    """ln Σ exp x - x[class] of each row, 0 for the class that does not count; or their mean."""

    name = "cross_entropy"

    def compute(self, xp: Namespace, x: Array, index: Array) -> Array:
        losses, n = _losses(xp, x, index, self)
        if not self.mean:
            return losses
        if xp is np:
            mean: Array = np.add.reduce(losses, axis=None)
            mean /= x.dtype.type(n)
            return mean
        return cast(xp.sum(losses) / n, dtype_of(x))

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of the losses, or of one number.

        Raises:
            ShapeError: not (n, classes) and (n,).
        """
        x, index = specs[0].shape, specs[1].shape
        rows = (*x[:1], *x[2:])
        if not 2 <= len(x) <= 3 or (rows != index and None not in (*rows, *index)):
            raise ShapeError(
                f"cross_entropy: got logits {x}, classes {index}, expected (n, classes) and (n,)."
            )
        return Spec(() if self.mean else rows, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return softmax - one hot of each row, times its gradient, or times its share of one."""
        back = CrossEntropyGrad(self.ignore_index, self.smoothing, self.mean)
        return apply(back, *node.inputs, out_grad), None


class WeightedLoss(CrossEntropy):
    """The sum of the losses times a share each."""

    name = "weighted_cross_entropy"

    def compute(self, xp: Namespace, x: Array, index: Array, *shares: Array) -> Array:
        return cast(xp.sum(super().compute(xp, x, index) * shares[0]), dtype_of(x))

    def infer(self, *specs: Spec) -> Spec:
        return Spec((), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """As of the losses, times the shares."""
        x, index, share = node.inputs
        how, by_share = (self.ignore_index, self.smoothing), None
        if node.wants[2]:
            by_share = apply(CrossEntropy(*how), x, index) * out_grad
        return apply(CrossEntropyGrad(*how), x, index, share * out_grad), None, by_share


class CrossEntropyGrad(KeepsSpec, OfClasses):
    """(softmax x - one hot) · g of each row, of their mean with g / n, itself differentiable."""

    axis = 1  # of the classes

    def compute(self, xp: Namespace, x: Array, index: Array, g: Array) -> Array:
        if xp is np:
            counted, n = _select_counted(index, self.ignore_index)
            g = np.asarray(g / x.dtype.type(n)) if self.mean else g
            return _shares(np, x, index, g, self, counted)
        if self.mean:
            g = g / xp.sum(cast(index != self.ignore_index, np.dtype(np.int64)))
        return _shares(xp, x, index, g, self)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Softmax has the derivative y (v - Σ v y); the one hot part has none."""
        x, index, g = node.inputs
        axis, share = self.axis % len(x.shape), g
        if self.ignore_index != NONE:  # which no int32 holds: compared with one it would be 0
            counts = ne(index, self.ignore_index)
            share = where(counts, g / cast_to(sum(counts), x.dtype) if self.mean else g, 0.0)
        flow = insert_axes(share, (axis,)) * out_grad
        y = apply(Softmax(axis), x)
        slope = apply(self, x, index, g * 0.0 + 1.0)
        by_g = sum(slope * out_grad, None if self.mean else axis)
        return flow * y - y * sum(flow * y, axis, True), None, by_g


def _losses(xp: Namespace, x: Array, index: Array, op: OfClasses) -> tuple[Array, Any]:
    """Return the loss of each row, and how many count.

    Raises:
        AxisError: a class out of range.
    """
    ignore, smoothing = op.ignore_index, op.smoothing
    if xp is np:
        by_kernel = compiled.class_kernels().class_loss(index, x, ignore, smoothing)
        if by_kernel is not None:
            some_ignored = by_kernel[1]
            n = np.count_nonzero(index != ignore) if some_ignored else index.size
            return by_kernel[0], n
    safe, counts, n = select_counted_rows(xp, index, x.shape[1], ignore, op.name)
    away = x - xp.max(x, axis=1, keepdims=True)
    picked = Gather(1).compute(xp, away, safe[:, None])[:, 0]
    if smoothing:
        picked = picked * (1.0 - smoothing) + xp.mean(away, axis=1) * smoothing
    powers = np.exp(away, out=away) if xp is np else xp.exp(away)
    losses: Array = xp.log(xp.sum(powers, axis=1)) - picked
    if counts is not None:
        losses = xp.where(counts, losses, xp.zeros_like(losses))
    return losses, n


def _select_counted(index: Array, ignore: int) -> tuple[Array, int]:
    """Return the classes that count, of NumPy, and how many."""
    if ignore == NONE:
        return index, index.size
    counts = index != ignore
    n = int(np.count_nonzero(counts))
    return index if n == index.size else index[counts], n


def _shares(
    xp: Namespace, x: Array, index: Array, g: Array, op: OfClasses, counted: Array | None = None
) -> Array:
    """Return (softmax x - targets) · g for g of all rows, (), or of each, (n,).

    Args:
        op: says which class does not count, and the smoothing of targets.
        counted: the classes that count, of NumPy.

    Raises:
        AxisError: a class out of range.
    """
    if counted is not None and inside(counted, x.shape[1]):
        kernel = compiled.class_kernels().class_gradient
        by_kernel: Array | None = kernel(g, index, x, op.ignore_index, op.smoothing)
        if by_kernel is not None:
            return by_kernel
    safe, counts, _ = select_counted_rows(xp, index, x.shape[1], op.ignore_index)
    y: Array = Softmax(1).compute(xp, x)
    if op.smoothing:
        y -= op.smoothing / x.shape[1]
    subtracted = xp.zeros_like(y[:, :1]) + (op.smoothing - 1.0)
    y = add_along(xp, y, safe[:, None], 1, subtracted)
    y *= g[:, None] if g.ndim else g
    return y if counts is None else xp.where(counts[:, None], y, xp.zeros_like(y))


def cross_entropy(
    input: Kind,
    target: Kind,
    weight: Kind | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Kind:
    """Return ln Σ exp x - x[class] for logits `input` and classes, or probabilities, `target`.

    Args:
        input: logits (classes,), (n, classes) or (n, classes, ...).
        target: classes, of the shape without the classes' axis, or probabilities of the shape of
            `input`.
        weight: of each class, (classes,).
        ignore_index: a class whose rows do not count.
        reduction: "mean" (over the weights of the rows), "sum" or "none".
        label_smoothing: the part of the target that is spread over all classes, 0 to 1.

    Raises:
        ShapeError: the shapes do not fit.
        ArgumentError: an unknown reduction, or a smoothing out of range.
    """
    if not 0.0 <= label_smoothing <= 1.0:
        raise ArgumentError(
            f"cross_entropy: got label_smoothing {label_smoothing}, expected 0 to 1."
        )
    if not hasattr(target, "dtype"):
        raise DTypeError(
            f"cross_entropy: got target of type {type(target).__name__}, expected a tensor. Wrap "
            "it with minitorch.tensor."
        )
    by_class = as_dtype(target.dtype).kind != "f"
    plain = by_class and not (weight is not None and (label_smoothing or 0 in target.shape))
    if plain and len(input.shape) == len(target.shape) + 1 > 1:
        return _hard(input, target, weight, ignore_index, reduction, label_smoothing)
    d = 0 if len(input.shape) == 1 else 1
    logs = apply(LogSoftmax(d), input)
    along = [-1 if i == d else 1 for i in range(len(logs.shape))]
    scaled = logs if weight is None else logs * reshape(weight, along)
    if not by_class:
        return _soft(logs, scaled, target, reduction, label_smoothing, d)
    hard = nll_loss(logs, target, weight, ignore_index=ignore_index, reduction="none")
    counts = ne(target, ignore_index)
    if label_smoothing:
        spread = where(counts, -sum(scaled, d), 0.0) * (label_smoothing / logs.shape[d])
        hard = hard * (1.0 - label_smoothing) + spread
    if reduction != "mean":
        return reduce_loss(hard, reduction)
    shares = counts if weight is None else apply(ClassShares(ignore_index, False), weight, target)
    return sum(hard) / sum(cast_to(shares, logs.dtype))


def _hard(
    x: Kind, target: Kind, weight: Kind | None, ignore: int, reduction: str, smoothing: float
) -> Kind:
    """Return the loss of classes, with the axes behind theirs as one; by rows if unknown."""
    shape, rank, classes = tuple(x.shape), len(x.shape), target
    count, expected = shape[1], shape[:1] + shape[2:]
    if tuple(target.shape) != expected and None not in (*expected, *target.shape):
        raise ShapeError(
            f"cross_entropy: got logits {shape}, classes {tuple(target.shape)}, expected "
            "(n, classes, ...) and (n, ...)."
        )
    if weight is not None and tuple(weight.shape) != (count,):
        raise ShapeError(f"cross_entropy: got weights {tuple(weight.shape)}, expected ({count},).")
    if rank > 2 and None in shape:
        x = reshape(permute(x, (0, *range(2, rank), 1)), -1, count)
        classes = reshape(target, -1)
    elif rank > 3:
        x, classes = flatten(x, 2), flatten(target, 1)
    if weight is None and reduction == "mean":
        return apply(CrossEntropy(ignore, smoothing, True), x, classes)
    if weight is not None and reduction != "none":
        shares = apply(ClassShares(ignore, reduction == "mean"), cast_to(weight, x.dtype), classes)
        return apply(WeightedLoss(ignore, smoothing), x, classes, shares)
    losses = apply(CrossEntropy(ignore, smoothing), x, classes)
    return weigh(losses, classes, weight, ignore, reduction, target)


def _soft(
    logs: Kind, scaled: Kind, target: Methods, reduction: str, smoothing: float, d: int
) -> Kind:
    """Return the loss of probabilities; `scaled` are the logarithms times the classes' weights."""
    if tuple(target.shape) != tuple(logs.shape):
        raise ShapeError(
            f"cross_entropy: got probabilities {tuple(target.shape)}, expected {tuple(logs.shape)}."
        )
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / logs.shape[d]
    losses = -sum(scaled * target, d)
    if reduction != "mean":
        return reduce_loss(losses, reduction)
    return sum(losses) / (float(math.prod(losses.shape)) or math.nan)
