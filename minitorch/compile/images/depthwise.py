"""Depthwise convolutions: every channel by a window of its own, read where the image lies.

A channel has so few multiplications an element that copies would take most of the time. So nothing
is padded or cut into phases (`window_loops`).

    convolve    result[y, x] = bias + Σ w[i, j] · image[y · stride + i - padding, x · ... + j - ...]
    back        image[y, x] = Σ w[i, j] · result[(y + padding - i) / stride, ...], where it divides
    gather      w[i, j] = Σ result[y, x] · image[y · stride + i - padding, ...]

May import: engine, kernels, lines, rows, text, window_loops.
Source of depthwise layers: Howard et al., arXiv:1704.04861, 2017.
"""

import functools
import itertools
import math
from typing import Any

import numpy as np

from .. import engine
from ..kernels import run
from ..rows import across
from ..text import KERNEL
from .lines import Head, describe, empty_images, lanes_for, move_samples, put_in_order
from .window_loops import Columns, Shape, Sizes, back_kernel, fold_windows, match_rows, row_blocks

_Array = np.ndarray[Any, Any]
LEAST = 2**12  # multiplications, fewer of which take no longer in NumPy
MOST_TERMS, MOST_STRIDE = 64, 4  # of a window: all are written out in the kernel
MOST_SUMS = 24  # of a gradient's block: they stay in registers
PART = 256  # vectors that are added up one by one; sums of parts are added then


