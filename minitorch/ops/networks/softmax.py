"""Softmax and its logarithm along an axis."""

import math
from typing import Any, cast

import numpy as np

from ...arrays.library import Array, DTypeLike, Namespace
from ...arrays.shapes import axis
from ...errors import ArgumentError
from ...op import Gradients, KeepsSpec, Kind, Methods, apply
from ..elementwise import compiled
from ..elementwise.casting import cast_to
from ..elementwise.formulas import at_once
from ..elementwise.unary import exp
from ..reducing.reduction import sum
from ..shaping.movement import AlongDim, reshape

LINE = 2**3  # numbers side by side, from which on a kernel over planes is faster


class AlongAxis(KeepsSpec, AlongDim):
    """Base of the two softmaxes, whose gradients read their results."""

    promotes = "float"
    reads_inputs = False

    def _by_kernel(self, xp: Namespace, x: Array) -> Array | None:
        """Return what the kernel over rows, or over planes, gives, if it can."""
        if not compiled.fits_rows(xp, x):
            return None
        apart = math.prod(x.shape[self.dim + 1 :])
        if apart == 1:
            return compiled.over_rows(self.name, (x,), 1.0, (x.shape), n=x.shape[self.dim])
        if apart < LINE or not x.flags.c_contiguous:
            return None
        how = {"n": x.shape[self.dim] * apart, "rows": apart}
        return compiled.over_rows(f"plane_{self.name}", (x,), 1.0, x.shape, **how)


class Softmax(AlongAxis):
    """exp x / Σ exp x along an axis."""

    name = "softmax"

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the shares, computed relative to the largest element."""
        if xp is not np:
            return xp.softmax(x, self.dim) if hasattr(xp, "softmax") else _shares(xp, x, self.dim)
        by_kernel = self._by_kernel(xp, x)
        if by_kernel is not None:
            return by_kernel
        y = x - np.maximum.reduce(x, axis=self.dim, keepdims=True)
        np.exp(y, out=y)
        y /= np.add.reduce(y, axis=self.dim, keepdims=True)
        return y

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return y (g - Σ g y)."""
        return (apply(SoftmaxGradient(self.dim), out_grad, node.output),)


class SoftmaxGradient(KeepsSpec, AlongDim):
    """y (g - Σ g y) along an axis, for the shares y and the gradient g of a softmax."""

    reads_output = False
    name = "softmax_gradient"

    def compute(self, xp: Namespace, g: Array, y: Array) -> Array:
        if self.dim == len(y.shape) - 1 and compiled.fits_rows(xp, g, y):
            return compiled.over_rows("softmax_gradient", (g, y), 1.0, y.shape)
        weighted: Array = g * y
        weighted -= y * xp.sum(weighted, axis=self.dim, keepdims=True)
        return weighted

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the same of u by g, and u (g - Σ g y) - g Σ u y by y."""
        g, y = node.inputs
        by_y = out_grad * (g - sum(g * y, self.dim, True)) - g * sum(out_grad * y, self.dim, True)
        return apply(SoftmaxGradient(self.dim), out_grad, y), by_y


def _shares(xp: Namespace, x: Array, dim: int) -> Any:
    y = xp.exp(x - xp.max(x, axis=dim, keepdims=True))
    return y / xp.sum(y, axis=dim, keepdims=True)


class LogSoftmax(AlongAxis):
    """x - ln Σ exp x along an axis."""

    name = "log_softmax"

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the logarithms, computed relative to the largest element."""
        by_kernel = self._by_kernel(xp, x)
        if by_kernel is not None:
            return by_kernel
        y: Array = x - xp.max(x, axis=self.dim, keepdims=True)
        y -= xp.log(xp.sum(xp.exp(y), axis=self.dim, keepdims=True))
        return y

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return g - softmax · Σ g."""
        g, y = cast(Any, out_grad), cast(Any, node.output)
        if type(y) is np.ndarray and self.dim == y.ndim - 1 and compiled.fits_rows(np, g, y):
            by_x: Any = compiled.over_rows("log_softmax_gradient", (g, y), 1.0, y.shape)
            return (by_x,)
        return (at_once(_less_share, (out_grad, node.output, sum(out_grad, self.dim, True))),)


def _less_share(g: Any, y: Any, total: Any) -> Any:
    return g - exp(y) * total


def _along(kind: type[AlongAxis], name: str, x: Kind, dim: int | None, dtype: DTypeLike) -> Kind:
    if dim is None:
        raise ArgumentError(f"{name}: got no dim, expected the axis to sum over. Pass dim=-1.")
    x = x if dtype is None else cast_to(x, dtype)
    row, d = x if x.shape else reshape(x, 1), axis(dim, len(x.shape), name)
    y = apply(kind(d), row) if row.shape[d] != 0 else row * 1.0  # None: not known
    return y if x.shape else reshape(y, ())


def softmax(
    input: Kind, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None
) -> Kind:
    """Return exp x / Σ exp x along `dim`."""
    return _along(Softmax, "softmax", input, dim, dtype)


def log_softmax(
    input: Kind, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None
) -> Kind:
    """Return ln softmax along `dim`, exact where softmax would be 0."""
    return _along(LogSoftmax, "log_softmax", input, dim, dtype)
