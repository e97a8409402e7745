"""What stands for a value that was not sent, and which nodes can meet one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..errors import GraphError
from .node import Node


class Dead:
    """A value that was not sent; there is one, `DEAD`."""

    def __repr__(self) -> str:
        return "DEAD"


DEAD = Dead()


def endangered(order: Sequence[Node], fed: Collection[Node]) -> set[Node]:
    """Return the nodes that can be dead in some run: a Switch, and what comes after one."""
    found: set[Node] = set()
    for node in order:
        if node in fed:
            continue
        before = (*node.inputs, *node.control_inputs)
        if type(node.op).__name__ == "Switch" or any(source in found for source in before):
            found.add(node)
    return found


def alive(value: Any, node: Node) -> Any:
    """Return a fetched value.

    Raises:
        GraphError: it is dead: the run went the other way.
    """
    if value is DEAD:
        raise GraphError(
            f"run: fetched {node.name!r} is dead: the run went the other way at a switch (built at "
            f"{node.location}). Fetch what merges both sides."
        )
    return value
