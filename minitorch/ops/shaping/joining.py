"""Values put side by side, and cut apart again; rolled round, which is both."""

import builtins
import functools
import itertools
import math
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ...arrays.allocator import rows_of
from ...arrays.library import Array, Namespace, as_dtype
from ...arrays.promotion import promote_types
from ...arrays.shapes import INTEGERS, agree, axis
from ...errors import ArgumentError, DTypeError, ShapeError
from ...op import Gradients, Kind, Methods, Op, ReadsShapes, Spec, Value, apply
from ..elementwise.casting import cast_to
from .indexing import Slice, narrow
from .movement import AlongDim, insert_axes, reshape, sizes


class Cat(ReadsShapes, AlongDim):
    """The inputs one after another along the axis `dim`."""

    name = "cat"

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return xp.concat(arrays, axis=self.dim)

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape with the sizes along `dim` added.

        Raises:
            ShapeError: another axis differs; names it.
        """
        first = specs[0].shape
        for spec in specs[1:]:
            self._compare(first, spec.shape)
        sizes = [spec.shape[self.dim] for spec in specs]
        total = None if None in sizes else builtins.sum(size or 0 for size in sizes)
        return Spec((*first[: self.dim], total, *first[self.dim + 1 :]), specs[0].dtype)

    def _compare(self, first: Any, other: Any) -> None:
        if len(first) != len(other):
            raise ShapeError(f"cat: got shapes {first} and {other}, expected equally many axes.")
        for i, (a, b) in enumerate(zip(first, other, strict=True)):
            if i != self.dim and a != b and None not in (a, b):
                raise ShapeError(
                    f"cat: got shapes {first} and {other} to join along axis {self.dim}, expected "
                    f"the others equal: on axis {i} {a} is not {b}."
                )

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Each input gets its part of the gradient."""
        if any(x.shape[self.dim] is None for x in node.inputs):  # as only a run can tell
            pieces = [Piece(self.dim, i) for i in range(len(node.inputs))]
            grads = [apply(piece, out_grad, *node.inputs) for piece in pieces]
            return tuple(g if wanted else None for g, wanted in zip(grads, node.wants, strict=True))
        ends = itertools.accumulate([x.shape[self.dim] for x in node.inputs], initial=0)
        return _take(_pieces(self.dim, tuple(itertools.pairwise(ends))), out_grad, node.wants)


