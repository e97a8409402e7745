"""Nodes of lab 04 that do something: assignments and groups; and what lies behind a node."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from minitorch.arrays.library import Array, Namespace
from minitorch.op import KeepsSpec, Op, Spec


class AssignOp(KeepsSpec):
    """The value itself; a session that has run it makes it the value of `variable`."""

    name = "assign"

    def __init__(self, variable: Any) -> None:
        self.variable = variable

    def compute(self, xp: Namespace, value: Array) -> Array:
        """Return the value."""
        return value


class GroupOp(Op):
    """Nothing: a node to fetch for what its inputs do."""

    name = "group"

    def compute(self, xp: Namespace, *values: object) -> Array:
        """Return a zero."""
        return xp.zeros((), xp.float32)

    def infer(self, *specs: Spec) -> Spec:
        """Return a scalar."""
        return Spec((), np.dtype(np.float32))


def every_node(*nodes: object) -> list[Any]:
    """Return all nodes that these depend on, themselves included."""
    seen: dict[Any, bool] = {}
    waiting: list[Any] = list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in seen:
            seen[node] = True
            waiting += node.inputs
    return list(seen)


def variables_of(nodes: Iterable[Any], kind: type) -> list[Any]:
    """Return each variable, a node of this kind, that these nodes read or write."""
    behind = every_node(*nodes)
    written = [node.op.variable for node in behind if isinstance(node.op, AssignOp)]
    return list(dict.fromkeys([*(node for node in behind if isinstance(node, kind)), *written]))
