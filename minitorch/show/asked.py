"""What a picture is asked of, checked before anything is drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitorch.errors import ArgumentError
from minitorch.graph.node import Node


def check_limit(operation: str, limit: int) -> None:
    """Raise unless there is something to draw."""
    if limit < 1:
        raise ArgumentError(f"{operation}: got limit {limit}, expected 1 or more.")


def names_by_id(names: Any) -> dict[int, str]:
    """Return what to call values, by their ids, from a module or a dict of values by name."""
    if names is None:
        return {}
    if hasattr(names, "named_parameters"):
        names = dict(names.named_parameters())
    if not isinstance(names, Mapping):
        raise ArgumentError(
            f"show: got names of type {type(names).__name__}, expected a module or a dict."
        )
    return {id(value): name for name, value in names.items()}


def nodes_in(operation: str, fetches: Any) -> list[Node]:
    """Return the nodes in a node or in lists, tuples and dicts of nodes: one at least.

    Raises:
        ArgumentError: there is none, or something else is among them.
    """
    if isinstance(fetches, Node):
        return [fetches]
    kind = type(fetches).__name__
    is_several = isinstance(fetches, Mapping | list | tuple)
    if not is_several or not fetches:
        kind = f"an empty {kind}" if is_several else kind
        raise ArgumentError(
            f"{operation}: got {kind}, expected a node of a dataflow graph, or lists of nodes. "
            "minitorch.graph.trace makes a graph of imperative code."
        )
    parts = fetches.values() if isinstance(fetches, Mapping) else fetches
    return [node for part in parts for node in nodes_in(operation, part)]
