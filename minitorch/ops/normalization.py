"""Softmax and its logarithm; values brought to mean 0 and variance 1, by layer, batch or group."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array, DType, DTypeLike, Namespace, as_dtype, finfo, float32
from ..errors import ArgumentError, ShapeError
from ..op import Gradients, KeepsSpec, Kind, apply
from ..shapes import axis
from .casting import cast_to, floats_only
from .elementwise import exp, rsqrt
from .movement import reshape
from .pointwise import clamp_min
from .reduction import Reduction, mean, sum
from .statistics import vector_norm

if TYPE_CHECKING:
    from .methods import Methods


class Softmax(KeepsSpec):
    """exp x / Σ exp x along an axis."""

    on_arrays = True
    promotes = "float"
    reads_inputs = False
    name = "softmax"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the shares, computed relative to the largest element."""
        if xp is not np:
            return xp.softmax(x, self.dim) if hasattr(xp, "softmax") else _shares(xp, x, self.dim)
        y = x - np.maximum.reduce(x, axis=self.dim, keepdims=True)
        np.exp(y, out=y)
        y /= np.add.reduce(y, axis=self.dim, keepdims=True)
        return y

    def gradient(self, out_grad: "Methods", node: "Methods") -> Gradients:
        """Return y (g - Σ g y)."""
        y = node.output
        weighted = out_grad * y
        return (weighted - y * sum(weighted, self.dim, True),)


def _shares(xp: Namespace, x: Array, dim: int) -> Any:
    y = xp.exp(x - xp.max(x, axis=dim, keepdims=True))
    return y / xp.sum(y, axis=dim, keepdims=True)


class LogSoftmax(KeepsSpec):
    """x - ln Σ exp x along an axis."""

    on_arrays = True
    promotes = "float"
    reads_inputs = False
    name = "log_softmax"

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the logarithms, computed relative to the largest element."""
        y: Array = x - xp.max(x, axis=self.dim, keepdims=True)
        y -= xp.log(xp.sum(xp.exp(y), axis=self.dim, keepdims=True))
        return y

    def gradient(self, out_grad: "Methods", node: "Methods") -> Gradients:
        """Return g - softmax · Σ g."""
        return (out_grad - exp(node.output) * sum(out_grad, self.dim, True),)


def _ready(x: Kind, dim: int | None, dtype: DTypeLike, name: str) -> tuple[Kind, int]:
    if dim is None:
        raise ArgumentError(f"{name}: got no dim, expected the axis to sum over. Pass dim=-1.")
    x = x if dtype is None else cast_to(x, dtype)
    return (x if x.shape else reshape(x, 1)), axis(dim, len(x.shape), name)


def softmax(x: Kind, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None) -> Kind:
    """Return exp x / Σ exp x along `dim`."""
    row, d = _ready(x, dim, dtype, "softmax")
    shares = _softmax(row, d)
    return shares if x.shape else reshape(shares, ())


def _softmax(row: Kind, d: int) -> Kind:
    return apply(Softmax(d), row) if row.shape[d] else row * 1.0


def log_softmax(
    x: Kind, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike = None
) -> Kind:
    """Return ln softmax along `dim`, exact where softmax would be 0."""
    row, d = _ready(x, dim, dtype, "log_softmax")
    logs = apply(LogSoftmax(d), row) if row.shape[d] else row * 1.0
    return logs if x.shape else reshape(logs, ())


class Standardize(KeepsSpec, Reduction):
    """(x - mean) / √(variance + eps) along axes."""

    def __init__(self, dims: tuple[int, ...], eps: float) -> None:
        super().__init__(dims, True)
        self.eps = eps

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the standardized array."""
        away: Array = x - xp.mean(x, axis=self.dims, keepdims=True)
        spread = xp.mean(away * away, axis=self.dims, keepdims=True)
        away /= xp.sqrt(spread + self.eps)
        return away

    def gradient(self, out_grad: "Methods", node: "Methods") -> Gradients:
        """Return (g - mean g - y · mean(g y)) / √(variance + eps)."""
        x, y, over = node.inputs[0], node.output, self.dims
        away = x - mean(x, over, True)
        scale = rsqrt(mean(away * away, over, True) + self.eps)
        centred = out_grad - mean(out_grad, over, True) - y * mean(out_grad * y, over, True)
        return (centred * scale,)


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
    wanted = tuple(normalized_shape)
    rank = len(x.shape)
    if not wanted or tuple(x.shape[rank - len(wanted) :]) != wanted:
        raise ShapeError(
            f"layer_norm: got shape {tuple(x.shape)}, expected its end to be {wanted}."
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.shape) != wanted:
            raise ShapeError(f"layer_norm: got {name} {tuple(value.shape)}, expected {wanted}.")
    floats_only("layer_norm", x)
    y = apply(Standardize(tuple(range(rank - len(wanted), rank)), eps), x)
    return _affine(y, weight, bias)


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


def _check_channels(name: str, x: "Methods", *vectors: Any) -> None:
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
    for running, found in ((running_mean, centre), (running_var, spread)):
        if 0 not in over:  # one of each sample
            found = mean(found, 0, True)
        running.mul_(1 - momentum).add_(reshape(found, -1), alpha=momentum)


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
    wanted, rank = tuple(normalized_shape), len(x.shape)
    if not wanted or tuple(x.shape[rank - len(wanted) :]) != wanted:
        raise ShapeError(f"rms_norm: got shape {tuple(x.shape)}, expected its end to be {wanted}.")
    small = _smallest(as_dtype(x.dtype)) if eps is None else eps
    over = tuple(range(rank - len(wanted), rank))
    return _affine(x * rsqrt(mean(x * x, over, True) + small), weight, None)


def normalize(x: Kind, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Kind:
    """Return `x` over its norm along `dim`, which counts as `eps` at least."""
    return x / clamp_min(vector_norm(x, p, dim, True), eps)


def _smallest(dtype: DType) -> float:
    """Return the epsilon of what is computed in: float32 for dtypes of two bytes."""
    return float(finfo(dtype if dtype.itemsize > 2 else float32).eps)
