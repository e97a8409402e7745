"""Structures of nodes, and of what becomes a node."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from ...pytree import Rebuild, walk
from .node import Node, convert


def flatten_with_rebuild(
    value: object, listed: bool = False
) -> tuple[list[Node], Callable[[Sequence[object]], Any]]:
    """Return the nodes in `value`, and what puts others in their places.

    Arrays, numbers and lists of numbers become constants; with `listed` a list of numbers is a
    list of nodes where it is the whole of `value`.
    """
    leaves: list[Node] = []

    def leaf(item: object) -> Rebuild:
        leaves.append(convert(item))
        return next

    put = walk(value, leaf, lambda item: _is_array(item) and not (listed and item is value))
    return leaves, lambda new: put(iter(new))


def flatten(
    fetches: object, leaves: list[Node], find: Callable[[object], Node] | None = None
) -> Rebuild:
    """Add the nodes in `fetches` to `leaves`; return how to rebuild the structure from others.

    Args:
        find: gives the node that something else stands for, such as a name.
    Raises:
        GraphError: something in it is neither a node nor a list, tuple or dict.
    """

    def leaf(item: object) -> Rebuild:
        if not isinstance(item, Node):
            if find is None:
                raise GraphError(
                    f"optimize: got {type(item).__name__}, expected nodes or lists of them."
                )
            item = find(item)
        leaves.append(item)
        return next

    return walk(fetches, leaf)


def same_structure(where: str, got: object, want: object) -> list[Node]:
    """Return the nodes in `got`.

    Raises:
        GraphError: it is not built as `want` is.
    """
    if outline(got) != outline(want):
        raise GraphError(
            f"{where}: the structure changes: got {outline(got)}, expected {outline(want)}."
        )
    return flatten_with_rebuild(got)[0]


def leaves_like(where: str, structure: Any, value: Any) -> list[Any]:
    """Return what `value` has in the places where `structure` has a leaf."""
    if isinstance(structure, dict):
        pairs = [(structure[key], value[key]) for key in structure]
    elif isinstance(structure, list | tuple) and not _is_array(structure):
        if not isinstance(value, list | tuple) or len(value) != len(structure):
            raise GraphError(
                f"{where}: got {value!r}, expected the structure {outline(structure)}."
            )
        pairs = list(zip(structure, value, strict=True))
    else:
        return [value]
    return [leaf for part, item in pairs for leaf in leaves_like(where, part, item)]


def _is_array(value: object) -> bool:
    """Tell whether a list is nothing but numbers, which is an array written out."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(v, int | float | np.generic) or _is_array(v) for v in value)


def outline(value: object, listed: bool = False) -> str:
    """Return a structure in words, a node as *; `listed` as for `flatten_with_rebuild`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {outline(value[key])}" for key in value) + "}"
    if isinstance(value, list | tuple) and (listed or not _is_array(value)):
        inside = ", ".join(map(outline, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return "*"
