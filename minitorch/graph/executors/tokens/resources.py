"""What a node reads and writes besides its inputs, and which of two such nodes must come first."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, NamedTuple

from ...core.node import Node
from ...core.order import needed
from ...core.variables import Read, Variable

UNKNOWN_EFFECT = "unknown effect"  # what says nothing of itself keeps order with its like


class Touched(NamedTuple):
    """The variables (and other memory) that a node looks at, and those that it changes."""

    reads: frozenset[Hashable]
    writes: frozenset[Hashable]

    def __bool__(self) -> bool:
        return bool(self.reads or self.writes)


NOTHING = Touched(frozenset(), frozenset())


def touched(node: Node) -> Touched:
    """Return what `node` touches; a loop touches what its body does."""
    op = node.op
    if isinstance(node, Variable):
        return Touched(frozenset([node]), frozenset())
    if op is None or not getattr(op, "ordered", not op.pure):
        return NOTHING
    if hasattr(op, "body"):
        return _inside(op)
    if isinstance(op, Read):
        return Touched(frozenset([op.variable]), frozenset())
    return Touched(frozenset(), frozenset(getattr(op, "writes", ()) or [_memory_of(op)]))


def _memory_of(op: Any) -> Hashable:
    """Return the random generator of an operator that draws, which is kept by the operator."""
    return op if hasattr(op, "seed") else UNKNOWN_EFFECT


def _inside(loop: Any) -> Touched:
    nodes = needed([loop.test, *loop.body, *loop.saved], {*loop.variables, *loop.entrances})
    found = [touched(node) for node in nodes]
    reads = frozenset().union(*(t.reads for t in found))
    return Touched(reads, frozenset().union(*(t.writes for t in found)))


class Effects:
    """The nodes met so far, in the order of a sequential run, by what they touch."""

    def __init__(self) -> None:
        self._written: dict[Hashable, Node] = {}
        self._read: dict[Hashable, list[Node]] = {}

    def add(self, what: Touched, last: Node) -> list[Node]:
        """Return which nodes must have run before one that touches this; `last` is its end."""
        before = [self._written[m] for m in what.reads | what.writes if m in self._written]
        for memory in what.writes:
            before += self._read.pop(memory, [])
            self._written[memory] = last
        for memory in what.reads - what.writes:
            self._read.setdefault(memory, []).append(last)
        return before
