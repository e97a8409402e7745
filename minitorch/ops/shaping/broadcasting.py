"""Undoing a broadcast, and repeating one: the one place where gradients change shape.

If `x` was stretched to meet a larger shape, each of its elements was used several times, so the
gradient of `x` is the sum over those uses. `sum_to` and `expand_to` are each other's gradient.
"""

import numpy as np

from ...arrays.library import Array, Namespace
from ...arrays.shapes import Shape, broadcast, stretched_axes
from ...op import Gradients, Kind, Methods, ReadsShapes, Spec, apply


class SumTo(ReadsShapes):
    """Sum over the axes that broadcasting stretched: to `shape`, or to that of a second input."""

    def __init__(self, shape: Shape | None = None) -> None:
        self.shape = shape

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        x = arrays[0]
        shape = tuple(arrays[1].shape) if self.shape is None else self.shape
        lead = len(x.shape) - len(shape)
        x = xp.sum(x, axis=stretched_axes(shape, tuple(x.shape)), keepdims=True, dtype=x.dtype)
        return xp.reshape(x, shape) if lead else x

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[-1].shape if self.shape is None else self.shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Every element that was added up gets the gradient of the sum."""
        return (expand_to(out_grad, node.inputs[0]), None)[: len(node.inputs)]


class ExpandTo(ReadsShapes):
    """Broadcast to `shape`, or to that of a second input. A view: nothing is copied."""

    views = True

    def __init__(self, shape: tuple[int, ...] | None = None) -> None:
        self.shape = shape

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        shape = tuple(arrays[1].shape) if self.shape is None else self.shape
        lead = len(shape) - len(arrays[0].shape)
        if shape[lead:] == arrays[0].shape and shape[:lead] == (1,) * lead:
            return xp.reshape(arrays[0], shape)  # nothing is repeated: it can be written to
        if xp is np and arrays[0].size == 1 and len(arrays[0].shape) <= len(shape):
            return _repeat(arrays[0], shape)
        return xp.broadcast_to(arrays[0], shape)

    def infer(self, *specs: Spec) -> Spec:
        shape = specs[-1].shape if self.shape is None else self.shape
        if len(specs[0].shape) > len(shape) or None not in specs[0].shape:
            broadcast(specs[0].shape, shape, op="expand")
        return Spec(shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Each use of an element adds to its gradient."""
        return (sum_to(out_grad, node.inputs[0]), None)[: len(node.inputs)]


def _repeat(number: Array, shape: tuple[int, ...]) -> Array:
    """Return a view of one number under a shape; a quarter of the time of `broadcast_to`."""
    scalar = np.asarray(number)
    view = np.ndarray(shape, scalar.dtype, scalar, 0, (0,) * len(shape))
    view.flags.writeable = False
    return view


def sum_to(grad: Kind, like: Methods) -> Kind:
    """Return `grad` summed over the axes along which `like` was broadcast to its shape."""
    shape = like.shape
    if grad.shape == shape and None not in shape:
        return grad
    if None in shape or None in grad.shape:
        return apply(SumTo(), grad, like)
    return apply(SumTo(tuple(shape)), grad)


def expand_to(x: Kind, like: Methods) -> Kind:
    """Return `x` broadcast to the shape of `like`."""
    shape = like.shape
    if x.shape == shape and None not in shape:
        return x
    if None in shape:
        return apply(ExpandTo(), x, like)
    return apply(ExpandTo(tuple(shape)), x)
