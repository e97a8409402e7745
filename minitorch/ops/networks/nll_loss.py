"""The loss of classes by log-probabilities, and what all losses of classes share.

Which class counts, whether it is one, and its weight.
"""

import math
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, Namespace, as_dtype, cast, dtype_of, native_device_of
from ...compile.class_cross_entropy import NONE
from ...errors import AxisError, DTypeError, ShapeError
from ...op import Gradients, KeepsSpec, Kind, Methods, Op, Spec, apply
from ..elementwise.binary import where
from ..elementwise.logic import ne
from ..elementwise.unary import zeros_like
from ..reducing.reduction import sum
from ..shaping.adding import find_outside, inside
from ..shaping.gathering import index_add
from ..shaping.movement import flatten, insert_axes, reshape
from .loss import reduce_loss


def select_counted_rows(
    xp: Namespace, index: Any, classes: int, ignore: int, name: str = "cross_entropy"
) -> tuple[Any, Any, Any]:
    """Return the classes made safe to index with, which rows count (None: all), and how many.

    Raises:
        AxisError: a class out of range.
    """
    if xp is np and not 0 <= ignore < classes and inside(index, classes):
        return index, None, index.size
    if xp is not np and ignore == NONE:  # which no int32 holds
        return index, None, math.prod(index.shape)
    counts = index != ignore
    safe = xp.where(counts, index, xp.zeros_like(index))
    if xp is np and (label := find_outside(safe, classes)) is not None:
        raise AxisError(f"{name}: got label {label}, expected 0 to {classes - 1}, a class.")
    return safe, counts, xp.sum(cast(counts, np.dtype(np.int64)))


class OfClasses(Op):
    """Base of the operators of logits (n, classes) and classes (n,), or (n, classes, m) and (n, m).

    One class does not count; of each target `smoothing` is spread over all classes; `mean` is
    whether of all rows' losses it is their mean.
    """

    on_arrays = True
    reads_output = False

    def __init__(self, ignore_index: int, smoothing: float = 0.0, mean: bool = False) -> None:
        self.ignore_index, self.smoothing, self.mean = ignore_index, smoothing, mean


