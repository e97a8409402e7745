"""Nodes rearranged, joined, cut, made: under TensorFlow's names."""

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays.library import DTypeLike, as_dtype, int32
from ...arrays.shapes import INTEGERS, axes
from ...errors import GraphError
from ...exports import own_names
from ...ops.elementwise.casting import cast_to
from ...ops.shaping import borders, indexing, joining, movement
from ..core.gradients import Identity, StopGradient
from ..core.naming import locates_errors, once_known, rename, rename_all
from ..core.node import Node, UnknownShape, build, convert, convert_all
from ..shapes.computed import ShapeOf, is_computed, reshape_to_computed, tile_computed
from ..shapes.deferred import late, unknown
from ..shapes.static import StaticShape
from .math import Axis


def identity(input: object, name: str | None = None) -> Node:
    """The input as a node of its own: a place to fetch, to name, to order."""
    return rename(build(Identity(), (convert(input),)), name)


def stop_gradient(input: object, name: str | None = None) -> Node:
    """The input, which counts as a constant in gradients."""
    return rename(build(StopGradient(), (convert(input),)), name)


@locates_errors
def reshape(tensor: object, shape: Any, name: str | None = None) -> Node:
    """The same elements under another shape; one size may be -1."""
    if is_computed(shape):
        return rename(reshape_to_computed(convert(tensor), shape), name)
    node = convert(tensor)
    if unknown(node):
        return rename(late(lambda known: reshape(known, shape), (node,), node.dtype, shape), name)
    return rename(movement.reshape(node, tuple(shape)), name)


@once_known
def transpose(a: object, perm: Sequence[int] | None = None, name: str | None = None) -> Node:
    """The axes in the order `perm`, reversed unless told."""
    node = convert(a)
    order = tuple(builtins.range(len(node.shape)))[::-1] if perm is None else tuple(perm)
    return rename(movement.permute(node, *order), name)


@once_known
def expand_dims(
    input: object, axis: int | None = None, name: str | None = None, dim: int | None = None
) -> Node:
    """The input with an axis of size 1 put in at `axis`."""
    where = axis if axis is not None else dim
    if where is None:
        raise GraphError("expand_dims: got no axis. Say where the new axis goes.")
    return rename(movement.unsqueeze(convert(input), where), name)


@once_known
def squeeze(
    input: object, axis: Axis = None, name: str | None = None, squeeze_dims: Axis = None
) -> Node:
    """The input without its axes of size 1, or without those named."""
    where = axis if axis is not None else squeeze_dims
    node = convert(input)
    if where is None or (isinstance(where, Sequence) and not where):
        return rename(movement.squeeze(node, None), name)
    removed = axes(where, len(node.shape), "squeeze")
    if any(node.shape[d] not in (1, None) for d in removed):
        raise node.error(
            f"squeeze: got axes {removed} of {node.name!r} of shape {tuple(node.shape)}, expected "
            "axes of size 1."
        )
    return rename(movement.remove_axes(node, removed), name)


@once_known
def concat(values: Any, axis: int = 0, name: str | None = None) -> Node:
    """The values one after another along an axis. TensorFlow 0.x's order (axis first) works too."""
    if isinstance(values, INTEGERS):
        values, axis = axis, values
    return rename(joining.cat(convert_all(*values), axis), name)


@once_known
def stack(values: Sequence[Any], axis: int = 0, name: str | None = None) -> Node:
    """The values along a new axis."""
    return rename(joining.stack(convert_all(*values), axis), name)


@locates_errors
def unstack(
    value: object, num: int | None = None, axis: int = 0, name: str | None = None
) -> list[Node]:
    """The slices along an axis, without it; `num` says how many where the shape does not."""
    node = convert(value)
    size = node.shape[axis]
    count = num if size is None else size
    if count is None:
        raise node.error(f"unstack: the size of axis {axis} is not known. Give num.")
    if num is not None and num != count:
        raise node.error(f"unstack: got num {num} for axis {axis} of size {count}.")
    pieces = [indexing.select(node, axis, i) for i in builtins.range(count)]
    rename_all(pieces, name)
    return pieces


@locates_errors
def split(
    value: object, num_or_size_splits: Any, axis: int = 0, name: str | None = None
) -> list[Node]:
    """The value in that many equal parts, or in parts of those sizes, along an axis.

    TensorFlow 0.x's order, `split(axis, number, value)`, works too.
    """
    if isinstance(value, INTEGERS):
        value, axis = axis, value
    pieces = _split(convert(value), num_or_size_splits, axis)
    rename_all(pieces, name)
    return pieces


