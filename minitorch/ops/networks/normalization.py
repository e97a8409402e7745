"""Values brought to mean 0 and variance 1, by layer, batch or group."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, Namespace, as_dtype, finfo, float32
from ...arrays.shapes import numel
from ...errors import ArgumentError, ShapeError
from ...op import Gradients, KeepsSpec, Kind, Methods, Op, Spec, apply
from ..elementwise import compiled
from ..elementwise.casting import floats_only
from ..elementwise.pointwise import clamp_min
from ..elementwise.unary import rsqrt
from ..reducing.reduction import Reduction, mean
from ..reducing.statistics import vector_norm
from ..shaping.broadcasting import sum_to
from ..shaping.movement import reshape


class Standardize(KeepsSpec, Reduction):
    """(x - mean) / √(variance + eps) along axes."""

    def __init__(self, dims: tuple[int, ...], eps: float) -> None:
        super().__init__(dims, True)
        self.eps = eps

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the standardized array."""
        if self.dims == (len(x.shape) - 1,) and compiled.fits_rows(xp, x):
            ones = np.ones(x.shape[-1], x.dtype)
            return compiled.over_rows("layer_norm", (x, ones, ones - ones), self.eps, x.shape)
        away: Array = x - xp.mean(x, axis=self.dims, keepdims=True)
        spread = xp.mean(away * away, axis=self.dims, keepdims=True)
        away /= xp.sqrt(spread + self.eps)
        return away

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return (g - mean g - y · mean(g y)) / √(variance + eps)."""
        op = StandardizeGradient(self.dims, self.eps)
        return (apply(op, out_grad, node.inputs[0], node.output),)


class StandardizeGradient(KeepsSpec, Reduction):
    """(g - mean g - y · mean(g y)) / √(variance of x + eps) along axes, for y standardized."""

    def __init__(self, dims: tuple[int, ...], eps: float) -> None:
        super().__init__(dims, True)
        self.eps = eps

    def compute(self, xp: Namespace, g: Array, x: Array, y: Array) -> Array:
        """Return the gradient of what was standardized."""
        if self.dims == (len(x.shape) - 1,) and compiled.fits_rows(xp, g, x):
            return _norm_gradients(g, x, np.ones(x.shape[-1], x.dtype), self.eps)[0]
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


LEAST, MOST_PARTS = 2**14, 8  # numbers in a part of the rows of a layer norm, and parts


def _norm_gradients(g: Any, x: Any, weight: Any, eps: float) -> tuple[Array, Array, Array]:
    """Return the gradients of x, weight and bias of a layer norm over the last axis."""
    together = LayerNormGradients(eps).compute(np, g, x, weight)
    size, end = x.size, x.size + weight.size
    return together[:size].reshape(x.shape), together[size:end], together[end:]


class LayerNormGradients(Op):
    """The gradients of x, weight and bias of a layer norm over the last axis, one array of all."""

    reads_output = False
    name = "layer_norm_gradients"

    def __init__(self, eps: float) -> None:
        self.eps = eps

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
        """Return one axis of all their elements."""
        size, n = numel(specs[1].shape), specs[2].shape[0]
        return Spec((None if size is None or n is None else size + 2 * n,), specs[1].dtype)


class LayerNorm(KeepsSpec):
    """Standardized over the last axes, times a weight, plus a bias; inputs x, weight, bias."""

    on_arrays = True
    promotes = "float"
    reads_output = False
    name = "layer_norm"

    def __init__(self, dims: tuple[int, ...], eps: float) -> None:
        self.dims, self.eps = dims, eps

    def compute(self, xp: Namespace, x: Array, weight: Array, bias: Array) -> Array:
        """Return the normalised array."""
        if compiled.fits_rows(xp, x, weight, bias):
            inputs = [x, weight, bias]
            if weight.ndim > 1:
                inputs = [x.reshape(-1, weight.size), weight.reshape(-1), bias.reshape(-1)]
            return compiled.over_rows("layer_norm", inputs, self.eps, x.shape)
        y: Array = Standardize(self.dims, self.eps).compute(xp, x) * weight
        y += bias
        return y

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """That of the standardized array; the weight's is Σ g y, the bias's Σ g."""
        x, weight, bias = node.inputs
        if type(out_grad) is np.ndarray and compiled.fits_rows(np, out_grad, x, weight):
            flat = (-1, weight.size)
            g, rows, scale = out_grad.reshape(flat), x.reshape(flat), weight.reshape(-1)
            into, *affine = _norm_gradients(g, rows, scale, self.eps)
            return (into.reshape(x.shape), *(a.reshape(weight.shape) for a in affine))
        y = apply(Standardize(self.dims, self.eps), x)
        op = StandardizeGradient(self.dims, self.eps)
        by_x = apply(op, out_grad * weight, x, y)
        return by_x, sum_to(out_grad * y, weight), sum_to(out_grad, bias)


def layer_norm(
    x: Kind,
    normalized_shape: Sequence[int],
    weight: Kind | None = None,
    bias: Kind | None = None,
    eps: float = 1e-5,
) -> Kind:
    """Return `x` standardized over its last axes, of sizes `normalized_shape`, scaled and shifted.

    Raises:
        ShapeError: the last sizes of `x`, the weight or the bias are others.

    Source: Ba, Kiros & Hinton, arXiv:1607.06450, 2016.
    """
    over = _last_axes("layer_norm", x, normalized_shape, weight, bias)
    floats_only("layer_norm", x)
    if weight is not None and bias is not None:
        return apply(LayerNorm(over, eps), x, weight, bias)
    return _affine(apply(Standardize(over, eps), x), weight, bias)


def _last_axes(name: str, x: Kind, sizes: Sequence[int], *vectors: Kind | None) -> tuple[int, ...]:
    """Return the last axes of `x`, which have these sizes, as each vector that is given has.

    Raises:
        ShapeError: they have others.
    """
    last, shape = tuple(sizes), tuple(x.shape)
    lead = len(shape) - len(last)
    if not last or shape[lead:] != last:
        raise ShapeError(f"{name}: got shape {shape}, expected its end to be {last}.")
    for vector in vectors:
        if vector is not None and tuple(vector.shape) != last:
            raise ShapeError(f"{name}: got parameters {tuple(vector.shape)}, expected {last}.")
    return tuple(range(lead, len(shape)))


def _affine(y: Kind, weight: Kind | None, bias: Kind | None) -> Kind:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


def _affine_channels(y: Kind, weight: Kind | None, bias: Kind | None, rank: int) -> Kind:
    y = y if weight is None else y * _per_channel(weight, rank)
    return y if bias is None else y + _per_channel(bias, rank)


def _per_channel(value: Kind, rank: int) -> Kind:
    return reshape(value, (1, -1, *(1,) * (rank - 2)))


def batch_norm(
    x: Kind,
    running_mean: Kind | None,
    running_var: Kind | None,
    weight: Kind | None = None,
    bias: Kind | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Kind:
    """Return `x` standardized channel by channel (axis 1), scaled and shifted.

    In training by the batch's own mean and variance, which also move the running ones by
    `momentum`, in place; else by the running ones.

    Raises:
        ShapeError: in training a channel has one value only.
        ArgumentError: not in training, and there are no running statistics.

    Source: Ioffe & Szegedy, arXiv:1502.03167, 2015.
    """
    rank = len(x.shape)
    if tuple(x.shape) == (0,):  # no channel and no value: torch gives it back
        return x * 1
    if rank < 2:
        raise ShapeError(f"batch_norm: got shape {tuple(x.shape)}, expected (batch, channel, ...).")
    _check_channels("batch_norm", x, running_mean, running_var, weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError(
                "batch_norm: got no running statistics, expected them in evaluation."
            )
        centre, spread = _per_channel(running_mean, rank), _per_channel(running_var, rank)
        return _affine_channels((x - centre) * rsqrt(spread + eps), weight, bias, rank)
    over = (0, *range(2, rank))
    count = math.prod(x.shape[d] for d in over)
    if count == 1:
        raise ShapeError(
            f"batch_norm: got shape {tuple(x.shape)}, expected more than one value a channel: the "
            "variance of one is 0. Use a larger batch, or eval()."
        )
    if running_mean is not None:
        _follow(x, over, running_mean, running_var, momentum, count)
    return _affine_channels(apply(Standardize(over, eps), x), weight, bias, rank)


def _check_channels(name: str, x: Methods, *vectors: Any) -> None:
    """Raise unless each vector that is given has one number for each channel, axis 1 of `x`."""
    count = x.shape[1]
    for vector in vectors:
        if vector is not None and None not in (count, *vector.shape) and vector.shape != (count,):
            raise ShapeError(
                f"{name}: got shape {tuple(x.shape)}, which has {count} channels on axis 1, and a "
                f"vector of shape {tuple(vector.shape)}, expected ({count},). Check num_features."
            )


def _follow(
    x: Any, over: Any, running_mean: Any, running_var: Any, momentum: float, n: int
) -> None:
    """Move the running statistics towards those of this batch, in place."""
    values = x.detach()
    centre = mean(values, over, True)
    away = values - centre
    spread = mean(away * away, over, True) * (n / (n - 1))
    for running, batch in ((running_mean, centre), (running_var, spread)):
        if 0 not in over:  # one of each sample
            batch = mean(batch, 0, True)
        running.mul_(1 - momentum).add_(reshape(batch, -1), alpha=momentum)


def group_norm(
    x: Kind,
    num_groups: int,
    weight: Kind | None = None,
    bias: Kind | None = None,
    eps: float = 1e-5,
) -> Kind:
    """Return `x` standardized over groups of channels, each sample alone, scaled and shifted.

    Raises:
        ShapeError: the number of channels is no multiple of the number of groups.

    Source: Wu & He, arXiv:1803.08494, 2018.
    """
    rank = len(x.shape)
    if rank < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: got shape {tuple(x.shape)} for {num_groups} groups, expected a multiple "
            "of it on axis 1."
        )
    _check_channels("group_norm", x, weight, bias)
    grouped = reshape(x, x.shape[0], num_groups, math.prod(x.shape[1:]) // num_groups)
    y = reshape(apply(Standardize((2,), eps), grouped), tuple(x.shape))
    return _affine_channels(y, weight, bias, rank)


def instance_norm(
    x: Kind,
    running_mean: Kind | None = None,
    running_var: Kind | None = None,
    weight: Kind | None = None,
    bias: Kind | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Kind:
    """Return `x` standardized, each channel of each sample alone, scaled and shifted.

    Running statistics, when given, move in place towards the means over samples by `momentum`.
    Without `use_input_stats` they take the place of the input's own.

    Source: Ulyanov, Vedaldi & Lempitsky, arXiv:1607.08022, 2016.
    """
    rank = len(x.shape)
    if not use_input_stats:
        return batch_norm(x, running_mean, running_var, weight, bias, False, momentum, eps)
    if rank < 3 or math.prod(x.shape[2:]) <= 1:
        raise ShapeError(
            f"instance_norm: got shape {tuple(x.shape)}, expected more than one value a channel."
        )
    _check_channels("instance_norm", x, running_mean, running_var, weight, bias)
    over = tuple(range(2, rank))
    if running_mean is not None:
        _follow(x, over, running_mean, running_var, momentum, math.prod(x.shape[2:]))
    y = apply(Standardize(over, eps), x)
    return _affine_channels(y, weight, bias, rank)


def rms_norm(
    x: Kind, normalized_shape: Sequence[int], weight: Kind | None = None, eps: float | None = None
) -> Kind:
    """Return `x` over the root of the mean of its squares, along its last axes, scaled."""
    over = _last_axes("rms_norm", x, normalized_shape, weight)
    if eps is None:  # that of what is computed in: float32 for dtypes of two bytes
        dtype = as_dtype(x.dtype)
        eps = float(finfo(dtype if dtype.itemsize > 2 else float32).eps)
    return _affine(x * rsqrt(mean(x * x, over, True) + eps), weight, None)


def normalize(x: Kind, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Kind:
    """Return `x` over its norm along `dim`, which counts as `eps` at least."""
    return x / clamp_min(vector_norm(x, p, dim, True), eps)
