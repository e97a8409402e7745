"""Parts of matrices and windows along an axis: diagonals, triangles, unfolding, grids."""

import builtins
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace, native_device_of, windows
from ...arrays.shapes import axis
from ...errors import ArgumentError, ShapeError
from ...op import Gradients, KeepsSpec, Kind, Methods, Spec, apply
from ..elementwise.casting import clone
from ..elementwise.compiled import where
from ..unknown_sizes import defer_unknown_sizes
from .indexing import getitem
from .movement import Movement, movedim, reshape


def _triangle(name: str, x: Kind, diagonal: int, lower: bool) -> Kind:
    if len(x.shape) < 2:
        raise ShapeError(f"{name}: got shape {tuple(x.shape)}, expected at least 2 axes.")
    return apply(Triangle(diagonal, lower), x)


class Triangle(KeepsSpec, Movement):
    """The last two axes with zeros on one side of a diagonal."""

    halves = "as float32"

    def __init__(self, diagonal: int, lower: bool) -> None:
        self.diagonal, self.lower = diagonal, lower

    @property
    def name(self) -> str:
        """Torch's name."""
        return "tril" if self.lower else "triu"

    def compute(self, xp: Namespace, x: Array) -> Array:
        if xp is not np:
            return (xp.tril if self.lower else xp.triu)(x, k=self.diagonal)
        inside = _inside_triangle(*x.shape[-2:], self.diagonal, self.lower)
        triangle: Array = where(inside, x, x.dtype.type())
        return triangle

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(self, out_grad),)


@functools.lru_cache(8)
def _inside_triangle(rows: int, columns: int, diagonal: int, lower: bool) -> Array:
    below: Array = np.tri(rows, columns, diagonal if lower else diagonal - 1, bool)
    return below if lower else ~below


def tril(x: Kind, diagonal: int = 0) -> Kind:
    """Return the lower triangle, up to the `diagonal`-th diagonal above the main one."""
    return _triangle("tril", x, diagonal, lower=True)


def triu(x: Kind, diagonal: int = 0) -> Kind:
    """Return the upper triangle, from the `diagonal`-th diagonal above the main one."""
    return _triangle("triu", x, diagonal, lower=False)


class Diagonal(Movement):
    """A diagonal of the last two axes, as the last axis. A view."""

    views = True

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the diagonal; NumPy's is read-only unless told."""
        diagonal = xp.linalg.diagonal(x, offset=self.offset)
        if isinstance(diagonal, np.ndarray):
            diagonal.flags.writeable = x.flags.writeable
        return diagonal

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(OnDiagonal(self.offset, node.inputs[0].shape[-2:]), out_grad),)


class OnDiagonal(Movement):
    """Zeros with the last axis of the input on a diagonal of two axes of these sizes."""

    def __init__(self, offset: int, sizes: Sequence[Any]) -> None:
        self.offset, self.sizes = offset, tuple(map(int, sizes))  # a TypeError until they are known

    def compute(self, xp: Namespace, x: Array) -> Array:
        shape = (*x.shape[:-1], *self.sizes)
        out: Array = xp.zeros(shape, dtype=x.dtype, **native_device_of(x))
        diagonal = xp.linalg.diagonal(out, offset=self.offset)
        if xp is np:
            diagonal.flags.writeable = True
        diagonal[...] = x
        return out

    def infer(self, *specs: Spec) -> Spec:
        return Spec((*specs[0].shape[:-1], *self.sizes), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(Diagonal(self.offset), out_grad),)


