"""Convolutions of any shape by two kernels that read windows where they lie in the padded image.

A matrix of windows (im2col) is as many times the image as a window has elements; here none is made.
Sizes are numbers that the kernels get, so that one compiled kernel serves every shape. They see

    slots     a vector of places of the result each: where its windows begin in the image, where
              it lies in the result, in bytes, and which of its lanes are inside, a bit each
    offsets   for each element of a window, how far from its beginning it lies

With a stride of s the padded image is cut into s by s phases (`Layout`), each of every s-th row and
column, so that the places of a line lie side by side; many samples lie last, as part of a line.

    convolve    result[o, place] = bias[o] + Σₖ weights[o, k] · image[place + offset k]
    gather      weights[o, k] = Σ over places of result[o, place] · image[place + offset k]

May import: allocator, depthwise, layouts, lines; engine, kernels, tasks, text.
"""

import functools
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from .. import engine
from ..kernels import run
from ..tasks import ITEM_BYTES, MANY
from ..text import KERNEL, Text
from .depthwise import Depthwise, depthwise_of
from .layouts import Layout
from .lines import SAMPLES_FIRST

_Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
SLOT_BYTES = 24
CHUNK = 128  # slots of which a hundred rows stay in the second cache
GAIN = 1.2  # fewer slots that are worth a result's lines with gaps, which are copied afterwards
FEW = 4  # channels of a group, below which a block is one channel and more places
LEAST, LEAST_APART = 2**19, 2**16  # multiplications worth the tables; where NumPy would do many
# products, one a group, fewer are
KINDS = "fd"  # of dtypes that have kernels; their names take a microsecond
LEAST_PACKED, MOST_PACKED = 32, 256  # terms, for as many channels at least, whose windows are
# copied: blocks of four channels read them again each, and with 16 registers that gains a sixth
SHORT = 10  # slots, below which adding up lanes takes longer than the sums


@functools.cache
def _lanes(dtype: str) -> int:
    """Return the numbers in a vector register."""
    return engine.vector_registers()[1] // 8 // ITEM_BYTES[dtype]


def _block(channels: int) -> tuple[int, int, int]:
    """Return the vectors and rows of a block of a result, and the terms of one of a gradient."""
    if channels < FEW:
        return 4, 1, 9
    return (2, 8, 3) if engine.vector_registers()[0] >= 32 else (3, 4, 3)


