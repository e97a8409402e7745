"""When the memory of each value is needed, for passes that shorten that."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ...ops.shaping.indexing import Slice
from ..control.while_op import loops_used
from ..core.node import Node
from .aliasing import running_order
from .plan import VIEWS, Planner, loop_plan


@dataclass(frozen=True)
class Lives:
    """When the memory of each value is needed, as `"compiled"` runs a graph: slices are views too.

    Attributes:
        order: the nodes in the order in which they run.
        home: for each node, the node in whose memory its value is.
        uses: for each node whose memory a run makes, the steps that use it, in order; one past the
            end for what is fetched.
        bytes_of: how much that is.
    """

    order: tuple[Node, ...]
    home: dict[Node, Node]
    uses: dict[Node, list[int]]
    bytes_of: dict[Node, int]

    @cached_property
    def peak(self) -> tuple[int, int]:
        """The most bytes that live at one step, nothing written in place, and that step."""
        change = [0] * (len(self.order) + 2)
        for home, uses in self.uses.items():
            change[uses[0]] += self.bytes_of[home]
            change[uses[-1] + 1] -= self.bytes_of[home]
        alive = list(accumulate(change))
        most = max(alive)
        return most, alive.index(most)


def lives_of(fetches: Sequence[Node], fed: Collection[Node]) -> Lives:
    """Return when the memory of each value is needed in a run of `fetches`.

    Raises:
        GraphError: a size is not known before the run; names the node.
    """
    fed = set(fed)
    order = running_order(fetches, fed)
    loops = {node: loop_plan(node, (), {}) for node in loops_used(order, fed)}
    planner = Planner(order, fetches, fed, {}, loops, (*VIEWS, Slice))
    planner.place_views()
    uses: dict[Node, list[int]] = {}
    for i, node in enumerate(order):
        for used in (node, *(() if node in fed else node.inputs)):
            home = planner.home.get(used, used)
            if home in planner.made and uses.setdefault(home, [i])[-1] != i:
                uses[home].append(i)
    for home in {planner.home[node] for node in fetches} & planner.made:
        uses[home].append(len(order))
    sizes = {home: planner.n_bytes(home) for home in uses}
    return Lives(tuple(order), dict(planner.home), uses, sizes)
