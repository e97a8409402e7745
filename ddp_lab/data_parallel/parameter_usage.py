"""Which parameters took part: across ranks in one iteration, and in every one of a static graph.

May import: errors, reduction_group.
"""

from collections.abc import Callable
from typing import Any

from ddp_lab.data_parallel.errors import DataParallelError
from ddp_lab.data_parallel.reduction_group import Group, Work


class UseMap:
    """Marks the parameters that got a gradient here, and finds those that nobody used.

    A mark set during gradient accumulation (`no_sync`) lasts until the next reduction.
    """

    def __init__(self, count: int, group: Group) -> None:
        self.used = [0] * count
        self.last: list[int] = []  # sums over the ranks, as of the last reduction
        self._group = group
        self._pending: tuple[Any, Work] | None = None

    def start(self) -> None:
        """Begin adding up the ranks' marks; every rank does so at the same point."""
        counts = self._group.counters(self.used)
        self._pending = counts, self._group.all_reduce(counts)
        self.used = [0] * len(self.used)

    def finish(self) -> set[int]:
        """Wait for the sum; return the parameters that no rank used."""
        if self._pending is None:
            return set()
        counts, work = self._pending
        work.wait()
        self._pending = None
        self.last = counts.tolist()
        return {index for index, count in enumerate(self.last) if not count}


class StaticGraph:
    """How often each gradient is added to in an iteration: counted once, then counted down.

    With a graph that never changes, a layer that is checkpointed or used several times over has
    its gradient ready when its last contribution has come.
    """

    def __init__(self, count: int) -> None:
        self.observing = True
        self.fresh = True  # until the first reduction is over
        self._uses = [0] * count
        self._remaining = [0] * count
        self._last: dict[int, None] = {}  # in the order of their last contributions

    def restart(self) -> None:
        """Start an iteration."""
        self._remaining = list(self._uses)

    def contributed(self, index: int, name: Callable[[], str]) -> bool:
        """Note a contribution to gradient `index`; return whether it was the last one.

        Raises:
            DataParallelError: more came than in the first iteration; `name()` is the parameter.
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
                f"static_graph=True rules out: more gradients for {name()} than in the first. "
                "Leave static_graph out, or keep the graph the same."
            )
        return not self._remaining[index]

    @property
    def unused(self) -> list[int]:
        """Parameters that got no gradient in the first iteration."""
        return [index for index, uses in enumerate(self._uses) if not uses]

    def settle(self) -> list[int]:
        """End the first iteration; return all parameters, unused first, then as they got ready."""
        self.observing = False
        return [*self.unused, *self._last]
