"""Convolution over any number of axes, as one matrix product over windows.

Three operators are the three partial derivatives of one form, Σ x[window] · w · y, which is linear
in image x, kernel w and result y alike. So the gradient of each is the other two:

    Convolve        image, kernel -> result         (conv1d, conv2d, conv3d)
    ConvolveBack    result, kernel -> image         (conv_transpose)
    ConvolveKernel  image, result -> kernel

Letters: N samples, C channels of the image, O of the result, G groups, L places of the result.
Windows are laid out as (G, C/G·kernel, N·L), so one product serves the whole batch.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import native_device_of, windows
from ..errors import ArgumentError, ShapeError
from ..op import Op, Spec, apply
from .movement import insert_axes, remove_axes, reshape


class Geometry:
    """Stride, padding, dilation (one number an axis) and groups of a convolution."""

    def __init__(
        self,
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        dilation: tuple[int, ...],
        groups: int,
    ) -> None:
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.groups = groups

    def __repr__(self) -> str:
        return f"({self.stride}, {self.padding}, {self.dilation}, {self.groups})"

    def __eq__(self, other: object) -> bool:
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def result_size(self, image: Sequence[Any], kernel: Sequence[Any]) -> tuple[Any, ...]:
        """Return the number of places along each axis."""
        sizes = zip(image, kernel, self.stride, self.padding, self.dilation, strict=True)
        return tuple(
            None if n is None else (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in sizes
        )


def _padded(xp: Any, x: Any, padding: tuple[int, ...]) -> Any:
    if not any(padding):
        return x
    sizes = [n + 2 * p for n, p in zip(x.shape[2:], padding, strict=True)]
    out = xp.zeros((*x.shape[:2], *sizes), dtype=x.dtype, **native_device_of(x))
    inside = [slice(p, p + n) for n, p in zip(x.shape[2:], padding, strict=True)]
    out[(slice(None), slice(None), *inside)] = x
    return out


def _columns(
    xp: Any, x: Any, kernel: tuple[int, ...], how: Geometry, places: tuple[int, ...]
) -> Any:
    """Return the first `places` windows of `x` along each axis as (G, C/G·kernel, N·L)."""
    k = len(kernel)
    view = windows(
        _padded(xp, x, how.padding), tuple(range(2, 2 + k)), kernel, how.stride, how.dilation
    )
    view = view[(slice(None), slice(None), *(slice(0, n) for n in places))]
    order = (1, *range(2 + k, 2 + 2 * k), 0, *range(2, 2 + k))
    rows = x.shape[1] // how.groups * math.prod(kernel)
    return xp.permute_dims(view, order).reshape((how.groups, rows, -1))


def _by_channel(xp: Any, y: Any, groups: int) -> Any:
    """Return a result (N, O, places) as (G, O/G, N·L)."""
    turned = xp.permute_dims(y, (1, 0, *range(2, len(y.shape))))
    return turned.reshape((groups, y.shape[1] // groups, -1))


class Convolve(Op):
    """The result for image (N, C, ...) and kernel (O, C/G, ...)."""

    on_arrays = True
    promotes = "common"
    reads_output = False
    name = "conv"

    def __init__(self, how: Geometry, places: tuple[int, ...] | None = None) -> None:
        self.how, self.places = how, places

    def compute(self, xp: Any, x: Any, w: Any) -> Any:
        """Return (N, O, places): one product of kernels by windows."""
        places = self.places or self.how.result_size(x.shape[2:], w.shape[2:])
        kernels = w.reshape((self.how.groups, w.shape[0] // self.how.groups, -1))
        y = kernels @ _columns(xp, x, tuple(w.shape[2:]), self.how, places)
        y = y.reshape((w.shape[0], x.shape[0], *places))
        return xp.permute_dims(y, (1, 0, *range(2, len(x.shape))))

    def infer(self, *specs: Spec) -> Spec:
        """Return (N, O, places)."""
        x, w = specs[0].shape, specs[1].shape
        places = self.places or self.how.result_size(x[2:], w[2:])
        return Spec((x[0], w[0], *places), specs[0].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return the other two derivatives of the form."""
        x, w = node.inputs
        image, kernel = tuple(x.shape[2:]), tuple(w.shape[2:])
        return (
            apply(ConvolveBack(self.how, image), out_grad, w) if node.wants[0] else None,
            apply(ConvolveKernel(self.how, kernel), x, out_grad) if node.wants[1] else None,
        )


