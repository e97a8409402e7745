"""Loops as placement sees them: what each has inside, and who takes what out of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from ..control.loop_stacks import Empty, Opaque
from ..control.outcome import History, Output
from ..control.while_op import While
from ..core.node import Constant, Node, Placeholder
from ..core.order import schedule


@dataclass(frozen=True)
class Loop:
    """A loop of a run.

    Attributes:
        node: what runs it.
        takers: the nodes that take a value or a list out of its outcome.
        users: the nodes that use the outcome in other ways, as a whole; to wait is not to use.
    """

    node: Node
    takers: tuple[Node, ...]
    users: tuple[Node, ...]

    @property
    def op(self) -> While:
        """The operator, with condition and body."""
        loop: While = self.node.op
        return loop

    @cached_property
    def given(self) -> frozenset[Node]:
        """The placeholders that condition and body stand on."""
        return frozenset((*self.op.variables, *self.op.entrances))

    @cached_property
    def kept(self) -> dict[int, Node]:
        """The lists that are asked for, by number, each with the first node that takes it."""
        found: dict[int, Node] = {}
        for taker in self.takers:
            if isinstance(taker.op, History):
                found.setdefault(taker.op.place, taker)
        return found

    @cached_property
    def test(self) -> list[Node]:
        """The nodes of the condition, in the order in which they run."""
        return schedule([self.op.test], self.given)

    @cached_property
    def body(self) -> list[Node]:
        """The nodes of a round, in the order in which they run."""
        return schedule([*self.op.body, *(self.op.saved[k] for k in sorted(self.kept))], self.given)

    @property
    def inner(self) -> list[Node]:
        """All nodes inside, but for those inside other loops."""
        return list(dict.fromkeys((*self.test, *self.body)))

    def stays(self, i: int) -> bool:
        """Tell whether a variable is in every round what it was at first."""
        return self.op.body[i] is self.op.variables[i]

    @cached_property
    def staying(self) -> frozenset[Node]:
        """The variables that stay what they are, and what enters from outside."""
        numbered = enumerate(self.op.variables)
        return frozenset((*self.op.entrances, *(v for i, v in numbered if self.stays(i))))

    def roams(self, node: Node) -> bool:
        """Tell whether a value inside is of no place: a constant, or an array that stays."""
        if isinstance(node, Opaque):
            return isinstance(node.op, Empty)
        return isinstance(node, Constant) or node in self.staying


def loops_in(order: Sequence[Node], fed: Collection[Node]) -> dict[Node, Loop]:
    """Return the loops that a run meets outside other loops."""
    takers: dict[Node, dict[Node, None]] = {}
    users: dict[Node, dict[Node, None]] = {}
    for node in order:
        if isinstance(node.op, While) and node not in fed:
            takers[node], users[node] = {}, {}
    for node in order if takers else ():
        if node in fed:
            continue
        for source in node.inputs:
            if source in takers:
                (takers if isinstance(node.op, Output) else users)[source][node] = None
    return {node: Loop(node, tuple(takers[node]), tuple(users[node])) for node in takers}


def everywhere(node: Node, fed: Collection[Node]) -> bool:
    """Tell whether every device has the value of `node`, or can have it for nothing."""
    return node in fed or isinstance(node, Constant | Placeholder) or isinstance(node.op, Empty)