def _split(node: Node, sizes: int | Sequence[int], axis: int) -> list[Node]:
    length = node.shape[axis]
    if isinstance(sizes, INTEGERS):
        if length is None:
            return _equal_pieces(node, sizes, axis)
        if sizes < 1 or length % sizes:
            raise node.error(
                f"split: got axis {axis} of size {length} for {sizes} parts, expected one that "
                "divides."
            )
        sizes = [length // sizes] * sizes
    if min(sizes) < 0 or length not in (None, sum(sizes)):
        raise node.error(
            f"split: got sizes {sizes} for axis {axis} of size {length}, expected them to add up "
            "to it."
        )
    if length is None:
        return [_piece(node, list(sizes), axis, i) for i in builtins.range(len(sizes))]
    return list(joining.split(node, list(sizes), axis))


def _piece(node: Node, sizes: list[int], axis: int, i: int) -> Node:
    """Return a piece of an axis whose size only the run knows, where it compares it."""
    shape = list(node.shape)
    shape[axis] = sizes[i]
    piece = lambda known: joining.split(known, sizes, axis)[i]  # noqa: E731
    return late(piece, (node,), node.dtype, shape)  # type: ignore[no-any-return]


def _equal_pieces(node: Node, count: int, axis: int) -> list[Node]:
    """Return equal parts of an axis whose size only the run knows."""
    width = shape(node)[axis] // count
    before = [builtins.slice(None)] * (axis % len(node.shape))
    cuts = [np.s_[width * i : width * (i + 1)] for i in builtins.range(count)]
    return [node[(*before, cut)] for cut in cuts]


def _one_for_each_axis(op: str, what: str, entries: Any, node: Node) -> None:
    """Raise unless `entries`, where its length is known, has an entry for each axis of `node`."""
    if isinstance(entries, Node):
        has_length = not isinstance(entries.shape, UnknownShape) and len(entries.shape) > 0
        count = entries.shape[0] if has_length else None
    else:
        count = len(entries) if isinstance(entries, Sequence | np.ndarray) else None
    if count is not None and count != len(node.shape):
        raise node.error(
            f"{op}: got {count} of {what}, expected {len(node.shape)}, one for each axis of "
            f"{node.name!r} of shape {tuple(node.shape)}."
        )


@once_known
def tile(input: Any, multiples: Any, name: str | None = None) -> Node:
    """The input repeated that many times along each axis."""
    node = convert(input)
    _one_for_each_axis("tile", "multiples", multiples, node)
    if is_computed(multiples) or None in node.shape:
        return rename(tile_computed(node, multiples), name)
    return rename(movement.tile(node, tuple(multiples)), name)


@once_known
def pad(
    tensor: object,
    paddings: Sequence[Sequence[int]],
    mode: str = "CONSTANT",
    name: str | None = None,
    constant_values: float = 0.0,
) -> Node:
    """The tensor with a border: (before, after) for each axis, first axis first."""
    kind = {"CONSTANT": "constant", "REFLECT": "reflect"}.get(mode.upper())
    if kind is None:
        raise GraphError(f"pad: got mode {mode!r}, expected 'CONSTANT' or 'REFLECT'.")
    _one_for_each_axis("pad", "paddings", paddings, convert(tensor))
    flat = [int(n) for pair in reversed(list(paddings)) for n in pair]
    fill = {"value": constant_values} if kind == "constant" else {}
    return rename(borders.pad(convert(tensor), flat, mode=kind, **fill), name)


@once_known
def gather(params: object, indices: object, name: str | None = None, axis: int = 0) -> Node:
    """The slices along an axis that the indices name, of the indices' shape there."""
    node, places = convert(params), convert(indices)
    before = axis % len(node.shape) if len(node.shape) else 0
    return rename(node[(*[builtins.slice(None)] * before, places)], name)


# ── shapes as values ────────────────────────────────────────────────────────────────────────────


def shape(input: object, name: str | None = None, out_type: DTypeLike = int32) -> Node:
    """The sizes at run time, a vector of int32; `node.shape` is what is known before."""
    sizes = build(ShapeOf(), (convert(input),))
    if unknown(sizes):
        sizes.shape = StaticShape((None,))
    return rename(cast_to(sizes, out_type) if as_dtype(out_type) != int32 else sizes, name)


if not TYPE_CHECKING:
    __all__ = own_names(globals())