class ConvolveBack(Op):
    """The image of size `image` for result (N, O, ...) and kernel (O, C/G, ...)."""

    on_arrays = True
    promotes = "common"
    reads_output = False
    name = "conv_transpose"

    def __init__(self, how: Geometry, image: tuple[int, ...]) -> None:
        self.how, self.image = how, image

    def compute(self, xp: Any, y: Any, w: Any) -> Any:
        """Return (N, C, image): kernels times results, added up where windows overlap."""
        how, kernel = self.how, tuple(w.shape[2:])
        kernels = w.reshape((how.groups, w.shape[0] // how.groups, -1))
        columns = xp.permute_dims(kernels, (0, 2, 1)) @ _by_channel(xp, y, how.groups)
        channels, places = w.shape[1] * how.groups, tuple(y.shape[2:])
        columns = columns.reshape((channels, *kernel, y.shape[0], *places))
        size = [n + 2 * p for n, p in zip(self.image, how.padding, strict=True)]
        out = xp.zeros((channels, y.shape[0], *size), dtype=y.dtype, **native_device_of(y))
        for at in itertools.product(*map(range, kernel)):
            spots = zip(at, how.stride, how.dilation, places, strict=True)
            into = [slice(i * d, i * d + (n - 1) * s + 1, s) for i, s, d, n in spots]
            out[(slice(None), slice(None), *into)] += columns[(slice(None), *at)]
        inside = [slice(p, p + n) for p, n in zip(how.padding, self.image, strict=True)]
        out = out[(slice(None), slice(None), *inside)]
        return xp.permute_dims(out, (1, 0, *range(2, len(y.shape))))

    def infer(self, *specs: Spec) -> Spec:
        """Return (N, C, image)."""
        y, w = specs[0].shape, specs[1].shape
        channels = None if w[1] is None else w[1] * self.how.groups
        return Spec((y[0], channels, *self.image), specs[0].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return the other two derivatives of the form."""
        y, w = node.inputs
        kernel = tuple(w.shape[2:])
        return (
            apply(Convolve(self.how, tuple(y.shape[2:])), out_grad, w) if node.wants[0] else None,
            apply(ConvolveKernel(self.how, kernel), out_grad, y) if node.wants[1] else None,
        )


class ConvolveKernel(Op):
    """The kernel of size `kernel` for image (N, C, ...) and result (N, O, ...)."""

    on_arrays = True
    promotes = "common"
    reads_output = False
    name = "conv_kernel"

    def __init__(self, how: Geometry, kernel: tuple[int, ...]) -> None:
        self.how, self.kernel = how, kernel

    def compute(self, xp: Any, x: Any, y: Any) -> Any:
        """Return (O, C/G, kernel): results times windows, summed over samples and places."""
        columns = _columns(xp, x, self.kernel, self.how, tuple(y.shape[2:]))
        w = _by_channel(xp, y, self.how.groups) @ xp.permute_dims(columns, (0, 2, 1))
        return w.reshape((y.shape[1], x.shape[1] // self.how.groups, *self.kernel))

    def infer(self, *specs: Spec) -> Spec:
        """Return (O, C/G, kernel)."""
        x, y = specs[0].shape, specs[1].shape
        channels = None if x[1] is None else x[1] // self.how.groups
        return Spec((y[1], channels, *self.kernel), specs[0].dtype)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return the other two derivatives of the form."""
        x, y = node.inputs
        image = tuple(x.shape[2:])
        return (
            apply(ConvolveBack(self.how, image), y, out_grad) if node.wants[0] else None,
            apply(Convolve(self.how, tuple(y.shape[2:])), x, out_grad) if node.wants[1] else None,
        )


# ── torch's names ───────────────────────────────────────────────────────────────────────────────


def each(name: str, value: Any, count: int) -> tuple[int, ...]:
    """Return a number for each of `count` axes, from one number or a sequence.

    Raises:
        ArgumentError: another count.
    """
    if isinstance(value, int | np.integer):
        return (int(value),) * count
    numbers = tuple(int(n) for n in value)
    numbers = numbers * count if len(numbers) == 1 else numbers
    if len(numbers) != count:
        raise ArgumentError(f"{name}: got {numbers}, expected one number or {count}.")
    return numbers


def _geometry(
    name: str, kernel: tuple[int, ...], stride: Any, padding: Any, dilation: Any, groups: int
) -> tuple[Geometry, int]:
    """Return the geometry, and how much wider the border is after than before ("same")."""
    k = len(kernel)
    steps, gaps = each(name, stride, k), each(name, dilation, k)
    if padding == "valid":
        padding = 0
    uneven = 0
    if padding == "same":
        if set(steps) != {1}:
            raise ArgumentError(f"{name}: padding='same' needs stride 1: got {steps}.")
        spans = [d * (n - 1) for d, n in zip(gaps, kernel, strict=True)]
        padding, uneven = [(span + 1) // 2 for span in spans], any(span % 2 for span in spans)
    borders = each(name, padding, k)
    if min(steps) < 1 or min(gaps) < 1 or min(borders) < 0 or groups < 1:
        raise ArgumentError(
            f"{name}: got stride {steps}, padding {borders}, dilation {gaps}, groups {groups}, "
            "expected positive numbers, padding 0 or more."
        )
    return Geometry(steps, borders, gaps, groups), int(uneven)


def _check(name: str, x: Any, w: Any, bias: Any, count: int, channels: Any, out: Any) -> None:
    if len(w.shape) != count + 2 or len(x.shape) != count + 2:
        raise ShapeError(
            f"{name}: got input {tuple(x.shape)} and weight {tuple(w.shape)}, expected {count + 2} "
            f"axes each ({count + 1} for an input without batch)."
        )
    if x.shape[1] != channels:
        raise ShapeError(
            f"{name}: channels differ: got input {tuple(x.shape)} and weight {tuple(w.shape)}: the "
            f"input has {x.shape[1]} channels, expected {channels}."
        )
    if bias is not None and tuple(bias.shape) != (out,):
        raise ShapeError(f"{name}: got bias {tuple(bias.shape)}, expected ({out},).")


def _conv(
    count: int, x: Any, w: Any, bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> Any:
    name = f"conv{count}d"
    if len(x.shape) == count + 1:
        batch = insert_axes(x, (0,))
        return remove_axes(_conv(count, batch, w, bias, stride, padding, dilation, groups), (0,))
    how, uneven = _geometry(name, tuple(w.shape[2:]), stride, padding, dilation, groups)
    _check(name, x, w, bias, count, w.shape[1] * groups if len(w.shape) > 1 else None, w.shape[0])
    if w.shape[0] % groups:
        raise ShapeError(
            f"{name}: got {w.shape[0]} kernels for {groups} groups, expected a multiple."
        )
    places = how.result_size(x.shape[2:], w.shape[2:])
    if any(n is not None and n < 1 for n in places):
        raise ShapeError(
            f"{name}: the kernel {tuple(w.shape[2:])} is larger than the padded input "
            f"{tuple(x.shape[2:])}. Pad more, or use a smaller kernel."
        )
    y = apply(Convolve(how), x, w)
    if uneven:
        spans = [d * (k - 1) % 2 for d, k in zip(how.dilation, w.shape[2:], strict=True)]
        y = y[(slice(None), slice(None), *(slice(odd, None) for odd in spans))]
    return y if bias is None else y + reshape(bias, (1, -1, *(1,) * count))


def conv1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution of (N, C, length) with kernels (O, C/groups, k)."""
    return _conv(1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution of (N, C, height, width) with kernels (O, C/groups, kh, kw).

    Args:
        input: the images; the batch axis may be left out.
        weight: the kernels.
        bias: (O,), added to each channel of the result.
        stride: distance between windows, one number or one an axis.
        padding: zeros around the image; or "valid", or "same" for a result of the same size.
        dilation: distance between the elements of a window.
        groups: channels fall into groups, convolved each on its own.

    Raises:
        ShapeError: channels or axes do not fit, or the kernel is larger than the image.
        ArgumentError: a stride or dilation below 1.
    """
    return _conv(2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> Any:
    """Return the convolution of (N, C, depth, height, width) with kernels (O, C/groups, ...)."""
    return _conv(3, input, weight, bias, stride, padding, dilation, groups)


def _conv_transpose(
    count: int,
    y: Any,
    w: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Any:
    name = f"conv_transpose{count}d"
    if len(y.shape) == count + 1:
        image = _conv_transpose(
            count, insert_axes(y, (0,)), w, bias, stride, padding, output_padding, groups, dilation
        )
        return remove_axes(image, (0,))
    how, _ = _geometry(name, tuple(w.shape[2:]), stride, padding, dilation, groups)
    out = w.shape[1] * groups if len(w.shape) > 1 else None
    _check(name, y, w, bias, count, w.shape[0], out)
    more = each(name, output_padding, count)
    if any(m >= max(s, d) for m, s, d in zip(more, how.stride, how.dilation, strict=True)):
        raise ArgumentError(
            f"{name}: got output_padding {more}, expected less than stride or dilation."
        )
    sizes = zip(y.shape[2:], w.shape[2:], how.stride, how.padding, how.dilation, more, strict=True)
    image_size = tuple((n - 1) * s - 2 * p + d * (k - 1) + m + 1 for n, k, s, p, d, m in sizes)
    if min(image_size) < 1:
        raise ShapeError(f"{name}: nothing is left: the result would have size {image_size}.")
    x = apply(ConvolveBack(how, image_size), y, w)
    return x if bias is None else x + reshape(bias, (1, -1, *(1,) * count))


def conv_transpose1d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return the transposed convolution of (N, C, length) with kernels (C, O/groups, k)."""
    return _conv_transpose(
        1, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose2d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return the transposed convolution of (N, C, height, width) with kernels (C, O/groups, kh, kw).

    It is the gradient of `conv2d` with respect to its image.
    """
    return _conv_transpose(
        2, input, weight, bias, stride, padding, output_padding, groups, dilation
    )


def conv_transpose3d(
    input: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Any:
    """Return the transposed convolution over three axes."""
    return _conv_transpose(
        3, input, weight, bias, stride, padding, output_padding, groups, dilation
    )
