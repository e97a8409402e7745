"""What a session can be asked for and be fed: which nodes of its graph, and which arrays.

A node may be fetched that has one value a run; what is fed becomes an array of its node's dtype.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...arrays.library import Array, Device, DType, asarray, to_numpy
from ...errors import GraphError, GraphTypeError
from ...pytree import Rebuild
from ..control.loop_stacks import HandleNode
from ..control.while_op import While
from ..shapes.static import agree
from .graph import Graph
from .node import Node
from .order import list_needed
from .placeholders import Placeholder
from .structures import flatten


def check_runnable(graph: Graph, fetches: Sequence[Node], feeds: Sequence[Node]) -> None:
    """Raise unless a session of `graph` can run these.

    Raises:
        GraphError: a node of another graph, a loop itself, or a value that each round of a loop has
            anew; names the node and its line.
    """
    for node in fetches:
        check_graph(graph, node, "fetch")
        if isinstance(node, HandleNode):
            raise node.error(
                f"run: cannot fetch {node.name!r}: it is a loop, not a value. Fetch what "
                "while_loop returned."
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
    """Raise if a fed node is inside a loop, where every round has a value of its own.

    A feed that no fetch needs is allowed: it has no effect.
    """
    if not feeds:
        return
    fed = set(feeds)
    reached = set(list_needed(fetches, fed))
    for loop in [node for node in reached if isinstance(node.op, While) and node not in fed]:
        first, end = loop.op.built
        written = fed.intersection(loop.op.writes)
        for node in feeds:
            writes = node in written
            if not writes and (node in reached or not first < node.id < end):
                continue
            why = "a while loop writes it" if writes else "it is in a while loop"
            raise GraphError(
                f"run: cannot feed {node.name!r}: {why} (built at {node.location}; the loop at "
                f"{loop.location}). Feed what the loop takes from outside."
            )


def check_outside_loops(fetches: Sequence[Node], fed: Collection[Node]) -> None:
    """Raise if one of `fetches` is computed from a loop's variables, within the loop."""
    if not any(_is_inside(source, fed) for source in list_needed(fetches, fed)):
        return
    for node in fetches:
        if any(_is_inside(source, fed) for source in list_needed([node], fed)):
            raise node.error(
                f"run: cannot fetch {node.name!r}: it is in a while loop, where each round has a "
                "value of its own. Make it a loop variable and fetch what while_loop returns."
            )


def is_outside_loops(node: Node) -> bool:
    """Tell whether a run may ask for `node`: it is no loop, nor a value of a loop's rounds."""
    return not isinstance(node, HandleNode) and not any(
        _is_inside(n, ()) for n in list_needed([node], ())
    )


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
    return flatten(fetches, leaves, lambda name: find_node(name, graph, "fetch"))


def find_node(name: object, graph: Graph, verb: str) -> Node:
    """Return the node of that name.

    Raises:
        GraphError: there is none; says so of what was to be done with it (`verb`).
    """
    node = graph.find(name) if isinstance(name, str) else None
    if node is None:
        raise _no_node(verb, name)
    return node


def _no_node(verb: str, what: object) -> GraphError:
    if what is None:
        hint = "Is it the result of a function that returns nothing, or a gradient that is None?"
    elif isinstance(what, str):
        hint = "There is no node of that name in the session's graph."
    else:
        hint = ""
    expected = (
        "a node, the name of one, or lists, tuples and dicts of them"
        if verb == "fetch"
        else "a placeholder or another node as the key of feed_dict"
    )
    kind = type(what).__name__
    error = GraphError if isinstance(what, str) else GraphTypeError
    return error(f"run: cannot {verb} {what!r}: got {kind}, expected {expected}. {hint}".rstrip())


# ── what is fed ─────────────────────────────────────────────────────────────────────────────────


def read_feeds(
    feed_dict: Mapping[object, object], graph: Graph, place: Device
) -> tuple[tuple[Node, ...], list[Array]]:
    """Return the nodes that a `feed_dict` feeds, and their arrays on the device `place`.

    Raises:
        GraphError: it is no dict, or something in it is no node of `graph`, or does not fit one.
    """
    if not isinstance(feed_dict, Mapping):
        raise GraphError(
            f"run: got a feed_dict of {type(feed_dict).__name__}, expected a dict from "
            "placeholders to values."
        )
    pairs = [pair for item in feed_dict.items() for pair in spread(*item)]
    nodes = tuple([n if isinstance(n, Node) else find_node(n, graph, "feed") for n, _ in pairs])
    return nodes, [as_feed(n, v, place) for n, (_, v) in zip(nodes, pairs, strict=True)]


def spread(key: object, value: object) -> Iterator[tuple[object, object]]:
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


Feeds = Mapping[Any, object]
"""Values by what they are fed to: nodes, names of nodes, and tuples of them."""


def as_feed(node: Node, value: object, place: Device, copy: bool = False) -> Array:
    """Return the array for `node` on the device `place`, in the node's dtype.

    An array that is as it should be is taken as it is, unless `copy`.

    Raises:
        GraphError: `value` is no array of numbers, has another shape, or would change its numbers.
    """
    dtype, shape = node.dtype, node.shape
    if type(value) is np.ndarray and value.dtype == dtype and not copy:
        array = value
    else:
        array = _convert(node, value)
    got = array.shape
    if got != shape and not agree(got, shape):
        raise node.error(
            f"run: feed for {node.name!r} does not fit: got shape {got}, expected {shape}."
        )
    return array if place == "cpu" else asarray(array, dtype, place)


def _convert(node: Node, value: object) -> Array:
    if isinstance(value, Node) or value is None:
        fed = "None" if value is None else "a node"
        raise node.error(f"run: feed for {node.name!r} is {fed}. Feed numbers or an array.")
    try:
        array = np.asarray(to_numpy(value) if hasattr(value, "__array__") else value)
        return _cast(array, node.dtype)
    except (TypeError, ValueError) as error:
        raise node.error(
            f"run: feed for {node.name!r} cannot be {node.dtype}: got {type(value).__name__} "
            f"({error})."
        ) from error


def _cast(array: Array, dtype: DType) -> Array:
    """Return `array` as `dtype`."""
    if array.dtype.kind == "c":
        raise TypeError(f"{array.dtype} would lose its imaginary part")
    if array.dtype.kind in "USMm" or (array.dtype.kind == "O" and None in array.ravel().tolist()):
        raise TypeError("that is no array of numbers")
    with np.errstate(invalid="ignore"):
        converted = array.astype(dtype)
    if dtype.kind in "iub" and array.dtype.kind == "f" and not np.array_equal(converted, array):
        raise TypeError(f"{array.dtype} would lose its fraction")
    if dtype.kind in "iu" and array.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise ValueError(f"a value is outside the range of {dtype}")
    return converted
