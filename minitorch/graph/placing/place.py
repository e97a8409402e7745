"""Placement: which operator runs on which of several devices.

What belongs together is placed together: a variable, its reads and all that writes it; a loop,
what is in it and what is taken out of it. A group goes where one of its members was put by
`device("...")`. The others follow their data, or go greedily, in the order of the run, where they
would be done first:

    done(node, r) = max(free(r), max over inputs (done(input) + transfer if it is not on r)) + cost

Feeds, placeholders and constants are on every device.

Source: the greedy simulation is that of TensorFlow's white paper (2015), section 3.2.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ...errors import GraphError
from ...ops.linalg import MatMul
from ...shapes import numel
from ..control.history import Opaque
from ..control.while_op import While
from ..node import Constant, Node, Placeholder, UnknownShape
from ..order import schedule, sources
from ..state import Read, Variable

Cost = Callable[[Node], float]


@dataclass(frozen=True)
class Link:
    """What a transfer between two devices costs: a latency and a time for each byte, in seconds."""

    latency_s: float = 20e-6
    byte_s: float = 1e-9

    def time(self, n_bytes: float) -> float:
        """Return the seconds that so many bytes take."""
        return self.latency_s + self.byte_s * n_bytes


def place(
    order: Sequence[Node],
    fed: Collection[Node],
    n_devices: int,
    ranks: Mapping[str, int] | None = None,
    greedy: bool = False,
    cost: Cost | None = None,
    link: Link | None = None,
    writers: Sequence[Node] = (),
    homes: Mapping[Node, int] | None = None,
) -> dict[Node, int]:
    """Return the rank of every node of `order` that is not on all of them.

    Args:
        order: the nodes of a run, inputs first.
        ranks: the rank of each device name; by default the number at the end of the name.
        greedy: place what nobody placed by simulating the run, instead of where its data is.
        cost: seconds of an operator; by default estimated from its flops and bytes.
        link: what a transfer costs.
        writers: nodes of other runs that write variables: what they write is together, too.
        homes: where variables are already.
    Raises:
        GraphError: a device that is not there, or two devices for what belongs together.
    """
    wanted = Wanted([*order, *writers], fed, n_devices, ranks or {})
    wanted.rank_of.update({wanted.group(v): rank for v, rank in (homes or {}).items()})
    simulation = Simulation(n_devices, cost or estimated_seconds, link or Link())
    found: dict[Node, int] = {}
    for node in order:
        if everywhere(node, fed):
            continue
        group = wanted.group(node)
        rank = wanted.rank_of.get(group)
        if rank is None:
            inputs = [(found[n], n) for n in sources(node, fed) if n in found]
            rank = simulation.soonest(node, inputs) if greedy else _nearest(inputs)
            wanted.rank_of[group] = rank
        found[node] = rank
        simulation.run(node, rank, [n for n in sources(node, fed) if n in found])
    return found


def everywhere(node: Node, fed: Collection[Node]) -> bool:
    """Tell whether every device has the value of `node`."""
    return node in fed or isinstance(node, Constant | Placeholder)


class Wanted:
    """The groups that must stay together, and where each is wanted.

    Attributes:
        rank_of: the rank of each group that has one.
    """

    def __init__(
        self, order: Sequence[Node], fed: Collection[Node], n: int, ranks: Mapping[str, int]
    ) -> None:
        self._parent: dict[Node, Node] = {}
        self.n_devices, self.ranks = n, ranks
        for node in order:
            for other in _companions(node, fed):
                self._parent[self.group(node)] = self.group(other)
        self.rank_of: dict[Node, int] = {}
        named: dict[Node, Node] = {}
        for node in order:
            if isinstance(node.op, While) and node not in fed:
                self._place_loop(node, named)
        chosen = [node for node in order if node.device is not None and not everywhere(node, fed)]
        for node in sorted(chosen, key=lambda n: not isinstance(n, Variable)):
            group, rank = self.group(node), self.rank_called(node)
            if self.rank_of.setdefault(group, rank) == rank:
                named.setdefault(group, node)
            elif isinstance(node, Variable):
                first = named[group]
                raise GraphError(
                    f"place: {first.name!r} on {first.device!r} and {node.name!r} on "
                    f"{node.device!r} belong together: one operator writes both (built at "
                    f"{first.location} and {node.location}). Put them on one device."
                )

    def _place_loop(self, node: Node, named: dict[Node, Node]) -> None:
        """Put a loop where what is in it was put.

        Raises:
            GraphError: that is two devices; a loop runs whole, on one of them.
        """
        first: Node | None = None
        for inner in inside_loop(node):
            if inner.device is None:
                continue
            rank = self.rank_called(inner)
            if first is None:
                first = named[self.group(node)] = inner
                self.rank_of[self.group(node)] = rank
            elif rank != self.rank_called(first):
                raise GraphError(
                    f"place: loop {node.name!r} runs on one device, but has {first.name!r} on "
                    f"{first.device!r} (built at {first.location}) and {inner.name!r} on "
                    f"{inner.device!r} (built at {inner.location}). Put both on one device, or "
                    "move one out of the loop."
                )

    def group(self, node: Node) -> Node:
        """Return the node that stands for the group of `node`."""
        while (above := self._parent.get(node, node)) is not node:
            node = above
        return node

    def rank_called(self, node: Node) -> int:
        """Return the rank of the device that `node` asks for."""
        name = node.device or ""
        number = re.search(r"(\d+)$", name)
        rank = self.ranks.get(name, int(number[1]) if number else -1)
        if not 0 <= rank < self.n_devices:
            raise GraphError(
                f"place: there is no device {name!r}: got {self.n_devices} ranks (node "
                f"{node.name!r} built at {node.location}). End the name with the number of a rank, "
                "or say in ranks= which one it is."
            )
        return rank


def inside_loop(node: Node) -> list[Node]:
    """Return the operators of a loop's condition and body, and of the loops in them."""
    loop: While = node.op
    placeholders = {*loop.variables, *loop.entrances}
    found: list[Node] = []
    for inner in schedule([loop.test, *loop.body], placeholders):
        if not everywhere(inner, placeholders):
            found += [inner, *(inside_loop(inner) if isinstance(inner.op, While) else ())]
    return found


