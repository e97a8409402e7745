"""Depthwise convolutions: every channel by a window of its own, read where the image lies.

A channel has so few multiplications an element that copies would take most of the time. So nothing
is padded or cut into phases: with a stride every other lane of two vectors of a line is taken, and
several rows of the result share the rows of the image that they read.

    convolve    result[y, x] = bias + Σ w[i, j] · image[y · stride + i - padding, x · ... + j - ...]
    back        image[y, x] = Σ w[i, j] · result[(y + padding - i) / stride, ...], where it divides
    gather      w[i, j] = Σ result[y, x] · image[y · stride + i - padding, ...]

Where samples lie last the places of a line are `batch` numbers apart, and a result with a stride is
made of segments, one a place.

May import: engine, lines, rows, text.
Source of depthwise layers: Howard et al., arXiv:1704.04861, 2017.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from .. import engine
from ..rows import across
from ..text import KERNEL, Text
from .lines import Head, describe, empty_images, lanes_for, move_samples, put_in_order, run

_Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
Total = TypeVar("Total")  # one value, or several, by name
LEAST = 2**12  # multiplications, fewer of which take no longer in NumPy
MOST_TERMS, MOST_STRIDE = 64, 4  # of a window: all are written out in the kernel
MOST_SUMS = 24  # of a gradient's block: they stay in registers
PART = 256  # vectors that are added up one by one; sums of parts are added then


class Shape(NamedTuple):
    """What a kernel is made for; all other sizes are numbers that it gets.

    Attributes:
        lanes: of a vector.
        size, stride, dilation: of the window, down and along.
        batch: whether samples lie last: then vectors are of samples, and no lane is skipped.
    """

    dtype: str
    lanes: int
    size: Sizes
    stride: Sizes
    dilation: Sizes
    batch: bool

    @property
    def step(self) -> int:
        """From one lane to the next in a line of the image."""
        return 1 if self.batch else self.stride[1]


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


class _Columns:
    """What the window's columns read of a line, from the lanes' position in the image on."""

    def __init__(
        self, head: Head, shape: Shape, line: str, position: str, apart: str, valid: str = ""
    ) -> None:
        self.head, self.shape, self.valid, t = head, shape, valid, head.t
        step, both = shape.step, f"and {t.mask} {valid}, "
        self.columns = [divmod(j * shape.dilation[1], step) for j in range(shape.size[1])]
        self.loads: dict[int, list[tuple[str, str]]] = {}
        for j, (block, _) in enumerate(self.columns):
            if block in self.loads:
                continue
            at = t.plus(position, block * step if step > 1 else t.times(apart, j))
            places = [t.plus(at, v * shape.lanes) for v in range(step)]
            masks = [head.inside(place, line) for place in places]
            if valid and step == 1:
                masks = [t.emit(both + mask) for mask in masks]
            self.loads[block] = list(zip(places, masks, strict=True))

    def read(self, line: str) -> list[str]:
        """Return a vector for each column of the window."""
        t, step = self.head.t, self.shape.step
        blocks = {
            block: [t.load(t.at(line, at, t.scalar), mask, align=t.item) for at, mask in loads]
            for block, loads in self.loads.items()
        }
        columns = []
        for block, part in self.columns:
            numbers = [lane * step + part for lane in range(self.shape.lanes)]
            vector = self.head.pick_lanes(blocks[block], numbers)
            if self.valid and step > 1:
                vector = t.either(self.valid, vector, "zeroinitializer")
            columns.append(vector)
        return columns


def _rows_of(shape: Shape) -> int:
    """Return how many rows of the result are computed at once, as measured."""
    if engine.vector_registers()[0] < 32:
        return 2
    return 4 if shape.size[0] * shape.size[1] > 25 else 3


def _match_rows(shape: Shape, rows: int, size: int) -> dict[int, list[Sizes]]:
    """Return for each row of the image, from the first, which rows of the result and window."""
    pairs: dict[int, list[Sizes]] = {}
    for r, i in itertools.product(range(rows), range(size)):
        pairs.setdefault(r * shape.stride[0] + i * shape.dilation[0], []).append((r, i))
    return dict(sorted(pairs.items()))


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
    t.do("ret void")
    return engine.Function(t.module(KERNEL))


def fold_windows(
    head: Head,
    shape: Shape,
    c: str,
    start: Total,
    fold: Callable[[Total, str, Sizes], Total],
    finish: Callable[[Total], str],
) -> None:
    """Write what computes a channel's results: each window folded, its elements row by row.

    Args:
        start: what a window's total begins with.
        fold: returns it with one more element, given the element's row and column.
        finish: returns the result of a total.
    """
    t, (image, result) = head.t, head.planes
    first, left, apart, segments, length, step = head.numbers
    with t.loop("n", image.samples) as n:
        source, target = image.of(c, n), result.of(c, n)
        for rows, begin, end in _blocks(t, "0", result.rows, _rows_of(shape)):
            with t.loop("y", end, rows, begin) as y:
                top = t.minus(t.times(y, shape.stride[0]), first)
                pairs_of = _match_rows(shape, rows, shape.size[0])
                lines = [image.line_at(source, t.plus(top, u), head.zeros) for u in pairs_of]
                into = [result.line_at(target, t.plus(y, r)) for r in range(rows)]
                with t.loop("s", segments) as s, t.loop("v", length, shape.lanes) as v:
                    position = t.minus(t.times(s, step), left)
                    position = t.plus(position, t.times(v, shape.step))
                    columns = _Columns(head, shape, image.line, position, apart)
                    totals = [start] * rows
                    for line, pairs in zip(lines, pairs_of.values(), strict=True):
                        for j, vector in enumerate(columns.read(line)):
                            for r, i in pairs:
                                totals[r] = fold(totals[r], vector, (i, j))
                    valid = head.inside("0", t.minus(length, v))
                    at = t.plus(t.times(s, length), v)
                    for line, total in zip(into, totals, strict=True):
                        t.store_inside(finish(total), t.at(line, at, t.scalar), valid)


def _blocks(t: Text, begin: str, end: str, rows: int) -> list[tuple[int, str, str]]:
    """Return whole blocks of rows, and the rows that are left, one by one."""
    count = t.minus(end, begin)
    whole = t.plus(begin, t.minus(count, t.emit(f"srem i64 {count}, {rows}")))
    return [(rows, begin, whole), (1, whole, end)]


@functools.cache
def back_kernel(shape: Shape, picked: bool = False) -> engine.Function:
    """Return the kernel of the image's gradient with a stride.

    A block of the image, as large as the stride, and a window's elements that are the stride apart
    meet the same places of the result.

    Args:
        picked: whether one element of a window alone has a share, whose number the second array
            has where the first has its gradient; else the second array are the weights.
    """
    head = Head(shape.dtype, shape.lanes, 3, (0, 1, 2) if picked else (0, 2), 8)
    t, (*sources, image) = head.t, head.planes
    first, left, apart, segments, length, begin, row, end = head.numbers
    (down, along), (high, wide) = shape.stride, shape.size
    with t.loop("c", "%hi", start="%lo") as c:
        weights = {} if picked else head.weights(head.arrays[1], c, shape.size)

        def add(total: str, values: Sequence[str], cell: Sizes) -> str:
            if not picked:
                return t.fma(values[0], weights[cell], total)
            wins = t.compare("oeq", values[1], t.number(cell[0] * wide + cell[1]))
            return t.add(total, t.either(wins, values[0], t.number(0.0)))

        with t.loop("n", image.samples) as n, t.loop("q", end, start=row) as q:
            target = image.of(c, n)
            lines = [
                [plane.line_at(plane.of(c, n), t.plus(q, -m), head.zeros) for plane in sources]
                for m in range(-(-high // down))
            ]
            top = t.minus(t.times(q, down), first)
            with t.loop("s", segments) as s, t.loop("v", length, shape.lanes) as v:
                start = t.plus(t.times(s, length), begin)
                reached = [
                    t.minus(t.plus(start, v), t.times(apart, m)) for m in range(-(-wide // along))
                ]
                masks = [head.inside(at, sources[0].line) for at in reached]
                vectors = [
                    [
                        [t.load(t.at(line, at, t.scalar), mask, align=t.item) for line in both]
                        for at, mask in zip(reached, masks, strict=True)
                    ]
                    for both in lines
                ]
                into = t.minus(t.times(start, along), left)
                into = t.plus(into, t.times(v, along if shape.step > 1 else 1))
                stores = _stores(head, shape, image.line, into, apart, t.minus(length, v))
                for a in range(down):
                    sums = [t.number(0.0)] * along
                    for i, j in itertools.product(range(a, high, down), range(wide)):
                        values = vectors[i // down][j // along]
                        sums[j % along] = add(sums[j % along], values, (i, j))
                    reach = t.plus(top, a)
                    with t.when(t.emit(f"icmp ult i64 {reach}, {image.rows}")):
                        line = image.line_at(target, reach)
                        for b, (at, mask) in enumerate(stores):
                            value = sums[b]
                            if shape.step > 1:
                                value = head.pick_lanes(sums, _interleave(shape, b))
                            t.store_inside(value, t.at(line, at, t.scalar), mask)
    t.do("ret void")
    return engine.Function(t.module(KERNEL))


def _interleave(shape: Shape, vector: int) -> list[int]:
    """Return which lanes of the phases' vectors make a vector of the line."""
    numbers = range(vector * shape.lanes, (vector + 1) * shape.lanes)
    return [n % shape.stride[1] * shape.lanes + n // shape.stride[1] for n in numbers]


def _stores(
    head: Head, shape: Shape, line: str, into: str, apart: str, left: str
) -> list[tuple[str, str]]:
    """Return where vectors of the image's line are written, and which of their lanes."""
    t = head.t
    if shape.step > 1:
        places = [t.plus(into, b * shape.lanes) for b in range(shape.stride[1])]
        return [(at, head.inside(at, line)) for at in places]
    valid = head.inside("0", left)
    places = [t.plus(into, t.times(apart, b)) for b in range(shape.stride[1])]
    return [(at, t.logic("and", head.inside(at, line), valid)) for at in places]


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
            for rows, lower, upper in _blocks(t, begin, end, 2):
                with t.loop("y", upper, rows, lower) as y:
                    top = t.minus(t.times(y, shape.stride[0]), first)
                    top = t.plus(top, t.times(above, shape.dilation[0]))
                    pairs_of = _match_rows(shape, rows, chunk)
                    lines = [image.line_at(source, t.plus(top, u), head.zeros) for u in pairs_of]
                    slopes = [result.line_at(gradient, t.plus(y, r)) for r in range(rows)]
                    with t.loop("s", segments) as s, t.loop("v", length, shape.lanes) as v:
                        position = t.minus(t.times(s, step), left)
                        position = t.plus(position, t.times(v, shape.step))
                        valid = head.inside("0", t.minus(length, v))
                        columns = _Columns(head, shape, image.line, position, apart, valid)
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
    t.do("ret void")
    return engine.Function(t.module(KERNEL))
