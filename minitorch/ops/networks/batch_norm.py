"""The operators of batch normalization: each channel standardized by its moments."""

import math
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace
from ...op import KeepsSpec, Spec, apply
from ..elementwise import compiled
from ..elementwise.binary import mul, sub
from ..elementwise.formulas import at_once
from ..elementwise.unary import rsqrt, zeros_like
from ..reducing.reduction import mean, sum
from ..shaping.movement import reshape
from .standardizing import Channels, OfVariances, Standardize, StandardizeGradient, scale_and_shift


class BatchNorm(KeepsSpec, OfVariances):
    """Each channel standardized by given moments, times a weight, plus a bias.

    Inputs x, weight, bias and the `Moments` of x, through which the gradient of x passes too.
    """

    on_arrays = True
    promotes = "float"
    reads_output = False
    name = "batch_norm"

    def compute(self, xp: Namespace, x: Array, *parameters: Array) -> Any:
        if xp is np:
            channels = Channels(x)
            weight, bias = (v[:, None] for v in parameters[:2])
            centre, inverse = _columns(parameters[2], self.eps)
            return channels.back(
                at_once(scale_and_shift, (*channels.rows, centre, inverse * weight, bias))
            )
        weight, bias, moments = parameters
        weight, bias = (xp.reshape(v, _column_of(x)) for v in (weight, bias))
        return scale_and_shift(x, moments[0], weight / xp.sqrt(moments[1] + self.eps), bias)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """That of the standardized array; the weight's is Σ g y, the bias's Σ g."""
        x, weight, _, moments = node.inputs
        sums, into = BatchNormSums(self.eps), BatchNormInput(self.eps)
        if type(out_grad) is np.ndarray and compiled.fits(np, out_grad, x, moments, least=1):
            affine: Any = sums.compute(np, out_grad, x, moments)
            return into.compute(np, out_grad, x, weight, moments, affine), *affine, None
        affine = apply(sums, out_grad, x, moments)
        by_x = apply(into, out_grad, x, weight, moments, affine)
        return by_x, affine[0], affine[1], None


class FixedBatchNorm(KeepsSpec, OfVariances):
    """Each channel standardized by moments that do not follow x, times a weight, plus a bias.

    Inputs x, weight, bias, mean and variance, of one dtype; the last two get no gradient.
    """

    on_arrays = True
    reads_output = False
    name = "batch_norm"

    def compute(self, xp: Namespace, x: Array, *vectors: Array) -> Array:
        weight, bias, centre, spread = vectors
        scale = weight / xp.sqrt(spread + self.eps)
        columns = (xp.reshape(v, _column_of(x)) for v in (centre, scale, bias))
        y: Array = at_once(scale_and_shift, (x, *columns))
        return y

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """By x the gradient, scaled; the weight's is Σ g y, the bias's Σ g."""
        (x, weight, _, *moments), g, wants = node.inputs, out_grad, node.wants
        centre, inverse = moments[0], rsqrt(moments[1] + self.eps)
        by_x = mul(g, reshape(weight * inverse, _column_of(x))) if wants[0] else None
        if type(g) is np.ndarray and wants[1]:
            return by_x, *BatchNormSums(self.eps).compute(np, g, x, np.stack(moments)), None, None
        over, away = _but_channels(x), sub(x, reshape(centre, _column_of(x)))
        by_weight = sum(g * away, over) * inverse if wants[1] else None
        return by_x, by_weight, sum(g, over) if wants[2] else None, None, None


