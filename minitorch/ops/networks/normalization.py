"""Normalization by layer, batch or group, with a scale and a shift."""

import math
from collections.abc import Sequence
from typing import Any

from ...arrays.library import as_dtype, finfo, float32
from ...errors import ArgumentError, ShapeError
from ...op import Kind, Methods, apply
from ..elementwise.casting import require_floats
from ..elementwise.formulas import Formula
from ..elementwise.pointwise import clamp_min
from ..elementwise.unary import rsqrt, zeros_like
from ..reducing.reduction import mean
from ..reducing.statistics import vector_norm
from ..shaping.movement import reshape
from ..unknown_sizes import defer_unknown_sizes
from .batch_norm import BatchNorm, FixedBatchNorm
from .standardizing import GroupNorm, LayerNorm, Moments, Standardize, scale_and_shift


def layer_norm(
    input: Kind,
    normalized_shape: Sequence[int],
    weight: Kind | None = None,
    bias: Kind | None = None,
    eps: float = 1e-5,
) -> Kind:
    """Return `input` standardized over its last axes, of `normalized_shape`, scaled and shifted.

    Raises:
        ShapeError: the last sizes of `input`, the weight or the bias are others.

    Source: Ba, Kiros & Hinton, arXiv:1607.06450, 2016.
    """
    over = _last_axes("layer_norm", input, normalized_shape, weight, bias)
    require_floats("layer_norm", input)
    if weight is None:
        return _affine(apply(Standardize(over, eps), input), None, bias)
    values: Any = weight
    return apply(
        LayerNorm(over, eps), input, weight, zeros_like(values.detach()) if bias is None else bias
    )


def _last_axes(name: str, x: Kind, sizes: Sequence[int], *vectors: Kind | None) -> tuple[int, ...]:
    """Return the last axes of `x`, which have these sizes, as each vector that is given has."""
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


_SHIFTED = Formula(
    "batch_norm",
    scale_and_shift,
    lambda g, x, centre, scale, bias: g * scale,
    lambda g, x, centre, scale, bias: -(g * scale),
    lambda g, x, centre, scale, bias: g * (x - centre),
    None,
)


