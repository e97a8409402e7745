"""Borders around a tensor: of one number, or copied from within."""

import builtins
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, Index, Namespace, copy_array, native_device_of
from ...arrays.shapes import Shape
from ...errors import ArgumentError, ShapeError
from ...op import Gradients, Kind, Methods, Spec, apply
from ..unknown_sizes import defer_unknown_sizes
from .movement import Movement

SHORT = 2**9  # bytes of a row, up to which NumPy takes longer for the call than for the copy


class Pad(Movement):
    """`x` with a border of one number: (before, after) for each axis, negative crops."""

    def __init__(self, widths: tuple[tuple[int, int], ...], value: float = 0.0) -> None:
        self.widths, self.value = widths, value
        if value:  # which has another pattern of bits in bfloat16
            self.halves = "as float32"

    def _shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return tuple(n + a + b for n, (a, b) in zip(shape, self.widths, strict=True))

    def compute(self, xp: Namespace, x: Array) -> Array:
        out = _empty(xp, self._shape(x.shape), x)
        into, of = [], []
        for d, (size, (before, after)) in enumerate(zip(x.shape, self.widths, strict=True)):
            start, stop = builtins.max(before, 0), size + before + builtins.min(after, 0)
            for border in [slice(0, start)] * (before > 0) + [slice(stop, None)] * (after > 0):
                out[(*(slice(None),) * d, border)] = self.value
            into.append(slice(start, stop))
            of.append(slice(builtins.max(-before, 0), size + builtins.min(after, 0)))
        _copy(out[tuple(into)], x[tuple(of)])
        return out

    def infer(self, *specs: Spec) -> Spec:
        sizes = zip(specs[0].shape, self.widths, strict=True)
        shape = tuple(None if n is None else n + a + b for n, (a, b) in sizes)
        return Spec(shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(Pad(tuple((-a, -b) for a, b in self.widths)), out_grad),)


def _copy(into: Array, of: Array) -> None:
    """Copy an array; short rows as one element of many bytes each, which takes a call less."""
    if type(of) is np.ndarray and of.ndim and 0 < of.shape[-1] * of.itemsize <= SHORT:
        row = np.dtype((np.void, of.shape[-1] * of.itemsize))
        if of.strides[-1] == of.itemsize == into.strides[-1]:
            into, of = into.view(row), of.view(row)
    into[...] = of


def _empty(xp: Namespace, shape: Sequence[int], like: Array) -> Array:
    if xp is np:
        return allocator.empty(tuple(shape), like.dtype)
    return xp.empty(tuple(shape), dtype=like.dtype, **native_device_of(like))


