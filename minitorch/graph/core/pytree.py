"""Fetches as the user groups them: lists, tuples and dicts of nodes, taken apart and rebuilt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...errors import GraphError
from .node import Node


def flatten(fetches: Any, leaves: list[Node]) -> Callable[[Callable[[], Any]], Any]:
    """Add the nodes in `fetches` to `leaves`; return how to rebuild the structure from others.

    Raises:
        GraphError: something in it is neither a node nor a list, tuple or dict.
    """
    if isinstance(fetches, Node):
        leaves.append(fetches)
        return lambda take: take()
    if isinstance(fetches, dict):
        named = {key: flatten(item, leaves) for key, item in fetches.items()}
        return lambda take: {key: part(take) for key, part in named.items()}
    if isinstance(fetches, list | tuple):
        parts = [flatten(item, leaves) for item in fetches]
        if hasattr(fetches, "_fields"):
            return lambda take: type(fetches)(*[part(take) for part in parts])
        kind = list if isinstance(fetches, list) else tuple
        return lambda take: kind([part(take) for part in parts])
    raise GraphError(f"optimize: got {type(fetches).__name__}, expected nodes or lists of them.")
