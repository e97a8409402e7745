"""Shapes rearranged: the same elements elsewhere, or repeated. Most results are views."""

import builtins
import operator
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from ...arrays.allocator import rows_of
from ...arrays.library import Array, Namespace, copy_array
from ...arrays.shapes import (
    INTEGERS,
    Shape,
    axes,
    axis,
    broadcast,
    fill_in,
    is_known,
    numel,
    stretches,
)
from ...errors import DTypeError, GraphError, ShapeError
from ...op import Gradients, KeepsSpec, Kind, Methods, Op, ReadsShapes, Spec, Value, apply
from ..elementwise.casting import copy_in_rows
from .broadcasting import ExpandTo


class Movement(ReadsShapes):
    """An operator that moves elements; its gradient reads shapes only."""

    halves = "moved"


class AlongDim(Op):
    """Base of the operators along one axis, `dim`."""

    on_arrays = True

    def __init__(self, dim: int) -> None:
        self.dim = dim


class Reshape(Movement):
    """The elements in the same order under another shape: `shape`, or that of a second input."""

    views = True

    def __init__(self, shape: tuple[int, ...] | None) -> None:
        self.shape = shape

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        """Return a view, or a copy where none has this shape: of a turned matrix by blocks."""
        x, shape = arrays[0], tuple(arrays[1].shape) if self.shape is None else self.shape
        if type(x) is np.ndarray and x.ndim == 2 and not x.flags.c_contiguous:
            full = fill_in(shape, x.size, "reshape")
            if x.flags.f_contiguous and x.shape[0] not in accumulate(full, operator.mul):
                return rows_of(x, shape)
        return x.reshape(shape)

    def infer(self, *specs: Spec) -> Spec:
        """Return the new shape, its -1 filled in."""
        if self.shape is None:
            return Spec(specs[1].shape, specs[0].dtype)
        return Spec(fill_in(self.shape, numel(specs[0].shape), "reshape"), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (reshape_like(out_grad, node.inputs[0]), None)[: len(node.inputs)]


def reshape_like(x: Kind, like: Methods) -> Kind:
    """Return `x` under the shape of `like`, which may be known only at run time."""
    if None in like.shape:
        return apply(Reshape(None), x, like)
    return apply(Reshape(tuple(like.shape)), x)


class Permute(Movement):
    """The axes in another order."""

    views = True

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.dims = dims

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the array with axis i taken from axis dims[i]."""
        return x.transpose(self.dims) if xp is np else xp.permute_dims(x, self.dims)

    def infer(self, *specs: Spec) -> Spec:
        return Spec(tuple(specs[0].shape[d] for d in self.dims), specs[0].dtype)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        back = sorted(range(len(self.dims)), key=self.dims.__getitem__)
        return (apply(Permute(tuple(back)), out_grad),)


class Axes(Movement):
    """Base of what puts in, or takes out, the axes `dims` of size 1."""

    views = True

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.dims = dims

    def resize(self, shape: Shape) -> Shape:
        """Return the new shape."""
        raise NotImplementedError(f"{self.name} does not say what it makes of a shape.")

    def compute(self, xp: Namespace, x: Array) -> Array:
        shape: Any = self.resize(x.shape)
        return x.reshape(shape)

    def infer(self, *specs: Spec) -> Spec:
        return Spec(self.resize(specs[0].shape), specs[0].dtype)


class InsertAxes(Axes):
    """New axes of size 1 at the places `dims` of the result."""

    def resize(self, shape: Shape) -> Shape:
        """Return the shape with ones put in."""
        sizes = iter(shape)
        rank = len(shape) + len(self.dims)
        return tuple(1 if i in self.dims else next(sizes) for i in range(rank))

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (remove_axes(out_grad, self.dims),)


class RemoveAxes(Axes):
    """Without the axes `dims`, which have size 1."""

    def resize(self, shape: Shape) -> Shape:
        """Return the shape without the axes."""
        return tuple(size for i, size in enumerate(shape) if i not in self.dims)

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (insert_axes(out_grad, self.dims),)


def insert_axes(x: Kind, dims: tuple[int, ...]) -> Kind:
    """Return `x` with axes of size 1 at the places `dims` of the result."""
    return apply(InsertAxes(dims), x) if dims else x


def remove_axes(x: Kind, dims: tuple[int, ...]) -> Kind:
    """Return `x` without the axes `dims`, which have size 1."""
    return apply(RemoveAxes(dims), x) if dims else x


class Flip(KeepsSpec, Movement):
    """The elements in reverse order along axes."""

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.dims = dims

    def compute(self, xp: Namespace, x: Array) -> Array:
        """Return the reversed array, which NumPy would give as a view."""
        return copy_array(xp.flip(x, axis=self.dims))

    def gradient(self, out_grad: Methods, node: Methods) -> Gradients:
        return (apply(self, out_grad),)


# ── torch's names ───────────────────────────────────────────────────────────────────────────────


def sizes(dims: tuple[Any, ...]) -> tuple[int, ...]:
    """Return numbers that were passed one by one, or as one sequence.

    Raises:
        DTypeError: one is no whole number.
    """
    if len(dims) == 1 and not isinstance(dims[0], (*INTEGERS, float)):
        dims = tuple(dims[0])
    try:
        return tuple(map(operator.index, dims))
    except TypeError:
        if None in dims:  # a size that a graph does not know yet
            raise
        raise DTypeError(
            f"size: got {dims}, expected whole numbers. Divide sizes by //, not by /."
        ) from None


def collect_dims(
    op: str, keyword: str, dims: tuple[object, ...], named: dict[str, Any]
) -> tuple[int, ...]:
    """Return numbers passed one by one, as one sequence, or under their keyword.

    Raises:
        TypeError: another keyword.
    """
    if not named:
        return sizes(dims)
    if set(named) != {keyword} or dims:
        raise TypeError(f"{op}: got keywords {sorted(named)}, expected {keyword!r} or none.")
    return sizes((named[keyword],))


def reshape(input: Kind, *shape: object, **named: object) -> Kind:
    """Return the elements of `input`, in their order, under another shape; one size may be -1."""
    target = collect_dims("reshape", "shape", shape, named) if named else sizes(shape)
    least = builtins.min(target, default=0)
    arrays_can = least == -1 and getattr(input, "has_numbers", False)
    if least < 0 and not arrays_can and isinstance(input, Value) and is_known(input.shape):
        target = fill_in(target, numel(tuple(input.shape)), "reshape")  # type: ignore[assignment]
    return apply(Reshape(target), input)


def permute(input: Kind, *dims: int | Sequence[int] | None, **named: object) -> Kind:
    """Return `input` with its axes in the order `dims`."""
    axes = collect_dims("permute", "dims", dims, named) if named else sizes(dims)
    rank = len(input.shape)
    order, each = axes, list(range(rank))
    if sorted(order) != each:
        order = tuple([axis(d, rank, "permute") for d in axes])
        if sorted(order) != each:
            raise ShapeError(
                f"permute: not an order of the axes: got {axes} for a value of {rank} axes, "
                f"expected each of 0 to {rank - 1} once."
            )
    return apply(Permute(order), input)


def transpose(input: Kind, dim0: int, dim1: int) -> Kind:
    """Return `input` with two axes exchanged."""
    rank = len(input.shape)
    a, b = axis(dim0, rank, "transpose"), axis(dim1, rank, "transpose")
    order = list(range(rank))
    if rank:
        order[a], order[b] = b, a
    return apply(Permute(tuple(order)), input)


def t(x: Kind) -> Kind:
    """Return a matrix transposed; a value of fewer axes as it is."""
    if len(x.shape) > 2:
        raise ShapeError(
            f"t: got {len(x.shape)} axes, expected 2 at most. Use transpose(dim0, dim1)."
        )
    return (
        transpose(x, 0, 1) if len(x.shape) == 2 else apply(Permute(tuple(range(len(x.shape)))), x)
    )


def expand(x: Kind, *shape: object, **named: object) -> Kind:
    """Return `x` with axes of size 1 stretched, without copying; -1 keeps a size."""
    target = collect_dims("expand", "size", shape, named)
    own: Any = tuple(x.shape)
    lead = len(target) - len(own)
    if lead < 0 or builtins.min(target[:lead], default=0) < 0:
        raise ShapeError(
            f"expand: got {target} for shape {own}, expected at least as many axes, and -1 only "
            "for those it has."
        )
    full = tuple([int(own[i - lead]) if n == -1 else n for i, n in enumerate(target)])
    if not stretches(own, full):
        raise ShapeError(f"expand: got {target} for shape {own}: only axes of size 1 stretch.")
    return apply(ExpandTo(full), x)


def squeeze(x: Kind, dim: int | Sequence[int] | None = None) -> Kind:
    """Return `x` without its axes of size 1; of those in `dim` only, when given."""
    over = axes(dim, len(x.shape), "squeeze")
    if any(x.shape[d] is None for d in over):
        raise GraphError(
            f"squeeze: got {tuple(x.shape)}, expected known sizes: whether one is 1 only a run can "
            "tell. Name the axes to remove, or index with 0."
        )
    of_size_1 = tuple(d for d in over if x.shape[d] == 1)
    return remove_axes(x, of_size_1) if of_size_1 else reshape(x, tuple(x.shape))


def unsqueeze(x: Kind, dim: int) -> Kind:
    """Return `x` with a new axis of size 1 at `dim`."""
    return insert_axes(x, (axis(dim, len(x.shape) + 1, "unsqueeze"),))


def flatten(input: Kind, start_dim: int = 0, end_dim: int = -1) -> Kind:
    """Return `input` with the axes from `start_dim` to `end_dim` made one."""
    rank = len(input.shape)
    first, last = axis(start_dim, rank, "flatten"), axis(end_dim, rank, "flatten")
    if first > last:
        raise ShapeError(f"flatten: got axes {first} to {last}, expected them in order.")
    if not rank:
        return reshape(input, 1)
    middle = numel(tuple(input.shape[first : last + 1]))
    head, tail = tuple(input.shape[:first]), tuple(input.shape[last + 1 :])
    return reshape(input, (*head, -1 if middle is None else middle, *tail))


def t_reversed(x: Kind) -> Kind:
    """Return `x` with all its axes in reverse order."""
    return apply(Permute(tuple(reversed(range(len(x.shape))))), x)


def movedim(x: Kind, source: object, destination: object) -> Kind:
    """Return `x` with the axes `source` moved to the places `destination`."""
    rank = len(x.shape)
    start = [axis(d, rank, "movedim") for d in sizes((source,))]
    end = [axis(d, rank, "movedim") for d in sizes((destination,))]
    if len(set(start)) != len(start) or len(set(end)) != len(end) or len(start) != len(end):
        raise ShapeError(
            f"movedim: got {source} to {destination}, expected equally many different axes."
        )
    if not rank:
        return x
    order = [-1] * rank
    for a, b in zip(start, end, strict=True):
        order[b] = a
    rest = iter([d for d in range(rank) if d not in start])
    return permute(x, [next(rest) if d < 0 else d for d in order])


def expand_as(x: Kind, other: Any) -> Kind:
    """Return `x` stretched to the shape of `other`."""
    return expand(x, tuple(other.shape))


def broadcast_tensors(*values: Kind) -> tuple[Kind, ...]:
    """Return the values stretched to the shape that they broadcast to."""
    shape = broadcast(*(tuple(v.shape) for v in values), op="broadcast_tensors")
    return tuple(expand(v, shape) for v in values)


def unflatten(x: Kind, dim: int, sizes: Sequence[int]) -> Kind:
    """Return `x` with the axis `dim` made several, of `sizes`; one may be -1."""
    d = axis(dim, len(x.shape), "unflatten")
    full = fill_in(tuple(sizes), x.shape[d], "unflatten")
    return reshape(x, (*x.shape[:d], *full, *x.shape[d + 1 :]))


def ravel(x: Kind) -> Kind:
    """Return `x` as a vector."""
    return reshape(x, -1)


def contiguous(x: Kind) -> Kind:
    """Return `x` where its elements lie in memory in order, else a copy where they do."""
    array: Any = getattr(x, "array", None)  # a value of a graph has none
    if isinstance(array, np.ndarray):
        return x if array.flags.c_contiguous else copy_in_rows(x)
    if array is not None and hasattr(array, "is_contiguous") and not array.is_contiguous():
        return copy_in_rows(x)
    return x


def reshape_as(x: Kind, other: Any) -> Kind:
    """Return `x` under the shape of `other`."""
    return reshape_like(x, other)


def flip(input: Kind, *dims: int | Sequence[int] | None, **named: object) -> Kind:
    """Return `input` with the elements along `dims` in reverse order."""
    return apply(
        Flip(axes(collect_dims("flip", "dims", dims, named), len(input.shape), "flip")), input
    )


def repeat(x: Kind, *times: object, **named: object) -> Kind:
    """Return copies of `x` side by side, `times` along each axis; new axes come first."""
    counts = collect_dims("repeat", "repeats", times, named)
    lead = len(counts) - len(x.shape)
    if lead < 0 or builtins.any(n < 0 for n in counts):
        raise ShapeError(
            f"repeat: got {counts} for shape {tuple(x.shape)}, expected a count of 0 or more for "
            "each axis at least."
        )
    shape = (1,) * lead + tuple(x.shape)
    pairs = [n for pair in zip((1,) * len(shape), shape, strict=True) for n in pair]
    wide = [n for pair in zip(counts, shape, strict=True) for n in pair]
    full = tuple(a * b for a, b in zip(counts, shape, strict=True))
    return reshape(copy_in_rows(expand(reshape(x, pairs), wide)), full)


def tile(x: Kind, *times: object, **named: object) -> Kind:
    """Return copies of `x` side by side; counts that are missing are 1."""
    counts = collect_dims("tile", "dims", times, named)
    return repeat(x, (1,) * (len(x.shape) - len(counts)) + counts)
