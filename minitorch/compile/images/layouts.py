"""Layouts: images copied with a border, cut into the phases of a stride, the samples last or first.

One kernel reads lines of the image and writes those of its padded copy. Two tables say where rows
and columns of the copy begin, so any stride and dilation is a matter of numbers:

    lines     vectors of a line, with a stride every s-th lane of s vectors, or every s-th run of
              lanes where all samples lie last and fill a part of a vector
    columns   a run of numbers for each column: all samples that lie last in the image too
    turned    blocks of samples by columns, turned around in registers: samples that lie first

May import: allocator, engine, kernels, lines, text.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from ...arrays import allocator
from .. import engine
from ..kernels import run
from ..text import KERNEL, Text
from .lines import Head, describe, empty_images, lanes_for, put_in_order

_Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
MOST_STRIDE = 4  # of which vectors are cut by shuffles
GRAIN = 2**15  # numbers, of which a thread should copy a multiple
TAIL = 16  # numbers behind the last that a vector may reach
LINE, NEAR_SETS = 64, 512  # bytes of a line of the first cache; channels so far from each other, or
# a multiple, share so few of its sets that they push each other out


class Layout:
    """How images of one shape are copied.

    Args:
        image: (N, C, height, width).
        phases: of rows and of columns: which of each `stride` are there.
        size: rows and columns of a phase.
        stride, padding: a number an axis.
        last: whether the samples of the copy lie last.
        dtype: float32 or float64.
        across: whether the copy is read across channels, which then lie in other sets of a cache.

    Attributes:
        channel: numbers from one channel of a copy to the next.
    """

    def __init__(
        self, image: Sizes, phases: Sequence[Sequence[int]], size: Sizes, stride: Sizes,
        padding: Sizes, last: bool, dtype: str, across: bool = False,
    ) -> None:  # fmt: skip
        self.image = image
        self.batch, outer = (image[0], 1) if last else (1, image[0])
        (high, wide), (down, along) = size, map(len, phases)
        self.shape = (outer, image[1], down, along, high, wide, self.batch)
        self.dtype, self.last, self.padding, self.stride = dtype, last, padding, stride
        item = np.dtype(dtype).itemsize
        self.same = size == image[2:] and not any(padding) and (down, along) == (1, 1)
        self.channel = math.prod(self.shape[2:])
        if across and not self.same and self.channel * item % NEAR_SETS == 0:
            self.channel += LINE // item
        self.bytes = [image[1] * self.channel * item, self.channel * item]
        self.zeros = np.zeros(image[3] * self.batch, dtype)
        line = wide * self.batch * item
        self.rows = np.array(
            [
                (y * stride[0] + a - padding[0], (i * along * high + y) * line)
                for i, a in enumerate(phases[0])
                for y in range(high)
            ],
            np.int64,
        )
        self.phases = np.full(stride[1], -1, np.int64)
        self.phases[list(phases[1])] = np.arange(along) * high * line
        column, phase = np.divmod(np.arange(wide * stride[1]), stride[1])
        begins = self.phases[phase]
        begins = np.where(begins < 0, -1, begins + column * self.batch * item)
        self.columns = np.append(begins, np.full(TAIL, -1))

    def __call__(self, x: _Array) -> _Array:
        """Return the copy, or the images' own memory where it would be the same."""
        x, batch = put_in_order(x)
        if self.same and batch == self.last:
            return x
        out = allocator.empty((self.shape[0] * self.image[1] * self.channel + TAIL,), x.dtype)
        self._run(x, out, batch, back=False)
        return out

    def undo(self, copy: _Array) -> _Array:
        """Return the images (N, C, height, width) of a copy that has all their elements."""
        out = empty_images(self.image, copy.dtype, self.last)
        self._run(out, copy, self.last, back=True)
        return out

    def _run(self, images: _Array, copy: _Array, batch: bool, back: bool) -> None:
        (_, left), along, n = self.padding, self.stride[1], self.batch
        wide, begins = self.shape[5], self.columns
        samples, *layout = describe(images, batch)
        way, step, length, sizes = "columns", 1, n, (wide * along, n, 0)
        if self.last and not batch:
            way, samples, sizes = "turned", 1, (wide * along, n, images.strides[0])
        elif along == 1 or (along <= MOST_STRIDE and lanes_for(self.dtype, wide * n) % n == 0):
            way, step, length, sizes = "lines", along, wide * n, (wide * n, 0, 0)
            left, begins = left * n, self.phases
        together = n if way == "lines" and along > 1 else 1
        kernel = _copy(self.dtype, lanes_for(self.dtype, length), way, step, back, together)
        numbers = (samples, *layout, *self.bytes, len(self.rows), left, *sizes)
        arrays = (images, copy, self.rows, begins, self.zeros)
        grain = -(-GRAIN // max(1, images[:, 0].size))
        run(kernel, arrays, numbers, images.shape[1], grain)


class _Row(NamedTuple):
    """What the three ways of writing a row of the copy work with."""

    head: Head
    inside: str
    line: str
    into: str
    begins: str
    border: str
    sizes: Sequence[str]
    step: int
    back: bool
    together: int


@functools.cache
def _copy(
    dtype: str, lanes: int, way: str, step: int, back: bool, together: int
) -> engine.Function:
    """Return the kernel of one of the three ways; `back` from the copy to the images.

    Args:
        together: how many numbers of a line go to the same phase: the samples that lie last.
    """
    head = Head(dtype, lanes, 4, (0,), 7)
    t, (image,), (_, out, rows, begins) = head.t, head.planes, head.arrays
    sample, channel, n_rows, border, *sizes = head.numbers
    write = {"lines": _write_lines, "columns": _write_columns, "turned": _write_turned}[way]
    with t.loop("c", "%hi", start="%lo") as c, t.loop("n", image.samples) as n:
        source = image.of(c, n)
        target = t.at(out, t.plus(t.times(c, channel), t.times(n, sample)))
        with t.loop("r", n_rows) as r:
            fields = t.at(rows, t.times(r, 16))
            number = t.emit(f"load i64, ptr {fields}")
            inside = t.emit(f"icmp ult i64 {number}, {image.rows}")
            into = t.at(target, t.emit(f"load i64, ptr {t.at(fields, 8)}"))
            line = image.line_at(source, number, head.zeros)
            with t.when(*[inside] * back):
                write(_Row(head, inside, line, into, begins, border, sizes, step, back, together))
    return engine.Function(t.module(KERNEL))


@contextmanager
def _when_present(t: Text, into: str, begins: str, number: str | int) -> Iterator[str]:
    """Write what is done where the copy has this column, or phase; give where it begins."""
    away = t.emit(f"load i64, ptr {t.at(begins, number, 'i64')}")
    with t.when(t.emit(f"icmp sge i64 {away}, 0")):
        yield t.at(into, away)


def _write_lines(row: _Row) -> None:
    head, t, (length, *_), step = row.head, row.head.t, row.sizes, row.step
    with t.loop("v", length, t.width) as v:
        first = t.minus(t.times(v, step), row.border)
        places = [t.plus(first, k * t.width) for k in range(step)]
        masks = [head.inside(at, head.planes[0].line) for at in places]
        valid = head.inside("0", t.minus(length, v))
        if row.back:
            _weave(row, v, list(zip(places, masks, strict=True)), valid)
            return
        vectors = [
            t.load(t.at(row.line, at, t.scalar), mask)
            for at, mask in zip(places, masks, strict=True)
        ]
        for phase in range(step):
            numbers = [_place_of(row, lane, phase) for lane in range(t.width)]
            value = head.pick_lanes(vectors, numbers)
            with _when_present(t, row.into, row.begins, phase) as begin:
                t.store_inside(value, t.at(begin, v, t.scalar), valid)


def _weave(row: _Row, v: str, stores: list[tuple[str, str]], valid: str) -> None:
    """Write the numbers of a line whose phases are read, all of which are there."""
    head, t, step = row.head, row.head.t, row.step
    lanes = {_place_of(row, k, p): p * t.width + k for p in range(step) for k in range(t.width)}
    begins = [t.emit(f"load i64, ptr {t.at(row.begins, b, 'i64')}") for b in range(step)]
    phases = [t.load(t.at(t.at(row.into, begin), v, t.scalar), valid) for begin in begins]
    for n, (at, mask) in enumerate(stores):
        numbers = [lanes[k] for k in range(n * t.width, (n + 1) * t.width)]
        t.store_inside(head.pick_lanes(phases, numbers), t.at(row.line, at, t.scalar), mask)


def _place_of(row: _Row, lane: int, phase: int) -> int:
    """Return where in a line's `step` vectors the number lies that a phase has in this lane."""
    column, within = divmod(lane, row.together)
    return (column * row.step + phase) * row.together + within


def _write_columns(row: _Row) -> None:
    head, t, (count, batch, _) = row.head, row.head.t, row.sizes
    with t.loop("x", count) as x, _when_present(t, row.into, row.begins, x) as begin:
        column = t.times(t.minus(x, row.border), batch)
        with t.loop("v", batch, t.width) as v:
            at, valid = t.plus(column, v), head.inside("0", t.minus(batch, v))
            mask = t.logic("and", head.inside(at, head.planes[0].line), valid)
            here, there = t.at(row.line, at, t.scalar), t.at(begin, v, t.scalar)
            if row.back:
                t.store_inside(t.load(there, valid), here, mask)
            else:
                t.store_inside(t.load(here, mask), there, valid)


def _write_turned(row: _Row) -> None:
    head, t, (count, batch, sample) = row.head, row.head.t, row.sizes
    apart, last = t.emit(f"select i1 {row.inside}, i64 {sample}, i64 0"), t.plus(batch, -1)
    with t.loop("x", count, t.width) as x, t.loop("v", batch, t.width) as v:
        at = t.minus(x, row.border)
        mask = head.inside(at, head.planes[0].line)
        samples = [t.least(t.plus(v, k), last) for k in range(t.width)]
        lines = [t.at(row.line, t.times(number, apart)) for number in samples]
        square = _turn(head, [t.load(t.at(line, at, t.scalar), mask) for line in lines])
        valid = head.inside("0", t.minus(batch, v))
        for k, vector in enumerate(square):
            with _when_present(t, row.into, row.begins, t.plus(x, k)) as begin:
                t.store_inside(vector, t.at(begin, v, t.scalar), valid)


def _turn(head: Head, rows: Sequence[str]) -> Sequence[str]:
    """Return the columns of a square: so often as its size is 2 times 2, halves are interleaved."""
    size = len(rows)
    order = [k // 2 + k % 2 * size for k in range(2 * size)]
    for _ in range(size.bit_length() - 1):
        pairs = zip(rows[: size // 2], rows[size // 2 :], strict=True)
        rows = [head.pick_lanes(pair, order[at : at + size]) for pair in pairs for at in (0, size)]
    return rows
