"""Nodes rearranged, joined, cut, made: under TensorFlow's names."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays import DType, as_dtype, get_default_dtype, int32
from ...errors import GraphError
from ...ops import elementwise, joining, matrices, movement, reordering
from ...ops.broadcasting import expand_to
from ...shapes import known
from ..gradients import Identity, StopGradient
from ..lined import lined
from ..node import Constant, Node, UnknownShape, as_shape, build, convert
from ..state import rename
from ..static_shape import StaticShape
from .late import late, unknown
from .pieces import Joined
from .sized import ShapeOf, computed, counted, filled, reshaped, tiled

Axis = int | Sequence[int] | None


def identity(input: Any, name: str | None = None) -> Node:
    """The input as a node of its own: a place to fetch, to name, to order."""
    return rename(build(Identity(), (convert(input),)), name)


def stop_gradient(input: Any, name: str | None = None) -> Node:
    """The input, which counts as a constant in gradients."""
    return rename(build(StopGradient(), (convert(input),)), name)


@lined
def reshape(tensor: Any, shape: Any, name: str | None = None) -> Node:
    """The same elements under another shape; one size may be -1."""
    if computed(shape):
        return rename(reshaped(convert(tensor), shape), name)
    node = convert(tensor)
    if unknown(node):
        found = late(lambda known: reshape(known, shape), (node,), node.dtype)
        found.shape = StaticShape(as_shape(shape))
        return rename(found, name)
    return rename(movement.reshape(node, tuple(shape)), name)


@lined
def transpose(a: Any, perm: Sequence[int] | None = None, name: str | None = None) -> Node:
    """The axes in the order `perm`, reversed unless told."""
    node = convert(a)
    if unknown(node):
        return rename(late(lambda known: transpose(known, perm), (node,), node.dtype), name)
    order = tuple(builtins.range(len(node.shape)))[::-1] if perm is None else tuple(perm)
    return rename(movement.permute(node, *order), name)


@lined
def expand_dims(
    input: Any, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Node:
    """The input with an axis of size 1 put in at `axis`."""
    where = axis if axis is not None else dim
    if where is None:
        raise GraphError("expand_dims: got no axis. Say where the new axis goes.")
    node, place = convert(input), where
    if unknown(node):
        return rename(late(lambda known: expand_dims(known, place), (node,), node.dtype), name)
    return rename(movement.unsqueeze(node, place), name)


@lined
def squeeze(
    input: Any, axis: Axis = None, name: str | None = None, squeeze_dims: Axis = None
) -> Node:
    """The input without its axes of size 1, or without those named."""
    where = axis if axis is not None else squeeze_dims
    over = tuple(where) if isinstance(where, Sequence) else where
    node = convert(input)
    if unknown(node):
        return rename(late(lambda known: squeeze(known, over), (node,), node.dtype), name)
    return rename(movement.squeeze(node, over), name)


@lined
def concat(values: Any, axis: Any = 0, name: str | None = None) -> Node:
    """The values one after another along an axis. TensorFlow 0.x's order (axis first) works too."""
    if isinstance(values, int):
        values, axis = axis, values
    nodes = [convert(v) for v in values]
    if unknown(*nodes):
        return rename(late(lambda *known: concat(known, axis), nodes, nodes[0].dtype), name)
    joined = joining.cat(nodes, axis)
    if isinstance(joined.op, joining.Cat) and not _known_along(joined.inputs, joined.op.dim):
        joined = build(Joined(joined.op.dim), joined.inputs)
    return rename(joined, name)


def _known_along(nodes: Sequence[Node], axis: int) -> bool:
    return all(not isinstance(n.shape, UnknownShape) and n.shape[axis] is not None for n in nodes)


@lined
def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Node:
    """The values along a new axis."""
    nodes = [convert(v) for v in values]
    if unknown(*nodes):
        return rename(late(lambda *known: stack(known, axis), nodes, nodes[0].dtype), name)
    return rename(joining.stack(nodes, axis), name)


pack = stack


@lined
def unstack(value: Any, num: int | None = None, axis: int = 0) -> list[Node]:
    """The slices along an axis, without it."""
    return list(joining.unbind(convert(value), axis))


unpack = unstack


