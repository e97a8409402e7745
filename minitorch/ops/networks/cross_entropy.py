"""Cross-entropy of classes: the loss and its gradient as one operator each, and the general case.

Without weights, one class a row or a pixel is `CrossEntropy`: of rows it makes no table of
probabilities. Its gradient is an operator too, `CrossEntropyGrad`, so that it stays one pass.
"""

import math
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace, as_dtype, cast, dtype_of, native_device_of
from ...errors import ArgumentError, AxisError, ShapeError
from ...op import Gradients, KeepsSpec, Kind, Methods, Op, Spec, apply
from ..elementwise import compiled
from ..elementwise.binary import where
from ..elementwise.casting import cast_to
from ..elementwise.logic import ne
from ..elementwise.unary import zeros_like
from ..reducing.reduction import sum
from ..shaping.gathering import Gather, added_along, gather
from ..shaping.movement import flatten, insert_axes, permute, remove_axes, reshape
from .loss import reduced
from .softmax import LogSoftmax, Softmax


def _in_range(index: Any, classes: int) -> bool:
    """Tell whether all of a NumPy vector is in range(classes), with one comparison."""
    index = index.reshape(-1)
    if index.dtype == np.int64:
        return not index.size or bool(index.view(np.uint64).max() < classes)
    return not index.size or bool(index.min() >= 0 and index.max() < classes)


def _rows(
    xp: Namespace, index: Any, classes: int, ignore: int, name: str = "cross_entropy"
) -> tuple[Any, Any, Any]:
    """Return the classes made safe to index with, which rows count (None: all), and how many.

    Raises:
        AxisError: a class out of range.
    """
    if xp is np and not 0 <= ignore < classes and _in_range(index, classes):
        return index, None, index.size
    counts = index != ignore
    safe = xp.where(counts, index, xp.zeros_like(index))
    if xp is np and not _in_range(safe, classes):
        raise AxisError(
            f"{name}: got a class of {int(safe.max())} or {int(safe.min())}, expected 0 to "
            f"{classes - 1}."
        )
    return safe, counts, xp.sum(cast(counts, np.dtype(np.int64)))


class OfClasses(Op):
    """Base of the operators of logits (n, classes) and classes (n,), or (n, classes, m) and (n, m).

    One class does not count; of each target `smoothing` is spread over all classes.
    """

    on_arrays = True
    reads_output = False

    def __init__(self, ignore_index: int, smoothing: float = 0.0) -> None:
        self.ignore_index, self.smoothing = ignore_index, smoothing


