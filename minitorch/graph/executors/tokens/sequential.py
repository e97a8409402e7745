"""The token executor: a graph run as tokens that move, one operator at a time.

The graph is lowered, so loops are operators like any other. Which of the operators that are ready
runs next changes nothing in the result; `shuffle` picks at random, to show it.
"""

import random
from collections import deque
from collections.abc import Sequence

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
        ready: deque[Firing] = deque()
        tokens = Tokens(self.program, ready.append)
        tokens.start()
        with np.errstate(all="ignore"):
            self._run(tokens, ready, state, arrays)
        values = [tokens.fetched[spot] for spot in self.program.fetched]
        return tuple(map(fetched_value, self.fetches, values))

    def _run(
        self, tokens: Tokens, ready: deque[Firing], state: State, arrays: Sequence[Array]
    ) -> None:
        """Let what is ready fire until nothing is."""
        chance = None if self.shuffle is None else random.Random(self.shuffle)
        step = 0
        try:
            while ready:
                if chance is not None:
                    ready.rotate(-chance.randrange(len(ready)))
                firing = ready.popleft()
                value = self.value(firing, state, arrays)
                frame, iteration = tokens.finish(firing, value)
                if self.on_event is not None:
                    node, dead = self.program.spots[firing.spot].node, value is DEAD
                    op_name = type(node).__name__ if node.op is None else node.op.name
                    where, shown = (frame.label, iteration), None if dead else value
                    self.on_event(TokenEvent(step, node.name, op_name, *where, dead, shown))
                step += 1
        finally:
            tokens.close()

    def value(self, firing: Firing, state: State, arrays: Sequence[Array]) -> object:
        """Return what an operator gives, or DEAD."""
        if firing.dead:
            return DEAD
        try:
            return self.program.compute(firing.spot, state, arrays, firing.inputs)
        except Exception as error:
            node = self.program.spots[firing.spot].node
            raise explain(node, firing.inputs, error) from error
