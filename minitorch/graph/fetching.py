"""What may be fetched from a session, and fed: nodes of its graph that have one value a run."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from ..errors import GraphError, GraphTypeError
from .control.history import Opaque
from .node import Node, Placeholder
from .order import needed
from .scope import Graph


def check_asked(graph: Graph, fetches: Sequence[Node], feeds: Sequence[Node]) -> None:
    """Raise unless a session of `graph` can run these.

    Raises:
        GraphError: a node of another graph, a loop itself, or a value that each round of a loop has
            anew; names the node and its line.
    """
    for node in fetches:
        check_graph(graph, node, "fetch")
        if isinstance(node, Opaque):
            raise GraphError(
                f"run: cannot fetch {node.name!r}: it is a loop, not a value (built at "
                f"{node.location}). Fetch what while_loop returned."
            )
    check_outside_loops(fetches, set(feeds))
    for node in feeds:
        check_graph(graph, node, "feed")


def check_graph(graph: Graph, node: Node, verb: str) -> None:
    """Raise if `node` is of another graph than the session's."""
    if node.graph is not graph:
        raise GraphError(
            f"run: cannot {verb} {node.name!r} (built at {node.location}): it is of the graph made "
            f"at {node.graph.location}, but the session runs the graph made at {graph.location}. "
            "Open the session with graph=, or build the node in the session's graph."
        )


def check_outside_loops(fetches: Sequence[Node], fed: Collection[Node]) -> None:
    """Raise if one of `fetches` is computed from a loop's variables, within the loop."""
    if not any(_is_inside(source, fed) for source in needed(fetches, fed)):
        return
    for node in fetches:
        if any(_is_inside(source, fed) for source in needed([node], fed)):
            raise GraphError(
                f"run: cannot fetch {node.name!r}: it is in a while loop, where each round has a "
                f"value of its own (built at {node.location}). Make it a loop variable and fetch "
                "what while_loop returns."
            )


def is_outside_loops(node: Node) -> bool:
    """Tell whether a run may ask for `node`: it is no loop, nor a value of a loop's rounds."""
    return not isinstance(node, Opaque) and not any(_is_inside(n, ()) for n in needed([node], ()))


def _is_inside(node: Node, fed: Collection[Node]) -> bool:
    return isinstance(node, Placeholder) and node.inside and node not in fed


def spread(key: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what a feed feeds and the values: a tuple of nodes goes with as many values.

    Raises:
        GraphError: there are more of the ones than of the others.
    """
    if not isinstance(key, tuple):
        yield key, value
        return
    values = list(value) if isinstance(value, list | tuple | np.ndarray) else None
    if values is None or len(values) != len(key):
        got = type(value).__name__ if values is None else f"{len(values)} values"
        raise GraphError(
            f"run: feed for a tuple of {len(key)} does not fit: got {got}, expected {len(key)} "
            "values, in the structure of the key."
        )
    for part, own in zip(key, values, strict=True):
        yield from spread(part, own)


def no_node(verb: str, what: Any) -> GraphError:
    """Return the error for something that cannot be fetched or fed."""
    if what is None:
        hint = "Is it the result of a function that returns nothing, or a gradient that is None?"
    elif isinstance(what, str):
        hint = "There is no node of that name in the session's graph."
    else:
        hint = ""
    wanted = (
        "a node, the name of one, or lists, tuples and dicts of them"
        if verb == "fetch"
        else "a placeholder or another node as the key of feed_dict"
    )
    kind = type(what).__name__
    error = GraphError if isinstance(what, str) else GraphTypeError
    return error(f"run: cannot {verb} {what!r}: got {kind}, expected {wanted}. {hint}".rstrip())
