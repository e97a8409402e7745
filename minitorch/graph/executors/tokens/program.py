"""A lowered graph as tables of numbers, which is what a token executor runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...control.liveness import merges
from ...core.node import Node
from ...core.order import sources
from ..compiled import check_source
from .loop_nodes import Enter, Exit, Frame, NextIteration
from .lower import Lowered


@dataclass(frozen=True)
class TokenEvent:
    """A token, as it leaves the operator that made it.

    Attributes:
        step: its number in this run, from 0; the order in which the operators fired.
        node_name, op_name: the operator; a node copied into a loop keeps its name.
        frame: the loops it is in, outermost first, each but the last with the iteration it was
            entered from, such as "outer[2]/inner"; "" outside all loops.
        iteration: the iteration of the innermost loop; 0 outside.
        dead: it stands for a value that was not sent.
        value: the array; None when dead.
    """

    step: int
    node_name: str
    op_name: str
    frame: str
    iteration: int
    dead: bool
    value: Any


OnEvent = Callable[[TokenEvent], None]


CONTROL, AFTER = -1, -2
"""Slots of edges without a value: one that hands death on, and one that does not."""


@dataclass
class Spot:
    """A node with its edges.

    Attributes:
        width: how many values come in.
        waits: how many tokens it waits for, those without a value included.
        mortal: the slots on which death is its own death.
        users: (spot, slot) of everything that its token goes to.
        header: a loop's Merge, which has one input in iteration 0 and the other one later.
    """

    node: Node
    width: int
    waits: int
    mortal: frozenset[int]
    merges: bool
    header: bool
    users: list[tuple[int, int]] = field(default_factory=list)


class Program:
    """The tables of one run, made once: what every node waits for and where its token goes.

    Attributes:
        fed: the nodes that are fed, numbered.
        spots: the nodes.
        fetched: the spots whose values are the result, in order.
        starts: the spots that wait for nothing.
        enters: for each loop how many Enters it has.
        exits: for each loop its Exits.
    """

    def __init__(self, lowered: Lowered, feeds: Sequence[Node]) -> None:
        self.fed = {node: i for i, node in enumerate(feeds)}
        places = {node: i for i, node in enumerate(lowered.nodes)}
        self.spots = [self._spot(node, lowered) for node in lowered.nodes]
        for node, i in places.items():
            for slot, source in self._edges(node, lowered):
                self.spots[places[source]].users.append((i, slot))
        self.fetched = [places[node] for node in lowered.fetches]
        self.starts = [i for i, spot in enumerate(self.spots) if not spot.waits]
        self.enters: dict[Frame, int] = {}
        self.exits: dict[Frame, list[int]] = {}
        for i, spot in enumerate(self.spots):
            op = spot.node.op
            if isinstance(op, Enter):
                self.enters[op.frame] = self.enters.get(op.frame, 0) + 1
            if isinstance(op, Exit):
                self.exits.setdefault(op.frame, []).append(i)

    def _edges(self, node: Node, lowered: Lowered) -> list[tuple[int, Node]]:
        """Return everything that a node waits for, with the slot."""
        edges = list(enumerate(sources(node, self.fed)))
        if node not in self.fed and node.op is not None:
            edges += [(CONTROL, source) for source in node.control_inputs]
        return edges + [(AFTER, source) for source in lowered.after.get(node, ())]

    def _spot(self, node: Node, lowered: Lowered) -> Spot:
        if node not in self.fed:
            check_source(node)
        edges = self._edges(node, lowered)
        spared = (AFTER, *getattr(node.op, "fires_on_dead", ()))
        mortal = set() if merges(node) else {slot for slot, _ in edges if slot not in spared}
        header = merges(node) and any(isinstance(n.op, NextIteration) for n in node.inputs)
        width = sum(slot >= 0 for slot, _ in edges)
        return Spot(node, width, len(edges), frozenset(mortal), merges(node), header)
