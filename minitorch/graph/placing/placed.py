"""A session whose graph runs on several ranks, each its part, with messages in between."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ...arrays import Array, Device
from ..node import Node
from ..order import schedule
from ..running.step import Step, check_source
from ..scope import Graph
from ..session import Session
from ..state import State
from .bundles import unbundled
from .groups import kept_by
from .levels import Part
from .partition import cut
from .place import Cost, Link, place
from .wires import Ranks


class PlacedSession(Session):
    """Where a graph runs on all ranks of a group at once.

    Every rank builds the same graph and makes the same calls of `run` with the same feeds, and
    every rank gets all values. A variable lives on one rank; the others do without it. A loop with
    several devices in it runs on all of these, round by round together.

        with device("cpu:0"):
            h = nn.relu(matmul(x, w1))
        with device("cpu:1"):
            loss = reduce_mean(square(matmul(h, w2) - y))
        session = PlacedSession(comm)

    Args:
        ranks: this rank's communicator: `rank`, `size`, `send(array, dst)`, `recv(src)`.
        graph, optimize: as for `Session`.
        devices: the rank of each device name that does not end with the number of its rank.
        greedy, cost, link: see `place.place`.
    """

    def __init__(
        self,
        ranks: Ranks,
        graph: Graph | None = None,
        *,
        optimize: bool | None = None,
        devices: Mapping[str, int] | None = None,
        greedy: bool = False,
        cost: Cost | None = None,
        link: Link | None = None,
    ) -> None:
        super().__init__(graph, optimize=optimize)
        self.ranks, self.devices = ranks, devices
        self.greedy, self.cost, self.link = greedy, cost, link
        self.homes: dict[Any, int] = {}  # the rank of each variable and queue, once it has one
        self._executor = self._plan_part

    def _plan_part(self, leaves: Sequence[Node], feeds: Sequence[Node], _: Device) -> PlacedStep:
        fed = set(feeds)
        leaves = unbundled(leaves, fed)
        order = schedule(leaves, fed)
        for node in order:
            if node not in fed:
                check_source(node)  # on all ranks, whoever has it
        placed = self.place(order, fed)
        for node, rank in placed.items():
            self.homes.update(dict.fromkeys(kept_by(node), rank))
        return PlacedStep(cut(order, leaves, fed, placed, self.ranks), leaves, feeds, placed)

    @property
    def writes_files(self) -> bool:
        """Whether this is the first rank."""
        return self.ranks.rank == 0

    def place(self, order: Sequence[Node], fed: Collection[Node] = ()) -> dict[Node, int]:
        """Return the rank of every node of a run that is not on all of them."""
        writers = [node for node in self.graph.nodes if getattr(node.op, "writes", ())]
        return place(
            order,
            fed,
            self.ranks.size,
            self.devices,
            greedy=self.greedy,
            cost=self.cost,
            link=self.link,
            writers=unbundled(writers, set(fed)),
            homes=self.homes,
        )


class PlacedStep:
    """One rank's part of a run; called as a `Step` is, on all ranks.

    Attributes:
        placed: the rank of every node that is not on all of them.
        part: what this rank runs.
    """

    def __init__(
        self,
        part: Part,
        leaves: Sequence[Node],
        feeds: Sequence[Node],
        placed: Mapping[Node, int],
    ) -> None:
        self.part, self.placed = part, placed
        self.step = Step([part.here[node] for node in leaves], feeds, order=part.order)

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """Return the fetched arrays, the same on every rank."""
        return self.step(state, arrays)
