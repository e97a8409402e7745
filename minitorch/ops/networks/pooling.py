"""Pooling: the largest, or the mean, of each window; adaptive, of a given number of them."""

import functools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...arrays.library import (
    Array,
    DType,
    Index,
    Namespace,
    as_dtype,
    cast,
    copy_array,
    dtype_of,
    float32,
    host_dtype,
    native_device_of,
)
from ...errors import ArgumentError, ShapeError
from ...op import Gradients, KeepsSpec, Kind, Methods, ReadsShapes, Spec, apply
from ..elementwise import compiled
from ..elementwise.casting import cast_to, require_floats
from ..products.conv import each, over_axes
from ..reducing.ordering import ValuesAndIndices
from ..reducing.reduction import mean
from .windows import (
    OfWindows,
    Windows,
    add_border,
    check_sizes,
    lay_out,
    list_slices,
    list_slices_by_axis,
)

# ── the largest of each window ──────────────────────────────────────────────────────────────────


def _choices(
    how: Windows, xp: Namespace, x: Array, y: Array
) -> Iterator[tuple[tuple[Index, ...], Any]]:
    """Give each element's index in all windows, and in which of them it is the largest.

    Of equal ones the first is, of NaN, which are larger than any number, the last.
    """
    spans = list_slices(how)
    left = y == y
    last = None if xp.all(left) else _last_nan(how, xp, x, y)
    for place, at in enumerate(spans):
        won: Any = x[at] == y
        won &= left
        left ^= won
        yield at, won if last is None else won | (last == place)


def _last_nan(how: Windows, xp: Namespace, x: Array, y: Array) -> Array:
    """Return which element of each window is the last NaN, or -1."""
    last = xp.full_like(y, -1)
    for place, at in enumerate(list_slices(how)):
        last[x[at] != x[at]] = place
    return last


def _run_kernels(name: str, how: Windows, xp: Namespace, x: Array, *g: Array) -> Array | None:
    """Return what compiled kernels of windows give, where there are some and they pay."""
    if xp is not np or x.ndim != 2 + len(how.size) or set(how.gap) != {1}:
        return None
    from ...compile.images import pooling

    if len(how.size) == 1:  # a line is the only one of a plane
        planes = Windows((1, *how.size), (1, *how.step), (1, 1), (1, *how.places))
        lines = _run_kernels(name, planes, xp, *(a[:, :, None] for a in (x, *g)))
        return None if lines is None else lines[:, :, 0]
    windows = pooling.max_windows(x, how.size, how.step, how.places, *g)
    return None if windows is None else getattr(windows, name)(x, *g)


class MaxPool(OfWindows):
    """The largest element of each window; of equal ones the first has the gradient."""

    name = "max_pool"
    copies_output = True

    def compute(self, xp: Namespace, x: Array) -> Array:
        largest = _run_kernels("largest", self.how, xp, x)
        if largest is not None:
            return largest
        first, *rest = list_slices(self.how)
        if xp is not np:
            y: Array = x[first] if rest else copy_array(x[first])
            for at in rest:
                y = xp.maximum(y, x[at])
            return y
        y = np.copy(x[first], "K")  # in the order of x, whose runs are longest
        for at in rest:
            np.maximum(y, x[at], out=y)
        return y

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """The largest element of a window gets its gradient."""
        return (apply(MaxPoolBack(self.how), out_grad, node.inputs[0], node.output),)


