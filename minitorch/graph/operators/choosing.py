"""`case` and `convert_to_tensor`, under TensorFlow's names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...arrays import as_dtype
from ...errors import GraphError
from ...ops.casting import cast_to
from ..control.cond import cond
from ..lined import lined
from ..naming import rename
from ..node import Constant, Node, convert
from ..scope import control_dependencies
from .effects import Assert
from .elementwise import equal, logical_or
from .math import reduce_sum
from .shaping import identity, stack

__all__ = [
    "case",
    "convert_to_tensor",
    "switch_case",
]


Build = Callable[[], Any]


@lined
def case(
    pred_fn_pairs: Any,
    default: Build | None = None,
    exclusive: bool = False,
    strict: bool = False,
    name: str | None = None,
) -> Any:
    """Return what the function beside the first predicate that holds builds, else `default`'s.

    Args:
        pred_fn_pairs: (predicate, function) pairs, or a dict from predicates to functions.
        exclusive: stop the run where more than one holds.
        strict: where one value in a list is built, give the list; otherwise the value.
    Raises:
        GraphError: there is no pair, or one is none. In the run: none holds and there is no
            default.
    """
    given = pred_fn_pairs.items() if isinstance(pred_fn_pairs, Mapping) else pred_fn_pairs
    pairs = [_pair(item) for item in given]
    if not pairs:
        raise GraphError("case: got no pairs, expected one or more of (predicate, function).")
    preds = [pred for pred, _ in pairs]
    guards: list[Node] = []
    if exclusive:
        total = reduce_sum(stack([cast_to(p, "int32") for p in preds]))
        guards.append(Assert(total < 2, ["case: more than one predicate holds:", *preds]))
    if default is None:
        any_holds = preds[0]
        for pred in preds[1:]:
            any_holds = logical_or(any_holds, pred)
        guards.append(Assert(any_holds, ["case: no predicate holds, and there is no default"]))
        default = pairs.pop()[1]
    with control_dependencies(guards):
        found = _chosen(pairs, default)
    if isinstance(found, Node):
        return rename(identity(found), name) if name else found
    alone = isinstance(found, list | tuple) and len(found) == 1 and not strict
    return found[0] if alone else found


def _pair(item: Any) -> tuple[Node, Build]:
    if not isinstance(item, tuple | list) or len(item) != 2 or not callable(item[1]):
        raise GraphError(f"case: got {item!r}, expected a pair of a predicate and a function.")
    return convert(item[0]), item[1]


def _chosen(pairs: Sequence[tuple[Node, Build]], default: Build) -> Any:
    if not pairs:
        return default()
    (pred, build_it), *rest = pairs
    return cond(pred, build_it, lambda: _chosen(rest, default))


@lined
def switch_case(
    branch_index: Any, branch_fns: Any, default: Build | None = None, name: str | None = None
) -> Any:
    """Return what the function of this number builds, else `default`'s, else the last one's.

    Args:
        branch_fns: functions in order, or pairs or a dict of numbers and functions.
    Raises:
        GraphError: there is no function.
    """
    given = branch_fns.items() if isinstance(branch_fns, Mapping) else branch_fns
    pairs = [p if isinstance(p, tuple | list) else (i, p) for i, p in enumerate(given)]
    if not pairs:
        raise GraphError("switch_case: got no functions, expected one or more.")
    chosen = convert(branch_index)
    cases = sorted(pairs, key=lambda pair: int(pair[0]))
    last = default or cases.pop()[1]
    if not cases:
        return last()
    return case([(equal(chosen, int(i)), build) for i, build in cases], last, name=name)


@lined
def convert_to_tensor(
    value: Any, dtype: Any = None, name: str | None = None, preferred_dtype: Any = None
) -> Node:
    """The value as a node: itself if it is one, else a constant; lists may have nodes in them.

    Args:
        preferred_dtype: that of a constant, if the value can be of it without a loss.
    Raises:
        GraphError: it is a node of another dtype.
    """
    wanted = None if dtype is None else as_dtype(dtype)
    hoped = wanted
    if wanted is None and preferred_dtype is not None:
        liked = as_dtype(preferred_dtype)
        hoped = liked if liked.kind == "f" or np.asarray(value).dtype.kind != "f" else None
    node = convert(value, hoped)
    if wanted is not None and node.dtype != wanted:
        raise GraphError(
            f"convert_to_tensor: {node.name!r} is {node.dtype}, expected {wanted} (built at "
            f"{node.location}). Use cast."
        )
    return node if isinstance(value, Node) else rename(node, name)


def when(holds: Any, yes: Build, no: Build) -> Any:
    """Return what `yes` or `no` builds: one of them where `holds` is known, else a `cond`."""
    if isinstance(holds, Constant):
        holds = bool(holds.value)
    if not isinstance(holds, Node):
        return yes() if holds else no()
    pred = holds if holds.dtype.kind == "b" else holds != 0
    return cond(pred, yes, no)
