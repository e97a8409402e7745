"""Names for nodes that were just built, made unique in the graph; and lines for complaints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import ParamSpec, TypeVar

from ...errors import MinitorchError
from .node import Node, located, place_of_new


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


P = ParamSpec("P")
R = TypeVar("R")


def lined(function: Callable[P, R]) -> Callable[P, R]:
    """Return `function`, whose errors end in the line of the user's code that called it."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except MinitorchError as error:
            if hasattr(error, "built_at") or "built at" in str(error):
                raise
            raise located(error, place_of_new()) from None

    return call