class MaxPoolBack(KeepsSpec, OfWindows):
    """Zeros like x, with the gradient of each window added at its largest element."""

    like = 1
    reads_output = False

    def compute(self, xp: Namespace, g: Array, x: Array, y: Array) -> Array:
        spread = _run_kernels("spread", self.how, xp, x, g)
        if spread is not None:
            return spread
        out, none = xp.zeros_like(x), xp.zeros_like(g)
        for at, won in _choices(self.how, xp, x, y):
            out[at] += xp.where(won, g, none)
        return out

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Each window gets what is at its largest element."""
        _, x, y = node.inputs
        return apply(MaxPoolPick(self.how), out_grad, x, y), None, None


class MaxPoolPick(KeepsSpec, OfWindows):
    """What another value has at the largest element of each window of x."""

    like = 2
    reads_output = False

    def compute(self, xp: Namespace, v: Array, x: Array, y: Array) -> Array:
        out = xp.zeros_like(y)
        for at, won in _choices(self.how, xp, x, y):
            out = xp.where(won, v[at], out)
        return out

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        _, x, y = node.inputs
        return apply(MaxPoolBack(self.how), out_grad, x, y), None, None


def _max_pool(
    count: int,
    input: Kind,
    kernel_size: object,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Kind | ValuesAndIndices[Kind]:
    name = f"max_pool{count}d"
    sizes = check_sizes(name, input, count, kernel_size, stride, padding)
    how, widths = lay_out(name, *sizes, each(name, dilation, count), ceil_mode)
    y = apply(MaxPool(how), add_border(input, widths, -math.inf))
    if not return_indices:
        return y
    return ValuesAndIndices(y, _flat_positions(input, y, how, widths))


def _flat_positions(x: Any, y: Any, how: Windows, widths: tuple[int, ...]) -> Any:
    """Return where in the flattened last axes of `x` each largest element is."""
    sizes = tuple(x.shape[-len(how.size) :])
    numbers = np.arange(math.prod(sizes), dtype=np.float64).reshape(sizes)
    spread = np.broadcast_to(numbers, tuple(x.shape))
    wide = add_border(x.detach(), widths, -math.inf)
    wide_numbers = add_border(x.detach() * 0 + spread, widths, 0.0)
    return apply(MaxPoolPick(how), wide_numbers, wide, y.detach()).to("int64")


max_pool1d = over_axes(
    _max_pool, 1, "max_pool1d", "Return the largest element of each window of (N, C, length)."
)

max_pool2d = over_axes(
    _max_pool,
    2,
    "max_pool2d",
    """Return the largest element of each window of (N, C, height, width).

    Args:
        input: the images; the batch axis may be left out.
        kernel_size: of a window, one number or one an axis.
        stride: distance between windows; their size unless given.
        padding: border of -∞, half a window at most.
        dilation: distance between elements of a window.
        ceil_mode: also windows that reach over the end.
        return_indices: also return where in the image each element was.
    """,
)


# ── the mean of each window ─────────────────────────────────────────────────────────────────────


class WindowSums(ReadsShapes, OfWindows):
    """The sum of each window along the last axes, one axis after another."""

    def compute(self, xp: Namespace, x: Array) -> Array:
        for which in list_slices_by_axis(self.how):
            first, *rest = which
            total: Array = np.copy(x[first], "K") if xp is np else x[first] * 1
            for at in rest:
                total += x[at]
            x = total
        return x

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Every element of a window gets its gradient."""
        return (apply(WindowSumsBack(self.how), out_grad, node.inputs[0]),)


class WindowSumsBack(ReadsShapes, KeepsSpec, OfWindows):
    """Zeros like x, with each window's gradient added at all its elements."""

    like = 1

    def compute(self, xp: Namespace, g: Array, x: Array) -> Array:
        lead = len(g.shape) - len(self.how.places)
        axes = list(zip(range(lead, len(g.shape)), list_slices_by_axis(self.how), strict=True))
        for d, which in reversed(axes):
            shape = (*g.shape[:d], x.shape[d], *g.shape[d + 1 :])
            spread: Array = xp.zeros(shape, dtype=g.dtype, **native_device_of(g))
            for at in which:
                spread[at] += g
            g = spread
        return g

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return apply(WindowSums(self.how), out_grad), None


