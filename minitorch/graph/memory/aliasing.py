"""Whose memory a node's array may be: its own, an input's, or a variable's."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ...op import Op
from ...ops.broadcasting import ExpandTo, SumTo
from ...ops.linalg import MatMul
from ...ops.movement import Reshape
from ...ops.reduction import Sum
from ...ops.rows import Elementwise
from ..core.node import Node
from ..core.order import sources
from ..core.variables import Read, StateOp, Variable
from ..passes.fused import Fused

SHAPED = (ExpandTo, Reshape, SumTo)  # read no more of a second input than its shape
FRESH = frozenset({MatMul, Sum})  # and every row of `ops.rows`
NOTHING: frozenset[Variable] = frozenset()


def is_fresh(op: Op | None) -> bool:
    """Tell whether the result of `op` never shares memory with an input."""
    return isinstance(op, Elementwise | Fused) or type(op) in FRESH


def views(of: Collection[Node], order: Sequence[Node], fed: Collection[Node]) -> set[Node]:
    """Return the nodes whose arrays may share memory with the values of the nodes `of`."""
    found: set[Node] = set(of)
    for node in order:
        if node not in fed and any(source in found for source in _may_be(node)):
            found.add(node)
    return found


def looked_at(order: Sequence[Node], fed: Collection[Node]) -> dict[Node, frozenset[Variable]]:
    """Return for each node the variables with which its array may share memory."""
    found: dict[Node, frozenset[Variable]] = {}
    for node in order:
        if node in fed:
            found[node] = NOTHING
        elif isinstance(node, Variable):
            found[node] = frozenset({node})
        else:
            found[node] = NOTHING.union(
                *[{s} if isinstance(s, Variable) else found.get(s, NOTHING) for s in _may_be(node)]
            )
    return found


def overwriting(order: Sequence[Node], fetches: Sequence[Node], fed: Collection[Node]) -> set[Node]:
    """Return the nodes that may overwrite the arrays of the variables that they write.

    One may when neither its own inputs, nor anything that runs later, nor a fetch can be looking
    at such an array.
    """
    place = {node: i for i, node in enumerate(order) if node not in fed and _overwrites(node.op)}
    if not place:
        return set()
    looks = looked_at(order, fed) | {v: frozenset({v}) for v in order if isinstance(v, Variable)}
    used: dict[Variable, int] = {}  # the last place that reads what looks at a variable
    for i, node in enumerate(order):
        for source in sources(node, fed):
            used.update(dict.fromkeys(looks.get(source, NOTHING), i))
    fetched: dict[Variable, set[Node]] = {}
    for node in fetches:
        for variable in looks.get(node, NOTHING):
            fetched.setdefault(variable, set()).add(node)
    return {
        node
        for node, i in place.items()
        if all(used.get(v, -1) < i and fetched.get(v, set()) <= {node} for v in node.op.writes)
    }


def _overwrites(op: Any) -> bool:
    return bool(getattr(op, "writes", ())) and not op.hands_on


def _may_be(node: Node) -> Sequence[Node]:
    """Return the inputs and variables with which the array of `node` may share memory."""
    op: Any = node.op
    inputs: tuple[Node, ...] = node.inputs
    if isinstance(op, StateOp) and not op.hands_on:
        return (op.variable,) if isinstance(op, Read) else op.writes
    if is_fresh(op):
        return ()
    return inputs[:1] if isinstance(op, SHAPED) else inputs
