"""The largest elements and their places, under TensorFlow's names."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...errors import GraphError
from ...ops import indexing, logic, movement, ordering, reduction
from ...ops.casting import cast_to
from ..core.error_location import lined
from ..core.naming import rename
from ..core.node import Node, convert
from .creation import range as counted
from .late import unknown
from .shaping import shape


class TopK(NamedTuple):
    """The largest elements, and where they are."""

    values: Node
    indices: Node


@lined
def top_k(input: Any, k: int = 1, name: str | None = None) -> TopK:
    """The k largest of the last axis, the largest first, and their places; of equal ones the first.

    Raises:
        GraphError: there are fewer than k, or the size is not known.
    """
    node = convert(input)
    if unknown(node) or not len(node.shape) or (node.shape[-1] or 0) < k:
        raise GraphError(
            f"top_k: got k = {k} for shape {node.shape}, expected a last axis of that size or more "
            f"(node {node.name!r} built at {node.location})."
        )
    found = ordering.topk(node, k)
    return TopK(rename(found.values, name), cast_to(found.indices, "int32"))


@lined
def in_top_k(predictions: Any, targets: Any, k: int, name: str | None = None) -> Node:
    """For each row, whether its target is among the k largest; an equal one does no harm."""
    x, places = convert(predictions), convert(targets)
    rows = x.shape[0] if x.shape[0] is not None else shape(x)[0]
    own = indexing.getitem(x, (cast_to(counted(rows), places.dtype), places))
    larger = cast_to(logic.gt(x, movement.unsqueeze(own, 1)), "int32")
    return rename(logic.lt(reduction.sum(larger, 1), k), name)
