"""Adaptive pooling: the mean of each of a given number of windows, of nearly equal size."""

import functools
import math
from collections.abc import Sequence

import numpy as np

from ...arrays.library import Array, DType, Namespace, cast, dtype_of, float32, native_device_of
from ...errors import ShapeError
from ...op import Gradients, Kind, Methods, Op, Spec, apply
from ..elementwise import compiled
from ..elementwise.casting import require_floats
from ..products.conv import over_axes
from ..reducing.reduction import mean

Sizes = tuple[tuple[int, int], ...]


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


class AdaptiveMeans(Op):
    """Means of `sizes[1]` windows of the `sizes[0]` elements of each last axis.

    The other way round each element gets its share of its windows, which is the gradient.
    """

    on_arrays = True
    reads_inputs = reads_output = False
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