class Piece(Op):
    """The part of the first input that input 1 + i was joined at: as large, at its place."""

    reads_inputs = reads_output = False

    def __init__(self, dim: int, i: int) -> None:
        self.dim, self.i = dim, i

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return arrays[0][self._slices(arrays)]

    def infer(self, *specs: Spec) -> Spec:
        return Spec(specs[1 + self.i].shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        parts = node.inputs[1:]
        return apply(InPlace(self.dim, self.i), out_grad, *parts), *(None for _ in parts)

    def _slices(self, arrays: Sequence[Array]) -> tuple[slice, ...]:
        sizes = [array.shape[self.dim] for array in arrays[1:]]
        start = builtins.sum(sizes[: self.i])
        return (*[slice(None)] * self.dim, slice(start, start + sizes[self.i]))


class InPlace(Piece):
    """The first input where input 1 + i was among the joined ones, zeros for the others."""

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return an array as large as all of them together."""
        x, *parts = arrays
        total = builtins.sum(part.shape[self.dim] for part in parts)
        shape = (*x.shape[: self.dim], total, *x.shape[self.dim + 1 :])
        out = xp.zeros(shape, dtype=x.dtype)
        out[self._slices(arrays)] = x
        return out

    def infer(self, *specs: Spec) -> Spec:
        joined = Cat(self.dim).infer(*[Spec(s.shape, specs[0].dtype) for s in specs[1:]])
        return Spec(joined.shape, specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        parts = node.inputs[1:]
        return apply(Piece(self.dim, self.i), out_grad, *parts), *(None for _ in parts)


class Stack(ReadsShapes, AlongDim):
    """Inputs of one shape along a new axis `dim`: of tensors, whose steps cost time each."""

    name = "stack"

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return the arrays joined; of NumPy's as along the axis that is there, which is faster."""
        d, shape = self.dim, arrays[0].shape
        if xp is np and d == 1 == len(shape):
            turned: Array = np.concatenate(arrays)
            return rows_of(turned.reshape(len(arrays), *shape).T, (*shape, len(arrays)))
        if xp is not np or d == len(shape):
            return xp.stack(arrays, axis=d)
        joined: Array = np.concatenate(arrays, axis=d)
        return joined.reshape(*shape[:d], len(arrays), *shape[d:])

    def infer(self, *specs: Spec) -> Spec:
        shape = specs[0].shape
        return Spec((*shape[: self.dim], len(specs), *shape[self.dim :]), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return _take(_slices(self.dim, len(node.wants)), out_grad, node.wants)


def _take(parts: Sequence[Slice], x: Any, wants: Sequence[bool]) -> Sequence[Any]:
    """Return the slices of `x` that are wanted, of what may be many."""
    if type(x) is np.ndarray:
        return [part.compute(np, x) for part in parts]
    return [apply(part, x) if wanted else None for part, wanted in zip(parts, wants, strict=True)]


@functools.lru_cache(64)
def _slices(dim: int, count: int) -> list[Slice]:
    """Return the operators that take the slices along an axis."""
    before = (slice(None),) * dim
    return [Slice((*before, i)) for i in range(count)]


def cat(tensors: Sequence[Kind], dim: int = 0) -> Kind:
    """Return the values one after another along `dim`; all other axes are equal.

    Raises:
        ArgumentError: there are none.
        ShapeError: shapes differ elsewhere, or a value has no axes.
    """
    values = list(tensors)
    if not values:
        raise ArgumentError("cat: got no tensors, expected at least one.")
    for value in values:
        if not hasattr(value, "shape"):
            raise DTypeError(f"cat: got a {type(value).__name__}, expected tensors only.")
    shapes = [value.shape for value in values]
    ranks = [*map(len, shapes)]
    if 0 in ranks:
        raise ShapeError("cat: got a 0-d value, expected at least 1 axis. Use stack.")
    dtypes = [value.dtype for value in values]
    if dtypes.count(dtypes[0]) < len(dtypes):
        dtype = functools.reduce(promote_types, map(as_dtype, dtypes))
        values = [cast_to(value, dtype) for value in values]
    rank = builtins.max(ranks)
    if rank > 1 in ranks:  # an empty vector is nothing beside what has more axes
        values = [v for v, shape in zip(values, shapes, strict=True) if tuple(shape) != (0,)]
    return apply(Cat(axis(dim, rank, "cat")), *values)


def stack(tensors: Sequence[Kind], dim: int = 0) -> Kind:
    """Return the values along a new axis `dim`; their shapes are equal.

    Raises:
        ArgumentError: there are none.
        ShapeError: shapes differ.
    """
    values = list(tensors)
    if not values:
        raise ArgumentError("stack: got no tensors, expected at least one.")
    shapes = [tuple(value.shape) for value in values]
    for shape in shapes if shapes.count(shapes[0]) < len(shapes) else ():
        if not agree(shape, shapes[0]):
            raise ShapeError(f"stack: got shapes {shapes[0]} and {shape}, expected them equal.")
    d = axis(dim, len(shapes[0]) + 1, "stack")
    dtype = values[0].dtype
    if all(getattr(v, "has_numbers", False) and v.dtype is dtype for v in values):
        return apply(Stack(d), *values)
    return cat([insert_axes(value, (d,)) for value in values], d)


def hstack(tensors: Sequence[Kind]) -> Kind:
    """Return the values side by side: along axis 1, vectors along axis 0."""
    values = [value if value.shape else reshape(value, 1) for value in tensors]
    return cat(values, 0 if values and len(values[0].shape) == 1 else 1)


def vstack(tensors: Sequence[Kind]) -> Kind:
    """Return the values as rows, one below another."""
    return cat([v if len(v.shape) > 1 else reshape(v, 1, -1) for v in tensors], 0)


def split(x: Kind, split_size: int | Sequence[int], dim: int = 0) -> tuple[Kind, ...]:
    """Return `x` cut along `dim` into pieces of one size (the last may be smaller), or of several.

    Raises:
        ShapeError: given sizes do not add up to the size of the axis, or there is no axis.
    """
    if not x.shape:
        raise ShapeError("split: got a 0-d value, expected at least 1 axis.")
    d = axis(dim, len(x.shape), "split")
    total = int(x.shape[d])
    if isinstance(split_size, INTEGERS):
        if split_size < 0 or (split_size == 0 and total):
            raise ShapeError(f"split: got size {split_size}, expected 1 or more.")
        count = builtins.max(1, math.ceil(total / split_size) if split_size else 1)
        starts = [i * split_size for i in range(count)]
        return _cut(x, d, [(s, builtins.min(s + split_size, total)) for s in starts])
    pieces = list(sizes((split_size,)))
    if builtins.sum(pieces) != total or builtins.min(pieces, default=0) < 0:
        raise ShapeError(f"split: sizes do not add up: got {pieces} for axis {d} of size {total}.")
    ends = itertools.accumulate(pieces, initial=0)
    return _cut(x, d, itertools.pairwise(ends))


def _cut(x: Kind, dim: int, bounds: Iterable[tuple[int, int]]) -> tuple[Kind, ...]:
    """Return the slices of `x` between these positions on an axis."""
    return tuple([apply(part, x) for part in _pieces(dim, tuple(bounds))])


@functools.lru_cache(64)
def _pieces(dim: int, bounds: tuple[tuple[int, int], ...]) -> list[Slice]:
    """Return the operators that take these slices along an axis."""
    before = (slice(None),) * dim
    return [Slice((*before, slice(start, stop))) for start, stop in bounds]


def chunk(x: Kind, chunks: int, dim: int = 0) -> tuple[Kind, ...]:
    """Return `x` cut along `dim` into `chunks` pieces of equal size, the last maybe smaller.

    Raises:
        ArgumentError: not at least one chunk.
    """
    if operator.index(chunks) < 1:
        raise ArgumentError(f"chunk: got {chunks} chunks, expected 1 or more.")
    if not x.shape:
        raise ShapeError("chunk: got a 0-d value, expected at least 1 axis.")
    d = axis(dim, len(x.shape), "chunk")
    size = math.ceil(x.shape[d] / chunks)
    return split(x, size, d) if size else tuple(narrow(x, d, 0, 0) for _ in range(chunks))


def tensor_split(x: Kind, indices_or_sections: object, dim: int = 0) -> tuple[Kind, ...]:
    """Return `x` cut along `dim` into so many pieces of nearly equal size, or before each index.

    Raises:
        ArgumentError: not at least one piece.
        ShapeError: a number has no axis to cut.
    """
    if not x.shape:
        raise ShapeError("tensor_split: got a 0-d value, expected at least 1 axis.")
    d = axis(dim, len(x.shape), "tensor_split")
    total, cut = x.shape[d], indices_or_sections
    cut = cut.tolist() if hasattr(cut, "tolist") else cut
    if isinstance(cut, int):
        if cut < 1:
            raise ArgumentError(f"tensor_split: got {cut} pieces, expected 1 or more.")
        cut = [i * (total // cut) + builtins.min(i, total % cut) for i in range(1, cut)]
    bounds = [0, *sizes((cut,)), total]
    places = [slice(a, b).indices(total)[:2] for a, b in itertools.pairwise(bounds)]
    return _cut(x, d, [(a, builtins.max(a, b)) for a, b in places])


def unbind(x: Kind, dim: int = 0) -> tuple[Kind, ...]:
    """Return the slices along `dim`, without that axis."""
    d = axis(dim, len(x.shape), "unbind")
    if isinstance(x, Value):  # as `apply` does, for each of what may be many
        return tuple([x._apply(part, (x,)) for part in _slices(d, x.shape[d])])
    return tuple([apply(part, x) for part in _slices(d, x.shape[d])])


def roll(x: Kind, shifts: object, dims: int | Sequence[int] | None = ()) -> Kind:
    """Return `x` moved by `shifts` along `dims`, or, without those, as one vector.

    What leaves at one end enters at the other.
    """
    moves = sizes((shifts,))
    places = () if dims is None else sizes((dims,))
    if not places:
        return reshape(roll(reshape(x, -1), moves, 0), tuple(x.shape))
    if len(moves) != len(places):
        raise ShapeError(
            f"roll: got {len(moves)} shifts for {len(places)} axes, expected one each."
        )
    for move, place in zip(moves, places, strict=True):
        d = axis(place, len(x.shape), "roll")
        cut = x.shape[d] - move % builtins.max(x.shape[d], 1)
        x = cat((narrow(x, d, cut, x.shape[d] - cut), narrow(x, d, 0, cut)), d)
    return x
