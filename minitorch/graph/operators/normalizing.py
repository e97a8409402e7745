"""Values brought to a scale, under TensorFlow's names: moments, batches, lengths, neighbours."""

from __future__ import annotations

from typing import Any

from ...errors import GraphError
from ...ops import elementwise as rows
from ...ops import logic, matrices
from ..alike import check_alike
from ..lined import lined
from ..naming import rename, rename_all
from ..node import Node, convert
from .elementwise import maximum, pow, rsqrt
from .late import once_known
from .math import cast, reduce_mean, reduce_sum
from .shaping import shape


@lined
def moments(
    x: Any,
    axes: Any,
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Node, Node]:
    """Mean and variance over axes."""
    keep = bool(keep_dims or keepdims or shift is True)
    node = convert(x)
    mean = reduce_mean(node, axes, keepdims=True)
    found = (
        mean if keep else reduce_mean(node, axes),
        reduce_mean(rows.square(node - mean), axes, keepdims=keep),
    )
    rename_all(found, name)
    return found


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: str | None = None,
) -> Node:
    """(x - mean) / sqrt(variance + epsilon) * scale + offset."""
    check_alike("batch_normalization", x, mean, variance, offset, scale)
    factor = rsqrt(convert(variance) + variance_epsilon)
    factor = factor if scale is None else factor * scale
    result = (convert(x) - mean) * factor
    return rename(result if offset is None else result + offset, name)


@lined
def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
) -> tuple[Node, Node, Node]:
    """Images normalised by channel, and the mean and variance of the batch (over n - 1)."""
    node = convert(x)
    first = data_format == "NCHW"
    axes = [0, 2, 3] if first else [0, 1, 2]
    mu, var, unbiased = mean, variance, variance
    if is_training:
        mu, var = moments(node, axes)
        count = cast(reduce_product(node, axes), node.dtype)
        unbiased = var * (count / maximum(count - 1.0, 1.0))
    parts = [convert(part) for part in (mu, var, offset, scale)]
    if first:
        parts = [part[:, None, None] for part in parts]
    found = batch_normalization(node, parts[0], parts[1], parts[2], parts[3], epsilon)
    return rename(found, name), convert(mu), convert(unbiased)


def reduce_product(node: Node, axes: list[int]) -> Node:
    """Return how many elements there are along axes."""
    sizes = shape(node)
    total = sizes[axes[0]]
    for axis in axes[1:]:
        total = total * sizes[axis]
    return total  # type: ignore[no-any-return]


@once_known
def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None
) -> Node:
    """x over its Euclidean length along an axis."""
    total = reduce_sum(rows.square(x), axis if dim is None else dim, keepdims=True)
    return rename(x * rsqrt(maximum(total, epsilon)), name)


@lined
def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Node:
    """x / (bias + alpha * the squares of the channels at most depth_radius away)^beta.

    Source: Krizhevsky et al., NIPS 2012.
    """
    x = convert(input)
    channels = x.shape[-1]
    if channels is None:
        raise GraphError(
            f"lrn: the number of channels is not known: got {x.shape} (node {x.name!r} built at "
            f"{x.location})."
        )
    around = matrices.pad(rows.square(x), [depth_radius, depth_radius])
    total = around[..., 0:channels]
    for i in range(1, 2 * depth_radius + 1):
        total = total + around[..., i : i + channels]
    return rename(x * pow(total * alpha + bias, -beta), name)


lrn = local_response_normalization


def zero_fraction(value: Any, name: str | None = None) -> Node:
    """The share of the elements that are 0."""
    return reduce_mean(cast(logic.eq(convert(value), 0), "float32"), name=name)


def weighted_moments(
    x: Any, axes: Any, frequency_weights: Any, name: str | None = None, keep_dims: bool = False
) -> tuple[Node, Node]:
    """Mean and variance over axes, each element as often as its weight says."""
    node = convert(x)
    weights = convert(frequency_weights, node.dtype) + rows.zeros_like(node)
    total = reduce_sum(weights, axes, keepdims=True)
    mean = reduce_sum(weights * node, axes, keepdims=True) / total
    spread = reduce_sum(weights * rows.square(node - mean), axes, keepdims=True) / total
    if not keep_dims:
        whole = reduce_sum(weights, axes)
        spread = reduce_sum(weights * rows.square(node - mean), axes) / whole
        mean = reduce_sum(weights * node, axes) / whole
    rename_all((mean, spread), name)
    return mean, spread
