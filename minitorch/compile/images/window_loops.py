"""Loops over windows of images that are read where they lie, without copies or padding.

With a stride every other lane of two vectors of a line is taken, and several rows of the result
share the rows of the image that they read. Depthwise convolutions and max pooling are made of these
loops.

    fold_windows    a channel's results: each window folded, element by element
    back_kernel     a channel's images: each element folded of the windows that read it

Where samples lie last the places of a line are `batch` numbers apart, and a result with a stride is
made of segments, one a place.

May import: engine, lines, text.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from .. import engine
from ..text import KERNEL, Text
from .lines import Head

Sizes = tuple[int, ...]
Total = TypeVar("Total")  # one value, or several, by name


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


class Columns:
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


def match_rows(shape: Shape, rows: int, size: int) -> dict[int, list[Sizes]]:
    """Return for each row of the image, from the first, which rows of the result and window."""
    pairs: dict[int, list[Sizes]] = {}
    for r, i in itertools.product(range(rows), range(size)):
        pairs.setdefault(r * shape.stride[0] + i * shape.dilation[0], []).append((r, i))
    return dict(sorted(pairs.items()))


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
        for rows, begin, end in row_blocks(t, "0", result.rows, _rows_of(shape)):
            with t.loop("y", end, rows, begin) as y:
                top = t.minus(t.times(y, shape.stride[0]), first)
                pairs_of = match_rows(shape, rows, shape.size[0])
                lines = [image.line_at(source, t.plus(top, u), head.zeros) for u in pairs_of]
                into = [result.line_at(target, t.plus(y, r)) for r in range(rows)]
                with t.loop("s", segments) as s, t.loop("v", length, shape.lanes) as v:
                    position = t.minus(t.times(s, step), left)
                    position = t.plus(position, t.times(v, shape.step))
                    columns = Columns(head, shape, image.line, position, apart)
                    totals = [start] * rows
                    for line, pairs in zip(lines, pairs_of.values(), strict=True):
                        for j, vector in enumerate(columns.read(line)):
                            for r, i in pairs:
                                totals[r] = fold(totals[r], vector, (i, j))
                    valid = head.inside("0", t.minus(length, v))
                    at = t.plus(t.times(s, length), v)
                    for line, total in zip(into, totals, strict=True):
                        t.store_inside(finish(total), t.at(line, at, t.scalar), valid)


def row_blocks(t: Text, begin: str, end: str, rows: int) -> list[tuple[int, str, str]]:
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
