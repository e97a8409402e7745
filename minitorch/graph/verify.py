"""The type check of a graph, run after every pass: a rewrite that breaks a type stops here.

What is inside a loop is checked as well, once for each loop: loops never change.
"""

from __future__ import annotations

import weakref
from collections.abc import Collection, Sequence

from ..errors import GraphError, MinitorchError
from ..op import Spec
from .control.while_op import While
from .node import Node, Placeholder, UnknownShape
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
        if isinstance(node.op, While):
            _verify_loop(node, after)
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


_verified: weakref.WeakSet[While] = weakref.WeakSet()


def _verify_loop(node: Node, after: str) -> None:
    """Raise unless a loop's graphs are right, and it is given what its placeholders stand for."""
    loop: While = node.op
    given = (*loop.variables, *loop.entrances)
    if len(given) != len(node.inputs):
        raise GraphError(
            f"{after}: loop {node.name!r} has {len(node.inputs)} inputs, but {len(given)} "
            f"placeholders (built at {node.location})."
        )
    same_types(node.inputs, given, after)
    if loop in _verified:
        return
    below = set(needed([loop.test, *loop.body], set(given)))
    free = [n.name for n in below - set(given) if isinstance(n, Placeholder) and not n.inputs]
    if free:
        raise GraphError(
            f"{after}: inside loop {node.name!r} nobody feeds {free[0]!r} (built at "
            f"{node.location})."
        )
    same_types(loop.variables, loop.body, after)
    verify([loop.test, *loop.body, *loop.saved], set(given), after)
    _verified.add(loop)


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