class Windows:
    """Where the windows of images of one shape lie, and the kernels that read them.

    Args:
        image: (N, C, height, width).
        channels: of the result.
        kernel, places: sizes of a window and of the result.
        stride, padding, dilation: a number an axis.
        groups: channels are convolved in so many groups.
        dtype: float32 or float64.
        gradient: whether the kernels' is wanted, for which results are read.
        planes: how many planes of results a channel has: all but one are another's.
    """

    def __init__(
        self, image: Sizes, channels: int, kernel: Sizes, places: Sizes, stride: Sizes,
        padding: Sizes, dilation: Sizes, groups: int, dtype: str, gradient: bool = False,
        planes: int = 1,
    ) -> None:  # fmt: skip
        self.dtype, self.channels, self.groups, self.places = dtype, channels, groups, places
        self.samples, self.last, item = image[0], image[0] >= MANY, ITEM_BYTES[dtype]
        batch, outer = (image[0], 1) if self.last else (1, image[0])
        spots = [[i * d for i in range(k)] for k, d in zip(kernel, dilation, strict=True)]
        phases = [sorted({i % s for i in at}) for at, s in zip(spots, stride, strict=True)]
        high, wide = (n + at[-1] // s for n, at, s in zip(places, spots, stride, strict=True))
        along = len(phases[1])
        line, plane = wide * batch, high * wide * batch
        size, copied = (high, wide), (stride, padding, self.last, dtype)
        self.padded = Layout(image, phases, size, *copied, across=True)
        # whole vectors are loaded: none may reach over the end of an image that is not copied
        self.padded.same &= size == places and high * wide * batch % _lanes(dtype) == 0
        channels_of_group = image[1] // groups
        self.group_bytes = channels_of_group * self.padded.channel * item
        (i_phase, i), (j_phase, j) = (
            np.array([(p.index(o % s), o // s) for o in at]).T
            for at, p, s in zip(spots, phases, stride, strict=True)
        )
        channel, i_phase, i = (
            np.arange(channels_of_group)[:, None, None],
            i_phase[:, None],
            i[:, None],
        )
        offsets = channel * self.padded.channel + (i_phase * along + j_phase) * plane
        offsets = offsets + i * line + j * batch
        self.offsets = np.ascontiguousarray(offsets.reshape(-1) * item, np.int64)
        self.vectors, self.rows, self.terms = _block(channels // groups)
        self.line, high_out = self._lines(wide, batch, gradient)
        results, first = (image[0], channels, *places), [range(1)] * 2
        size = (high_out, self.line)
        self.lines = Layout(results, first, size, (1, 1), (0, 0), self.last, dtype)
        self.out_row = high_out * self.line * batch * item * planes
        # images that lie as they came: channels may lie in the same sets of a cache, and far apart
        fits = min(len(self.offsets), channels // groups) >= LEAST_PACKED
        fits &= len(self.offsets) <= MOST_PACKED and engine.vector_registers()[0] < 32
        self.packs = fits and self.last and self.padded.same
        self.steps = np.arange(len(self.offsets)) * (self.vectors * _lanes(dtype) * item)
        self.slots = self._slots(outer, image[1] * self.padded.channel, line, batch)

    def _lines(self, wide: int, batch: int, gradient: bool) -> tuple[int, int]:
        """Return a line's places in the result, and its lines.

        Lines as long as the image's are one if that makes so much fewer slots. A gradient's are
        followed by zeros wherever a vector of places reaches over their end.
        """
        (height, width), lanes = self.places, _lanes(self.dtype)
        count = ((height - 1) * wide + width) * batch
        gain = 1 if gradient or wide == width else GAIN
        fewer = -(-count // lanes) * gain <= height * -(-width * batch // lanes)
        self.joined = fewer and (gradient or not self.last or wide == width)
        if self.joined:
            return wide, height + gradient * -(-(-count % lanes) // (wide * batch))
        return width + gradient * -(-(-width * batch % lanes) // batch), height

    def _slots(self, outer: int, sample: int, line: int, batch: int) -> _Array:
        """Return three numbers for each vector of places, whole blocks of them."""
        lanes, item = _lanes(self.dtype), ITEM_BYTES[self.dtype]
        height, width = self.places
        if self.joined:  # all lines are one
            height, width = 1, (height - 1) * self.line + width
        width *= batch
        n, y, x = np.ix_(np.arange(outer), np.arange(height), np.arange(0, width, lanes))
        begins = (n * sample + y * line + x) * item
        results = n * self.channels * self.out_row + (y * self.line * batch + x) * item
        lane = x[..., None] + np.arange(lanes)
        inside = (lane < width) & (lane // batch % self.line < self.places[1])
        masks = inside @ (1 << np.arange(lanes))
        slots = np.stack(np.broadcast_arrays(begins, results, masks), -1).reshape(-1, 3)
        partial = slots[:, 2] != (1 << lanes) - 1
        slots, self.full = slots[np.argsort(partial, kind="stable")], int(np.sum(~partial))
        self.count, self.blocks = len(slots), -(-len(slots) // self.vectors)
        whole = np.zeros((self.blocks * self.vectors, 3), np.int64)
        whole[: len(slots)] = slots
        return whole

    @property
    def short(self) -> bool:
        """Whether the windows are too few for `gather` to be the faster way."""
        return self.count < SHORT and self.groups == 1

    def convolve(self, x: _Array, w: _Array, bias: _Array | None = None) -> _Array:
        """Return the result (N, O, places) of images and kernels (O, C/G, ...), plus the bias."""
        start = np.zeros(self.channels, x.dtype) if bias is None else np.ascontiguousarray(bias)
        sizes = (self.channels, self.places[0], self.line)
        out = allocator.empty(
            (*sizes, self.samples) if self.last else (self.samples, *sizes), x.dtype
        )
        self.run(self.padded(x), np.ascontiguousarray(w), start, out, self.offsets)
        if self.last:
            return out.transpose(SAMPLES_FIRST)
        return out if self.line == self.places[1] else out[..., : self.places[1]].copy()

    def run(self, image: _Array, w: _Array, start: _Array, out: _Array, offsets: _Array) -> None:
        """Compute the results of a padded image and windows of elements at these offsets."""
        kernel = _convolve(self.dtype, _lanes(self.dtype), self.rows, self.vectors, self.packs)
        each = self.channels // self.groups
        numbers = (len(offsets), each, self.blocks, self.group_bytes, self.out_row)
        steps = [self.steps] * self.packs
        arrays = (image, w, start, out, self.slots, offsets, *steps)
        run(kernel, arrays, numbers, self.blocks * self.groups)

    def gather(self, x: _Array, y: _Array, shape: Sizes) -> _Array:
        """Return the kernels' gradient (O, C/G, ...) from images and a result's gradient."""
        each, depth = self.channels // self.groups, len(self.offsets)
        out = np.zeros(shape, x.dtype)
        rows, columns = min(self.rows, 24 // self.terms), -(-depth // self.terms)
        kernel = _gather(self.dtype, _lanes(self.dtype), rows, self.terms)
        numbers = (depth, columns, each, self.group_bytes, self.out_row, self.count, self.full)
        arrays = (self.padded(x), self.lines(y), out, self.slots, self.offsets)
        run(kernel, arrays, numbers, columns * self.groups)
        return out


def windows_for(
    x: _Array, w: Any, channels: int, kernel: Sizes, places: Sizes, how: Any,
    gradient: bool = False,
) -> Windows | Depthwise | None:  # fmt: skip
    """Return the windows of images (N, C, height, width), where the kernels are the faster way.

    Args:
        w: has the dtype of the other operand.
        how: has stride, padding, dilation and groups; can be hashed.
        gradient: whether the kernels' is wanted.
    """
    if not are_served(x, w):
        return None
    return _choose(x.shape, channels, kernel, places, how, x.dtype, gradient)


def are_served(x: Any, w: Any) -> bool:
    """Tell whether there are kernels for such arrays, images (N, C, height, width)."""
    fit = x.ndim == 4 and type(x) is np.ndarray and x.dtype is w.dtype
    return fit and x.dtype.char in KINDS and engine.available()


@functools.lru_cache(256)
def _choose(
    image: Sizes, channels: int, kernel: Sizes, places: Sizes, how: Any, dtype: Any, gradient: bool
) -> Windows | Depthwise | None:
    if how.groups == image[1] == channels:
        planes = depthwise_of(image, kernel, places, how, dtype.name)
        if planes is not None:
            return planes
    n_terms = image[1] // how.groups * math.prod(kernel)
    least = LEAST if how.groups == 1 else LEAST_APART
    if image[0] * math.prod(places) * channels * n_terms < least:
        return None
    axes = (how.stride, how.padding, how.dilation)
    return Windows(image, channels, kernel, places, *axes, how.groups, dtype.name, gradient)


class _Slot:
    """A vector of places: addresses in the image and in the result, and the lanes inside."""

    def __init__(self, t: Text, slots: str, number: str, image: str, result: str) -> None:
        at = t.at(slots, t.times(number, SLOT_BYTES))
        begin, out, mask = (t.emit(f"load i64, ptr {t.at(at, 8 * f)}") for f in range(3))
        self.image, self.result = t.at(image, begin), t.at(result, out)
        bits = t.emit(f"trunc i64 {mask} to i{t.width}")
        self.inside = t.emit(f"bitcast i{t.width} {bits} to {t.mask}")


@functools.cache
def _convolve(dtype: str, lanes: int, rows: int, vectors: int, packs: bool) -> engine.Function:
    """Return the kernel of the result: blocks of `rows` channels by `vectors` slots.

    Args:
        packs: whether the slots' windows, `MOST_PACKED` terms at most, are copied side by side;
            `steps` says where. It is read, as LLVM would compute it and keep too much in registers.
    """
    t = Text(dtype, lanes)
    cells = list(itertools.product(range(rows), range(vectors)))
    sums = [t.variable() for _ in cells]
    image, weights, bias, out, slots, offsets, *steps = t.arrays(6 + packs)
    depth, each, columns, group_bytes, out_row = t.fields("i64", 5, 6 + packs)
    copies = t.emit(f"alloca [{MOST_PACKED * vectors} x {t.vector}], align 64") if packs else ""
    with t.loop("n", "%hi", start="%lo") as n:
        g, j = (t.emit(f"{how} i64 {n}, {columns}") for how in ("sdiv", "srem"))
        begin, first = t.at(image, t.times(g, group_bytes)), t.times(j, vectors)
        places = [_Slot(t, slots, t.plus(first, v), begin, out) for v in range(vectors)]

        sources, reached = [place.image for place in places], offsets
        if packs:
            copied = [t.at(copies, v, t.vector) for v in range(vectors)]
            with t.loop("k", depth) as k:
                offset, step = (
                    t.emit(f"load i64, ptr {t.at(a, k, 'i64')}") for a in (offsets, *steps)
                )
                for source, into in zip(sources, copied, strict=True):
                    t.store(t.load(t.at(source, offset)), t.at(into, step))
            sources, (reached,) = copied, steps
        with t.loop("i", each, rows) as i:
            channels, numbers = _channels(t, g, each, i, rows)
            starts = [t.spread_from(t.at(bias, c, t.scalar)) for c in channels]
            kernels = [t.at(weights, t.times(c, depth), t.scalar) for c in channels]
            for (r, _), total in zip(cells, sums, strict=True):
                t.store(starts[r], total, how="align 64")
            with t.loop("k", depth) as k:
                offset = t.emit(f"load i64, ptr {t.at(reached, k, 'i64')}")
                windows = [t.load(t.at(source, offset)) for source in sources]
                factors = [t.spread_from(t.at(kernel, k, t.scalar)) for kernel in kernels]
                for (r, v), total in zip(cells, sums, strict=True):
                    old = t.load(total, align=64)
                    t.store(t.fma(factors[r], windows[v], old), total, how="align 64")
            for r in range(rows):
                with t.when(t.emit(f"icmp slt i64 {numbers[r]}, {each}")):
                    line = t.times(channels[r], out_row)
                    for v, place in enumerate(places):
                        total = t.load(sums[r * vectors + v], align=64)
                        t.store_inside(total, t.at(place.result, line), place.inside)
    return engine.Function(t.module(KERNEL))


@functools.cache
def _gather(dtype: str, lanes: int, rows: int, terms: int) -> engine.Function:
    """Return the kernel of the kernels' gradient: blocks of `rows` channels by `terms` elements."""
    t = Text(dtype, lanes)
    cells = list(itertools.product(range(rows), range(terms)))
    sums = [t.variable() for _ in cells]
    image, result, out, slots, offsets = t.arrays(5)
    depth, columns, each, group_bytes, out_row, count, full = t.fields("i64", 7, 5)
    with t.loop("c", count, CHUNK) as chunk, t.loop("i", each, rows) as i:
        stop = t.least(t.plus(chunk, CHUNK), count)
        with t.loop("n", "%hi", start="%lo") as n:
            group, column = (t.emit(f"{how} i64 {n}, {columns}") for how in ("sdiv", "srem"))
            begin = t.at(image, t.times(group, group_bytes))
            last, first = t.plus(depth, -1), t.times(column, terms)
            elements = [t.plus(first, c) for c in range(terms)]
            reached = [t.at(offsets, t.least(element, last), "i64") for element in elements]
            away = [t.emit(f"load i64, ptr {at}") for at in reached]
            channels, numbers = _channels(t, group, each, i, rows)
            lines = [t.times(channel, out_row) for channel in channels]
            for total in sums:
                t.store(t.number(0.0), total, how="align 64")
            whole = t.least(stop, full)
            rest = t.minus(t.plus(chunk, whole), t.least(chunk, whole))
            for masked, lower, upper in ((False, chunk, whole), (True, rest, stop)):
                with t.loop("s", upper, start=lower) as s:
                    place = _Slot(t, slots, s, begin, result)
                    mask = place.inside if masked else None
                    gradients = [t.load(t.at(place.result, line)) for line in lines]
                    windows = [t.load(t.at(place.image, offset), mask) for offset in away]
                    for (r, c), total in zip(cells, sums, strict=True):
                        new = t.fma(gradients[r], windows[c], t.load(total, align=64))
                        t.store(new, total, how="align 64")
            shares = _sums_across(t, [t.load(total, align=64) for total in sums])
            for (r, c), share in zip(cells, shares, strict=True):
                inside = (f"{numbers[r]}, {each}", f"{elements[c]}, {depth}")
                with t.when(*[t.emit(f"icmp slt i64 {pair}") for pair in inside]):
                    at = t.at(out, t.plus(t.times(channels[r], depth), elements[c]), t.scalar)
                    old = t.emit(f"load {t.scalar}, ptr {at}")
                    t.do(f"store {t.scalar} {t.emit(f'fadd {t.scalar} {old}, {share}')}, ptr {at}")
    return engine.Function(t.module(KERNEL))


def _channels(t: Text, group: str, each: str, i: str, rows: int) -> tuple[list[str], list[str]]:
    """Return a block's channels, the last one again past its end, and their numbers in a group."""
    first, last = t.times(group, each), t.plus(each, -1)
    numbers = [t.plus(i, r) for r in range(rows)]
    return [t.plus(first, t.least(number, last)) for number in numbers], numbers


def _sums_across(t: Text, vectors: Sequence[str]) -> list[str]:
    """Return the sums of the lanes of each vector.

    Two vectors become one, in which runs of half as many lanes are of the one and the other by
    turns; the halves that made them were added.
    """
    lines, length = [(vector, [n]) for n, vector in enumerate(vectors)], t.width
    while length > 1:
        runs, length = range(0, t.width, length), length // 2
        low = [n + k + i for k in runs for n in (0, t.width) for i in range(length)]
        lines += lines[-1:] * (len(lines) % 2)
        lines = [
            (
                t.add(t.shuffle(a, b, low), t.shuffle(a, b, [lane + length for lane in low])),
                [n for both in zip(of_a, of_b, strict=True) for n in both],
            )
            for (a, of_a), (b, of_b) in zip(lines[::2], lines[1::2], strict=True)
        ]
    places = {n: (line, lane) for line, of in lines for lane, n in enumerate(of)}
    return [t.lane(t.vector, *places[n]) for n in range(len(vectors))]
