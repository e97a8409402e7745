"""Convolution and pools as TensorFlow has them: channels last or first, padding "SAME" or "VALID".

Legend: N batch, H height, W width, C channels in, O channels out.
The arithmetic is that of PyTorch's layout (N, C, H, W); the axes are moved before and after.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...ops import conv, movement, pooling
from ..core.error_location import lined
from ..core.naming import rename
from ..core.node import Node, convert, convert_all
from .layouts import bordered, inner, on_images


@lined
def conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Node:
    """The convolution of (N, H, W, C) with filters (h, w, C, O): (N, H', W', O)."""
    input, filter = convert_all(input, filter)
    weight_OCHW = movement.permute(filter, 3, 2, 0, 1)
    steps = inner("conv2d", strides, data_format)
    window = tuple(weight_OCHW.shape[2:])

    def compute(x_NCHW: Any) -> Any:
        x_NCHW = bordered("conv2d", x_NCHW, window, steps, padding, 0.0)
        return conv.conv2d(x_NCHW, weight_OCHW, None, steps)

    count = weight_OCHW.shape[0]
    return rename(on_images("conv2d", compute, input, data_format, steps, padding, count), name)


# ── pools ───────────────────────────────────────────────────────────────────────────────────────


@lined
def max_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Node:
    """The largest of every window of (N, H, W, C)."""
    return _pool(pooling.max_pool2d, value, ksize, strides, padding, data_format, name, -3.0e38)


@lined
def avg_pool(
    value: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    name: str | None = None,
) -> Node:
    """The mean of every window of (N, H, W, C); with "SAME" of what lies inside the image."""
    how = (ksize, strides, padding, data_format)
    if padding.upper() == "VALID":
        return _pool(pooling.avg_pool2d, value, *how, name, 0.0)
    ones = convert(value) * 0.0 + 1.0
    sums = _pool(pooling.avg_pool2d, value, *how, None, 0.0)
    return rename(sums / _pool(pooling.avg_pool2d, ones, *how, None, 0.0), name)


def _pool(
    function: Callable[..., Any],
    value: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str,
    name: str | None,
    around: float,  # for the largest below every float32 that is not infinite
) -> Node:
    where = function.__name__.removesuffix("2d")
    window, steps = inner(where, ksize, data_format), inner(where, strides, data_format)

    def compute(x_NCHW: Any) -> Any:
        return function(bordered(where, x_NCHW, window, steps, padding, around), window, steps)

    return rename(on_images(where, compute, value, data_format, steps, padding), name)
