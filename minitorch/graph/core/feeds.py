"""What a session is fed: values for nodes, as arrays of the nodes' own dtypes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...arrays import Array, Device, DType, asarray, to_numpy
from ...errors import GraphError
from .fetches import node_called
from .graph import Graph
from .node import Node
from .static_shape import agree


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
    nodes = tuple([n if isinstance(n, Node) else node_called(n, graph, "feed") for n, _ in pairs])
    return nodes, [as_feed(n, v, place) for n, (_, v) in zip(nodes, pairs, strict=True)]


def spread(key: object, value: object) -> Iterator[tuple[Any, Any]]:
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
        array = _converted(node, value)
    got = array.shape
    if got != shape and not agree(got, shape):
        raise GraphError(
            f"run: feed for {node.name!r} does not fit: got shape {got}, expected {shape} "
            f"(node {node.name!r} built at {node.location})."
        )
    return array if place == "cpu" else asarray(array, dtype, place)


def _converted(node: Node, value: object) -> Any:
    if isinstance(value, Node) or value is None:
        what = "None" if value is None else "a node"
        raise GraphError(
            f"run: feed for {node.name!r} is {what}. Feed numbers or an array (node "
            f"{node.name!r} built at {node.location})."
        )
    try:
        array = np.asarray(to_numpy(value) if hasattr(value, "__array__") else value)
        return _cast(array, node.dtype)
    except (TypeError, ValueError) as error:
        raise GraphError(
            f"run: feed for {node.name!r} cannot be {node.dtype}: got {type(value).__name__} "
            f"({error}) (node {node.name!r} built at {node.location})."
        ) from error


def _cast(array: np.ndarray[Any, Any], dtype: DType) -> np.ndarray[Any, Any]:
    """Return `array` as `dtype`.

    Raises:
        TypeError, ValueError: it is no array of numbers, or a number would become another one.
    """
    if array.dtype.kind == "c":
        raise TypeError(f"{array.dtype} would lose its imaginary part")
    if array.dtype.kind in "USMm" or (array.dtype.kind == "O" and None in array.ravel().tolist()):
        raise TypeError("that is no array of numbers")
    with np.errstate(invalid="ignore"):
        found = array.astype(dtype)
    if dtype.kind in "iub" and array.dtype.kind == "f" and not np.array_equal(found, array):
        raise TypeError(f"{array.dtype} would lose its fraction")
    if dtype.kind in "iu" and array.dtype.kind in "iu" and not np.array_equal(found, array):
        raise ValueError(f"a value is outside the range of {dtype}")
    return found
