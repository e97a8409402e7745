"""A session whose graph runs on several ranks, each its part, with messages in between."""

from collections.abc import Collection, Mapping, Sequence

from ...arrays.library import Array
from ...errors import GraphError
from ..core.graph import Graph
from ..core.node import Node
from ..core.order import schedule, writes_of
from ..core.session import Session
from ..core.variables import State
from ..executors.compiled import Step, check_source
from ..passes.rewrite import PLANNING
from .consensus import check_same_graph
from .partition import Cutting, Part
from .place import place, variables_of
from .send_recv import Lines, Ranks


class PlacedSession(Session):
    """Where a graph runs on all ranks of a group at once.

    Every rank builds the same graph and makes the same calls of `run` with the same feeds, and
    every rank gets all values. A variable lives on one rank; the others do without it. A loop runs
    whole on one rank: that of the variables that it writes, else the first that is named inside.
    The first time that fetches are run with these feeds the ranks compare their graphs, and raise
    if they differ. The graph is run as it was built.
    Ranks that are threads of one process need a graph each: `with Graph().as_default():`.

        with device("cpu:0"):
            h = nn.relu(matmul(x, w1))
        with device("cpu:1"):
            loss = reduce_mean(square(matmul(h, w2) - y))
        session = PlacedSession(comm)

    Args:
        ranks: this rank's communicator: `rank`, `size`, `send(array, dst)`, `recv(src)`.
        graph: as for `Session`.
        devices: the rank of each device name that does not end with the number of its rank.
    Raises:
        GraphError: `ranks` is no communicator.
    """

    def __init__(
        self,
        ranks: Ranks,
        graph: Graph | None = None,
        *,
        devices: Mapping[str, int] | None = None,
    ) -> None:
        if not all(hasattr(ranks, name) for name in ("rank", "size", "send", "recv")):
            raise GraphError(
                f"PlacedSession: got {type(ranks).__name__} for ranks, expected a communicator: "
                "rank, size, send and recv. Pass the one that ddp_lab.launch gives each rank."
            )
        super().__init__(graph, optimize=False)
        self.ranks, self.devices = ranks, devices
        self.homes: dict[Node, int] = {}  # the rank of each variable, once it has one

    def _step(self, leaves: list[Node], feeds: tuple[Node, ...]) -> "PlacedRun":
        return PlacedRun(self, leaves, feeds)

    @property
    def writes_files(self) -> bool:
        return self.ranks.rank == 0

    def place(self, order: Sequence[Node], fed: Collection[Node] = ()) -> dict[Node, int]:
        """Return the rank of every node of a run that is not on all of them."""
        writers = [node for node in self.graph.nodes if writes_of(node)]
        return place(order, fed, self.ranks.size, self.devices, writers=writers, homes=self.homes)


class PlacedRun:
    """A run of these fetches on all ranks, planned when all of them come to it; called as a `Step`.

    Attributes:
        placed: the rank of every node that is not on all of them.
        part: what this rank runs.
    """

    def __init__(
        self, session: PlacedSession, leaves: Sequence[Node], feeds: Sequence[Node]
    ) -> None:
        self.session, self.leaves, self.feeds = session, leaves, feeds
        self.placed: Mapping[Node, int] = {}
        self.part = Part()
        self._step: Step | None = None
        self._lines: Lines | None = None

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the fetched arrays, the same on every rank."""
        if self._step is None or self._lines is None:
            self._step, self._lines = self._plan()
        self._lines.begin()
        return self._step(state, arrays)

    def _plan(self) -> tuple[Step, Lines]:
        """Return this rank's part as a step. Others wait for nothing while messages are waited for.

        Raises:
            GraphError: the ranks have different graphs, or what is asked cannot be placed.
        """
        session, ranks, fed = self.session, self.session.ranks, set(self.feeds)
        leaves = self.leaves
        with PLANNING:
            order = schedule(leaves, fed)
            for node in order:
                if node not in fed:
                    check_source(node)  # on all ranks, whoever has it
            self.placed = session.place(order, fed)
        number = check_same_graph(ranks, order, leaves, self.feeds, self.placed)
        lines = Lines(ranks, number, ", ".join(repr(node.name) for node in self.leaves))
        for node, rank in self.placed.items():
            session.homes.update(dict.fromkeys(variables_of(node), rank))
        with PLANNING:
            self.part = Cutting(order, leaves, fed, self.placed, lines).part
            ends = [self.part.here[node] for node in leaves]
            return Step(ends, self.feeds, order=self.part.order), lines
