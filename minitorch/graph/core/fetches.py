"""What may be fetched from a session: nodes of its graph that have one value a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from ...errors import GraphError, GraphTypeError
from ..control.loop_stacks import Opaque
from ..control.pytree import flatten
from ..control.while_op import While
from .graph import Graph
from .node import Node, Placeholder
from .order import needed

Rebuild = Callable[[Callable[[], Any]], Any]


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
    check_feeds_reach(fetches, feeds)


def check_graph(graph: Graph, node: Node, verb: str) -> None:
    """Raise if `node` is of another graph than the session's."""
    if node.graph is not graph:
        raise GraphError(
            f"run: cannot {verb} {node.name!r} (built at {node.location}): it is of the graph made "
            f"at {node.graph.location}, but the session runs the graph made at {graph.location}. "
            "Open the session with graph=, or build the node in the session's graph."
        )


def check_feeds_reach(fetches: Sequence[Node], feeds: Sequence[Node]) -> None:
    """Raise if a fed node stands inside a loop, which would not see the feed.

    A feed that no fetch needs is none of that: it has no effect, and may have none.
    """
    if not feeds:
        return
    fed = set(feeds)
    reached = set(needed(fetches, fed))
    for loop in [node for node in reached if isinstance(node.op, While) and node not in fed]:
        first, end = loop.op.built
        written = fed.intersection(loop.op.writes)
        for node in feeds:
            writes = node in written
            if not writes and (node in reached or not first < node.id < end):
                continue
            what = "a while loop writes it" if writes else "it is in a while loop"
            raise GraphError(
                f"run: cannot feed {node.name!r}: {what} (built at {node.location}; the loop at "
                f"{loop.location}). Feed what the loop takes from outside."
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


def flatten_fetches(fetches: object, graph: Graph, leaves: list[Node]) -> Rebuild:
    """Add the nodes in `fetches` to `leaves`; return how to rebuild it from their values.

    Args:
        fetches: what `Session.run` takes: nodes, names in `graph`, and lists, tuples and dicts of
            them.
        leaves: the nodes of what was fetched before.
    Returns: a function of one that gives the leaves' values in order.
    Raises:
        GraphError: something in it is no node of the graph.
    """
    return flatten(fetches, leaves, lambda name: node_called(name, graph, "fetch"))


def node_called(name: object, graph: Graph, verb: str) -> Node:
    """Return the node of that name.

    Raises:
        GraphError: there is none; says so of what was to be done with it (`verb`).
    """
    node = graph.find(name) if isinstance(name, str) else None
    if node is None:
        raise no_node(verb, name)
    return node


def no_node(verb: str, what: object) -> GraphError:
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
