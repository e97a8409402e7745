"""The operators of normalization: values brought to mean 0 and variance 1 along axes.

A large array is computed in the order in which it lies: by rows, or channel by channel.
"""

import math
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, Namespace
from ...arrays.shapes import numel
from ...op import Flat, Gradients, KeepsSpec, Methods, Op, Spec, apply
from ...vjp import pull_back
from ..elementwise import compiled
from ..elementwise.casting import own_copy
from ..elementwise.formulas import at_once
from ..elementwise.unary import rsqrt
from ..reducing.reduction import Reduction, mean
from ..shaping.broadcasting import sum_to
from ..shaping.joining import cat
from ..shaping.movement import reshape


class Standardize(KeepsSpec, Reduction):
    """(x - mean) / √(variance + eps) along axes."""

    copies_output = True

    def __init__(self, dims: tuple[int, ...], eps: float) -> None:
        super().__init__(dims, True)
        self.eps = eps

    def compute(self, xp: Namespace, x: Array) -> Array:
        lead = len(x.shape) - len(self.dims)
        if self.dims == tuple(range(lead, len(x.shape))) and compiled.fits_rows(xp, x):
            rows = x.reshape(*x.shape[:lead], -1)
            ones = np.ones(rows.shape[-1], x.dtype)
            y = compiled.over_rows("layer_norm", (rows, ones, ones - ones), self.eps, rows.shape)
            return y.reshape(x.shape)
        if xp is np and self.dims == (0, *range(2, x.ndim)) and compiled.fits(xp, x):
            channels = Channels(x)
            (rows,) = channels.rows
            away: Array = rows - channels.mean(rows)
            away /= np.sqrt(channels.mean(away, away) + self.eps)
            return channels.back(away)
        away = x - xp.mean(x, axis=self.dims, keepdims=True)
        spread = xp.mean(away * away, axis=self.dims, keepdims=True)
        away /= xp.sqrt(spread + self.eps)
        return away

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return (g - mean g - y · mean(g y)) / √(variance + eps)."""
        op = StandardizeGradient(self.dims, self.eps)
        return (apply(op, out_grad, node.inputs[0], node.output),)


class Moments(Flat, Reduction):
    """The mean and the variance along axes, one behind the other on a new first axis."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        super().__init__(dims, True)

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return both, with the axes as size 1."""
        if self.dims == (0, *range(2, x.ndim)) and compiled.fits_rows(xp, x):
            shape = (2, 1, -1, *(1,) * (x.ndim - 2))
            if x.size == x.shape[0] * x.shape[1]:
                moments: Array = np.zeros((2, x.shape[1]), x.dtype)
                matrix = np.ascontiguousarray(x).reshape(x.shape[:2])
                compiled.run_rows("column_moments", (matrix, *moments), 0.0, rows=len(x))
                return moments.reshape(shape)
            (rows,) = Channels(x).rows
            of_rows: Array = np.empty((2, *rows.shape[:2]), x.dtype)
            compiled.run_rows("row_moments", (np.ascontiguousarray(rows), *of_rows), 0.0)
            samples = x.dtype.type(len(rows))
            moments = np.add.reduce(of_rows, 1) / samples
            away = of_rows[0] - moments[0]
            moments[1] += np.add.reduce(away * away, 0) / samples  # beside that within samples
            return moments.reshape(shape)
        centre = xp.mean(x, axis=self.dims, keepdims=True)
        away = x - centre
        return xp.stack([centre, xp.mean(away * away, axis=self.dims, keepdims=True)])

    def infer(self, *specs: Spec) -> Spec:
        return Spec((2, *super().infer(*specs).shape), specs[0].dtype)


class StandardizeGradient(KeepsSpec, Reduction):
    """(g - mean g - y · mean(g y)) / √(variance of x + eps) along axes, for y standardized."""

    def __init__(self, dims: tuple[int, ...], eps: float) -> None:
        super().__init__(dims, True)
        self.eps = eps

    def compute(self, xp: Namespace, g: Array, x: Array, y: Array) -> Array:
        lead = len(x.shape) - len(self.dims)
        if self.dims == tuple(range(lead, len(x.shape))) and compiled.fits_rows(xp, g, x):
            g, rows = (a.reshape(*x.shape[:lead], -1) for a in (g, x))
            into = compiled.over_rows("standardize_gradient", (g, rows), self.eps, rows.shape)
            return into.reshape(x.shape)
        if xp is np and self.dims == (0, *range(2, x.ndim)) and compiled.fits(xp, g, x, y):
            return _channel_gradient(g, x, y, self.eps)
        over: dict[str, Any] = {"axis": self.dims, "keepdims": True}
        away = x - xp.mean(x, **over)
        centred: Array = g - xp.mean(g, **over) - y * xp.mean(g * y, **over)
        centred /= xp.sqrt(xp.mean(away * away, **over) + self.eps)
        return centred

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """With s = 1 / √(variance + eps) and u the gradient of this result F.

        By g: F of u. By x: -s y mean(u F). By y: -s (u mean(g y) + g mean(u y)).
        """
        (g, x, y), over = node.inputs, self.dims
        away = x - mean(x, over, True)
        scale = rsqrt(mean(away * away, over, True) + self.eps)
        by_g = apply(StandardizeGradient(over, self.eps), out_grad, x, y)
        by_x = -(scale * y * mean(out_grad * node.output, over, True))
        by_y = -(scale * (out_grad * mean(g * y, over, True) + g * mean(out_grad * y, over, True)))
        return by_g, by_x, by_y


class Channels:
    """Arrays (N, C, ...) channel by channel, in the order in which the first of them lies.

    Attributes:
        rows: each as (samples, C, elements), of which the elements lie side by side; as (1, C,
            elements) where the channels lie apart, as those of convolutions of many samples do.
    """

    def __init__(self, x: Array, *others: Array) -> None:
        arrays, self.order = [x, *others], [0]
        if not x.flags.c_contiguous:
            self.order = sorted(range(x.ndim), key=lambda d: (-x.strides[d], d))
        if self.order[0] == 1:
            arrays = [a.transpose(self.order) for a in arrays]
        self.shape = arrays[0].shape
        lead = (1, self.shape[0]) if self.order[0] == 1 else self.shape[:2]
        self.rows = [a.reshape(*lead, -1) for a in arrays]
        self.count = x.dtype.type(x.size // x.shape[1])

    def mean(self, a: Array, b: Array | None = None) -> Array:
        """Return the mean of `a`, or of `a` times `b`, over each channel, (C, 1)."""
        if a.shape[2] == 1:
            sums = np.add.reduce(a if b is None else a * b, 0)
        elif b is None:
            sums = np.add.reduce(np.add.reduce(a, 2), 0)[:, None]
        else:
            sums = np.add.reduce(np.vecdot(a, b), 0)[:, None]
        return sums / self.count  # type: ignore[no-any-return]

    def back(self, rows: Array) -> Array:
        """Return such rows in the shape that the arrays had."""
        turned = rows.reshape(self.shape)
        if self.order[0] != 1:
            return turned
        return turned.transpose(sorted(range(turned.ndim), key=self.order.__getitem__))


def _channel_gradient(g: Array, x: Array, y: Array, eps: float) -> Array:
    """Return the gradient of what was standardized channel by channel, axis 1 of (N, C, ...)."""
    channels = Channels(x, g, y)
    x, g, y = channels.rows
    away = x - channels.mean(x)
    scale = 1 / np.sqrt(channels.mean(away, away) + eps)
    return channels.back(at_once(_centre, (g, y, channels.mean(g), channels.mean(g, y), scale)))


def _centre(g: Any, y: Any, mean: Any, along: Any, scale: Any) -> Any:
    return (g - mean - y * along) * scale


def scale_and_shift(x: Any, centre: Any, scale: Any, bias: Any) -> Any:
    """Return (x - centre) · scale + bias."""
    return (x - centre) * scale + bias


class OfVariances(Op):
    """An operator that adds `eps` to variances."""

    def __init__(self, eps: float) -> None:
        self.eps = eps


LEAST, MOST_PARTS = 2**14, 8  # numbers in a part of the rows of a layer norm, and parts


class LayerNormGradients(OfVariances):
    """The gradients of x, weight and bias of a layer norm over the last axis, one array of all."""

    reads_output = False
    name = "layer_norm_gradients"

    def compute(self, xp: Namespace, g: Array, x: Array, weight: Array) -> Array:
        """Return them one behind another: x.size elements, then twice weight.size.

        Rows are summed in parts that follow from the shape alone, which threads may share.
        """
        if not compiled.fits_rows(xp, g, x, weight):
            last, lead = (len(x.shape) - 1,), tuple(range(len(x.shape) - 1))
            y = Standardize(last, self.eps).compute(xp, x)
            into = StandardizeGradient(last, self.eps).compute(xp, g * weight, x, y)
            affine = xp.sum(g * y, axis=lead), xp.sum(g, axis=lead)
            return xp.concat([xp.reshape(into, (-1,)), *affine])
        count = x.size + 2 * weight.size
        gradients: Array = allocator.empty((count,), x.dtype)
        n = weight.size
        rows = max(-(-LEAST // n), -(-x.size // n // MOST_PARTS))
        sums = np.zeros((2, -(-x.size // n // rows), n), x.dtype)
        inputs = [np.ascontiguousarray(a) for a in (g, x, weight)]
        into = gradients[: x.size].reshape(x.shape)
        compiled.run_rows("layer_norm_gradient", (*inputs, into, *sums), self.eps, rows=rows)
        np.add.reduce(sums, 1, out=gradients[x.size :].reshape(2, n))
        return gradients

    def infer(self, *specs: Spec) -> Spec:
        size, n = numel(specs[1].shape), specs[2].shape[0]
        return Spec((None if size is None or n is None else size + 2 * n,), specs[1].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Differentiate the same written out in operators."""
        g, x, weight = own = [own_copy(value) for value in node.inputs]
        shares = _shares(g, x, weight, (len(x.shape) - 1,), self.eps)
        return pull_back(cat([reshape(share, -1) for share in shares]), out_grad, own)


