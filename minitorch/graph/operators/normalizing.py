"""Values brought to a scale, under TensorFlow's names: moments, batches, lengths."""

from __future__ import annotations

from typing import Any

from ...ops import elementwise as rows
from ..core.error_location import lined
from ..core.naming import rename, rename_all
from ..core.node import Node, convert
from .deferred_shapes import once_known
from .elementwise import maximum, rsqrt
from .math import reduce_mean, reduce_sum


@lined
def moments(
    x: Any,
    axes: Any,
    name: str | None = None,
    keep_dims: bool = False,
) -> tuple[Node, Node]:
    """Mean and variance over axes."""
    node = convert(x)
    mean = reduce_mean(node, axes, keepdims=True)
    found = (
        mean if keep_dims else reduce_mean(node, axes),
        reduce_mean(rows.square(node - mean), axes, keepdims=keep_dims),
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
    factor = rsqrt(convert(variance) + variance_epsilon)
    factor = factor if scale is None else factor * scale
    result = (convert(x) - mean) * factor
    return rename(result if offset is None else result + offset, name)


@once_known
def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None
) -> Node:
    """x over its Euclidean length along an axis."""
    total = reduce_sum(rows.square(x), axis if dim is None else dim, keepdims=True)
    return rename(x * rsqrt(maximum(total, epsilon)), name)