@defer_unknown_sizes
def pad(
    input: Kind, pad: Sequence[int], mode: str = "constant", value: float | None = None
) -> Kind:
    """Return `input` with a border: (before, after) of the last axis, then of the one before, ...

    Args:
        input: any shape.
        pad: widths in pairs, last axis first; negative ones crop.
        mode: "constant", "reflect", "replicate" or "circular".
        value: the number of a constant border, 0 unless given.

    Raises:
        ArgumentError: an unknown mode, widths not in pairs or for too many axes.
        ShapeError: a reflecting or circular border wider than the value.
    """
    rank, widths = len(input.shape), [*map(operator.index, pad)]
    if len(widths) % 2 or len(widths) > 2 * rank:
        raise ArgumentError(
            f"pad: got {len(widths)} widths, expected pairs for {rank} axes at most."
        )
    pairs = [(0, 0)] * (rank - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    for d, (n, (a, b)) in enumerate(zip(input.shape, pairs, strict=True)):
        if n is not None and n + a + b < 0:
            raise ShapeError(
                f"pad: got {(a, b)} for axis {d} of size {n}: less than nothing is left."
            )
    if mode == "constant":
        return apply(Pad(tuple(pairs), 0.0 if value is None else value), input)
    if mode not in ("reflect", "replicate", "circular"):
        raise ArgumentError(
            f"pad: got mode {mode!r}, expected 'constant', 'reflect', 'replicate' or 'circular'."
        )
    if mode == "circular" and min(widths) < 0:  # what is cropped does not come round
        input = apply(Pad(tuple((min(a, 0), min(b, 0)) for a, b in pairs)), input)
        pairs = [(max(a, 0), max(b, 0)) for a, b in pairs]
    sizes = zip(input.shape, pairs, strict=True)
    input = apply(Surround([_border(n, max(a, 0), max(b, 0), mode) for n, (a, b) in sizes]), input)
    if any(min(pair) < 0 for pair in pairs):
        input = apply(Pad(tuple((min(a, 0), min(b, 0)) for a, b in pairs)), input)
    return input


Border = tuple[list[int], list[int]]
"""The positions on an axis that the elements before it, and behind it, are copied from."""


def _border(size: int, before: int, after: int, mode: str) -> Border:
    """Return the border of an axis."""
    widest = builtins.max(before, after)
    if not widest:  # the axis may have no size that is known
        return [], []
    if mode != "replicate" and widest > (size if mode == "circular" else size - 1):
        raise ShapeError(f"pad: got a {mode} border of {widest} for size {size}, expected less.")
    places = np.arange(-before, size + after)
    if mode == "replicate":
        places = np.clip(places, 0, size - 1)
    elif mode == "circular":
        places %= size
    else:
        places = size - 1 - np.abs(size - 1 - np.abs(places))
    return places[:before].tolist(), places[before + size :].tolist()


class _Surrounding(Movement):
    """What a border that is copied from within, axis by axis, and its gradient share."""

    def __init__(self, borders: Sequence[Border]) -> None:
        self.borders = borders

    def _inside(self, sizes: Sequence[int]) -> tuple[Index, ...]:
        starts = [len(before) for before, _ in self.borders]
        return tuple(slice(start, start + n) for start, n in zip(starts, sizes, strict=True))

    def _copies(self, sizes: Sequence[int]) -> list[tuple[tuple[Index, ...], ...]]:
        """Return where each slice of the border is, and where what it copies is, in order."""
        copies: list[tuple[tuple[Index, ...], ...]] = []
        for d, (n, (before, after)) in enumerate(zip(sizes, self.borders, strict=True)):
            lead, first = (slice(None),) * d, len(before)
            places = (*range(first), *range(first + n, first + n + len(after)))
            sources = (first + source for source in (*before, *after))
            copies += [((*lead, i), (*lead, j)) for i, j in zip(places, sources, strict=True)]
        return copies

    def _grow(self, shape: Shape, sign: int) -> Any:
        sizes = zip(shape, self.borders, strict=True)
        return tuple(None if n is None else n + sign * len(a + b) for n, (a, b) in sizes)


class Surround(_Surrounding):
    """`x` with a border whose elements are copied from within."""

    def compute(self, xp: Namespace, x: Array) -> Array:
        out = _empty(xp, self._grow(x.shape, 1), x)
        out[self._inside(x.shape)] = x
        for border, source in self._copies(x.shape):
            out[border] = out[source]
        return out

    def infer(self, *specs: Spec) -> Spec:
        return Spec(self._grow(specs[0].shape, 1), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Return the inside with what the border has added to what it was copied from."""
        return (apply(SurroundGradient(self.borders), out_grad),)


class SurroundGradient(_Surrounding):
    """The gradient of `Surround`."""

    halves = "as float32"

    def compute(self, xp: Namespace, g: Array) -> Array:
        sizes, sums = self._grow(g.shape, -1), copy_array(g)
        for border, source in reversed(self._copies(sizes)):
            sums[source] += sums[border]
        return copy_array(sums[self._inside(sizes)])

    def infer(self, *specs: Spec) -> Spec:
        return Spec(self._grow(specs[0].shape, -1), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(Surround(self.borders), out_grad),)
