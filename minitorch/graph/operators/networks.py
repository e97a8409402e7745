"""Further names of `tf.nn`: later spellings of pools, and functions made of others."""

from __future__ import annotations

import math
from typing import Any

from ...errors import GraphError
from ...ops import activation
from ..alike import alike
from ..lined import lined
from ..naming import rename
from ..node import Node, convert
from .elementwise import exp, log, logical_and, where
from .images import avg_pool, depthwise_conv2d, max_pool
from .math import norm
from .shaping import expand_dims, squeeze

max_pool2d, avg_pool2d = max_pool, avg_pool
depthwise_conv2d_native = depthwise_conv2d


def swish(features: Any) -> Node:
    """x sigmoid(x)."""
    found: Node = activation.silu(convert(features))
    return found


@lined
def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Node, Node]:
    """The value over its length along axes, and that length."""
    node = convert(tensor)
    length = norm(node, ord, axis, True)
    return rename(node / length, name), length


@lined
def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None
) -> Node:
    """exp(log_input) - targets log_input; in full with Stirling's formula of log(targets!)."""
    x, z = alike("log_poisson_loss", log_input, targets)
    found = exp(x) - x * z
    if compute_full_loss:
        safe = where(z > 0.0, z, z * 0.0 + 1.0)
        rest = z * log(safe) - z + 0.5 * log(safe * (2.0 * math.pi))
        found = found + where(logical_and(z >= 0.0, z <= 1.0), z * 0.0, rest)
    return rename(found, name)


def max_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> Node:
    """The largest of every window of images."""
    return max_pool(input, _sizes(input, ksize), strides, padding, data_format or "NHWC", name)


def avg_pool_v2(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str | None = None,
    name: str | None = None,
) -> Node:
    """The mean of every window of images."""
    return avg_pool(input, _sizes(input, ksize), strides, padding, data_format or "NHWC", name)


def _sizes(input: Any, ksize: Any) -> Any:
    """Return the window's sizes.

    Raises:
        GraphError: the input is no batch of images.
    """
    node = convert(input)
    if node.shape.ndims not in (None, 4):
        raise GraphError(f"pool: got shape {node.shape}, expected (N, H, W, C).")
    return ksize


@lined
def max_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NWC",
    name: str | None = None,
) -> Node:
    """The largest of every window of sequences (N, W, C)."""
    return _along_time(max_pool, input, ksize, strides, padding, data_format, name)


@lined
def avg_pool1d(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NWC",
    name: str | None = None,
) -> Node:
    """The mean of every window of sequences (N, W, C)."""
    return _along_time(avg_pool, input, ksize, strides, padding, data_format, name)


def _along_time(
    pool: Any, x: Any, size: Any, step: Any, padding: str, data_format: str, name: str | None
) -> Node:
    """Return a pool over images one pixel high."""
    first = data_format == "NCW"
    high = 2 if first else 1
    window, steps = ([1, *(n if isinstance(n, list | tuple) else [n])] for n in (size, step))
    found = pool(expand_dims(x, high), window, steps, padding, "NCHW" if first else "NHWC")
    return squeeze(found, [high], name)
