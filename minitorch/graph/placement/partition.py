"""A placed graph cut into one program a rank, with Send and Recv where an edge crosses.

Every rank runs its part of one common order, and a value is sent right after it was computed and
received at the same place of that order. So of all transfers that are not done the first one has
both its ranks waiting for nothing else: it gets done, and no ranks ever wait for each other, even
if sending waits for the receiver.

A branch is cut as everything is: its Switches are where the values are that they let through, the
predicate is sent there, and what crosses an edge of a branch that is not taken is a flag that says
so. A loop that is cut becomes a loop on each rank that takes part, and they go round together; its
rounds stand in the common order one after another, and the argument holds for them as well.

    rank 0 (owner)                      rank 1
    while p := test(...):               while p := Recv(0):      p is sent in every round
        send p to 1
        a' = f(a);  send a to 1             b' = g(b, Recv(0))   what crosses is sent in the round
        a = a'                              b = b'

A variable lives on the rank where the body computes its next value, and is sent in each round to
the others that look at it: once, for condition and body together. What does not change from round
to round, a captured value or a variable that the body hands on as it is, is sent before the loop
begins to the ranks that look at it. A value that leaves the loop leaves it where it lives, and a
list of what a node was in each round is kept where that node is, so a gradient's loop finds on each
rank what that rank computed.

The condition may be on several ranks too; the one that computes its result sends that to all that
take part. So all run equally many rounds, none of them if need be. A loop that can be dead, in a
branch, has a gate: its owner tells the others whether it runs at all.

Messages a round: one for each value and each other rank that reads it, one more for each rank but
the owner, and a flag with every value that can be dead.

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018, section 4.4;
there a rank's loop is a state machine of control nodes, here a loop.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ..control.loop_stacks import EMPTY, Opacity, Outcome, Slot, longer
from ..core.copying import made
from ..core.node import Node
from ..core.order import writes_of
from ..core.variables import NoOp, State
from ..executors.compiled import Step
from .levels import Level, LoopCut, Part, Placed, check_lists
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


class LoopPart(Opacity):
    """One rank's loop.

    Attributes:
        inputs: which of the whole loop's inputs it has.
    """

    name = "while"
    ordered = True

    def __init__(self, cut: LoopCut, me: int, test: Part, body: Part) -> None:
        op = cut.loop.op
        self._own = [i for i, home in cut.homes.items() if home == me]
        fixed = [j for j in range(len(op.given)) if j not in cut.homes and me in cut.readers(j)]
        self._fixed = {("out", j): fixed.index(j) for j, at in cut.stays.items() if at == me}
        self._pasts = [k for k, home in cut.pasts.items() if home == me]
        self.inputs = [*self._own, *fixed]
        inside = (*test.order, *body.order)
        self.writes = tuple({v: None for n in inside for v in writes_of(n)})
        self._prepare(cut, me, test, body)

    def _prepare(self, cut: LoopCut, me: int, test: Part, body: Part) -> None:
        """Compile the condition and the round."""
        op = cut.loop.op
        feeds = [op.given[j] for j in self.inputs]
        carried = cut.carried(me)
        asked: list[Node] = [test.here[op.test], *(test.here[v] for v in carried)]
        self._test = Step(asked, feeds, inner=1, order=test.order)
        after = [body.here[op.body[i]] for i in self._own]
        saved = [body.here[op.saved[k]] for k in self._pasts]
        both = [*after, *saved]
        self._body = Step(both, [*feeds, *carried], inner=len(after), order=body.order)

    def run(self, state: State, *arrays: Any) -> Any:
        """Return this rank's share of the outcome."""
        count = len(self._own)
        values, fixed = arrays[:count], arrays[count:]
        pasts = [EMPTY] * len(self._pasts)
        while True:
            more, *carried = self._test(state, (*values, *fixed))
            if not more:
                break
            found = self._body(state, (*values, *fixed, *carried))
            values = found[:count]
            pasts = longer(pasts, found[count:])
        slots: dict[Slot, object] = {("out", i): v for i, v in zip(self._own, values, strict=True)}
        slots.update((slot, fixed[place]) for slot, place in self._fixed.items())
        slots.update((("past", k), past) for k, past in zip(self._pasts, pasts, strict=True))
        return Outcome(slots)