class Depthwise:
    """Depthwise convolutions of images of one shape.

    Args:
        image: (N, C, height, width).
        kernel, places: sizes of a window and of the result.
        stride, padding, dilation: a number an axis.
        dtype: float32 or float64.
    """

    short = False

    def __init__(
        self, image: Sizes, kernel: Sizes, places: Sizes, stride: Sizes, padding: Sizes,
        dilation: Sizes, dtype: str,
    ) -> None:  # fmt: skip
        self.image, self.places, self.kernel, self.dtype = image, places, kernel, dtype
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.zeros = np.zeros(max(image[3], places[1]) * image[0], dtype)

    def convolve(self, x: _Array, w: _Array, bias: _Array | None = None) -> _Array:
        """Return the result (N, C, places) of images and kernels (C, 1, ...), plus the bias."""
        x, batch = put_in_order(x)
        start = np.zeros(len(w), w.dtype) if bias is None else np.ascontiguousarray(bias)
        out = empty_images((*self.image[:2], *self.places), x.dtype, batch)
        segments, shape = self._segments(batch)
        numbers = (*describe(x, batch), *describe(out, batch), *segments)
        arrays = (x, np.ascontiguousarray(w), start, out, self.zeros)
        run(_convolve(shape), arrays, numbers, self.image[1])
        return out

    def back(self, y: _Array, w: _Array) -> _Array:
        """Return the images' gradient (N, C, height, width) from the result's and the kernels."""
        size, strided = self.kernel, self.stride != (1, 1)
        if not strided:
            spans = zip(size, self.dilation, self.padding, strict=True)
            padding = tuple((k - 1) * d - p for k, d, p in spans)
            return _depthwise(
                y.shape, size, self.image[2:], self.stride, padding, self.dilation, self.dtype
            ).convolve(y, w[..., ::-1, ::-1])
        y, batch = put_in_order(y)
        out = empty_images(self.image, y.dtype, batch)
        sizes, shape = self._phases(batch)
        numbers = (*describe(y, batch), *describe(out, batch), *sizes)
        arrays = (y, np.ascontiguousarray(w), out, self.zeros)
        run(back_kernel(shape), arrays, numbers, self.image[1])
        return out

    def gather(self, x: _Array, y: _Array, shape: Sizes) -> _Array:
        """Return the kernels' gradient (C, 1, ...) from images and a result's gradient."""
        x, batch = put_in_order(x)
        if batch != put_in_order(y)[1]:
            y = move_samples(y, batch)
        y, _ = put_in_order(y)
        out = np.empty(shape, x.dtype)
        segments, how = self._segments(batch)
        count, length = segments[3:5]
        part = max(2, PART // (count * -(-length // how.lanes)) // 2 * 2)
        ahead = x.strides[1] if batch or len(x) == 1 else x.strides[0]  # to the plane read next
        numbers = (*describe(x, batch), *describe(y, batch), *segments, part, ahead)
        run(_gather(how), (x, y, out, self.zeros), numbers, self.image[1])
        return out

    def _phases(self, batch: bool) -> tuple[Sizes, Shape]:
        """Return the numbers of `back_kernel`: segments as those of `_segments`, blocks' rows."""
        (down, along), (first, left) = self.stride, self.padding
        begin, end = left // along, (self.image[3] - 1 + left) // along + 1
        n = self.image[0] if batch else 1
        segments = (end - begin, n) if batch else (1, end - begin)
        rows = (first // down, (self.image[2] - 1 + first) // down + 1)
        return (first, left * n, n, *segments, begin * n, *rows), self._shape(batch, segments[1])

    def _shape(self, batch: bool, length: int) -> Shape:
        lanes = lanes_for(self.dtype, length)
        return Shape(self.dtype, lanes, self.kernel, self.stride, self.dilation, batch)

    def _segments(self, batch: bool) -> tuple[Sizes, Shape]:
        """Return padding, columns' step, segments: their number, length, step in the image."""
        n, width = self.image[0] if batch else 1, self.places[1]
        (first, left), along = self.padding, self.stride[1]
        whole = not batch or along == 1
        segments = (1, width * n, 0) if whole else (width, n, along * n)
        numbers = (first, left * n, self.dilation[1] * n, *segments)
        return numbers, self._shape(batch, segments[1])


_depthwise = functools.lru_cache(256)(Depthwise)


def depthwise_of(
    image: Sizes, kernel: Sizes, places: Sizes, how: Any, dtype: str
) -> Depthwise | None:
    """Return the kernels of convolutions of images (N, C, ...) with as many results as channels.

    None where they serve not, or NumPy takes no longer.

    Args:
        how: has stride, padding, dilation and groups.
    """
    terms = math.prod(kernel)
    if not how.groups == image[1] > 1 or terms > MOST_TERMS or max(how.stride) > MOST_STRIDE:
        return None
    if how.stride != (1, 1) and how.dilation != (1, 1):
        return None
    if min(*image, *places) < 1 or math.prod(image[:2]) * math.prod(places) * terms < LEAST:
        return None
    return _depthwise(image, kernel, places, how.stride, how.padding, how.dilation, dtype)


@functools.cache
def _convolve(shape: Shape) -> engine.Function:
    """Return the kernel of the result."""
    head = Head(shape.dtype, shape.lanes, 4, (0, 3), 6)
    t = head.t
    with t.loop("c", "%hi", start="%lo") as c:
        weights = head.weights(head.arrays[1], c, shape.size)
        start = t.spread_from(t.at(head.arrays[2], c, t.scalar))

        def add(total: str, vector: str, cell: Sizes) -> str:
            return t.fma(vector, weights[cell], total)

        fold_windows(head, shape, c, start, add, lambda total: total)
    return engine.Function(t.module(KERNEL))


@functools.cache
def _gather(shape: Shape) -> engine.Function:
    """Return the kernel of the kernels' gradient.

    Images were read long before, in the forward pass, so each plane is asked for ahead.
    """
    head = Head(shape.dtype, shape.lanes, 3, (0, 1), 8)
    t, (image, result) = head.t, head.planes
    first, left, apart, segments, length, step, part, ahead = head.numbers
    high, wide = shape.size
    chunk = min(high, max(1, MOST_SUMS // wide))  # rows of the window at a time
    cells = list(itertools.product(range(chunk), range(wide)))
    sums, totals = ({cell: t.variable() for cell in cells} for _ in range(2))
    with t.loop("c", "%hi", start="%lo") as c, t.loop("i", high, chunk) as above:
        for total in totals.values():
            t.store(t.number(0.0), total, how="align 64")
        with t.loop("n", image.samples) as n, t.loop("p", result.rows, part) as begin:
            source, gradient = image.of(c, n), result.of(c, n)
            for sum_at in sums.values():
                t.store(t.number(0.0), sum_at, how="align 64")
            end = t.least(t.plus(begin, part), result.rows)
            for rows, lower, upper in row_blocks(t, begin, end, 2):
                with t.loop("y", upper, rows, lower) as y:
                    top = t.minus(t.times(y, shape.stride[0]), first)
                    top = t.plus(top, t.times(above, shape.dilation[0]))
                    pairs_of = match_rows(shape, rows, chunk)
                    lines = [image.line_at(source, t.plus(top, u), head.zeros) for u in pairs_of]
                    slopes = [result.line_at(gradient, t.plus(y, r)) for r in range(rows)]
                    with t.loop("s", segments) as s, t.loop("v", length, shape.lanes) as v:
                        position = t.minus(t.times(s, step), left)
                        position = t.plus(position, t.times(v, shape.step))
                        valid = head.inside("0", t.minus(length, v))
                        columns = Columns(head, shape, image.line, position, apart, valid)
                        at = t.plus(t.times(s, length), v)
                        factors = [t.load(t.at(line, at, t.scalar), valid) for line in slopes]
                        for line in lines[: rows * shape.stride[0]]:
                            t.prefetch(t.at(t.at(line, position, t.scalar), ahead))
                        for line, pairs in zip(lines, pairs_of.values(), strict=True):
                            for j, vector in enumerate(columns.read(line)):
                                for r, i in pairs:
                                    old = t.load(sums[i, j], align=64)
                                    new = t.fma(vector, factors[r], old)
                                    t.store(new, sums[i, j], how="align 64")
            for cell in cells:
                both = t.add(t.load(totals[cell], align=64), t.load(sums[cell], align=64))
                t.store(both, totals[cell], how="align 64")
        for i, j in cells:
            number = t.plus(above, i)
            with t.when(t.emit(f"icmp slt i64 {number}, {high}")):
                at = t.plus(t.times(c, high * wide), t.plus(t.times(number, wide), j))
                folded = across(t, "sum", t.load(totals[i, j], align=64))
                t.do(f"store {t.scalar} {folded}, ptr {t.at(head.arrays[2], at, t.scalar)}")
    return engine.Function(t.module(KERNEL))