@lined
def split(value: Any, num_or_size_splits: int | Sequence[int], axis: int = 0) -> list[Node]:
    """The value in that many equal parts, or in parts of those sizes, along an axis."""
    node = convert(value)
    sizes = num_or_size_splits
    if isinstance(sizes, int):
        length = node.shape[axis]
        if length is None or length % sizes:
            raise GraphError(
                f"split: got axis {axis} of size {length} for {sizes} parts, expected one that "
                f"divides (node {node.name!r} built at {node.location})."
            )
        return list(joining.split(node, length // sizes, axis))
    return list(joining.split(node, list(sizes), axis))


@lined
def slice(input_: Any, begin: Any, size: Any, name: str | None = None) -> Node:
    """The block that starts at `begin`; a size of -1 reaches to the end. Both may be nodes."""
    pairs = zip(begin, size, strict=True)
    cuts = [np.s_[b : None if isinstance(n, int) and n == -1 else b + n] for b, n in pairs]
    return rename(convert(input_)[tuple(cuts)], name)


@lined
def tile(input: Any, multiples: Any, name: str | None = None) -> Node:
    """The input repeated that many times along each axis."""
    if computed(multiples):
        return rename(tiled(convert(input), multiples), name)
    return rename(reordering.tile(convert(input), tuple(multiples)), name)


@lined
def pad(
    tensor: Any,
    paddings: Sequence[Sequence[int]],
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: float = 0.0,
) -> Node:
    """The tensor with a border: (before, after) for each axis, first axis first."""
    kind = {"CONSTANT": "constant", "REFLECT": "reflect"}.get(mode.upper())
    if kind is None:
        raise GraphError(f"pad: got mode {mode!r}, expected 'CONSTANT' or 'REFLECT'.")
    flat = [n for pair in reversed(list(paddings)) for n in pair]
    if kind == "constant":
        return rename(matrices.pad(convert(tensor), flat, value=constant_values), name)
    return rename(matrices.pad(convert(tensor), flat, mode=kind), name)


@lined
def gather(params: Any, indices: Any, name: str | None = None, axis: int = 0) -> Node:
    """The slices along an axis that the indices name, of the indices' shape there."""
    node, places = convert(params), convert(indices)
    return rename(node[(*[builtins.slice(None)] * axis, places)], name)


@lined
def reverse(tensor: Any, axis: Axis, name: str | None = None) -> Node:
    """The elements in the opposite order along the axes."""
    along = [axis] if isinstance(axis, int) else list(axis or ())
    return rename(reordering.flip(convert(tensor), along), name)


# ── shapes as values ────────────────────────────────────────────────────────────────────────────


def shape(input: Any, name: str | None = None) -> Node:
    """The sizes at run time, a vector of int32; `node.shape` is what is known before."""
    return rename(build(ShapeOf(), (convert(input),)), name)


def size(input: Any, name: str | None = None) -> Node:
    """The number of elements at run time."""
    from .math import reduce_prod

    return reduce_prod(shape(input), name=name)


def rank(input: Any, name: str | None = None) -> Node:
    """The number of axes."""
    return Constant(len(convert(input).shape), int32, name=name or "rank")


# ── constants ───────────────────────────────────────────────────────────────────────────────────


def constant(value: Any, dtype: Any = None, shape: Any = None, name: str = "Const") -> Constant:
    """A value fixed now. Python floats become float32, integers int32; arrays keep their dtype."""
    return Constant(value, dtype, shape, name)


def fill(dims: Any, value: Any, name: str | None = None) -> Node:
    """A value of this shape, all one number; the shape may be computed in the run."""
    if computed(dims) or isinstance(value, Node):
        return rename(filled(dims, value), name)
    return Constant(np.full(tuple(dims), value, _dtype_for(value)), name=name or "Fill")


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Node:
    """A value of zeros; the shape may be computed in the run."""
    if computed(shape):
        return rename(filled(shape, 0, _or_default(dtype)), name)
    return Constant(np.zeros(tuple(shape), _or_default(dtype)), name=name or "zeros")


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Node:
    """A value of ones; the shape may be computed in the run."""
    if computed(shape):
        return rename(filled(shape, 1, _or_default(dtype)), name)
    return Constant(np.ones(tuple(shape), _or_default(dtype)), name=name or "ones")


def eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = None, name: str | None = None
) -> Node:
    """The identity matrix, with rows or columns of zeros where it is not square."""
    return Constant(np.eye(num_rows, num_columns, dtype=_or_default(dtype)), name=name or "eye")


def zeros_like(tensor: Any, dtype: Any = None, name: str | None = None) -> Node:
    """Zeros of the shape that the node has at run time."""
    return _like(tensor, 0, dtype, name)


def ones_like(tensor: Any, dtype: Any = None, name: str | None = None) -> Node:
    """Ones of the shape that the node has at run time."""
    return _like(tensor, 1, dtype, name)


def _like(tensor: Any, value: int, dtype: Any, name: str | None) -> Node:
    node = convert(tensor)
    kind = node.dtype if dtype is None else as_dtype(dtype)
    if not isinstance(node.shape, UnknownShape) and known(node.shape):
        return Constant(np.full(tuple(node.shape), value, kind), name=name or "like")
    if isinstance(node.shape, UnknownShape):
        make = elementwise.ones_like if value else elementwise.zeros_like
        return rename(make(node), name)
    return rename(expand_to(Constant(value, kind), node), name)


def range(
    start: Any, limit: Any = None, delta: Any = 1, dtype: Any = None, name: str = "range"
) -> Node:
    """A vector that counts from start (0) up to but not limit, either of them a node or not."""
    low, high = (0, start) if limit is None else (start, limit)
    if computed([low, high, delta]):
        return rename(counted(low, high, delta), None if name == "range" else name)
    numbers = np.arange(low, high, delta)
    whole = numbers.dtype.kind == "i"
    return Constant(numbers, dtype or (int32 if whole else get_default_dtype()), name=name)


def linspace(start: float, stop: float, num: int, name: str = "linspace") -> Node:
    """A constant of evenly spaced numbers, both ends included."""
    return Constant(np.linspace(start, stop, num).astype(get_default_dtype()), name=name)


def _or_default(dtype: Any) -> DType:
    return get_default_dtype() if dtype is None else as_dtype(dtype)


def _dtype_for(value: Any) -> DType:
    found = np.asarray(value).dtype
    if isinstance(value, np.generic | np.ndarray):
        return found
    return get_default_dtype() if found.kind == "f" else int32 if found.kind == "i" else found
