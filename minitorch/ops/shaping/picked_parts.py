"""Gradients of picks: 0 but where elements were picked, and kept as that part alone.

May import: NumPy, arrays, adding, indexing, joining.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays.allocator import empty_as, zeros_as
from ...arrays.library import Array
from .adding import add_at
from .indexing import Slice, Take, locate
from .joining import Stack


class Part:
    """A gradient on plain arrays that is 0 but for what was picked: `values` at `pattern`.

    Parts of one value are added up in one array; the zeros around them are written once, or never:
    where there is a gradient to add to, and where slices leave none, as those of `unbind` do.
    """

    __array_ufunc__ = None  # array + part is the part's to add

    __slots__ = ("_pieces", "_size", "_whole", "like", "values")

    def __init__(self, values: Array, pattern: Any, indices: Sequence[Array], like: Array) -> None:
        self.values, self.like = values, like
        self._pieces, self._size = [(values, pattern, indices)], values.size
        self._whole: Array | None = None

    def add_to(self, whole: Array) -> None:
        """Add the values to `whole`, in place."""
        if self._whole is not None:
            whole += self._whole
            return
        for values, pattern, indices in self._pieces:
            if not indices:
                part = whole[pattern if Ellipsis in pattern else (*pattern, ...)]
                part += values
                continue
            view, index = locate(whole, pattern, tuple(indices))
            if index:
                add_at(view, index, values)
            else:
                view += values

    def dense(self) -> Array:
        """Return the gradient with its zeros: an array that lies in memory as the value does."""
        if self._whole is None:
            whole = _join(self._pieces, self.like)
            if whole is None:
                whole = zeros_as(self.like)
                self.add_to(whole)
            self._whole, self._pieces = whole, []
        return self._whole

    def __add__(self, other: Any) -> "Part":
        if type(other) is Part and self._whole is None is other._whole:
            size = self._size + other._size
            if size <= self.like.size:  # so that slices that overlap take no more memory
                self._pieces += other._pieces
                self._size = size
                return self
        whole = self.dense()
        if type(other) is Part:
            other.add_to(whole)
        else:
            whole += other
        return self

    def __radd__(self, other: Array) -> "Part":
        whole = np.array(other)
        self.add_to(whole)
        self._whole = whole
        return self


def _join(pieces: Sequence[tuple[Array, Any, Any]], like: Array) -> Array | None:
    """Return slices along one axis side by side, if they have each element of it once."""
    patterns = [pattern for _, pattern, _ in pieces]
    order = tiling(patterns, like.shape)
    kinds = {type(pattern[-1]) for pattern in patterns if pattern}
    if order is None or len(pieces) == 1 or len(kinds) > 1:
        return None
    axis, values = len(patterns[0]) - 1, [pieces[i][0] for i in order]
    if kinds == {slice}:
        return np.concatenate(values, axis, out=empty_as(like, like.shape))
    if like.flags.c_contiguous:
        return Stack(axis).compute(np, *values)
    return np.stack(values, axis, out=empty_as(like, like.shape))


def tiling(patterns: Sequence[tuple[Any, ...]], shape: Sequence[int]) -> list[int] | None:
    """Return the order in which picks along one axis have each element once; None if none has."""
    axis = len(patterns[0]) - 1
    whole = (slice(None),) * axis
    if not 0 <= axis < len(shape) or any(pattern[:-1] != whole for pattern in patterns):
        return None
    return _order([pattern[-1] for pattern in patterns], shape[axis])


def _order(items: Sequence[Any], size: int) -> list[int] | None:
    """Return the order in which numbers and slices have each position once; None if none has."""
    bounds = [
        (item, item + 1)
        if type(item) is int
        else item.indices(size)[:2]
        if type(item) is slice and item.step in (None, 1)
        else (-1, -1)
        for item in items
    ]
    order = sorted(range(len(items)), key=bounds.__getitem__)
    ends = [0, *(bounds[i][1] for i in order)]
    return order if ends == [*(bounds[i][0] for i in order), size] else None


PICKING = frozenset([Slice, Take])
"""The operators whose gradient is 0 but where they picked."""


def part_of(op: Any, grad: Any, inputs: Sequence[Any]) -> Sequence[Any] | None:
    """Return what `Slice` or `Take` of tensors hands back on NumPy arrays; None elsewhere."""
    x = inputs[0].array
    if type(grad) is not np.ndarray or type(x) is not np.ndarray or not x.ndim:
        return None
    if type(op) is Slice:
        return (Part(grad, op.index, (), x),)
    indices = [source.array for source in inputs[1:]]
    return (Part(grad, op.pattern, indices, x), *(None for _ in indices))
