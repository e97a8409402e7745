"""What to say of a node that failed: its operator's own complaint, with its name and its line."""

from collections.abc import Sequence
from typing import Any

from ...arrays.library import dtype_of
from ...errors import GraphError, MinitorchError
from ...op import Op, Spec
from ..core.graph import add_location
from ..core.node import Node
from ..passes.fused import Fused


def explain(node: Node, arrays: Sequence[Any], error: Exception) -> Exception:
    """Return what was wrong when `node` failed on `arrays`: its operator's complaint, located.

    Of operators that were fused it is the one at fault that is named.
    """
    if getattr(error, "node_name", None):  # from a round of a loop inside
        return error
    specs = [
        Spec(tuple(a.shape), dtype_of(a)) for a in arrays if a is not None and hasattr(a, "dtype")
    ]
    better = complaint(node, specs) if len(specs) == len(arrays) else None
    if isinstance(error, MinitorchError) and (better is None or not isinstance(node.op, Fused)):
        return add_location(error, node.built_at, node.name)
    if better is not None:
        return better
    shapes = ", ".join(str(getattr(a, "shape", "?")) for a in arrays)
    name = node.op.name if node.op is not None else type(node).__name__
    return GraphError(
        f"{name}: failed on inputs of shape {shapes or 'none'}: {error} "
        f"(node {node.name!r} built at {node.location})"
    )


def complaint(node: Node, specs: Sequence[Spec]) -> MinitorchError | None:
    """Return what the operator of `node` says of such inputs, located; None if it takes them."""
    if not isinstance(node.op, Op):
        return None
    try:
        node.op.infer(*specs)
    except MinitorchError as error:
        origin = node.op.find_culprit(*specs) if isinstance(node.op, Fused) else None
        name, place = origin or (node.name, node.built_at)
        return add_location(error, place, name)
    return None
