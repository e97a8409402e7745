"""Depthwise convolutions: every channel by a window of its own, read where the image lies.

A channel has so few multiplications an element that copies would take most of the time. So nothing
is padded or cut into phases: rows outside of the image are read from a line of zeros, columns
outside are lanes that a mask leaves out, and with a stride of two vectors of a line every other
lane is taken. Several rows of the result share the rows of the image that they read.

    convolve    result[y, x] = bias + Σ w[i, j] · image[y · stride + i - padding, x · ... + j - ...]
    back        image[y, x] = Σ w[i, j] · result[(y + padding - i) / stride, ...], where it divides
    gather      w[i, j] = Σ result[y, x] · image[y · stride + i - padding, ...]

A line is a row of one plane (N, C, H, W), or of many samples' that lie last (C, H, W, N): then its
places are `batch` numbers apart, and a result with a stride is made of segments, one a place.

May import: allocator, engine, kernels, panels, pool, rows, tasks, text.
Source of depthwise layers: Howard et al., arXiv:1704.04861, 2017.
"""

from __future__ import annotations

import functools
import itertools
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arrays import allocator
from . import engine, kernels, panels, pool
from .rows import across
from .tasks import ITEM_BYTES, MANY
from .text import KERNEL, Text

_Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
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
        self.item = np.dtype(dtype).itemsize
        self.zeros = np.zeros(max(image[3], places[1]) * image[0], dtype)

    def convolve(self, x: _Array, w: _Array, bias: _Array | None = None) -> _Array:
        """Return the result (N, C, places) of images and kernels (C, 1, ...), plus the bias."""
        x, batch = _in_order(x)
        start = np.zeros(len(w), w.dtype) if bias is None else np.ascontiguousarray(bias)
        out = _empty((*self.image[:2], *self.places), x.dtype, batch)
        segments, shape = self._segments(batch)
        numbers = (*self._lies(x, batch), *self._lies(out, batch), *segments)
        self._run(_convolve(shape), (x, np.ascontiguousarray(w), start, out), numbers)
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
        y, batch = _in_order(y)
        out = _empty(self.image, y.dtype, batch)
        (down, along), (first, left) = self.stride, self.padding
        begin, end = left // along, (self.image[3] - 1 + left) // along + 1
        n = self.image[0] if batch else 1
        segments = (end - begin, n) if batch else (1, end - begin)
        rows = (first // down, (self.image[2] - 1 + first) // down + 1)
        numbers = (first, left * n, n, *segments, begin * n, *rows)
        kernel = _back(self._shape(batch, segments[1]))
        lies = (*self._lies(y, batch), *self._lies(out, batch))
        self._run(kernel, (y, np.ascontiguousarray(w), out), (*lies, *numbers))
        return out

    def gather(self, x: _Array, y: _Array) -> _Array:
        """Return the kernels' gradient (C, kernel) from images and a result's gradient."""
        x, batch = _in_order(x)
        if batch != _in_order(y)[1]:
            y = _turned(y, batch)
        y, _ = _in_order(y)
        out = np.empty((self.image[1], *self.kernel), x.dtype)
        segments, shape = self._segments(batch)
        count, length = segments[3:5]
        part = max(2, PART // (count * -(-length // shape.lanes)) // 2 * 2)
        numbers = (*self._lies(x, batch), *self._lies(y, batch), *segments, part)
        self._run(_gather(shape), (x, y, out), numbers)
        return out

    def _shape(self, batch: bool, length: int) -> Shape:
        lanes = panels.lanes(self.dtype)
        while lanes > 4 and length <= lanes // 2:
            lanes //= 2
        return Shape(self.dtype, lanes, self.kernel, self.stride, self.dilation, batch)

    def _segments(self, batch: bool) -> tuple[Sizes, Shape]:
        """Return padding, columns' step, segments: their number, length, step in the image."""
        n, width = self.image[0] if batch else 1, self.places[1]
        (first, left), along = self.padding, self.stride[1]
        whole = not batch or along == 1
        segments = (1, width * n, 0) if whole else (width, n, along * n)
        numbers = (first, left * n, self.dilation[1] * n, *segments)
        return numbers, self._shape(batch, segments[1])

    def _lies(self, array: _Array, batch: bool) -> Sizes:
        """Return samples; bytes from one to the next, of channels and rows too; rows, a line."""
        n, _, high, wide = array.shape
        steps = array.strides[:3]
        return (1, 0, *steps[1:], high, wide * n) if batch else (n, *steps, high, wide)

    def _run(self, kernel: engine.Function, arrays: Sequence[_Array], numbers: Sizes) -> None:
        """Run a kernel, whose code is there as long as somebody holds it."""
        places = kernels.places_of((*arrays, self.zeros))
        table = struct.pack(f"{len(places) + len(numbers)}q", *places, *numbers)
        pool.share(kernel.call, self.image[1], 1, table)


_depthwise = functools.lru_cache(256)(Depthwise)


def planes_for(
    x: Any, w: Any, image: Sizes, kernel: Sizes, places: Sizes, how: Any
) -> Depthwise | None:
    """Return the kernels of a depthwise convolution, where they are the faster way.

    Args:
        x, w: an image or a result, and the other operand: both of one dtype.
        image: (N, C, height, width).
        how: has stride, padding, dilation and groups.
    """
    if len(kernel) != 2 or not how.groups == image[1] == x.shape[1] > 1:
        return None
    if type(x) is not np.ndarray or x.dtype is not w.dtype or x.dtype.name not in ITEM_BYTES:
        return None
    terms = math.prod(kernel)
    if terms > MOST_TERMS or max(how.stride) > MOST_STRIDE or min(*image, *places) < 1:
        return None
    if how.stride != (1, 1) and how.dilation != (1, 1):
        return None
    if math.prod(image[:2]) * math.prod(places) * terms < LEAST or not engine.available():
        return None
    return _depthwise(image, kernel, places, how.stride, how.padding, how.dilation, x.dtype.name)


def _turned(array: _Array, batch: bool) -> _Array:
    """Return a copy of (N, C, H, W) with the samples last, or first."""
    if not batch:
        return np.ascontiguousarray(array)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)


def _in_order(array: _Array) -> tuple[_Array, bool]:
    """Return the array, or a copy, whose lines are runs of memory; whether samples lie last."""
    batch = len(array) >= MANY and array.strides[0] == array.itemsize
    lines = np.moveaxis(array, 0, -1)[0] if batch else array
    if not lines.flags.c_contiguous:
        array = _turned(array, batch)
    return array, batch


def _empty(shape: Sizes, dtype: Any, batch: bool) -> _Array:
    n, c, high, wide = shape
    out: _Array = allocator.cpu.empty((c, high, wide, n) if batch else shape, dtype)
    return np.moveaxis(out, -1, 0) if batch else out


class _Plane:
    """How an array of images lies: the numbers of `_lies`."""

    def __init__(self, t: Text, base: str, numbers: Iterable[str]) -> None:
        self.text, self.base = t, base
        self.samples, self.sample, self.channel, self.row, self.rows, self.line = numbers

    def of(self, channel: str, sample: str) -> str:
        """Return where a plane begins."""
        t = self.text
        away = t.plus(t.times(channel, self.channel), t.times(sample, self.sample))
        return t.at(self.base, away)

    def line_at(self, plane: str, row: str, zeros: str | None = None) -> str:
        """Return where a row begins; with zeros given, these where it is outside."""
        t = self.text
        at = t.at(plane, t.times(row, self.row))
        if zeros is None:
            return at
        inside = t.emit(f"icmp ult i64 {row}, {self.rows}")
        return t.emit(f"select i1 {inside}, ptr {at}, ptr {zeros}")


class _Head:
    """The first lines of a kernel: the operands from its table.

    Args:
        arrays, planes: how many there are, those in front of the zeros; of which planes are.
        numbers: how many follow the planes'.
    """

    def __init__(self, shape: Shape, arrays: int, planes: Sequence[int], numbers: int) -> None:
        t = self.t = Text(shape.dtype, shape.lanes)
        places = [t.emit(f"load ptr, ptr {t.at('%table', 8 * i)}") for i in range(arrays + 1)]
        *self.arrays, self.zeros = (t.emit(f"load ptr, ptr {place}") for place in places)
        fields = range(arrays + 1, arrays + 1 + 6 * len(planes) + numbers)
        values = [t.emit(f"load i64, ptr {t.at('%table', 8 * i)}") for i in fields]
        self.planes = [
            _Plane(t, self.arrays[a], values[6 * i : 6 * i + 6]) for i, a in enumerate(planes)
        ]
        self.numbers = values[6 * len(planes) :]

    def inside(self, position: str, line: str) -> str:
        """Return the mask of the lanes, counted from a position, that lie in [0, line)."""
        t = self.t
        kind, counts = t.of("i32"), ", ".join(f"i32 {i}" for i in range(t.width))
        first, end = (t.spread("i32", t.emit(f"trunc i64 {v} to i32")) for v in (position, line))
        lanes = t.emit(f"add {kind} <{counts}>, {first}")
        return t.emit(f"icmp ult {kind} {lanes}, {end}")

    def lanes_of(self, vectors: Sequence[str], picked: Sequence[int]) -> str:
        """Return the lanes that have these numbers in vectors behind each other."""
        t, width = self.t, self.t.width
        made = vectors[0]
        for v, other in enumerate(vectors[1:], 1):
            order = [
                width + number % width
                if number // width == v
                else (number if v == 1 and number < width else lane)
                for lane, number in enumerate(picked)
            ]
            lanes = ", ".join(f"i32 {i}" for i in order)
            made = t.emit(
                f"shufflevector {t.vector} {made}, {t.vector} {other}, <{width} x i32> <{lanes}>"
            )
        return made

    def weights(self, base: str, channel: str, size: Sizes) -> dict[Sizes, str]:
        """Return a channel's numbers, each in all lanes."""
        t, (high, wide) = self.t, size
        first = t.at(base, t.times(channel, high * wide), t.scalar)
        return {
            (i, j): self.spread(t.at(first, i * wide + j, t.scalar))
            for i, j in itertools.product(range(high), range(wide))
        }

    def spread(self, at: str) -> str:
        """Return the number at an address in all lanes."""
        t = self.t
        return t.spread(t.scalar, t.emit(f"load {t.scalar}, ptr {at}, align {t.item}"))


class _Columns:
    """What the window's columns read of a line, from the lanes' position in the image on."""

    def __init__(
        self, head: _Head, shape: Shape, line: str, position: str, apart: str, valid: str = ""
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
            picked = [lane * step + part for lane in range(self.shape.lanes)]
            vector = self.head.lanes_of(blocks[block], picked)
            if self.valid and step > 1:
                vector = t.either(self.valid, vector, "zeroinitializer")
            columns.append(vector)
        return columns


def _rows_of(shape: Shape) -> int:
    """Return how many rows of the result are computed at once."""
    room = engine.vector_registers()[0] >= 32 and shape.size[0] * shape.size[1] <= 16
    return 4 if room and shape.stride[0] == 1 else 2


def _met(shape: Shape, rows: int, size: int) -> dict[int, list[Sizes]]:
    """Return for each row of the image, from the first, which row of the result and window."""
    met: dict[int, list[Sizes]] = {}
    for r, i in itertools.product(range(rows), range(size)):
        met.setdefault(r * shape.stride[0] + i * shape.dilation[0], []).append((r, i))
    return dict(sorted(met.items()))


@functools.cache
def _convolve(shape: Shape) -> engine.Function:
    """Return the kernel of the result."""
    head = _Head(shape, 4, (0, 3), 6)
    t, (image, result) = head.t, head.planes
    first, left, apart, segments, length, step = head.numbers
    with t.loop("c", "%hi", start="%lo") as c:
        weights = head.weights(head.arrays[1], c, shape.size)
        start = head.spread(t.at(head.arrays[2], c, t.scalar))
        with t.loop("n", image.samples) as n:
            source, target = image.of(c, n), result.of(c, n)
            for rows, begin, end in _blocks(t, "0", result.rows, _rows_of(shape)):
                with t.loop("y", end, rows, begin) as y:
                    top = t.minus(t.times(y, shape.stride[0]), first)
                    met = _met(shape, rows, shape.size[0])
                    lines = [image.line_at(source, t.plus(top, u), head.zeros) for u in met]
                    into = [result.line_at(target, t.plus(y, r)) for r in range(rows)]
                    with t.loop("s", segments) as s, t.loop("v", length, shape.lanes) as v:
                        position = t.minus(t.times(s, step), left)
                        position = t.plus(position, t.times(v, shape.step))
                        columns = _Columns(head, shape, image.line, position, apart)
                        sums = [start] * rows
                        for line, pairs in zip(lines, met.values(), strict=True):
                            for j, vector in enumerate(columns.read(line)):
                                for r, i in pairs:
                                    sums[r] = t.fma(vector, weights[i, j], sums[r])
                        valid = head.inside("0", t.minus(length, v))
                        at = t.plus(t.times(s, length), v)
                        for line, total in zip(into, sums, strict=True):
                            t.store(total, t.at(line, at, t.scalar), valid)
    t.do("ret void")
    return engine.Function(t.module(KERNEL))


def _blocks(t: Text, begin: str, end: str, rows: int) -> list[tuple[int, str, str]]:
    """Return whole blocks of rows, and the rows that are left, one by one."""
    count = t.minus(end, begin)
    whole = t.plus(begin, t.minus(count, t.emit(f"srem i64 {count}, {rows}")))
    return [(rows, begin, whole), (1, whole, end)]


@functools.cache
def _back(shape: Shape) -> engine.Function:
    """Return the kernel of the image's gradient with a stride.

    A block of the image, as large as the stride, and a window's elements that are the stride apart
    meet the same places of the result.
    """
    head = _Head(shape, 3, (0, 2), 8)
    t, (result, image) = head.t, head.planes
    first, left, apart, segments, length, begin, row, end = head.numbers
    (down, along), (high, wide) = shape.stride, shape.size
    with t.loop("c", "%hi", start="%lo") as c:
        weights = head.weights(head.arrays[1], c, shape.size)
        with t.loop("n", image.samples) as n, t.loop("q", end, start=row) as q:
            source, target = result.of(c, n), image.of(c, n)
            lines = [
                result.line_at(source, t.plus(q, -m), head.zeros) for m in range(-(-high // down))
            ]
            top = t.minus(t.times(q, down), first)
            with t.loop("s", segments) as s, t.loop("v", length, shape.lanes) as v:
                start = t.plus(t.times(s, length), begin)
                reached = [
                    t.minus(t.plus(start, v), t.times(apart, m)) for m in range(-(-wide // along))
                ]
                masks = [head.inside(at, result.line) for at in reached]
                vectors = [
                    [
                        t.load(t.at(line, at, t.scalar), mask, align=t.item)
                        for at, mask in zip(reached, masks, strict=True)
                    ]
                    for line in lines
                ]
                into = t.minus(t.times(start, along), left)
                into = t.plus(into, t.times(v, along if shape.step > 1 else 1))
                stores = _stores(head, shape, image.line, into, apart, t.minus(length, v))
                for a in range(down):
                    sums = [t.number(0.0)] * along
                    for i, j in itertools.product(range(a, high, down), range(wide)):
                        vector, total = vectors[i // down][j // along], sums[j % along]
                        sums[j % along] = t.fma(vector, weights[i, j], total)
                    reach = t.plus(top, a)
                    with t.when(t.emit(f"icmp ult i64 {reach}, {image.rows}")):
                        line = image.line_at(target, reach)
                        for b, (at, mask) in enumerate(stores):
                            picked = _interleaved(shape, b)
                            value = head.lanes_of(sums, picked) if shape.step > 1 else sums[b]
                            t.store(value, t.at(line, at, t.scalar), mask)
    t.do("ret void")
    return engine.Function(t.module(KERNEL))


def _interleaved(shape: Shape, vector: int) -> list[int]:
    """Return which lanes of the phases' vectors make a vector of the line."""
    numbers = range(vector * shape.lanes, (vector + 1) * shape.lanes)
    return [n % shape.stride[1] * shape.lanes + n // shape.stride[1] for n in numbers]


def _stores(
    head: _Head, shape: Shape, line: str, into: str, apart: str, left: str
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
    """Return the kernel of the kernels' gradient."""
    head = _Head(shape, 3, (0, 1), 7)
    t, (image, result) = head.t, head.planes
    first, left, apart, segments, length, step, part = head.numbers
    high, wide = shape.size
    chunk = min(high, max(1, MOST_SUMS // wide))  # rows of the window at a time
    cells = list(itertools.product(range(chunk), range(wide)))
    sums, totals = ({cell: t.variable() for cell in cells} for _ in range(2))
    with t.loop("c", "%hi", start="%lo") as c, t.loop("i", high, chunk) as above:
        for total in totals.values():
            t.store(t.number(0.0), total, how="align 64")
        with t.loop("n", image.samples) as n, t.loop("p", result.rows, part) as begin:
            source, gradient = image.of(c, n), result.of(c, n)
            for one in sums.values():
                t.store(t.number(0.0), one, how="align 64")
            end = t.least(t.plus(begin, part), result.rows)
            for rows, lower, upper in _blocks(t, begin, end, 2):
                with t.loop("y", upper, rows, lower) as y:
                    top = t.minus(t.times(y, shape.stride[0]), first)
                    top = t.plus(top, t.times(above, shape.dilation[0]))
                    met = _met(shape, rows, chunk)
                    lines = [image.line_at(source, t.plus(top, u), head.zeros) for u in met]
                    slopes = [result.line_at(gradient, t.plus(y, r)) for r in range(rows)]
                    with t.loop("s", segments) as s, t.loop("v", length, shape.lanes) as v:
                        position = t.minus(t.times(s, step), left)
                        position = t.plus(position, t.times(v, shape.step))
                        valid = head.inside("0", t.minus(length, v))
                        columns = _Columns(head, shape, image.line, position, apart, valid)
                        at = t.plus(t.times(s, length), v)
                        factors = [t.load(t.at(line, at, t.scalar), valid) for line in slopes]
                        for line, pairs in zip(lines, met.values(), strict=True):
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
