"""The arguments of pictures, checked before anything is drawn."""

from collections.abc import Mapping, Sequence
from typing import Any

from minitorch.errors import ArgumentError
from minitorch.graph.core.fetches import is_outside_loops
from minitorch.graph.core.graph import Graph
from minitorch.graph.core.node import Node
from minitorch.op import Value
from minitorch.pytree import map_leaves

MOST = 80  # boxes that are stepped through


def names_by_id(names: object) -> dict[int, str]:
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


def roots_in(value: Any) -> Sequence[Value]:
    """Return the values to draw; a graph's are those that no operator of it uses any further.

    Raises:
        ArgumentError: something is no tensor, node, graph or traced function, nor made of such.
    """
    if isinstance(value, Graph):
        return _ends(value)
    parts = _leaves(getattr(value, "outputs", value))
    wrong = [part for part in parts if not isinstance(part, Value)]
    if wrong or not parts:
        kind = type(wrong[0] if wrong else value).__name__
        raise ArgumentError(f"show: got {kind}, expected a tensor or a node of a graph.")
    return parts


def _leaves(value: object) -> list[Any]:
    leaves: list[Any] = []
    map_leaves(leaves.append, value)
    return leaves


def _ends(graph: Graph) -> list[Node]:
    """Return the operators of a graph that no other uses, but for the variables' first values."""
    starts = {variable.initializer for variable in graph.variables}
    nodes = [node for node in graph.nodes if node.op is not None]
    used = {source for node in nodes for source in (*node.inputs, *node.control_inputs)}
    ends = [n for n in nodes if n not in used and n not in starts and is_outside_loops(n)]
    if not ends:
        raise ArgumentError(f"show: {graph!r} has no operators. Build some, and keep them.")
    return ends


def nodes_in(operation: str, fetches: Any) -> list[Node]:
    """Return the nodes in a node or in lists, tuples and dicts of nodes: one at least.

    Raises:
        ArgumentError: there is none, or something else is among them.
    """
    parts = _leaves(fetches)
    wrong = [part for part in parts if not isinstance(part, Node)]
    if wrong or not parts:
        kind = type(wrong[0]).__name__ if wrong else f"an empty {type(fetches).__name__}"
        raise ArgumentError(
            f"{operation}: got {kind}, expected a node of a dataflow graph, or lists of nodes. "
            "minitorch.graph.trace makes a graph of imperative code."
        )
    return parts