class CrossEntropy(OfClasses):
    """Mean over rows of ln Σ exp x - x[class]: one pass, no table of probabilities."""

    name = "cross_entropy"

    def compute(self, xp: Namespace, x: Array, index: Array) -> Array:
        """Return the mean over the rows that count."""
        how = (self.ignore_index, self.smoothing)
        if xp is np:
            by_kernel = compiled.class_kernels().class_loss(index, x, *how)
            if by_kernel is not None:
                losses, some_ignored = by_kernel
                n = np.count_nonzero(index != self.ignore_index) if some_ignored else index.size
                mean: Array = np.add.reduce(losses, axis=None)
                mean /= x.dtype.type(n)
                return mean
        losses, n = _losses(xp, x, index, *how)
        return cast(xp.sum(losses) / n, dtype_of(x))

    def infer(self, *specs: Spec) -> Spec:
        """Return a 0-d spec.

        Raises:
            ShapeError: not (n, classes) and (n,).
        """
        x, index = specs[0].shape, specs[1].shape
        rows = (*x[:1], *x[2:])
        if not 2 <= len(x) <= 3 or (rows != index and None not in (*rows, *index)):
            raise ShapeError(
                f"cross_entropy: got logits {x}, classes {index}, expected (n, classes) and (n,)."
            )
        return Spec((), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return (softmax - one hot) / n, times the gradient."""
        x, index = node.inputs
        return apply(CrossEntropyGrad(self.ignore_index, self.smoothing), x, index, out_grad), None


class CrossEntropyGrad(KeepsSpec, OfClasses):
    """(softmax x - one hot) · g / n: the gradient of `CrossEntropy`, itself differentiable."""

    def compute(self, xp: Namespace, x: Array, index: Array, g: Array) -> Array:
        """Return the gradient of the logits."""
        if xp is np:
            counted, n = _counted(index, self.ignore_index)
            share = np.asarray(g / x.dtype.type(n))
            return _shares(np, x, index, share, self, counted)
        count = xp.sum(cast(index != self.ignore_index, np.dtype(np.int64)))
        return _shares(xp, x, index, g / count, self)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Softmax has the derivative y (v - Σ v y); the one hot part has none."""
        x, index, g = node.inputs
        counts = ne(index, self.ignore_index)
        share = where(counts, 1.0 / cast_to(sum(counts), x.dtype), 0.0)
        weighted = insert_axes(share, (1,)) * out_grad
        y = apply(Softmax(1), x)
        curved = weighted * y - y * sum(weighted * y, 1, True)
        slope = apply(self, x, index, g * 0.0 + 1.0)
        return curved * g, None, sum(slope * out_grad)


class ClassLosses(OfClasses):
    """ln Σ exp x - x[class] of each row; 0 for the class that does not count."""

    name = "class_losses"

    def compute(self, xp: Namespace, x: Array, index: Array) -> Array:
        """Return the losses, of the classes' shape."""
        how = (self.ignore_index, self.smoothing)
        if xp is np:
            by_kernel = compiled.class_kernels().class_loss(index, x, *how)
            if by_kernel is not None:
                losses: Array = by_kernel[0]
                return losses
        return _losses(xp, x, index, *how)[0]

    def infer(self, *specs: Spec) -> Spec:
        """Return the logits' shape without the classes."""
        return Spec((*specs[0].shape[:1], *specs[0].shape[2:]), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return softmax - one hot of each row, times its gradient."""
        back = ClassLossesGrad(self.ignore_index, self.smoothing)
        return apply(back, *node.inputs, out_grad), None


class ClassLossesGrad(KeepsSpec, OfClasses):
    """(softmax x - one hot) · g of each row: the gradient of `ClassLosses`."""

    def compute(self, xp: Namespace, x: Array, index: Array, g: Array) -> Array:
        """Return the gradient of the logits."""
        counted = _counted(index, self.ignore_index)[0] if xp is np else None
        return _shares(xp, x, index, g, self, counted)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """As of `CrossEntropyGrad`, a gradient a row."""
        x, index, g = node.inputs
        flow = insert_axes(where(ne(index, self.ignore_index), g, 0.0), (1,)) * out_grad
        y = apply(Softmax(1), x)
        slope = apply(self, x, index, g * 0.0 + 1.0)
        return flow * y - y * sum(flow * y, 1, True), None, sum(slope * out_grad, 1)


def _losses(
    xp: Namespace, x: Array, index: Array, ignore: int, smoothing: float
) -> tuple[Array, Any]:
    """Return the loss of each row, and how many count.

    Raises:
        AxisError: a class out of range.
    """
    safe, counts, n = _rows(xp, index, x.shape[1], ignore)
    away = x - xp.max(x, axis=1, keepdims=True)
    picked = Gather(1).compute(xp, away, safe[:, None])[:, 0]
    if smoothing:
        picked = picked * (1.0 - smoothing) + xp.mean(away, axis=1) * smoothing
    powers = np.exp(away, out=away) if xp is np else xp.exp(away)
    losses: Array = xp.log(xp.sum(powers, axis=1)) - picked
    if counts is not None:
        losses = xp.where(counts, losses, xp.zeros_like(losses))
    return losses, n


def _counted(index: Array, ignore: int) -> tuple[Array, int]:
    """Return the classes that count, of NumPy, and how many."""
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
    if counted is not None and _in_range(counted, x.shape[1]):
        kernel = compiled.class_kernels().class_gradient
        by_kernel: Array | None = kernel(g, index, x, op.ignore_index, op.smoothing)
        if by_kernel is not None:
            return by_kernel
    safe, counts, _ = _rows(xp, index, x.shape[1], op.ignore_index)
    y: Array = Softmax(1).compute(xp, x)
    if op.smoothing:
        y -= op.smoothing / x.shape[1]
    subtracted = xp.zeros_like(y[:, :1]) + (op.smoothing - 1.0)
    y = added_along(xp, y, safe[:, None], 1, subtracted)
    y *= g[:, None] if g.ndim else g
    return y if counts is None else xp.where(counts[:, None], y, xp.zeros_like(y))


class PickedMean(OfClasses):
    """Minus the mean over rows of x[class], for log-probabilities (n, classes)."""

    reads_inputs = False
    reads_indices = True
    name = "nll_loss"

    def compute(self, xp: Namespace, x: Array, index: Array) -> Array:
        """Return the mean over the rows that count."""
        safe, counts, n = _rows(xp, index, x.shape[1], self.ignore_index, self.name)
        picked = x[xp.arange(x.shape[0], **native_device_of(x)), safe]
        if counts is not None:
            picked = xp.where(counts, picked, xp.zeros_like(picked))
        return cast(-xp.sum(picked) / n, dtype_of(x))

    def infer(self, *specs: Spec) -> Spec:
        """Return a 0-d spec."""
        return Spec((), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return zeros with minus the gradient's share at the classes."""
        return apply(PickedMeanGrad(self.ignore_index), *node.inputs, out_grad), None


class PickedMeanGrad(KeepsSpec, OfClasses):
    """Zeros like x with -g / n at each row's class: the gradient of `PickedMean`."""

    reads_inputs = False
    reads_indices = True

    def compute(self, xp: Namespace, x: Array, index: Array, g: Array) -> Array:
        """Return the gradient of the log-probabilities."""
        safe, counts, n = _rows(xp, index, x.shape[1], self.ignore_index)
        into: Array = xp.zeros_like(x)
        share = -g / n if counts is None else xp.where(counts, -g / n, xp.zeros_like(g))
        into[xp.arange(x.shape[0], **native_device_of(x)), safe] = share
        return into

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """By g the picked mean of the gradient; by x nothing."""
        return None, None, apply(PickedMean(self.ignore_index), out_grad, node.inputs[1])


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
    by_class = as_dtype(target.dtype).kind != "f"
    plain = by_class and not (label_smoothing and weight is not None)
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
    share = _class_weights(logs, target, weight, counts)
    if label_smoothing:
        spread = where(counts, -sum(scaled, d), 0.0) * (label_smoothing / logs.shape[d])
        hard = hard * (1.0 - label_smoothing) + spread
    return sum(hard) / sum(share) if reduction == "mean" else reduced(hard, reduction)


def _hard(
    x: Kind, target: Kind, weight: Kind | None, ignore: int, reduction: str, smoothing: float
) -> Kind:
    """Return the loss of classes, with the axes behind theirs as one; by rows if unknown.

    Raises:
        ShapeError: the classes or the weights are not as many as the logits want.
    """
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
        return apply(CrossEntropy(ignore, smoothing), x, classes)
    losses = apply(ClassLosses(ignore, smoothing), x, classes)
    if weight is not None:
        share = _class_weights(x, classes, weight, ne(classes, ignore))
        losses = losses * share
        if reduction == "mean":
            return sum(losses) / sum(share)
    return reduced(losses if rank == 2 else reshape(losses, tuple(target.shape)), reduction)


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
        return reduced(losses, reduction)
    return sum(losses) / float(max(math.prod(losses.shape), 1))


def _class_weights(logs: Kind, target: Kind, weight: Kind | None, counts: Kind) -> Kind:
    if weight is None:
        return cast_to(counts, logs.dtype)
    return where(counts, weight[where(counts, target, 0)], 0.0)


def nll_loss(
    input: Kind,
    target: Kind,
    weight: Kind | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Kind:
    """Return -input[class] for log-probabilities; arguments as `cross_entropy`."""
    d = 0 if len(input.shape) == 1 else 1
    expected = tuple(input.shape[:d]) + tuple(input.shape[d + 1 :])
    if not input.shape or tuple(target.shape) != expected:
        raise ShapeError(
            f"nll_loss: got target {tuple(target.shape)} for input {tuple(input.shape)}, expected "
            f"{expected}."
        )
    plain = weight is None and reduction == "mean" and len(input.shape) == 2
    if plain and as_dtype(target.dtype).kind in "iu":
        return apply(PickedMean(ignore_index), input, target)
    counts = ne(target, ignore_index)
    safe = where(counts, target, zeros_like(target))
    picked = remove_axes(gather(input, d, insert_axes(safe, (d,))), (d,))
    share = _class_weights(input, target, weight, counts)
    losses = where(counts, -picked * share, 0.0)
    return sum(losses) / sum(share) if reduction == "mean" else reduced(losses, reduction)
