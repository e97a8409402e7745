"""Structures of nodes: tuples, lists and dicts, taken apart and put together again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...errors import GraphError
from ..core.node import Node, convert

Rebuild = Callable[[Sequence[Any]], Any]


def apart_from(value: object, listed: bool = False) -> tuple[list[Node], Rebuild]:
    """Return the nodes in `value`, and what puts others in their places.

    Arrays, numbers and lists of numbers become constants; with `listed` a list of numbers is a
    list of nodes where it is the whole of `value`.
    """
    leaves: list[Node] = []
    put = _take(value, leaves, listed)
    return leaves, lambda new: put(iter(new))


def same_structure(where: str, got: object, want: object) -> list[Node]:
    """Return the nodes in `got`.

    Raises:
        GraphError: it is not built as `want` is.
    """
    if outline(got) != outline(want):
        raise GraphError(
            f"{where}: the structure changes: got {outline(got)}, expected {outline(want)}."
        )
    return apart_from(got)[0]


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


def _take(
    value: object, leaves: list[Node], listed: bool = False
) -> Callable[[Iterator[Any]], Any]:
    if isinstance(value, dict):
        parts = {key: _take(value[key], leaves) for key in value}
        return lambda new: {key: part(new) for key, part in parts.items()}
    if isinstance(value, list | tuple) and (listed or not _is_array(value)):
        items = [_take(item, leaves) for item in value]
        if hasattr(value, "_fields"):
            return lambda new: type(value)(*[item(new) for item in items])
        kind = list if isinstance(value, list) else tuple
        return lambda new: kind([item(new) for item in items])
    leaves.append(convert(value))
    return next


def _is_array(value: Sequence[object]) -> bool:
    """Tell whether a list is nothing but numbers, which is an array written out."""
    if not value or not isinstance(value, list):
        return False
    return all(
        _is_array(v) if isinstance(v, list) else isinstance(v, int | float | np.generic)
        for v in value
    )


def outline(value: object, listed: bool = False) -> str:
    """Return a structure in words, a node as *; `listed` as for `apart_from`."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {outline(value[key])}" for key in value) + "}"
    if isinstance(value, list | tuple) and (listed or not _is_array(value)):
        inside = ", ".join(map(outline, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    return "*"


def flatten(
    fetches: object, leaves: list[Node], find: Callable[[Any], Node] | None = None
) -> Callable[[Callable[[], Any]], Any]:
    """Add the nodes in `fetches` to `leaves`; return how to rebuild the structure from others.

    Args:
        find: gives the node that something else stands for, such as a name.
    Raises:
        GraphError: something in it is neither a node nor a list, tuple or dict.
    """
    if isinstance(fetches, Node):
        leaves.append(fetches)
        return lambda take: take()
    if isinstance(fetches, Mapping):
        named = {key: flatten(item, leaves, find) for key, item in fetches.items()}
        into = OrderedDict if isinstance(fetches, OrderedDict) else dict
        return lambda take: into((key, part(take)) for key, part in named.items())
    if isinstance(fetches, list | tuple):
        parts = [flatten(item, leaves, find) for item in fetches]
        if hasattr(fetches, "_fields"):
            return lambda take: type(fetches)(*[part(take) for part in parts])
        kind = list if isinstance(fetches, list) else tuple
        return lambda take: kind([part(take) for part in parts])
    if find is not None:
        return flatten(find(fetches), leaves)
    raise GraphError(f"optimize: got {type(fetches).__name__}, expected nodes or lists of them.")