def _shares(
    g: Methods, x: Methods, weight: Methods, dims: tuple[int, ...], eps: float
) -> tuple[Methods, Methods, Methods]:
    """Return the gradients of x, weight and bias of a layer norm, operator by operator."""
    y = apply(Standardize(dims, eps), x)
    by_x = apply(StandardizeGradient(dims, eps), g * weight, x, y)
    return by_x, sum_to(g * y, weight), sum_to(g, weight)


class LayerNorm(KeepsSpec):
    """Standardized over the last axes, times a weight, plus a bias; inputs x, weight, bias."""

    on_arrays = True
    promotes = "float"
    reads_output = False
    name = "layer_norm"

    def __init__(self, dims: tuple[int, ...], eps: float) -> None:
        self.dims, self.eps = dims, eps

    def compute(self, xp: Namespace, x: Array, weight: Array, bias: Array) -> Array:
        if compiled.fits_rows(xp, x, weight, bias):
            inputs = [x, weight, bias]
            if weight.ndim > 1:
                inputs = [x.reshape(-1, weight.size), weight.reshape(-1), bias.reshape(-1)]
            return compiled.over_rows("layer_norm", inputs, self.eps, x.shape)
        y: Array = Standardize(self.dims, self.eps).compute(xp, x) * weight
        y += bias
        return y

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """That of the standardized array; the weight's is Σ g y, the bias's Σ g.

        Of nodes all three are slices of one operator's result, which reads what came in once.
        """
        x, weight, _ = node.inputs
        if type(out_grad) is np.ndarray and compiled.fits_rows(np, out_grad, x, weight):
            flat = (-1, weight.size)
            g, rows, scale = out_grad.reshape(flat), x.reshape(flat), weight.reshape(-1)
            together = LayerNormGradients(self.eps).compute(np, g, rows, scale)
            affine = together[x.size :].reshape(2, *weight.shape)
            return together[: x.size].reshape(x.shape), *affine
        is_eager, sizes = hasattr(out_grad, "array"), (*x.shape, *weight.shape)
        if is_eager or len(weight.shape) > 1 or None in sizes:
            return _shares(out_grad, x, weight, self.dims, self.eps)
        together, n = apply(LayerNormGradients(self.eps), out_grad, x, weight), weight.shape[0]
        by_x, by_weight, by_bias = together[: -2 * n], together[-2 * n : -n], together[-n:]
        return reshape(by_x, tuple(x.shape)), by_weight, by_bias


