"""What a loop is taken apart into: Enter, Exit, NextIteration and LoopCond, in a circle.

Each of the four hands its input on. What they change is the token's tag, the frame (one run of a
loop) and the iteration it belongs to, and that is the executor's doing (`tagged`). The circle is
built one variable at a time.

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018, section 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from minitorch.arrays.library import Array, Namespace
from minitorch.op import KeepsSpec, Op

from ...control.cond import Merge, Routing, Switch
from ...control.loop_stacks import Push
from ...control.while_op import While
from ...core.copying import make_node
from ...core.gradients import Identity
from ...core.node import Node
from ...core.variables import NoOp


@dataclass(frozen=True, eq=False)
class Frame:
    """A loop as an executor sees it: it runs in a frame of its own each time it is entered."""

    name: str
    parallel_iterations: int


class Passing(KeepsSpec, Routing):
    """Base: the input itself, in another place."""

    def compute(self, xp: Namespace, *arrays: Array) -> Array:
        return arrays[0]


class Enter(Passing):
    """From outside into iteration 0 of the loop; a constant into every iteration."""

    def __init__(self, frame: Frame, constant: bool = False) -> None:
        self.frame, self.constant = frame, constant


class Exit(Passing):
    """From the loop's last iteration to the outside."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame


class NextIteration(Passing):
    """From one iteration to the next."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame


class LoopCond(Passing):
    """Whether there is another iteration; what decides for every Switch of the loop."""


MANY = 32
"""Waits from which on one node waits for all of them, and each Enter for that: as many edges as
there are Enters and waits, and not their product."""


class LoopNodes:
    """A loop taken apart; each list has a node for each variable.

    Attributes:
        enters, merges: filled by `open`.
        going, exits: filled by `decide`.
        nexts: filled by `close` and `pass_turn`.
    """

    def __init__(self, node: Node, pivot: Node | None, before: Sequence[Node]) -> None:
        loop: While = node.op
        self.node, self.pivot, self.before = node, pivot, tuple(before)
        if len(self.before) > MANY:
            self.before = (make_node(NoOp(), (), node, self.before, f"{node.name}/before"),)
        self.frame = Frame(node.name, loop.parallel_iterations)
        self.enters: list[Node] = []
        self.merges: list[Node] = []
        self.going: list[Node] = []
        self.exits: list[Node] = []
        self.nexts: list[Node] = []

    def source(self, op: Op, name: str) -> Node:
        """Return a node outside the loop that waits for nothing but the outer loop's iteration."""
        control = () if self.pivot is None else (self.pivot,)
        return make_node(op, (), self.node, control, f"{self.node.name}/{name}")

    def enter(self, source: Node, constant: bool = False) -> Node:
        """Bring a value in, or let it die with whatever the loop as a whole dies of."""
        op = Enter(self.frame, constant)
        return make_node(op, (source,), source, self.before, f"{source.name}/Enter")

    def open(self, source: Node) -> None:
        """Begin a variable whose first value is `source`."""
        enter = self.enter(source)
        self.enters.append(enter)
        self.merges.append(make_node(Merge(), (enter,), source, name=f"{source.name}/Merge"))

    def decide(self, test: Node) -> None:
        """Send every variable round once more, or out, by `test`."""
        self.cond = make_node(LoopCond(), (test,), test, name=f"{self.frame.name}/LoopCond")
        for merge in self.merges:
            stem = merge.name.removesuffix("/Merge")
            self.going.append(
                make_node(Switch(True), (merge, self.cond), merge, name=f"{stem}/Switch")
            )
            leaving = make_node(Switch(False), (merge, self.cond), merge, name=f"{stem}/Switch_out")
            self.exits.append(make_node(Exit(self.frame), (leaving,), merge, name=f"{stem}/Exit"))

    def close(self, values: Sequence[Node], saved: Sequence[Node]) -> None:
        """Send the next values back to the Merges; what is kept goes onto its list."""
        for value in values:
            if isinstance(value.op, Enter):  # there in every iteration, so it must be stopped
                value = make_node(
                    Switch(True), (value, self.cond), value, name=f"{value.name}/Switch"
                )
            self._next(value)
        for item in saved:
            past = self.going[len(self.nexts)]
            self._next(make_node(Push(), (past, item), past, name=f"{item.name}/Push"))

    def pass_turn(self) -> Node:
        """Close the last variable, the turn; return the node that is to wait for the effects."""
        turn = self.going[-1]
        handed_on = make_node(Identity(), (turn,), turn, name=f"{self.frame.name}/turn")
        self._next(handed_on)
        return handed_on

    def _next(self, value: Node) -> None:
        merge = self.merges[len(self.nexts)]
        back = make_node(NextIteration(self.frame), (value,), value, name=f"{value.name}/Next")
        self.nexts.append(back)
        merge.inputs = (*merge.inputs, self.nexts[-1])
