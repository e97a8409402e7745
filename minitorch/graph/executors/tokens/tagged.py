"""The token executor: a graph run as tagged tokens that move, one operator at a time.

The graph is lowered, so loops are operators like any other. A token's tag says in which run of
which loop it is, and in which iteration; an operator fires once for each tag, when all its inputs
with that tag are there. The rules:

- A dead input makes the operator's token dead, without computing; Merge lives with its first input
  that is alive, and dies only when all are dead. A loop's Merge has one input in iteration 0, from
  Enter, and the other one later, from NextIteration.
- NextIteration does not hand on a dead token, which is how a loop ends.
- An Exit hands on what is alive. When the frame is over, an Exit that never was hands on one dead
  token: what happens after a loop that was not run.
- An iteration is over when nothing in it is ready, running or inside an inner frame, and no more
  can come: every Enter has arrived, and the iteration before is over. A frame is over when its
  iterations are. A new iteration waits while `parallel_iterations` are under way.

Source: Yu et al., Dynamic Control Flow in Large-Scale Machine Learning, EuroSys 2018, section 4.3.
"""

import random
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minitorch.arrays.library import CPU, Array, Device

from ...control.loop_stacks import DEAD
from ...core.node import Node
from ...core.variables import State
from ..interpreter import fetched_value, value_of
from ..node_errors import explain
from .loop_nodes import Enter, Exit, Frame, NextIteration
from .lower import lower
from .program import CONTROL, OnEvent, Program, Spot, TokenEvent

MISSING = object()


class Firing(NamedTuple):
    """An operator with all its inputs; `dead` if it is not to be computed."""

    spot: int
    iteration: "Iteration"
    inputs: list[object]
    dead: bool


class Cell:
    """What has arrived for an operator in one iteration."""

    __slots__ = ("dead", "inputs", "waits")

    def __init__(self, spot: Spot) -> None:
        self.inputs: list[object] = [MISSING] * spot.width
        self.waits = spot.waits
        self.dead = False


class Iteration:
    """One iteration of a frame: what has arrived in it, and how much is under way."""

    __slots__ = ("busy", "cells", "frame", "number", "spent")

    def __init__(self, frame: "FrameRun", number: int) -> None:
        self.frame, self.number = frame, number
        self.cells: dict[int, Cell] = {}
        self.spent: set[int] = set()  # Merges that have fired while inputs are still to come
        self.busy = 0  # ready, running, or an inner frame


class FrameRun:
    """One run of a loop, or the outside, which has one iteration."""

    def __init__(self, frame: Frame | None, outside: Iteration | None, enters: int) -> None:
        self.frame, self.outside, self.enters = frame, outside, enters
        self.iterations = {0: Iteration(self, 0)}
        self.oldest = self.newest = 0
        self.constants: list[tuple[int, object]] = []
        self.held: list[tuple[int, object]] = []  # tokens for the iteration after the newest
        self.left: set[int] = set()  # Exits that were alive
        self.label = "" if frame is None else frame.name
        if outside is not None and outside.frame.label:
            self.label = f"{outside.frame.label}[{outside.number}]/{self.label}"

    @property
    def room(self) -> bool:
        """Whether one more iteration may be under way."""
        return (
            self.frame is not None
            and self.newest - self.oldest + 1 < self.frame.parallel_iterations
        )