class GroupNorm(KeepsSpec):
    """Each group of channels of each sample standardized, times a weight, plus a bias a channel.

    Inputs x (N, C, ...), weight (C,), bias (C,), for N samples and C channels.
    """

    on_arrays = True
    promotes = "float"
    reads_output = False
    name = "group_norm"

    def __init__(self, groups: int, eps: float) -> None:
        self.groups, self.eps = groups, eps

    def compute(self, xp: Namespace, x: Array, weight: Array, bias: Array) -> Array:
        y: Array
        if compiled.fits_rows(xp, x, weight, bias):
            inputs, size = (self._rows(x), weight, bias), math.prod(x.shape[2:])
            y = compiled.over_rows(
                "group_norm", inputs, self.eps, x.shape, rows=size, first=x.shape[1]
            )
            return y
        grouped = Standardize((2,), self.eps).compute(xp, xp.reshape(x, self._rows_shape(x)))
        column = (-1, *(1,) * (len(x.shape) - 2))
        y = xp.reshape(grouped, x.shape) * xp.reshape(weight, column)
        y += xp.reshape(bias, column)
        return y

    def _rows(self, x: Array) -> Array:
        return x.reshape(len(x) * self.groups, -1)

    def _rows_shape(self, x: Any) -> tuple[int, ...]:
        return (-1, self.groups, math.prod(x.shape[1:]) // self.groups)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """That of the standardized array; the weight's is Σ g y, the bias's Σ g."""
        x, weight, bias = node.inputs
        if type(out_grad) is np.ndarray and compiled.fits_rows(np, out_grad, x, weight):
            return self._gradients(out_grad, x, weight)
        shape, grouped = tuple(x.shape), self._rows_shape(x)
        w, b = (reshape(v, (1, -1, *(1,) * (len(shape) - 2))) for v in (weight, bias))
        rows = reshape(x, grouped)
        y = apply(Standardize((2,), self.eps), rows)
        op, flow = StandardizeGradient((2,), self.eps), reshape(out_grad * w, grouped)
        by_x = reshape(apply(op, flow, rows, y), shape)
        by_w, by_b = sum_to(out_grad * reshape(y, shape), w), sum_to(out_grad, b)
        return by_x, reshape(by_w, -1), reshape(by_b, -1)

    def _gradients(self, g: Array, x: Array, weight: Array) -> tuple[Array, Array, Array]:
        """Return all three by a kernel, which gives sums of each channel of each sample."""
        into = allocator.empty(x.shape, x.dtype)
        sums = np.empty((2, *x.shape[:2]), x.dtype)
        inputs = [np.ascontiguousarray(a) for a in (self._rows(g), self._rows(x), weight)]
        compiled.run_rows(
            "group_norm_gradient", (*inputs, self._rows(into), *sums), self.eps,
            rows=math.prod(x.shape[2:]), first=x.shape[1],
        )  # fmt: skip
        by_weight, by_bias = sums.sum(1)
        return into, by_weight, by_bias
