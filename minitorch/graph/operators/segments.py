"""Rows that belong together under TensorFlow's names: segments, partitions, sets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ...arrays import as_dtype
from ...errors import GraphError
from ...ops import elementwise as rows
from ...ops import indexing, joining, logic, movement, reduction, segments
from ...ops.casting import cast_to
from ..lined import lined
from ..naming import rename, rename_all
from ..node import Constant, Node, build, convert
from .elementwise import maximum, sqrt
from .late import once_known
from .making import ones_like
from .making import range as counted
from .math import cast, reduce_max
from .scalar import as_scalar
from .sized import filled, reshaped

__all__ = [
    "bincount",
    "boolean_mask",
    "confusion_matrix",
    "dynamic_partition",
    "dynamic_stitch",
    "gather_nd",
    "invert_permutation",
    "scatter_nd",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
    "sequence_mask",
    "setdiff1d",
    "unique",
    "unique_with_counts",
    "unsorted_segment_max",
    "unsorted_segment_mean",
    "unsorted_segment_min",
    "unsorted_segment_sqrt_n",
    "unsorted_segment_sum",
]


def _sorted(combine: Callable[..., Any], name: str, says: str) -> Callable[..., Node]:
    @lined
    @once_known
    def call(data: Any, segment_ids: Any, name: str | None = None) -> Node:
        return rename(combine(data, _ids(segment_ids), None), name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = says
    return call


def _unsorted(combine: Callable[..., Any], name: str, says: str) -> Callable[..., Node]:
    @lined
    @once_known
    def call(data: Any, segment_ids: Any, num_segments: Any, name: str | None = None) -> Node:
        ids = _ids(segment_ids)
        if isinstance(num_segments, Node) and not isinstance(num_segments, Constant):
            return rename(_up_to(combine, data, ids, as_scalar(num_segments)), name)
        count = num_segments.value if isinstance(num_segments, Constant) else num_segments
        return rename(combine(data, ids, int(count)), name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = says
    return call


def _ids(segment_ids: Any) -> Node:
    node = convert(segment_ids)
    if node.dtype.kind not in "iu":
        raise GraphError(
            f"segments: got ids of {node.dtype}, expected integers (node {node.name!r} built at "
            f"{node.location})."
        )
    return node


def _up_to(combine: Callable[..., Any], data: Node, ids: Node, count: Node) -> Node:
    """Return the combination for a count that only the run knows: a row more is added for it."""
    last = count - 1
    flat = movement.reshape(ids, (-1,))
    values = movement.reshape(data, (-1, *tuple(data.shape)[len(ids.shape) :]))
    longer = joining.cat([values, cast_to(values[:1] * 0, values.dtype)], 0)
    found: Node = combine(longer, joining.cat([flat, movement.reshape(last, (1,))], 0), None)
    return found[:count]  # type: ignore[no-any-return]


def _mean(data: Any, ids: Any, count: Any) -> Any:
    total = segments.segment_sum(data, ids, count)
    return total / maximum(_number(data, ids, count), 1.0)


def _root_mean(data: Any, ids: Any, count: Any) -> Any:
    total = segments.segment_sum(data, ids, count)
    return total / sqrt(maximum(_number(data, ids, count), 1.0))


def _number(data: Any, ids: Any, count: Any) -> Any:
    return segments.segment_sum(rows.ones_like(data), ids, count)


def _largest(data: Any, ids: Any, count: Any) -> Any:
    return segments.segment_extreme(data, ids, count)


def _smallest(data: Any, ids: Any, count: Any) -> Any:
    return segments.segment_extreme(data, ids, count, largest=False)


segment_sum = _sorted(segments.segment_sum, "segment_sum", "The sum of the rows of each number.")
segment_mean = _sorted(_mean, "segment_mean", "The mean of the rows of each number.")
segment_max = _sorted(_largest, "segment_max", "The largest of the rows of each number.")
segment_min = _sorted(_smallest, "segment_min", "The smallest of the rows of each number.")
unsorted_segment_sum = _unsorted(
    segments.segment_sum, "unsorted_segment_sum", "The sum of the rows of each number, 0 of none."
)
unsorted_segment_mean = _unsorted(
    _mean, "unsorted_segment_mean", "The mean of the rows of each number, 0 of none."
)
unsorted_segment_sqrt_n = _unsorted(
    _root_mean, "unsorted_segment_sqrt_n", "The sum over the root of how many rows there are."
)
unsorted_segment_max = _unsorted(
    _largest, "unsorted_segment_max", "The largest of the rows of each number."
)
unsorted_segment_min = _unsorted(
    _smallest, "unsorted_segment_min", "The smallest of the rows of each number."
)


# ── partitions ──────────────────────────────────────────────────────────────────────────────────


@lined
def dynamic_partition(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> list[Node]:
    """The rows of each number from 0 to num_partitions, a node for each."""
    node, ids = convert(data), convert(partitions)
    parts = [indexing.getitem(node, logic.eq(ids, i)) for i in range(num_partitions)]
    rename_all(parts, name)
    return parts


@lined
def dynamic_stitch(indices: Sequence[Any], data: Sequence[Any], name: str | None = None) -> Node:
    """The rows of all of `data`, each in the place that its index names; later ones win."""
    places, parts = [convert(i) for i in indices], [convert(d) for d in data]
    flat = [movement.reshape(p, (-1,)) for p in places]
    tails = [tuple(d.shape)[len(p.shape) :] for p, d in zip(places, parts, strict=True)]
    values = [movement.reshape(d, (-1, *t)) for d, t in zip(parts, tails, strict=True)]
    return rename(segments.stitched(joining.cat(flat, 0), joining.cat(values, 0)), name)


class Unique(NamedTuple):
    """Different elements, and for each element of the input which of them it is."""

    y: Node
    idx: Node


class UniqueWithCounts(NamedTuple):
    """Different elements, which of them each is, and how often each comes."""

    y: Node
    idx: Node
    count: Node  # type: ignore[assignment]  # TensorFlow's name


class ListDiff(NamedTuple):
    """Elements that are in one vector only, and where they are."""

    out: Node
    idx: Node


@lined
def unique(x: Any, out_idx: Any = "int32", name: str | None = None) -> Unique:
    """The different elements of a vector in the order of their first places, and which is which."""
    node = convert(x)
    values = build(segments.Distinct("values"), (node,))
    return Unique(rename(values, name), cast(build(segments.Distinct("places"), (node,)), out_idx))


@lined
def unique_with_counts(x: Any, out_idx: Any = "int32", name: str | None = None) -> UniqueWithCounts:
    """As `unique`, and how often each comes."""
    node = convert(x)
    counts = build(segments.Distinct("counts"), (node,))
    return UniqueWithCounts(*unique(node, out_idx, name), cast(counts, out_idx))


@lined
def setdiff1d(x: Any, y: Any, index_dtype: Any = "int32", name: str | None = None) -> ListDiff:
    """The elements of `x` that are not in `y`, in order, and where they are."""
    left = convert(x)
    right = convert(y, left.dtype)
    same = logic.eq(movement.unsqueeze(left, 1), movement.unsqueeze(right, 0))
    alone = logic.eq(reduction.sum(cast_to(same, "int32"), 1), 0)
    places = indexing.getitem(counted(_length(left)), alone)
    return ListDiff(rename(indexing.getitem(left, alone), name), cast(places, index_dtype))


def _length(x: Node) -> Any:
    from .shaping import shape

    return x.shape[0] if x.shape[0] is not None else shape(x)[0]


@lined
def sequence_mask(
    lengths: Any, maxlen: Any = None, dtype: Any = bool, name: str | None = None
) -> Node:
    """True before the end of each sequence: lengths (...,) give (..., maxlen)."""
    node = convert(lengths)
    most = reduce_max(node) if maxlen is None else maxlen
    places = counted(most if isinstance(most, Node) else int(most))
    mask = logic.lt(cast_to(places, node.dtype), movement.unsqueeze(node, -1))
    return rename(cast(mask, dtype), name)


@lined
def bincount(arr: Any, minlength: Any = None, name: str | None = None) -> Node:
    """How often each of the integers from 0 on is in `arr`."""
    flat = movement.reshape(convert(arr), (-1,))
    if minlength is None:
        return rename(segments.segment_sum(ones_like(flat), flat), name)
    longer = joining.cat([flat, convert(np.array([minlength - 1], flat.dtype))], 0)
    ones = joining.cat([ones_like(flat), convert(np.zeros(1, flat.dtype))], 0)
    return rename(segments.segment_sum(ones, longer), name)


@lined
def confusion_matrix(
    labels: Any,
    predictions: Any,
    num_classes: Any = None,
    dtype: Any = "int32",
    name: str | None = None,
    weights: Any = None,
) -> Node:
    """How often each label (a row) was predicted as each class (a column).

    Args:
        num_classes: one more than the largest class there is unless given; may be a node.
        weights: how often each pair counts, once unless given.
    """
    truth, guess = cast(convert(labels), "int32"), cast(convert(predictions), "int32")
    count = num_classes
    if count is None:
        count = maximum(reduce_max(truth), reduce_max(guess)) + 1
    places = movement.reshape(truth * count + guess, (-1,))
    each = ones_like(places) if weights is None else movement.reshape(convert(weights), (-1,))
    if isinstance(count, Node):
        counts = unsorted_segment_sum(cast(each, dtype), places, count * count)
        return rename(reshaped(counts, [count, count]), name)
    counts = segments.segment_sum(cast(each, dtype), places, int(count) ** 2)
    return rename(movement.reshape(counts, (int(count), int(count))), name)


@lined
def invert_permutation(x: Any, name: str | None = None) -> Node:
    """For each number from 0 on its place in `x`."""
    node = convert(x)
    return rename(segments.stitched(node, cast_to(counted(_length(node)), node.dtype)), name)


@lined
def scatter_nd(indices: Any, updates: Any, shape: Any, name: str | None = None) -> Node:
    """Zeros of a shape with `updates` added at the places that the last axis of `indices` names."""
    places, values = convert(indices), convert(updates)
    pattern, parts = indexing.split_index(tuple(_columns(places)))
    like = filled(shape if isinstance(shape, Node) else list(shape), 0, as_dtype(values.dtype))
    return rename(build(indexing.PlaceAdd(pattern, None), (values, *parts, like)), name)


@lined
@once_known
def gather_nd(params: Any, indices: Any, name: str | None = None) -> Node:
    """The slices that the rows of `indices` (the last axis) name, one index an axis."""
    return rename(indexing.getitem(params, tuple(_columns(convert(indices)))), name)


def _columns(indices: Node) -> list[Node]:
    count = indices.shape[-1] if len(indices.shape) else None
    if count is None:
        raise GraphError(
            f"gather_nd: the last axis of the indices has no known size: got {indices.shape} (node "
            f"{indices.name!r} built at {indices.location}). Use set_shape."
        )
    return [indices[..., i] for i in range(count)]


@lined
@once_known
def boolean_mask(tensor: Any, mask: Any, name: str | None = None, axis: int = 0) -> Node:
    """The slices along the first axes, or from `axis` on, where the mask holds."""
    before = (slice(None),) * axis
    return rename(indexing.getitem(tensor, (*before, convert(mask))), name)