def diagonal(x: Kind, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Kind:
    """Return a diagonal of the axes `dim1` and `dim2`, as the last axis."""
    rank = len(x.shape)
    a, b = axis(dim1, rank, "diagonal"), axis(dim2, rank, "diagonal")
    if a == b or rank < 2:
        raise ShapeError(f"diagonal: got axes {dim1} and {dim2} of {rank}, expected two different.")
    turned = x if (a, b) == (rank - 2, rank - 1) else movedim(x, (a, b), (-2, -1))
    return apply(Diagonal(offset), turned)


def diag(x: Kind, diagonal: int = 0) -> Kind:
    """Return a vector as a diagonal matrix, or the diagonal of a matrix."""
    if len(x.shape) == 1:
        size = x.shape[0] + builtins.abs(diagonal)
        return apply(OnDiagonal(diagonal, (size, size)), x)
    if len(x.shape) != 2:
        raise ShapeError(f"diag: got shape {tuple(x.shape)}, expected 1 or 2 axes.")
    return clone(apply(Diagonal(diagonal), x))


def diagonal_matrices(x: Kind) -> Kind:
    """Return each vector (..., n) as a diagonal matrix (..., n, n)."""
    return apply(OnDiagonal(0, (x.shape[-1], x.shape[-1])), x)


def trace(x: Kind) -> Kind:
    """Return the sum of the diagonal of a matrix."""
    if len(x.shape) != 2:
        raise ShapeError(f"trace: got shape {tuple(x.shape)}, expected 2 axes.")
    return diag(x).sum()


class Unfold(Movement):
    """Windows of `size` along an axis, `step` apart, as a new last axis. A view."""

    views = True

    def __init__(self, dim: int, size: int, step: int) -> None:
        self.dim, self.size, self.step = dim, size, step

    def compute(self, xp: Namespace, x: Array) -> Array:
        return windows(x, (self.dim,), (self.size,), (self.step,), (1,))

    def infer(self, *specs: Spec) -> Spec:
        shape = list(specs[0].shape)
        length = shape[self.dim]
        shape[self.dim] = None if length is None else (length - self.size) // self.step + 1
        return Spec((*shape, self.size), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        """Each element gets the gradients of all windows that it is in."""
        return (apply(Fold(self.dim, self.step, node.inputs[0].shape[self.dim]), out_grad),)


class Fold(Movement):
    """Windows, the last axis, added up at their places along an axis of size `length`."""

    halves = "as float32"

    def __init__(self, dim: int, step: int, length: int) -> None:
        self.dim, self.step, self.length = dim, step, length

    def compute(self, xp: Namespace, x: Array) -> Array:
        count, size = x.shape[self.dim], x.shape[-1]
        shape = list(x.shape[:-1])
        shape[self.dim] = self.length
        out = xp.zeros(tuple(shape), dtype=x.dtype, **native_device_of(x))
        lead = (slice(None),) * self.dim
        for i in range(size):
            stop = i + (count - 1) * self.step + 1
            out[(*lead, slice(i, stop, self.step))] += x[..., i]
        return out

    def infer(self, *specs: Spec) -> Spec:
        shape = list(specs[0].shape[:-1])
        shape[self.dim] = self.length
        return Spec(tuple(shape), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(Unfold(self.dim, node.inputs[0].shape[-1], self.step), out_grad),)


def unfold(x: Kind, dimension: int, size: int, step: int) -> Kind:
    """Return the windows of `size` along an axis, `step` apart, as a new last axis.

    Raises:
        ShapeError: the window is larger than the axis.
        ArgumentError: the step is not positive.
    """
    d = axis(dimension, len(x.shape), "unfold")
    row = x if x.shape else reshape(x, 1)
    if size < 0 or size > row.shape[d]:
        raise ShapeError(f"unfold: got size {size} for axis {d} of size {row.shape[d]}.")
    if step < 1:
        raise ArgumentError(f"unfold: got step {step}, expected 1 or more.")
    windows_of_x = apply(Unfold(d, size, step), row)
    return windows_of_x if x.shape else reshape(windows_of_x, size)


def repeat_interleave(
    x: Kind, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Kind:
    """Return `x` with each slice along `dim` repeated; one count for all, or one each."""
    row = reshape(x, -1) if dim is None else x
    d = 0 if dim is None else axis(dim, len(x.shape), "repeat_interleave")
    counts = repeats if isinstance(repeats, int) else np.asarray(repeats.tolist())
    places = np.repeat(np.arange(row.shape[d]), counts)
    return getitem(row, (*(slice(None),) * d, places))


@defer_unknown_sizes
def meshgrid(*values: Any, indexing: str = "ij") -> tuple[Any, ...]:
    """Return each vector stretched over the grid of all; "xy" exchanges the first two axes."""
    vectors = list(values[0] if isinstance(values[0], list | tuple) else values)
    if indexing not in ("ij", "xy"):
        raise ArgumentError(f"meshgrid: got indexing {indexing!r}, expected 'ij' or 'xy'.")
    if any(len(v.shape) > 1 for v in vectors):
        raise ShapeError(f"meshgrid: got {[v.shape for v in vectors]}, expected vectors.")
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    vectors = [v if v.shape else reshape(v, 1) for v in vectors]
    shape = [v.shape[0] for v in vectors]
    grid = []
    for i, v in enumerate(vectors):
        lined = reshape(v, [-1 if j == i else 1 for j in range(len(shape))])
        grid.append(lined.expand(shape))
    if swap:
        grid[0], grid[1] = grid[1], grid[0]
    return tuple(grid)
