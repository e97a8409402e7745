"""A part of a graph once more, over other inputs."""

from __future__ import annotations

from collections.abc import Sequence

from .node import Node
from .order import schedule


def copied(nodes: Sequence[Node], new: dict[Node, Node]) -> list[Node]:
    """Return what `nodes` become when the keys of `new` are replaced by its values.

    What depends on no key stays the same node. `new` is extended by every node that was met; it
    must hold whatever the copy shall not look behind.
    """
    for node in schedule(nodes, set(new)):
        if node not in new:
            new[node] = _over(node, new)
    return [new[node] for node in nodes]


def _over(node: Node, new: dict[Node, Node]) -> Node:
    inputs = tuple(new.get(source, source) for source in node.inputs)
    control = tuple(new.get(source, source) for source in node.control_inputs)
    pairs = zip((*inputs, *control), (*node.inputs, *node.control_inputs), strict=True)
    if all(a is b for a, b in pairs):
        return node
    return node.with_inputs(inputs, control)
