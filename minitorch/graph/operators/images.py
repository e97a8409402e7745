"""Convolution and pools as TensorFlow has them: channels last, padding "SAME" or "VALID".

Legend: N batch, H height, W width, C channels in, O channels out.
The arithmetic is that of PyTorch's layout (N, C, H, W); the axes are moved before and after.
"""

from collections.abc import Callable, Sequence
from typing import Any

from ...arrays.shapes import INTEGERS
from ...errors import GraphError
from ...ops.networks import pooling
from ...ops.products import conv
from ...ops.shaping import borders, movement
from ..core.naming import locates_errors, rename
from ..core.node import Node, convert, convert_all
from ..core.placeholders import once_sized
from ..shapes.deferred import late, unknown

TO_FRONT, TO_BACK = (0, 3, 1, 2), (0, 2, 3, 1)


def on_images(
    where: str,
    compute: Callable[..., Node],
    value: object,
    *more: Node,
    channels: int | None = None,
) -> Node:
    """Return `compute` of images (N, C, H, W), given and returned as (N, H, W, C), and of `more`.

    Where it needs a size that only the run knows, it is built in the run.
    """
    x = convert(value)
    if not unknown(x) and len(x.shape) != 4:
        raise GraphError(
            f"{where}: got {x.name!r} of shape {x.shape}, expected 4 axes, NHWC. Reshape the "
            "images."
        )

    def whole(image: Node, *others: Node) -> Node:
        y_NCHW = compute(movement.permute(image, *TO_FRONT), *others)
        result: Node = movement.permute(y_NCHW, *TO_BACK)
        return result

    if unknown(x):
        shape_known = (None, None, None, channels)
        return late(whole, (x, *more), x.dtype, shape_known)  # type: ignore[no-any-return]
    try:
        return whole(x, *more)
    except TypeError as error:
        return once_sized(whole, (x, *more), {}, error)  # type: ignore[no-any-return]


def inner(where: str, sizes: Any) -> tuple[int, int]:
    """Return the two sizes of the image's axes out of TensorFlow's four, or one or two."""
    four = [int(n) for n in ([sizes] * 2 if isinstance(sizes, INTEGERS) else sizes)]
    if len(four) == 2:
        return four[0], four[1]
    if len(four) != 4 or four[0] != 1 or four[3] != 1:
        raise GraphError(f"{where}: got {four}, expected [1, height, width, 1].")
    return four[1], four[2]


def add_border(
    where: str,
    x_NCHW: Node,
    window: Sequence[int],
    steps: Sequence[int],
    padding: str,
    value: float,
) -> Node:
    """Return the image with the border that "SAME" asks for: the odd one at the end."""
    kind = padding.upper() if isinstance(padding, str) else padding
    if kind == "VALID":
        return x_NCHW
    if kind != "SAME":
        raise GraphError(f"{where}: got padding {padding!r}, expected 'VALID' or 'SAME'.")
    widths: list[int] = []
    sizes = tuple(x_NCHW.shape)[2:]
    for size, width, step in reversed(list(zip(sizes, window, steps, strict=True))):
        total = width - 1  # whatever the size, where windows are one apart
        if step > 1:
            total = max((-(-size // step) - 1) * step + width - size, 0)
        widths += [total // 2, total - total // 2]
    return borders.pad(x_NCHW, widths, value=value) if any(widths) else x_NCHW


@locates_errors
def conv2d(
    input: object, filter: object, strides: object, padding: str, name: str | None = None
) -> Node:
    """The convolution of (N, H, W, C) with filters (h, w, C, O): (N, H', W', O)."""
    input, filter = convert_all(input, filter)
    weight_OCHW = movement.permute(filter, 3, 2, 0, 1)
    steps = inner("conv2d", strides)
    window = tuple(weight_OCHW.shape[2:])

    def compute(x_NCHW: Node, weight_OCHW: Node) -> Node:
        x_NCHW = add_border("conv2d", x_NCHW, window, steps, padding, 0.0)
        return conv.conv2d(x_NCHW, weight_OCHW, None, steps)  # type: ignore[no-any-return]

    count = weight_OCHW.shape[0]
    return rename(on_images("conv2d", compute, input, weight_OCHW, channels=count), name)


# ── pools ───────────────────────────────────────────────────────────────────────────────────────


@locates_errors
def max_pool(
    value: object, ksize: object, strides: object, padding: str, name: str | None = None
) -> Node:
    """The largest of every window of (N, H, W, C)."""
    return _pool(pooling.max_pool2d, value, ksize, strides, padding, name, -3.0e38)


@locates_errors
def avg_pool(
    value: object, ksize: object, strides: object, padding: str, name: str | None = None
) -> Node:
    """The mean of every window of (N, H, W, C); with "SAME" of what lies inside the image."""
    how = (ksize, strides, padding)
    if padding.upper() == "VALID":
        return _pool(pooling.avg_pool2d, value, *how, name, 0.0)
    ones = convert(value) * 0.0 + 1.0
    sums = _pool(pooling.avg_pool2d, value, *how, None, 0.0)
    return rename(sums / _pool(pooling.avg_pool2d, ones, *how, None, 0.0), name)


def _pool(
    function: Callable[..., Node],
    value: object,
    ksize: object,
    strides: object,
    padding: str,
    name: str | None,
    around: float,  # for the largest below every float32 that is not infinite
) -> Node:
    where = function.__name__.removesuffix("2d")
    window, steps = inner(where, ksize), inner(where, strides)

    def compute(x_NCHW: Node) -> Node:
        return function(add_border(where, x_NCHW, window, steps, padding, around), window, steps)

    return rename(on_images(where, compute, value), name)