def _companions(node: Node, fed: Collection[Node]) -> list[Node]:
    """Return the nodes that must be where `node` is."""
    if everywhere(node, fed):
        return []
    variables = [v for v in variables_of(node) if v not in fed]
    return variables + [n for n in node.inputs if isinstance(n, Opaque)]


def variables_of(node: Node) -> list[Node]:
    """Return the variables whose memory `node` looks at or changes; of a variable itself."""
    if isinstance(node, Variable):
        return [node]
    if isinstance(node.op, Read):
        return [node.op.variable]
    return list(getattr(node.op, "writes", ()))


def _nearest(inputs: Sequence[tuple[int, Node]]) -> int:
    """Return the rank that has most bytes of the inputs; the first one if there are none."""
    have: dict[int, float] = {0: 0.0}
    for rank, node in inputs:
        have[rank] = have.get(rank, 0.0) + n_bytes(node) + 1.0
    return max(have, key=lambda rank: (have[rank], -rank))


class Simulation:
    """When every device would be free, and every value there, if the run began now."""

    def __init__(self, n_devices: int, cost: Cost, link: Link) -> None:
        self.cost, self.link = cost, link
        self.free = [0.0] * n_devices
        self.done: dict[Node, tuple[int, float]] = {}

    def start(self, rank: int, inputs: Sequence[Node]) -> float:
        """Return when an operator with these inputs could start on `rank`."""
        arrivals = [self.free[rank]]
        for node in inputs:
            where, at = self.done.get(node, (rank, 0.0))
            arrivals.append(at if where == rank else at + self.link.time(n_bytes(node)))
        return max(arrivals)

    def soonest(self, node: Node, inputs: Sequence[tuple[int, Node]]) -> int:
        """Return the rank on which `node` would be done first."""
        nodes = [n for _, n in inputs]
        return min(range(len(self.free)), key=lambda rank: (self.start(rank, nodes), rank))

    def run(self, node: Node, rank: int, inputs: Sequence[Node]) -> None:
        """Take note that `node` runs on `rank`."""
        self.free[rank] = self.start(rank, inputs) + self.cost(node)
        self.done[node] = rank, self.free[rank]


def n_bytes(node: Node) -> float:
    """Return the size of a node's value; a size that is not known counts as 1."""
    if isinstance(node.shape, UnknownShape):
        return float(node.dtype.itemsize)
    return float((numel(tuple(n or 1 for n in node.shape)) or 0) * node.dtype.itemsize)


def estimated_seconds(node: Node) -> float:
    """Return what an operator costs, roughly: a call, 10 GB/s of memory, 10 Gflop/s of products."""
    moved = n_bytes(node) + sum(n_bytes(source) for source in node.inputs)
    seconds = 1e-6 + moved / 10e9
    if isinstance(node.op, MatMul) and not isinstance(node.inputs[0].shape, UnknownShape):
        inner = node.inputs[0].shape[-1] or 1
        seconds += 2.0 * inner * n_bytes(node) / node.dtype.itemsize / 10e9
    return seconds
