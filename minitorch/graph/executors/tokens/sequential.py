"""The token executor: a graph run as tokens that move, one operator at a time.

The graph is lowered, so loops are operators like any other. Which of the operators that are ready
runs next changes nothing in the result; `shuffle` picks at random, to show it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Sequence

import numpy as np

from minitorch.arrays.library import CPU, Array, Device

from ...control.loop_stacks import DEAD
from ...core.node import Node
from ...core.variables import State
from ..interpreter import fetched_value
from ..node_errors import explain
from .lower import lower
from .program import OnEvent as OnEvent
from .program import Program
from .program import TokenEvent as TokenEvent
from .tagged import Firing, Tokens


class TokenStep:
    """The run of `fetches` from `feeds` by tokens; called as a `Step` is.

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
        self.fetches, self.feeds = tuple(fetches), tuple(feeds)
        self.shuffle, self.on_event = shuffle, on_event
        lowered = lower(fetches, set(feeds))
        self.program = Program(lowered, feeds, device)
        lowered.untie()

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the fetched arrays, copied.

        Raises:
            GraphError, ShapeError, ...: what went wrong, with the node and the line that built it.
        """
        with np.errstate(all="ignore"):
            return self.results(self.run(state, arrays))

    def run(self, state: State, arrays: Sequence[Array]) -> dict[int, object]:
        """Return the values of what is outside all loops and fetched, by spot."""
        ready: deque[Firing] = deque()
        chance = None if self.shuffle is None else random.Random(self.shuffle)
        values: dict[int, object] = {}
        tokens = Tokens(self.program, ready.append, self.keeper(values))
        tokens.start()
        step = 0
        try:
            while ready:
                if chance is not None:
                    ready.rotate(-chance.randrange(len(ready)))
                firing = ready.popleft()
                value = self.value(firing, state, arrays)
                frame, iteration = tokens.finish(firing, value)
                if self.on_event is not None:
                    self.on_event(self.event(step, firing, (frame.label, iteration), value))
                step += 1
        finally:
            tokens.close()
        return values

    def keeper(self, values: dict[int, object]) -> Callable[[int, object], None]:
        """Return a function that puts fetched values into `values`."""
        fetched = set(self.program.fetched)

        def keep(spot: int, value: object) -> None:
            if spot in fetched:
                values[spot] = value

        return keep

    def value(self, firing: Firing, state: State, arrays: Sequence[Array]) -> object:
        """Return what an operator gives, or DEAD."""
        if firing.dead:
            return DEAD
        try:
            return self.program.compute(firing.spot, state, arrays, firing.inputs)
        except Exception as error:
            node = self.program.spots[firing.spot].node
            raise explain(node, firing.inputs, error) from error

    def results(self, values: dict[int, object]) -> tuple[Array, ...]:
        """Return what was fetched; None for what is only run."""
        pairs = zip(self.fetches, self.program.fetched, strict=True)
        return tuple(fetched_value(node, values.get(spot, DEAD)) for node, spot in pairs)

    def event(self, step: int, firing: Firing, where: tuple[str, int], value: object) -> TokenEvent:
        """Return what to tell of a token that is now in this frame and iteration."""
        node = self.program.spots[firing.spot].node
        op_name = type(node).__name__ if node.op is None else node.op.name
        shown = None if value is DEAD else value
        return TokenEvent(step, node.name, op_name, *where, value is DEAD, shown)
