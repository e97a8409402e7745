"""Names for nodes that were just built: what the user asked for, made unique in the graph."""

from __future__ import annotations

from collections.abc import Sequence

from .node import Node


def rename(node: Node, name: str | None) -> Node:
    """Give a node just built the name that the user asked for, if any."""
    if name is not None:
        node.graph.keep(label(node, name))
    return node


def rename_all(nodes: Sequence[Node], name: str | None) -> None:
    """Give the results of one function its name: "x", "x:1", "x:2", ... as TensorFlow has them."""
    if name is None or not nodes:
        return
    first = rename(nodes[0], name)
    for i, node in enumerate(nodes[1:], 1):
        node.name = f"{first.name}:{i}"
        node.graph.keep(node)


def label(node: Node, name: str) -> Node:
    """Give a node just built a better name than its operator's."""
    node.name = node.graph.unique_name(name)
    node.graph.add(node)
    return node