def _avg_pool(
    count: int,
    input: Kind,
    kernel_size: object,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Kind:
    name = f"avg_pool{count}d"
    spatial, *frame = check_sizes(name, input, count, kernel_size, stride, padding)
    if divisor_override == 0:
        raise ArgumentError(f"{name}: got divisor_override 0, expected another number.")
    how, widths = lay_out(name, spatial, *frame, (1,) * count, ceil_mode)
    total = apply(WindowSums(how), add_border(input, widths, 0.0))
    if divisor_override is not None:
        return total / float(divisor_override)
    share = _shares(spatial, *frame, how.places, count_include_pad)
    if isinstance(share, float):
        return total * share
    dtype = as_dtype(input.dtype)
    return cast_to(total * share.astype(host_dtype(dtype)), dtype)


@functools.lru_cache(64)
def _shares(
    spatial: tuple[int, ...],
    size: tuple[int, ...],
    step: tuple[int, ...],
    border: tuple[int, ...],
    places: tuple[int, ...],
    with_border: bool,
) -> Array | float:
    """Return 1 / how many elements each window has, one number where all have as many."""
    counts = np.ones(())
    for n, k, s, p, m in zip(spatial, size, step, border, places, strict=True):
        start = np.arange(m) * s - p
        stop = np.minimum(start + k, n + p)
        if not with_border:
            start, stop = np.maximum(start, 0), np.minimum(stop, n)
        counts = counts[..., None] * (stop - start)
    shares: Array = 1.0 / counts
    return float(shares.flat[0]) if (shares == shares.flat[0]).all() else shares


avg_pool1d = over_axes(
    _avg_pool, 1, "avg_pool1d", "Return the mean of each window of (N, C, length)."
)
avg_pool2d = over_axes(
    _avg_pool, 2, "avg_pool2d", "Return the mean of each window of (N, C, height, width)."
)


# ── windows of nearly equal size ───────────────────────────────────────────────────────────────

Sizes = tuple[tuple[int, int], ...]
"""How many elements the last axes have, and how many windows they become."""


@functools.cache
def _ranges(n: int, count: int, turned: bool) -> tuple[Array, Array]:
    """Return where `count` windows over `n` elements start and stop, or the windows of each."""
    windows = np.arange(count + 1) * n
    starts, stops = windows[:-1] // count, -(-windows[1:] // count)
    if turned:
        places = np.arange(n)
        return np.searchsorted(stops, places, "right"), np.searchsorted(starts, places, "right")
    return starts, stops


@functools.cache
def _counts(sizes: Sizes, dtype: DType) -> Array:
    """Return how many elements each window has."""
    counts = np.ones((), dtype)
    for n, count in sizes:
        starts, stops = _ranges(n, count, False)
        counts = counts[..., None] * (stops - starts).astype(dtype)
    return counts


class AdaptiveMeans(ReadsShapes):
    """Means of `sizes[1]` windows of the `sizes[0]` elements of each last axis.

    The other way round each element gets its share of its windows, which is the gradient.
    """

    name = "adaptive_means"

    def __init__(self, sizes: Sizes, turned: bool = False) -> None:
        self.sizes, self.turned = sizes, turned

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the means; of float16 computed in float32."""
        dtype = dtype_of(x)
        if dtype.itemsize < 4:
            return cast(self.compute(xp, cast(x, float32)), dtype)
        counts = xp.asarray(_counts(self.sizes, dtype), **native_device_of(x))
        x = x / counts if self.turned else x
        axes = list(enumerate(self.sizes, x.ndim - len(self.sizes)))
        for d, (n, count) in reversed(axes) if self.turned else axes:  # the rest has longer runs
            if n != count:
                x = _sum_ranges(xp, x, d, *_ranges(n, count, self.turned))
        return x if self.turned else x / counts

    def infer(self, *specs: Spec) -> Spec:
        shape, dtype = specs[0]
        new = (sizes[not self.turned] for sizes in self.sizes)
        return Spec((*shape[: len(shape) - len(self.sizes)], *new), dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Every element gets its share of the gradients of its windows."""
        return (apply(AdaptiveMeans(self.sizes, not self.turned), out_grad),)


def _sum_ranges(xp: Namespace, x: Array, d: int, starts: Array, stops: Array) -> Array:
    """Return the sums over these ranges of an axis, by a kernel in memory's order if it can be."""
    if not compiled.fits_rows(xp, x):
        along = (slice(None),) * d
        ranges = zip(starts.tolist(), stops.tolist(), strict=True)
        return xp.stack([xp.sum(x[(*along, slice(a, b))], axis=d) for a, b in ranges], axis=d)
    if not x.flags.c_contiguous:
        order = sorted(range(x.ndim), key=lambda i: -x.strides[i])
        lines = np.ascontiguousarray(x.transpose(order))
        sums = _sum_ranges(xp, lines, order.index(d), starts, stops)
        return sums.transpose(sorted(range(x.ndim), key=order.__getitem__))
    before, after, count = x.shape[:d], x.shape[d + 1 :], len(starts)
    apart = math.prod(after)
    how = {"n": x.shape[d] * apart, "rows": apart, "first": count}
    return compiled.over_rows(
        "range_sums", (x, starts, stops), 0.0, (*before, count, *after), **how
    )


def adaptive_means(count: int, input: Kind, output_size: int | Sequence[int | None] | None) -> Kind:
    """Return `input` with each last axis cut into as many windows as asked for, and their means."""
    new = output_size if isinstance(output_size, Sequence) else (output_size,) * count
    if len(input.shape) not in (count + 1, count + 2) or len(new) != count:
        raise ShapeError(
            f"adaptive_avg_pool{count}d: got shape {tuple(input.shape)} and {output_size}, "
            f"expected {count + 2} axes and {count} sizes."
        )
    if all(size == 1 for size in new):
        return mean(input, tuple(range(-count, 0)), True)
    require_floats(f"adaptive_avg_pool{count}d", input)
    old = tuple(input.shape[-count:])
    sizes = tuple((n, n if size is None else size) for n, size in zip(old, new, strict=True))
    if any(n < 1 or size < 1 for n, size in sizes):
        raise ShapeError(
            f"adaptive_avg_pool{count}d: got sizes {old} to become {new}, expected 1 or more."
        )
    return apply(AdaptiveMeans(sizes), input)


adaptive_avg_pool1d = over_axes(
    adaptive_means,
    1,
    "adaptive_avg_pool1d",
    "Return means of (N, C, length) over `output_size` windows of nearly equal size.",
)
adaptive_avg_pool2d = over_axes(
    adaptive_means,
    2,
    "adaptive_avg_pool2d",
    "Return means of (N, C, height, width) over as many windows as `output_size` says.",
)
