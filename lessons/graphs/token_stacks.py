"""Operators of token graphs whose values are stacks, and rows of a table.

A stack is a pair (values, the stack below), the empty one has nothing in it; nothing is ever
overwritten. Both are arrays of objects, since whoever fires an operator may make an array of what
it returns.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lessons.graphs.tokens import Constant, Node, record
from minitorch.arrays.library import Array, Namespace
from minitorch.op import KeepsSpec, Op, Spec


class Push(KeepsSpec):
    """Of (stack, *values): the stack with the values on top."""

    pure = False

    def compute(self, xp: Namespace, stack: object, *values: object) -> Any:
        """Return the pair."""
        pair = np.empty(2, object)
        pair[0], pair[1] = values, stack
        return pair


class Top(Op):
    """Value number `place` on top of a stack; it looks like the node `like`."""

    def __init__(self, place: int, like: Node) -> None:
        self.place, self.spec = place, Spec(like.shape, like.dtype)

    def compute(self, xp: Namespace, stack: Any) -> Any:
        """Return the value."""
        return stack[0][self.place]

    def infer(self, *specs: Spec) -> Spec:
        """Return what the value looks like."""
        return self.spec


class Below(KeepsSpec):
    """The stack without its top."""

    def compute(self, xp: Namespace, stack: Any) -> Any:
        """Return the stack below."""
        return stack[1]


class Filled(Op):
    """Whether a stack holds anything."""

    def compute(self, xp: Namespace, stack: Sequence[object]) -> Array:
        """Return a boolean array."""
        return xp.asarray(len(stack) > 0)

    def infer(self, *specs: Spec) -> Spec:
        """Return a scalar of booleans."""
        return Spec((), np.dtype(bool))


class Row(Op):
    """Of (table, i): row i of the table. The table is data: no gradient."""

    name = "row"

    def compute(self, xp: Namespace, table: Array, i: Array) -> Any:
        """Return the row."""
        return table[int(i)]

    def infer(self, *specs: Spec) -> Spec:
        """Return the shape of a row."""
        return Spec(specs[0].shape[1:], specs[0].dtype)

    def gradient(self, out_grad: object, node: object) -> tuple[None, None]:
        """Return no gradient."""
        return None, None


EMPTY = Constant(0.0)
EMPTY.value = np.empty(0, object)  # the empty stack


def push(stack: Node, *values: object) -> Node:
    """Return the stack with the values on top."""
    return record(Push(), [stack, *values])


def pop(stack: Node, like: Sequence[Node]) -> tuple[list[Node], Node]:
    """Return (the values on top, as nodes that look like those of `like`; the stack below)."""
    return [record(Top(i, v), [stack]) for i, v in enumerate(like)], record(Below(), [stack])


def filled(stack: Node) -> Node:
    """Return whether the stack holds anything."""
    return record(Filled(), [stack])


def row(table: Node, i: object) -> Node:
    """Return row i of a table."""
    return record(Row(), [table, i])
