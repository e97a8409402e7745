"""Values that must be of one dtype: those of a product, of a list that is joined, of a choice.

The signs of arithmetic ask the same (`mixing`). Numbers, lists and arrays take the dtype of the
nodes beside them; nodes never change theirs by themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import DTypeError
from ..op import Value
from .mixing import dtypes_differ
from .node import Constant, Node, convert


def alike(what: str, *values: Any) -> list[Node]:
    """Return the values as nodes of one dtype.

    Raises:
        DTypeError: two nodes differ, or a number would lose its fraction; names both dtypes and
            the lines.
    """
    values = tuple([convert(v) if isinstance(v, Value) else v for v in values])
    firm = next((v for v in values if _is_firm(v)), None)
    if firm is None:
        return _of_largest([convert(v) for v in values])
    return [_beside(what, firm, value) for value in values]


def check_alike(what: str, *values: Any) -> None:
    """Raise as `alike` does; None stands for a value that is not given."""
    alike(what, *[v for v in values if v is not None])


def _is_firm(value: Any) -> bool:
    """Tell whether a value is a node that keeps its dtype."""
    return isinstance(value, Node) and not getattr(value, "follows", False)


def _beside(what: str, firm: Node, value: Any) -> Node:
    if _is_firm(value):
        if value.dtype != firm.dtype:
            raise dtypes_differ(what, firm, value)
        return value  # type: ignore[no-any-return]
    array = value.value if isinstance(value, Constant) else value
    if isinstance(array, list | tuple) and any(isinstance(v, Node) for v in array):
        node = convert(value, firm.dtype)
        if node.dtype != firm.dtype:
            raise dtypes_differ(what, firm, node)
        return node
    given = np.asarray(array)
    if given.dtype.kind == "f" and firm.dtype.kind in "iub":
        raise DTypeError(
            f"{what}: got {array!r} of {given.dtype} beside {firm.name!r}, which is {firm.dtype} "
            f"and would lose its fraction (built at {firm.location}). Use cast."
        )
    if isinstance(value, Constant) and value.dtype == firm.dtype:
        return value
    return convert(array, firm.dtype)


def _of_largest(nodes: list[Node]) -> list[Node]:
    """Return constants that nothing beside them gives a dtype, all of the one that holds them."""
    dtype = np.result_type(*[n.dtype for n in nodes]) if nodes else None
    return [n if n.dtype == dtype else convert(n.value, dtype) for n in nodes]  # type: ignore[attr-defined]