class Tokens:
    """The tokens of one run; each operator that is `ready` is to be computed, then to `finish`.

    Attributes:
        ready: the operators that may run now, in the order in which they became so.
        fetched: the values of what is fetched, by spot; DEAD for what has not come.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ready: deque[Firing] = deque()
        self.fetched: dict[int, object] = dict.fromkeys(program.fetched, DEAD)
        self.root = FrameRun(None, None, 0)
        self.inner: dict[tuple[Frame, Iteration], FrameRun] = {}
        for spot in program.starts:
            self._make_ready(Firing(spot, self.root.iterations[0], [], False))

    def close(self) -> None:
        """Let go of what is left; nothing is kept alive by a run that is over."""
        self.root.iterations.clear()
        self.inner.clear()
        self.ready.clear()

    def finish(self, firing: Firing, value: object) -> tuple[FrameRun, int]:
        """Send the token on; return the frame and iteration in which it is now."""
        here, spot = firing.iteration, firing.spot
        op = self.program.spots[spot].node.op
        if isinstance(op, Enter):
            there = self._enter(op, here, spot, value)
        elif isinstance(op, Exit):
            there = self._exit(here, spot, value)
        elif isinstance(op, NextIteration):
            there = self._next(here, spot, value)
        else:
            self._send(spot, here, value)
            there = here.frame, here.number
        here.busy -= 1
        self._settle(here.frame)
        return there

    # What becomes of a token

    def _enter(self, op: Enter, here: Iteration, spot: int, value: object) -> tuple[FrameRun, int]:
        frame = self.inner.get((op.frame, here))
        if frame is None:
            frame = FrameRun(op.frame, here, self.program.enters[op.frame])
            self.inner[op.frame, here] = frame
            here.busy += 1
        frame.enters -= 1
        if op.constant:
            frame.constants.append((spot, value))
            for iteration in frame.iterations.values():
                self._send(spot, iteration, value)
        else:
            self._send(spot, frame.iterations[0], value)
        self._settle(frame)
        return frame, 0

    def _exit(self, here: Iteration, spot: int, value: object) -> tuple[FrameRun, int]:
        outside = here.frame.outside
        if value is DEAD or outside is None:
            return here.frame, here.number
        here.frame.left.add(spot)
        self._send(spot, outside, value)
        return outside.frame, outside.number

    def _next(self, here: Iteration, spot: int, value: object) -> tuple[FrameRun, int]:
        frame, number = here.frame, here.number + 1
        if value is DEAD:
            return frame, here.number
        if number not in frame.iterations:
            if not frame.room:
                frame.held.append((spot, value))
                return frame, number
            self._begin(frame)
        self._send(spot, frame.iterations[number], value)
        return frame, number

    def _begin(self, frame: FrameRun) -> Iteration:
        """Begin the next iteration, with the constants and what was held back for it."""
        frame.newest += 1
        iteration = frame.iterations[frame.newest] = Iteration(frame, frame.newest)
        held, frame.held = frame.held, []
        for spot, value in (*frame.constants, *held):
            self._send(spot, iteration, value)
        return iteration

    def _settle(self, frame: FrameRun) -> None:
        """Take note of iterations that are over, and of the frame when all are."""
        while frame.frame is not None and frame.oldest in frame.iterations:
            oldest = frame.iterations[frame.oldest]
            if oldest.busy or frame.enters:
                return
            del frame.iterations[frame.oldest]
            frame.oldest += 1
            if frame.held and frame.room:
                self._begin(frame)
            if not frame.iterations:
                frame = self._over(frame)

    def _over(self, frame: FrameRun) -> FrameRun:
        """Leave a frame; return the one around it."""
        outside = frame.outside
        assert outside is not None
        assert frame.frame is not None
        del self.inner[frame.frame, outside]
        for spot in self.program.exits[frame.frame]:
            if spot not in frame.left:
                self._send(spot, outside, DEAD)
        outside.busy -= 1
        return outside.frame

    # Arrivals

    def _send(self, spot: int, iteration: Iteration, value: object) -> None:
        if iteration.frame.frame is None and spot in self.fetched:
            self.fetched[spot] = value
        for user, slot in self.program.spots[spot].users:
            self._arrive(user, slot, iteration, value)

    def _arrive(self, user: int, slot: int, iteration: Iteration, value: object) -> None:
        spot = self.program.spots[user]
        cell = iteration.cells.get(user)
        if cell is None:
            if user in iteration.spent:
                return
            cell = iteration.cells[user] = Cell(spot)
        cell.waits -= 1
        if slot > CONTROL:
            cell.inputs[slot] = value
        if value is DEAD and slot in spot.mortal:
            cell.dead = True
        if spot.merges:
            self._merge(user, spot, cell, iteration)
        elif not cell.waits:
            del iteration.cells[user]
            self._make_ready(Firing(user, iteration, cell.inputs, cell.dead))

    def _merge(self, user: int, spot: Spot, cell: Cell, iteration: Iteration) -> None:
        """Fire a Merge as soon as its outcome is settled: the first input that is alive."""
        if spot.header:
            inputs = [value for value in cell.inputs if value is not MISSING]
        else:
            if cell.waits > sum(value is MISSING for value in cell.inputs):
                return  # something without a value is still to come
            alive = (i for i, value in enumerate(cell.inputs) if value is not DEAD)
            first = next(alive, None)
            if first is not None and cell.inputs[first] is MISSING:
                return
            inputs = [DEAD if value is MISSING else value for value in cell.inputs]
        del iteration.cells[user]
        iteration.spent.add(user)
        self._make_ready(Firing(user, iteration, inputs, all(v is DEAD for v in inputs)))

    def _make_ready(self, firing: Firing) -> None:
        firing.iteration.busy += 1
        self.ready.append(firing)


class TokenStep:
    """The run of `fetches` from `feeds` by tokens; called as a `Step` is.

    Which of the operators that are ready runs next changes nothing in the result.

    Args:
        shuffle: seed of a random order among what is ready; oldest first unless given.
        on_event: called with a `TokenEvent` for every operator that fires.
    """

    def __init__(
        self,
        fetches: Sequence[Node],
        feeds: Sequence[Node],
        device: Device = CPU,
        *,
        shuffle: int | None = None,
        on_event: OnEvent | None = None,
    ) -> None:
        self.fetches = tuple(fetches)
        self.shuffle, self.on_event = shuffle, on_event
        lowered = lower(fetches, set(feeds))
        self.program = Program(lowered, feeds)
        lowered.untie()

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the fetched arrays, copied.

        Raises:
            GraphError, ShapeError, ...: what went wrong, with the node and the line that built it.
        """
        tokens = Tokens(self.program)
        with np.errstate(all="ignore"):
            self._run(tokens, state, arrays)
        values = [tokens.fetched[spot] for spot in self.program.fetched]
        return tuple(map(fetched_value, self.fetches, values))

    def _run(self, tokens: Tokens, state: State, arrays: Sequence[Array]) -> None:
        """Let what is ready fire until nothing is."""
        chance = None if self.shuffle is None else random.Random(self.shuffle)
        step, ready = 0, tokens.ready
        try:
            while ready:
                if chance is not None:
                    ready.rotate(-chance.randrange(len(ready)))
                firing = ready.popleft()
                value = self.value(firing, state, arrays)
                frame, iteration = tokens.finish(firing, value)
                if self.on_event is not None:
                    node = self.program.spots[firing.spot].node
                    op_name = type(node).__name__ if node.op is None else node.op.name
                    dead, where = value is DEAD, (frame.label, iteration)
                    shown = None if dead else value
                    self.on_event(TokenEvent(step, node.name, op_name, *where, dead, shown))
                step += 1
        finally:
            tokens.close()

    def value(self, firing: Firing, state: State, arrays: Sequence[Array]) -> object:
        """Return what an operator gives, or DEAD."""
        if firing.dead:
            return DEAD
        node = self.program.spots[firing.spot].node
        if node in self.program.fed:
            return arrays[self.program.fed[node]]
        try:
            return value_of(node, firing.inputs, state)
        except Exception as error:
            raise explain(node, firing.inputs, error) from error
