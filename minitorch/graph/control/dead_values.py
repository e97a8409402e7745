"""What stands for a value that was not sent, and which nodes can meet one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...errors import GraphError
from ..core.node import Node
from ..core.variables import Read


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
        before = node.inputs if merges(node) else deadly(node)
        if getattr(node.op, "may_kill", False) or any(source in found for source in before):
            found.add(node)
    return found


def merges(node: Node) -> bool:
    """Tell whether `node` lives as soon as one of its inputs does."""
    return bool(getattr(node.op, "merges", False))


def deadly(node: Node) -> tuple[Node, ...]:
    """Return the nodes whose death is the death of `node`: all before it; none where it merges.

    A read of a variable is given no value: what it has as an input is for gradients alone. What has
    no operator, a constant say, is there whether or not what it waits for was sent.
    """
    if merges(node):
        return ()
    if node.op is None:
        return tuple(node.inputs)
    if isinstance(node.op, Read):
        return tuple(node.control_inputs)
    spared = getattr(node.op, "fires_on_dead", ())
    inputs = tuple(source for i, source in enumerate(node.inputs) if i not in spared)
    return (*inputs, *node.control_inputs)


def alive(value: object, node: Node) -> Any:
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
