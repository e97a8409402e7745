"""A placed graph cut into one program a rank, with Send and Recv where an edge crosses.

Every rank runs its part of one common order, and a value is sent right after it was computed and
received at the same place of that order. So of all transfers that are not done the first one has
both its ranks waiting for nothing else: it gets done, and no ranks ever wait for each other, even
if sending waits for the receiver.

A loop that is cut becomes a loop on each rank that takes part (`loops`); its rounds stand in the
common order one after another, and the argument holds for them as well. A branch is cut as
everything is: its Switches are where the values are that they let through, the predicate is sent
there, and what crosses an edge of a branch that is not taken is a flag that says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..core.copying import made
from ..core.node import Node
from ..core.variables import NoOp
from .levels import Level, LoopCut, Part, Placed, check_lists
from .loops import LoopPart
from .send_recv import Ranks, Recv, Send, Wire


def cut(
    order: Sequence[Node],
    fetches: Sequence[Node],
    fed: Collection[Node],
    placed: Placed,
    ranks: Ranks,
) -> Part:
    """Return the part of this rank. Every rank has the values of `fetches` in the end.

    Raises:
        GraphError: a list, or the outcome of a loop as a whole, would have to be sent.
    """
    level = Level(order, fed, placed)
    level.end_in([(node, range(ranks.size)) for node in fetches])
    check_lists(level)
    return Cutting(level, ranks).part


class Cutting:
    """One rank's part of a level, while it is made."""

    def __init__(self, level: Level, ranks: Ranks) -> None:
        self.level, self.ranks = level, ranks
        self.part = Part()
        for node in level.order:
            if node in level.loops:
                self._loop(node, level.loops[node])
            else:
                self._node(node)

    def _node(self, node: Node) -> None:
        """Add a node if it is of this rank, then what sends or receives its value."""
        level = self.level
        if level.has(node, self.ranks.rank):
            self._add(node, self._local(node))
        for dst in level.targets(node):
            wire = Wire(node in level.mortal, dst in level.readers(node))
            self._cross(node, level.placed[node], dst, wire)

    def _add(self, node: Node, own: Node) -> None:
        """Let `own`, which runs now, stand for `node`."""
        self.part.here[node] = own
        self.part.order.append(own)

    def _cross(self, node: Node, home: int, dst: int, wire: Wire) -> None:
        """Send the value of `node` if this is its rank, receive it if this is the other one."""
        if home == self.ranks.rank:
            sending = Send(self.ranks, dst, wire)
            own = self.part.here[node]
            self.part.order.append(made(sending, (own,), node, name=f"{node.name}/send"))
            self.part.sends += 1
        elif dst == self.ranks.rank:
            self._add(node, made(Recv(self.ranks, home, wire, node), (), node))
            self.part.recvs += 1

    def _local(self, node: Node) -> Node:
        """Return `node` over what stands for its inputs on this rank."""
        if node in self.level.given:
            return node
        here = self.part.here
        inputs = tuple(here.get(source, source) for source in node.inputs)
        if node.op is None:
            # What has no operator waits for nothing.
            waits = not (node.inputs or node.control_inputs)
            return node if waits else node.with_inputs(inputs, ())
        control = tuple(here[source] for source in self.level.waits(node))
        same = len(control) == len(node.control_inputs)
        pairs = zip((*inputs, *control), (*node.inputs, *node.control_inputs), strict=False)
        if same and all(a is b for a, b in pairs):
            return node
        return node.with_inputs(inputs, control)

    # Loops

    def _loop(self, node: Node, cut: LoopCut) -> None:
        """Add this rank's loop, if it takes part; tell those that wait for it and do not."""
        if self.ranks.rank in cut.ranks:
            self._take_part(node, cut)
        for dst in sorted(self.level.users(node).difference(cut.ranks)):
            self._cross(node, cut.owner, dst, Wire(node in self.level.mortal, carries=False))

    def _take_part(self, node: Node, cut: LoopCut) -> None:
        """Add this rank's loop, and what tells it whether to run at all."""
        me, here = self.ranks.rank, self.part.here
        control = tuple(here[n] for n in self.level.decisive(node)) if me == cut.owner else ()
        if node in self.level.mortal:
            control = (self._gate(node, cut, control),)
        test, body = (Cutting(part, self.ranks).part for part in (cut.test, cut.body))
        part = LoopPart(cut, me, test, body)
        own = node.with_inputs(tuple(here[node.inputs[j]] for j in part.inputs), control)
        own.op = part
        self._add(node, own)

    def _gate(self, node: Node, cut: LoopCut, control: tuple[Node, ...]) -> Node:
        """Return what is dead if the loop is; its owner knows, and tells the others."""
        gate = made(NoOp(), (), node, control, name=f"{node.name}/runs")
        if self.ranks.rank == cut.owner:
            self._add(gate, gate)
        for dst in cut.ranks:
            if dst != cut.owner:
                self._cross(gate, cut.owner, dst, Wire(mortal=True, carries=False))
        return self.part.here[gate]