class Picked(OfClasses):
    """Minus x[class] for log-probabilities, 0 for the class that does not count; or their mean."""

    reads_inputs = False
    reads_indices = True
    name = "nll_loss"

    def compute(self, xp: Namespace, x: Array, index: Array) -> Array:
        safe, counts, n = select_counted_rows(xp, index, x.shape[1], self.ignore_index, self.name)
        flat = type(x) is np.ndarray and x.ndim == 2 and x.flags.c_contiguous
        picked: Array = -(x.take(_first_places(x) + safe) if flat else x[_places(xp, x, safe)])
        if counts is not None:
            picked = xp.where(counts, picked, xp.zeros_like(picked))
        if not self.mean:
            return picked
        total = np.add.reduce(picked, None) if xp is np else xp.sum(picked)
        mean: Array = cast(total / n, dtype_of(x))
        return mean

    def infer(self, *specs: Spec) -> Spec:
        return Spec(() if self.mean else specs[1].shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return zeros with minus the gradient's share at the classes."""
        return apply(PickedGrad(self.ignore_index, mean=self.mean), *node.inputs, out_grad), None


class PickedGrad(KeepsSpec, OfClasses):
    """Zeros like x with -g, or -g / n, at each place's class: the gradient of `Picked`."""

    reads_inputs = False
    reads_indices = True

    def compute(self, xp: Namespace, x: Array, index: Array, g: Array) -> Array:
        """Return the gradient of the log-probabilities."""
        safe, counts, n = select_counted_rows(xp, index, x.shape[1], self.ignore_index)
        share = -g / n if self.mean else -g
        if counts is not None:
            share = xp.where(counts, share, xp.zeros_like(share))
        if xp is np and x.ndim == 2:
            into = allocator.zeros(x.shape, x.dtype)
            into.reshape(-1)[_first_places(x) + safe] = share
            return into
        into = xp.zeros_like(x)
        into[_places(xp, x, safe)] = share
        return into

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """By g what is picked of the gradient; by x nothing."""
        return (
            None,
            None,
            apply(Picked(self.ignore_index, mean=self.mean), out_grad, node.inputs[1]),
        )


def _first_places(x: Array) -> Array:
    """Return where the rows of a matrix begin."""
    return np.arange(0, x.size, x.shape[1] or 1)


def _places(xp: Namespace, x: Array, index: Array) -> tuple[Array, ...]:
    """Return where in (n, classes) or (n, classes, m) these classes are."""
    rows, *columns = (xp.arange(x.shape[d], **native_device_of(x)) for d in range(0, x.ndim, 2))
    return (rows[:, None], index, *columns) if columns else (rows, index)


class ClassShares(OfClasses):
    """The weight of each class, 0 where it does not count; or what part it is of their sum."""

    reads_output = True
    name = "class_shares"

    def __init__(self, ignore_index: int, normed: bool) -> None:
        super().__init__(ignore_index)
        self.normed = normed

    def compute(self, xp: Namespace, weight: Array, index: Array) -> Array:
        safe, counts, _ = select_counted_rows(xp, index, weight.shape[0], self.ignore_index)
        share: Array = weight[safe]
        if counts is not None:
            share = xp.where(counts, share, xp.zeros_like(share))
        return share / xp.sum(share) if self.normed else share

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[1].shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Each weight gets the gradients of its places; of shares, less their mean, by the sum."""
        weight, index = node.inputs
        counts = ne(index, self.ignore_index)
        if self.normed:
            total = sum(apply(ClassShares(self.ignore_index, False), weight, index))
            out_grad = (out_grad - sum(out_grad * node.output)) / total
        flow = reshape(where(counts, out_grad, 0.0), -1)
        return index_add(zeros_like(weight), 0, reshape(where(counts, index, 0), -1), flow), None


def weigh(
    losses: Kind, classes: Kind, weight: Kind | None, ignore: int, reduction: str, target: Kind
) -> Kind:
    """Return losses times their classes' weights, reduced; their mean is over the weights."""
    if weight is not None:
        normed = reduction == "mean" and 0 not in target.shape  # a mean of none is no number
        losses = losses * apply(ClassShares(ignore, normed), weight, classes)
        reduction = "sum" if normed else reduction
    if reduction == "none" and len(losses.shape) != len(target.shape):
        losses = reshape(losses, tuple(target.shape))
    return reduce_loss(losses, reduction)


def nll_loss(
    input: Kind,
    target: Kind,
    weight: Kind | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Kind:
    """Return -input[class] for log-probabilities; arguments as `cross_entropy`."""
    if as_dtype(target.dtype).kind not in "iu":
        raise DTypeError(f"nll_loss: got {target.dtype} classes, expected integers. Use .long().")
    d = 0 if len(input.shape) == 1 else 1
    expected = tuple(input.shape[:d]) + tuple(input.shape[d + 1 :])
    if not input.shape or tuple(target.shape) != expected:
        raise ShapeError(
            f"nll_loss: got target {tuple(target.shape)} for input {tuple(input.shape)}, expected "
            f"{expected}."
        )
    count = input.shape[d]
    if weight is not None and count is not None and tuple(weight.shape) != (count,):
        raise ShapeError(f"nll_loss: got weights {tuple(weight.shape)}, expected ({count},).")
    x, classes = input, target
    if not d:
        x, classes = insert_axes(x, (0,)), insert_axes(classes, (0,))
    elif len(x.shape) > 3:
        x, classes = flatten(x, 2), flatten(classes, 1)
    if weight is None and reduction == "mean":
        return apply(Picked(ignore_index, mean=True), x, classes)
    losses = apply(Picked(ignore_index), x, classes)
    return weigh(losses, classes, weight, ignore_index, reduction, target)
