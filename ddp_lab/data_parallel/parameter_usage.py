"""Which parameters take part in an iteration: here, on other ranks, and in every iteration.

May import: errors, reduction_group.
"""

from collections.abc import Sequence
from typing import Any

from ddp_lab.data_parallel.errors import DataParallelError
from ddp_lab.data_parallel.reduction_group import Group, Work


class Usage:
    """Which parameters got a gradient, which will not get one, and which nobody used.

    Marks are set by the hooks, in gradient accumulation (`no_sync`) too, and last until the ranks
    have added them up. They do so in every iteration with `find_unused`, once for a static graph,
    and else never.
    """

    def __init__(self, names: Sequence[str], find_unused: bool) -> None:
        self.names = names
        self.find_unused = find_unused
        self.static: StaticGraph | None = None
        self.marks = [0] * len(names)
        self._found_unused: list[int] | None = None
        self._unmarked: list[int] = []

    def join(self, group: Group) -> None:
        """Go on over this group: nothing is marked."""
        self._group = group
        self.marks = [0] * len(self.names)
        self._sum: tuple[Any, Work] | None = None

    def set_static_graph(self) -> None:
        """Expect the same graph in every iteration; the first one is only observed."""
        self.static = StaticGraph(len(self.names))

    @property
    def may_change(self) -> bool:
        """Whether the next iteration may use other parameters than the last."""
        return self.find_unused and not self.static

    @property
    def observing(self) -> bool:
        """Whether a static graph's first iteration is under way."""
        return self.static is not None and self.static.observing

    @property
    def unused(self) -> list[int]:
        """Parameters that this rank did not use in the last iteration."""
        return self.static.unused if self.static else self._found_unused or []

    # During an iteration

    def restart(self) -> None:
        """Start an iteration."""
        self._unmarked = []
        if self.static:
            self.static.restart()
            self._unmarked = [] if self.static.observing else self.static.unused

    def expect_unused(self, indices: Sequence[int]) -> None:
        """Say which parameters this iteration's backward will not reach."""
        self._found_unused = list(indices)
        self._unmarked = list(indices)

    def note(self, index: int) -> None:
        """Mark a parameter that got a gradient."""
        self.marks[index] = 1

    def is_ready(self, index: int) -> bool:
        """Return whether a gradient is whole with this contribution to it."""
        return self.static is None or self.static.note_contribution(index, self.names[index])

    def take_unmarked(self) -> list[int]:
        """Return the parameters that get no gradient in this iteration, once."""
        unmarked, self._unmarked = self._unmarked, []
        return unmarked

    def stop_observing(self) -> list[int]:
        """End the observation of a static graph; return all parameters as they became ready."""
        assert self.static is not None
        return self.static.stop_observing()

    # At its end

    @property
    def _agrees(self) -> bool:
        """Whether the ranks add up their marks in this iteration."""
        return self.static.first_reduction if self.static else self.find_unused

    def start_to_agree(self) -> None:
        """Begin adding up the ranks' marks, if they do; every rank does so at the same point."""
        if self._agrees:
            counts = self._group.counters(self.marks)
            self._sum = counts, self._group.all_reduce(counts)
            self.marks = [0] * len(self.marks)

    def find_unused_everywhere(self, otherwise: set[int]) -> set[int]:
        """Wait for the sum and return the parameters that no rank used; without one `otherwise`."""
        if not self._agrees:
            return otherwise
        if self._sum is None:
            return set()
        counts, work = self._sum
        work.wait()
        self._sum = None
        return {index for index, count in enumerate(counts.tolist()) if not count}

    def end(self) -> None:
        """End the iteration, once all buckets have been delivered."""
        if self.static:
            self.static.first_reduction = False


class StaticGraph:
    """How often each gradient is added to in an iteration: counted once, then counted down.

    With a graph that never changes, a layer that is checkpointed or used several times over has
    its gradient ready when its last contribution has come.
    """

    def __init__(self, count: int) -> None:
        self.observing = True
        self.first_reduction = True  # until it is over
        self._uses = [0] * count
        self._remaining = [0] * count
        self._last: dict[int, None] = {}  # in the order of their last contributions

    def restart(self) -> None:
        """Start an iteration."""
        self._remaining = list(self._uses)

    def note_contribution(self, index: int, name: str) -> bool:
        """Note a contribution to gradient `index`; return whether it was the last one.

        Raises:
            DataParallelError: more came than in the first iteration.
        """
        if self.observing:
            self._uses[index] += 1
            self._last.pop(index, None)
            self._last[index] = None
            return False
        self._remaining[index] -= 1
        if self._remaining[index] < 0:
            raise DataParallelError(
                "backward: Your training graph has changed in this iteration, which "
                f"static_graph=True rules out: more gradients for {name} than in the first. "
                "Leave static_graph out, or keep the graph the same."
            )
        return not self._remaining[index]

    @property
    def unused(self) -> list[int]:
        """Parameters that got no gradient in the first iteration."""
        return [index for index, uses in enumerate(self._uses) if not uses]

    def stop_observing(self) -> list[int]:
        """End the first iteration; return all parameters, unused first, then as they got ready."""
        self.observing = False
        return [*self.unused, *self._last]
