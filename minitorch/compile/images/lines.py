"""Lines of images: what kernels that read and write them where they lie have in common.

A line is a row of one plane (N, C, H, W), or of many samples' that lie last (C, H, W, N). A row
outside of the image is read from a line of zeros, columns outside are lanes that a mask leaves out.

May import: allocator, panels, tasks, text.
"""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from .. import panels
from ..tasks import MANY
from ..text import Text

_Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
SAMPLES_LAST, SAMPLES_FIRST = (1, 2, 3, 0), (3, 0, 1, 2)  # `np.moveaxis` takes ten times as long


def move_samples(array: _Array, batch: bool) -> _Array:
    """Return a copy of (N, C, H, W) with the samples last, or first."""
    if not batch:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array.transpose(SAMPLES_LAST)).transpose(SAMPLES_FIRST)


def put_in_order(array: _Array) -> tuple[_Array, bool]:
    """Return the array, or a copy, whose lines are runs of memory; whether samples lie last."""
    batch = len(array) >= MANY and array.strides[0] == array.itemsize
    lines = array.transpose(SAMPLES_LAST)[0] if batch else array
    if not lines.flags.c_contiguous:
        array = move_samples(array, batch)
    return array, batch


def empty_images(shape: Sizes, dtype: Any, batch: bool) -> _Array:
    """Return new images (N, C, H, W), whose samples lie last or first."""
    n, c, high, wide = shape
    out = allocator.empty((c, high, wide, n) if batch else shape, dtype)
    return out.transpose(SAMPLES_FIRST) if batch else out


def describe(array: _Array, batch: bool) -> Sizes:
    """Return samples; bytes from one to the next, of channels and rows too; rows, a line."""
    n, _, high, wide = array.shape
    steps = array.strides[:3]
    return (1, 0, *steps[1:], high, wide * n) if batch else (n, *steps, high, wide)


def lanes_for(dtype: str, length: int) -> int:
    """Return the lanes of vectors that a run of numbers fills best."""
    lanes = panels.lanes(dtype)
    while lanes > 4 and length <= lanes // 2:
        lanes //= 2
    return lanes


class Plane:
    """How an array of images lies: the numbers of `describe`."""

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


class Head:
    """The first lines of a kernel: the operands from its table.

    Args:
        arrays, planes: how many there are, those in front of the zeros; of which planes are.
        numbers: how many follow the planes'.
    """

    def __init__(
        self, dtype: str, lanes: int, arrays: int, planes: Sequence[int], numbers: int
    ) -> None:
        t = self.t = Text(dtype, lanes)
        *self.arrays, self.zeros = t.arrays(arrays + 1)
        values = t.fields("i64", 6 * len(planes) + numbers, arrays + 1)
        self.planes = [
            Plane(t, self.arrays[a], values[6 * i : 6 * i + 6]) for i, a in enumerate(planes)
        ]
        self.numbers = values[6 * len(planes) :]

    def inside(self, position: str, line: str) -> str:
        """Return the mask of the lanes, counted from a position, that lie in [0, line)."""
        t = self.t
        kind, counts = t.of("i32"), ", ".join(f"i32 {i}" for i in range(t.width))
        first, end = (t.spread("i32", t.emit(f"trunc i64 {v} to i32")) for v in (position, line))
        lanes = t.emit(f"add {kind} <{counts}>, {first}")
        return t.emit(f"icmp ult {kind} {lanes}, {end}")

    def pick_lanes(self, vectors: Sequence[str], numbers: Sequence[int]) -> str:
        """Return the lanes that have these numbers in vectors behind each other."""
        width = self.t.width
        vector = vectors[0]
        for v, other in enumerate(vectors[1:], 1):
            lanes = [
                width + number % width
                if number // width == v
                else (number if v == 1 and number < width else lane)
                for lane, number in enumerate(numbers)
            ]
            vector = self.t.shuffle(vector, other, lanes)
        return vector

    def weights(self, base: str, channel: str, size: Sizes) -> dict[Sizes, str]:
        """Return a channel's numbers, each in all lanes."""
        t, (high, wide) = self.t, size
        first = t.at(base, t.times(channel, high * wide), t.scalar)
        return {
            (i, j): t.spread_from(t.at(first, i * wide + j, t.scalar))
            for i, j in itertools.product(range(high), range(wide))
        }