class BatchNormSums(OfVariances):
    """Σ g y and Σ g of each channel, (2, C), for the gradient g and y standardized by moments."""

    reads_output = False

    def compute(self, xp: Namespace, g: Array, x: Array, moments: Array) -> Array:
        if x.ndim == 2 and compiled.fits_rows(xp, g, x, moments):
            centre, inverse = (a[:, 0] for a in _columns(moments, self.eps))
            matrices = (np.ascontiguousarray(a) for a in (g, x))
            sums: Array = np.zeros((2, x.shape[1]), x.dtype)
            compiled.run_rows("column_sums", (*matrices, centre, inverse, *sums), 0.0, rows=len(x))
            return sums
        if xp is np:
            return _channel_sums(g, x, *_columns(moments, self.eps))
        over = _but_channels(x)
        y = (x - moments[0]) / xp.sqrt(moments[1] + self.eps)
        return xp.stack([xp.sum(g * y, axis=over), xp.sum(g, axis=over)])

    def infer(self, *specs: Spec) -> Spec:
        return Spec((2, specs[1].shape[1]), specs[1].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """For (u, v): y u + v by g, and by x what standardizing makes of g u."""
        g, x, _ = node.inputs
        over = _but_channels(x)
        u, v = (reshape(out_grad[i], _column_of(x)) for i in range(2))
        y = apply(Standardize(over, self.eps), x)
        return y * u + v, apply(StandardizeGradient(over, self.eps), g * u, x, y), None


class BatchNormInput(KeepsSpec, OfVariances):
    """The gradient by x of a batch norm: w (g - mean g - y mean(g y)) / √(variance + eps).

    Inputs g, x, the weight w, the `Moments` of x and the `BatchNormSums`; it lies in memory as x.
    """

    like = 1

    def compute(self, xp: Namespace, g: Array, x: Array, weight: Array, *more: Array) -> Array:
        moments, sums = more
        if xp is np:
            channels = Channels(x, g)
            centre, inverse = _columns(moments, self.eps)
            along, middle = sums[:, :, None] / channels.count
            inputs = (*channels.rows, centre, middle, along * inverse, inverse * weight[:, None])
            return channels.back(at_once(_back, inputs))
        weight, along, middle = (xp.reshape(v, _column_of(x)) for v in (weight, *sums))
        inverse = 1 / xp.sqrt(moments[1] + self.eps)
        count = float(math.prod(x.shape) // x.shape[1])
        return _back(  # type: ignore[no-any-return]
            x, g, moments[0], middle / count, along / count * inverse, inverse * weight
        )

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """As of `StandardizeGradient` of g w; what the sums are of is in it already."""
        g, x, weight, _, sums = node.inputs
        over, w = _but_channels(x), reshape(weight, _column_of(x))
        op, flow = StandardizeGradient(over, self.eps), g * w
        y, away = apply(Standardize(over, self.eps), x), x - mean(x, over, True)
        by_flow = apply(op, out_grad, x, y)
        scale = rsqrt(mean(away * away, over, True) + self.eps)
        u, dot = out_grad, mean(flow * y, over, True)
        by_y = -(scale * (u * dot + flow * mean(u * y, over, True)))
        by_x = apply(op, by_y, x, y) - scale * y * mean(u * node.output, over, True)
        return by_flow * w, by_x, sum(by_flow * g, over), None, zeros_like(sums)


def _back(x: Any, g: Any, centre: Any, mean: Any, along: Any, scale: Any) -> Any:
    return (g - mean - (x - centre) * along) * scale


def _columns(moments: Array, eps: float) -> tuple[Array, Array]:
    """Return mean and 1 / deviation of each channel as (C, 1)."""
    centre, spread = moments.reshape(2, -1, 1)
    return centre, 1 / np.sqrt(spread + eps)


def _channel_sums(g: Array, x: Array, centre: Array, inverse: Array) -> Array:
    """Return Σ g (x - centre) · inverse and Σ g of each channel, (2, C)."""
    sums: Array
    in_rows = x.flags.c_contiguous and g.flags.c_contiguous
    if in_rows and compiled.fits_rows(np, g, x, centre):
        rows = x.reshape(math.prod(x.shape[:2]), -1)
        of_samples: Array = np.empty((2, *x.shape[:2]), x.dtype)
        arrays = (g.reshape(rows.shape), rows, centre[:, 0], inverse[:, 0], *of_samples)
        compiled.run_rows("channel_sums", arrays, 0.0, rows=x.shape[1])
        sums = np.add.reduce(of_samples, 1)
        return sums
    channels = Channels(x, g)
    rows, g = channels.rows
    along = channels.mean(g, rows - centre) * inverse
    sums = np.concatenate([along, channels.mean(g)], 1).T * channels.count
    return sums


def _but_channels(x: Any) -> tuple[int, ...]:
    return (0, *range(2, len(x.shape)))


def _column_of(x: Any) -> tuple[int, ...]:
    return (1, -1, *(1,) * (len(x.shape) - 2))