@defer_unknown_sizes
def batch_norm(
    input: Kind,
    running_mean: Kind | None,
    running_var: Kind | None,
    weight: Kind | None = None,
    bias: Kind | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Kind:
    """Return `input` standardized channel by channel (axis 1), scaled and shifted.

    In training by the batch's own mean and variance, which also move the running ones by
    `momentum`, in place; else by the running ones.

    Raises:
        ShapeError: in training a channel has one value only.
        ArgumentError: not in training, and there are no running statistics.

    Source: Ioffe & Szegedy, arXiv:1502.03167, 2015.
    """
    rank = len(input.shape)
    if tuple(input.shape) == (0,):  # no channel and no value: torch gives it back
        return input * 1
    if rank < 2:
        raise ShapeError(
            f"batch_norm: got shape {tuple(input.shape)}, expected (batch, channel, ...)."
        )
    _check_channels("batch_norm", input, running_mean, running_var, weight, bias)
    if not training:
        if running_mean is None or running_var is None:
            raise ArgumentError(
                "batch_norm: got no running statistics, expected them in evaluation."
            )
        if weight is not None and bias is not None:
            inputs = (input, weight, bias, running_mean, running_var)
            if all(getattr(v, "has_numbers", False) and v.dtype is input.dtype for v in inputs):
                return apply(FixedBatchNorm(eps), *inputs)
        scale = rsqrt(running_var + eps)
        scale = scale if weight is None else scale * weight
        bias = zeros_like(running_mean) if bias is None else bias
        return _SHIFTED(input, *(_per_channel(v, rank) for v in (running_mean, scale, bias)))
    over = (0, *range(2, rank))
    count = math.prod(input.shape[d] for d in over)
    if not count:
        return _affine_channels(input * 1, weight, bias, rank)
    if count == 1:
        raise ShapeError(
            f"batch_norm: got shape {tuple(input.shape)}, expected more than one value a channel: "
            "the variance of one is 0. Use a larger batch, or eval()."
        )
    values: Any = input
    together = weight is not None and bias is not None
    if together or running_mean is not None:
        moments = apply(Moments(over), values.detach())
    if running_mean is not None:
        _follow(moments, over, running_mean, running_var, momentum, count)
    if together:
        return apply(BatchNorm(eps), input, weight, bias, moments)
    return _affine_channels(apply(Standardize(over, eps), input), weight, bias, rank)


def _check_channels(name: str, x: Methods, *vectors: Any) -> None:
    """Raise unless `x` is of floats, and each vector has a number for each channel, axis 1."""
    require_floats(name, x)
    count = x.shape[1]
    for vector in vectors:
        if vector is not None and None not in (count, *vector.shape) and vector.shape != (count,):
            raise ShapeError(
                f"{name}: got shape {tuple(x.shape)}, which has {count} channels on axis 1, and a "
                f"vector of shape {tuple(vector.shape)}, expected ({count},). Check num_features."
            )


def _follow(
    moments: Any, over: Any, running_mean: Any, running_var: Any, momentum: Any, n: int
) -> None:
    """Move the running statistics towards those of a batch, in place."""
    if 0 not in over:  # one of each sample
        moments = mean(moments, 1, True)
    flat = reshape(moments, (2, -1))
    running_mean.mul_(1 - momentum).add_(flat[0] * momentum)
    running_var.mul_(1 - momentum).add_(flat[1] * (momentum * n / (n - 1)))


@defer_unknown_sizes
def group_norm(
    input: Kind,
    num_groups: int,
    weight: Kind | None = None,
    bias: Kind | None = None,
    eps: float = 1e-5,
) -> Kind:
    """Return `input` standardized over groups of channels, each sample alone, scaled and shifted.

    Raises:
        ShapeError: the number of channels is no multiple of the number of groups.

    Source: Wu & He, arXiv:1803.08494, 2018.
    """
    rank = len(input.shape)
    if rank < 2 or num_groups < 1 or input.shape[1] % num_groups:
        raise ShapeError(
            f"group_norm: got shape {tuple(input.shape)} for {num_groups} groups, expected a "
            "multiple of it on axis 1."
        )
    _check_channels("group_norm", input, weight, bias)
    if 0 in input.shape:
        return _affine_channels(input * 1, weight, bias, rank)
    if weight is not None and bias is not None:
        return apply(GroupNorm(num_groups, eps), input, weight, bias)
    grouped = reshape(input, input.shape[0], num_groups, math.prod(input.shape[1:]) // num_groups)
    y = reshape(apply(Standardize((2,), eps), grouped), tuple(input.shape))
    return _affine_channels(y, weight, bias, rank)


@defer_unknown_sizes
def instance_norm(
    input: Kind,
    running_mean: Kind | None = None,
    running_var: Kind | None = None,
    weight: Kind | None = None,
    bias: Kind | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Kind:
    """Return `input` standardized, each channel of each sample alone, scaled and shifted.

    Running statistics, when given, move in place towards the means over samples by `momentum`.
    Without `use_input_stats` they take the place of the input's own.

    Source: Ulyanov, Vedaldi & Lempitsky, arXiv:1607.08022, 2016.
    """
    rank = len(input.shape)
    if not use_input_stats:
        return batch_norm(input, running_mean, running_var, weight, bias, False, momentum, eps)
    if rank < 3 or math.prod(input.shape[2:]) <= 1:
        raise ShapeError(
            f"instance_norm: got shape {tuple(input.shape)}, expected more than one value a "
            "channel."
        )
    _check_channels("instance_norm", input, running_mean, running_var, weight, bias)
    over = tuple(range(2, rank))
    if running_mean is not None:
        values: Any = input
        moments = apply(Moments(over), values.detach())
        _follow(moments, over, running_mean, running_var, momentum, math.prod(input.shape[2:]))
    y = apply(Standardize(over, eps), input)
    return _affine_channels(y, weight, bias, rank)


def rms_norm(
    input: Kind,
    normalized_shape: Sequence[int],
    weight: Kind | None = None,
    eps: float | None = None,
) -> Kind:
    """Return `input` over the root of the mean of its squares, along its last axes, scaled."""
    over = _last_axes("rms_norm", input, normalized_shape, weight)
    if eps is None:  # that of what is computed in: float32 for dtypes of two bytes
        dtype = as_dtype(input.dtype)
        eps = float(finfo(dtype if dtype.itemsize > 2 else float32).eps)
    return _affine(input * rsqrt(mean(input * input, over, True) + eps), weight, None)


def normalize(input: Kind, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Kind:
    """Return `input` over its norm along `dim`, which counts as `eps` at least."""
    return input / clamp_min(vector_norm(input, p, dim, True), eps)
