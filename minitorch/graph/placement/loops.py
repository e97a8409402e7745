"""A loop on several ranks: each runs a loop of its own, and they go round together.

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

from typing import Any

from ..control.dead_values import DEAD
from ..control.loop_stacks import EMPTY, Opacity, Outcome, Past
from ..core.node import Node
from ..core.variables import State
from ..executors.compiled import Step
from .levels import LoopCut, Part


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
        count = len(op.variables) + len(op.entrances)
        fixed = [j for j in range(count) if j not in cut.homes and me in cut.readers(j)]
        self._fixed = {("out", j): fixed.index(j) for j, at in cut.stays.items() if at == me}
        self._pasts = [k for k, home in cut.pasts.items() if home == me]
        self.inputs = [*self._own, *fixed]
        inside = (*test.order, *body.order)
        self.writes = tuple({v: None for n in inside for v in getattr(n.op, "writes", ())})
        self._prepare(cut, me, test, body)

    def _prepare(self, cut: LoopCut, me: int, test: Part, body: Part) -> None:
        """Compile the condition and the round."""
        op = cut.loop.op
        all_given = (*op.variables, *op.entrances)
        feeds = [all_given[j] for j in self.inputs]
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
            kept = [None if v is DEAD else v for v in found[count:]]
            pasts = [Past(item, past) for item, past in zip(kept, pasts, strict=True)]
        slots: dict[Any, Any] = {("out", i): v for i, v in zip(self._own, values, strict=True)}
        slots.update((slot, fixed[place]) for slot, place in self._fixed.items())
        slots.update((("past", k), past) for k, past in zip(self._pasts, pasts, strict=True))
        return Outcome(slots)
