"""The type check of a graph, run after every pass: a rewrite that breaks a type stops here."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..errors import GraphError, MinitorchError
from ..op import Spec
from .node import Node, UnknownShape
from .order import needed, schedule


def verify(fetches: Sequence[Node], fed: Collection[Node] = (), after: str = "verify") -> None:
    """Raise unless every node below `fetches` has the type that its operator infers.

    Raises:
        GraphError: a cycle, an input that is no node, or a shape or dtype that is not what the
            operator infers; names the pass and the node.
    """
    nodes = needed(fetches, fed)
    if len(schedule(fetches, fed)) != len(nodes):
        raise GraphError(f"{after}: the graph has a cycle. A node must not depend on itself.")
    for node in nodes:
        if node.op is None or node in fed:
            continue
        if any(isinstance(source.shape, UnknownShape) for source in (*node.inputs, node)):
            continue
        try:
            spec = node.op.infer(*[Spec(tuple(s.shape), s.dtype) for s in node.inputs])
        except MinitorchError as error:
            raise GraphError(
                f"{after}: node {node.name!r} does not fit its inputs: {error} "
                f"(built at {node.location})"
            ) from error
        if spec.dtype != node.dtype or not _agree(spec.shape, node.shape):
            raise GraphError(
                f"{after}: node {node.name!r} has {node.dtype} {tuple(node.shape)}, but "
                f"{node.op.name} gives {spec.dtype} {tuple(spec.shape)} (built at {node.location})."
            )


def same_types(before: Sequence[Node], after: Sequence[Node], name: str) -> None:
    """Raise unless a pass kept the type of everything that is fetched."""
    for old, new in zip(before, after, strict=True):
        known = not isinstance(old.shape, UnknownShape) and not isinstance(new.shape, UnknownShape)
        if old.dtype != new.dtype or (known and not _agree(old.shape, new.shape)):
            raise GraphError(
                f"{name}: changed {old.name!r} from {old.dtype} {old.shape} to {new.dtype} "
                f"{new.shape} (built at {old.location})."
            )


def _agree(a: Sequence[int | None], b: Sequence[int | None]) -> bool:
    return len(a) == len(b) and all(
        x is None or y is None or x == y for x, y in zip(a, b, strict=True)
    )
