"""The largest elements and their places, sorting, under TensorFlow's names."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...errors import GraphError
from ...ops import gathering, indexing, logic, movement, ordering, reduction
from ...ops.casting import cast_to
from ..lined import lined
from ..naming import rename
from ..node import Node, build, convert
from ..scope import control_dependencies
from .effects import Assert
from .late import once_known, unknown
from .making import range as counted
from .shaping import shape

__all__ = [
    "argsort",
    "sort",
]


class TopK(NamedTuple):
    """The largest elements, and where they are."""

    values: Node
    indices: Node


@lined
def top_k(input: Any, k: int = 1, sorted: bool = True, name: str | None = None) -> TopK:
    """The k largest of the last axis, the largest first, and their places; of equal ones the first.

    Raises:
        GraphError: there are fewer than k, which only the run may tell; or the number of axes is
            not known.
    """
    node = convert(input)
    if not unknown(node) and len(node.shape) and node.shape[-1] is None:
        return _top_of_unknown(node, k, name)
    if unknown(node) or not len(node.shape) or node.shape[-1] < k:
        raise GraphError(
            f"top_k: got k = {k} for shape {node.shape}, expected a last axis of that size or more "
            f"(node {node.name!r} built at {node.location})."
        )
    found = ordering.topk(node, k)
    return TopK(rename(found.values, name), cast_to(found.indices, "int32"))


def _top_of_unknown(node: Node, k: int, name: str | None) -> TopK:
    """Return the k largest of an axis whose size only the run knows."""
    last = len(node.shape) - 1
    enough = logic.ge(shape(node)[-1], k)
    with control_dependencies([Assert(enough, [f"top_k: k = {k} for shape", shape(node)])]):
        order = build(ordering.ArgSort(last, True), (node,))
    places = order[..., :k]
    places.set_shape([*tuple(node.shape)[:-1], k])
    values = gathering.take_along_dim(node, places, last)
    return TopK(rename(values, name), cast_to(places, "int32"))


@lined
def in_top_k(predictions: Any, targets: Any, k: int, name: str | None = None) -> Node:
    """For each row, whether its target is among the k largest; an equal one does no harm."""
    x, places = convert(predictions), convert(targets)
    rows = x.shape[0] if x.shape[0] is not None else shape(x)[0]
    own = indexing.getitem(x, (cast_to(counted(rows), places.dtype), places))
    larger = cast_to(logic.gt(x, movement.unsqueeze(own, 1)), "int32")
    return rename(logic.lt(reduction.sum(larger, 1), k), name)


@lined
@once_known
def sort(
    values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None
) -> Node:
    """The elements in order along an axis."""
    return rename(ordering.sort(values, axis, direction == "DESCENDING").values, name)


@lined
@once_known
def argsort(
    values: Any,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Node:
    """The places of the elements in order along an axis; equal ones stay as they are."""
    places = ordering.argsort(values, axis, direction == "DESCENDING", stable=True)
    return rename(cast_to(places, "int32"), name)
