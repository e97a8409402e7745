"""Convolution and pools as TensorFlow has them: channels last, padding "SAME" or "VALID".

Legend: N batch, H height, W width, C channels in, O channels out. The arithmetic is that of
PyTorch's layout (N, C, H, W); the axes are moved before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...errors import GraphError
from ...ops import conv, matrices, movement, pooling
from ..lined import lined
from ..node import Node, convert
from ..state import rename

TO_FRONT, TO_BACK = (0, 3, 1, 2), (0, 2, 3, 1)


@lined
def conv2d(
    input: Any,
    filter: Any,
    strides: Sequence[int],
    padding: str,
    name: str | None = None,
) -> Node:
    """The convolution of (N, H, W, C) with filters (h, w, C, O): (N, H', W', O)."""
    x_NCHW = movement.permute(convert(input), *TO_FRONT)
    weight_OCHW = movement.permute(convert(filter), 3, 2, 0, 1)
    steps = _inner("conv2d", strides)
    x_NCHW = _bordered("conv2d", x_NCHW, tuple(weight_OCHW.shape[2:]), steps, padding, 0.0)
    y_NOHW = conv.conv2d(x_NCHW, weight_OCHW, None, steps)
    return rename(movement.permute(y_NOHW, *TO_BACK), name)


@lined
def max_pool(
    value: Any, ksize: Sequence[int], strides: Sequence[int], padding: str, name: str | None = None
) -> Node:
    """The largest of every window of (N, H, W, C)."""
    return _pool("max_pool", pooling.max_pool2d, value, ksize, strides, padding, name)


@lined
def avg_pool(
    value: Any, ksize: Sequence[int], strides: Sequence[int], padding: str, name: str | None = None
) -> Node:
    """The mean of every window of (N, H, W, C); with "SAME" of what lies inside the image."""
    if padding.upper() == "VALID":
        return _pool("avg_pool", pooling.avg_pool2d, value, ksize, strides, padding, name)
    ones = convert(value) * 0.0 + 1.0
    sums = _pool("avg_pool", pooling.avg_pool2d, value, ksize, strides, padding, None)
    return rename(
        sums / _pool("avg_pool", pooling.avg_pool2d, ones, ksize, strides, padding, None), name
    )


def _pool(
    where: str,
    function: Callable[..., Any],
    value: Any,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    name: str | None,
) -> Node:
    x_NCHW = movement.permute(convert(value), *TO_FRONT)
    window, steps = _inner(where, ksize), _inner(where, strides)
    border = -3.0e38 if where == "max_pool" else 0.0  # below every float32 that is not infinite
    x_NCHW = _bordered(where, x_NCHW, window, steps, padding, border)
    return rename(movement.permute(function(x_NCHW, window, steps), *TO_BACK), name)


def _inner(where: str, sizes: Sequence[int]) -> tuple[int, int]:
    """Return the two sizes of the image's axes out of TensorFlow's four."""
    if len(sizes) != 4 or sizes[0] != 1 or sizes[3] != 1:
        raise GraphError(f"{where}: got {list(sizes)}, expected [1, height, width, 1].")
    return int(sizes[1]), int(sizes[2])


def _bordered(
    where: str,
    x_NCHW: Any,
    window: Sequence[int],
    steps: Sequence[int],
    padding: str,
    value: float,
) -> Any:
    """Return the image with the border that "SAME" asks for: the odd one at the end."""
    kind = padding.upper()
    if kind == "VALID":
        return x_NCHW
    sizes = tuple(x_NCHW.shape[2:])
    if kind != "SAME" or None in sizes:
        raise GraphError(
            f"{where}: got padding {padding!r} for an image of {sizes}, expected 'VALID', or "
            "'SAME' with known sizes."
        )
    border: list[int] = []
    for size, width, step in reversed(list(zip(sizes, window, steps, strict=True))):
        total = max((-(-size // step) - 1) * step + width - size, 0)
        border += [total // 2, total - total // 2]
    return matrices.pad(x_NCHW, border, value=value) if any(border) else x_NCHW
