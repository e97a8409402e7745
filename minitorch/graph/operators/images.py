"""Convolution and pools as TensorFlow has them: channels last or first, padding "SAME" or "VALID".

Legend: N batch, H height, W width, C channels in, O channels out, M channels out of each one in.
The arithmetic is that of PyTorch's layout (N, C, H, W); the axes are moved before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import GraphError
from ...ops import conv, matrices, movement, pooling
from ..alike import alike
from ..lined import lined
from ..naming import rename
from ..node import Node, convert
from .layouts import border, bordered, on_images, reach
from .layouts import inner as inner

ONES = (1, 1, 1, 1)


@lined
def conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: str,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Sequence[int] = ONES,
    name: str | None = None,
) -> Node:
    """The convolution of (N, H, W, C) with filters (h, w, C, O): (N, H', W', O)."""
    input, filter = alike("conv2d", input, filter)
    weight_OCHW = movement.permute(filter, 3, 2, 0, 1)
    steps = inner("conv2d", strides, data_format)
    apart = inner("conv2d", dilations, data_format)
    window = reach(tuple(weight_OCHW.shape[2:]), apart)

    def compute(x_NCHW: Any) -> Any:
        x_NCHW = bordered("conv2d", x_NCHW, window, steps, padding, 0.0)
        return conv.conv2d(x_NCHW, weight_OCHW, None, steps, 0, apart)

    count = weight_OCHW.shape[0]
    return rename(on_images("conv2d", compute, input, data_format, steps, padding, count), name)


@lined
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: str,
    rate: Any = (1, 1),
    name: str | None = None,
    data_format: str = "NHWC",
) -> Node:
    """Each channel convolved with filters of its own (h, w, C, M): (N, H', W', C M)."""
    input, filters = alike("depthwise_conv2d", input, filter)
    height, width, channels, many = filters.shape
    shape = (channels * many, 1, height, width)
    weight = movement.reshape(movement.permute(filters, 2, 3, 0, 1), shape)
    steps, apart = inner("depthwise_conv2d", strides, data_format), tuple(rate or (1, 1))
    window = reach((height, width), apart)

    def compute(x_NCHW: Any) -> Any:
        x_NCHW = bordered("depthwise_conv2d", x_NCHW, window, steps, padding, 0.0)
        return conv.conv2d(x_NCHW, weight, None, steps, 0, apart, channels)

    return rename(on_images("depthwise_conv2d", compute, input, data_format, steps, padding), name)


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: str,
    rate: Any = (1, 1),
    name: str | None = None,
    data_format: str = "NHWC",
) -> Node:
    """A depthwise convolution, whose channels filters (1, 1, C M, O) then mix."""
    each = depthwise_conv2d(
        input, depthwise_filter, strides, padding, rate, data_format=data_format
    )
    return conv2d(each, pointwise_filter, ONES, "VALID", data_format=data_format, name=name)


def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: str, name: str | None = None
) -> Node:
    """A convolution with filters whose elements are `rate` apart."""
    return conv2d(value, filters, ONES, padding, dilations=(1, rate, rate, 1), name=name)


@lined
def conv1d(
    value: Any,
    filters: Any,
    stride: int,
    padding: str,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NWC",
    name: str | None = None,
    dilations: int = 1,
) -> Node:
    """The convolution of (N, W, C) with filters (w, C, O): (N, W', O)."""
    first = data_format in ("NCW", "NCHW")
    high = movement.unsqueeze(convert(value), 2 if first else 1)
    weights = movement.unsqueeze(convert(filters), 0)
    layout, strides = ("NCHW", (1, 1, 1, stride)) if first else ("NHWC", (1, 1, stride, 1))
    found = conv2d(high, weights, strides, padding, data_format=layout, dilations=(1, dilations))
    return rename(movement.squeeze(found, 2 if first else 1), name)


@lined
def conv2d_transpose(
    value: Any,
    filter: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
) -> Node:
    """The gradient of `conv2d` by its images: (N, H, W, O), filters (h, w, C, O): C channels.

    Args:
        output_shape: the images' shape; its height and width must be known now.
    """
    x, filters = alike("conv2d_transpose", value, filter)
    weight_OCHW = movement.permute(filters, 3, 2, 0, 1)
    steps = inner("conv2d_transpose", strides, data_format)
    window = tuple(int(n) for n in weight_OCHW.shape[2:])
    sizes = _image_sizes(x, output_shape, steps, window, padding, data_format)

    def compute(x_NCHW: Any) -> Any:
        full = conv.conv_transpose2d(x_NCHW, weight_OCHW, None, steps)
        return _cropped(full, sizes, window, steps, padding)

    found = on_images("conv2d_transpose", compute, x, data_format, None, padding)
    if isinstance(output_shape, list | tuple):
        asked = [getattr(n, "value", n) for n in output_shape]
        found.set_shape([None if isinstance(n, Node) else n for n in asked])
    return rename(found, name)


def _image_sizes(
    x: Node, output_shape: Any, steps: Any, window: Any, padding: str, data_format: str
) -> list[int]:
    """Return height and width of the images whose convolution has the shape of `x`."""
    at = (2, 3) if data_format == "NCHW" else (1, 2)
    value = getattr(output_shape, "value", output_shape)
    found = []
    for i, place in enumerate(at):
        size = None if isinstance(value, Node) else value[place]
        size = getattr(size, "value", size)
        if isinstance(size, Node) or size is None:
            here = x.shape[place]
            if here is None:
                raise GraphError(
                    "conv2d_transpose: the size of the images is not known: give numbers in "
                    f"output_shape (node {x.name!r} built at {x.location})."
                )
            size = here * steps[i] + (
                0 if padding.upper() == "SAME" else max(window[i] - steps[i], 0)
            )
        found.append(int(size))
    return found


def _cropped(full: Any, sizes: Any, window: Any, steps: Any, padding: str) -> Any:
    """Return what is left when the border that the forward convolution added is cut off."""
    for i, (size, width, step) in enumerate(zip(sizes, window, steps, strict=True)):
        before = border(size, width, step)[0] if padding.upper() == "SAME" else 0
        have = full.shape[2 + i]
        missing = 0 if have is None else max(before + size - have, 0)
        if missing:
            full = matrices.pad(full, [0, 0] * (1 - i) + [0, missing])
        full = full[(*[slice(None)] * (2 + i), slice(before, before + size))]
    return full


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
