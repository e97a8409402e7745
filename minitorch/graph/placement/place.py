"""Placement: which operator runs on which of several devices.

What belongs together is placed together (`groups`). A group goes where one of its members was put
by `device("...")`. The others follow their data, or go greedily, in the order of the run, where
they would be done first:

    done(node, r) = max(free(r), max over inputs (done(input) + transfer if it is not on r)) + cost

Feeds, placeholders and constants are on every device. What is inside a loop that is cut is placed
as if the loop ran once.

Source: the greedy simulation is that of TensorFlow's white paper (2015), section 3.2.1.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from ...ops.linalg import MatMul
from ...shapes import numel
from ..core.node import Node, UnknownShape
from ..core.order import sources
from .groups import Groups
from .levels import Loop, everywhere

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

    A loop that is cut is not among them; what is inside it is, and so are its variables.

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
    groups = Groups(order, writers, fed, n_devices, ranks or {}, homes or {})
    simulation = Simulation(n_devices, cost or estimated_seconds, link or Link())
    placing = _Placing(groups, greedy, simulation)
    placing.level(order, fed)
    return placing.found


class _Placing:
    """The ranks that were found so far.

    Attributes:
        found: the rank of each node.
    """

    def __init__(self, groups: Groups, greedy: bool, simulation: Simulation) -> None:
        self.groups, self.greedy, self.simulation = groups, greedy, simulation
        self.found: dict[Node, int] = {}

    def level(self, order: Sequence[Node], given: Collection[Node]) -> None:
        """Place the nodes of a run, or of a loop's condition or round."""
        for node in order:
            if everywhere(node, given) or node in self.found:
                continue
            if node in self.groups.cuts:
                self._loop(self.groups.cuts[node])
                continue
            inputs = [n for n in sources(node, given) if n in self.found]
            rank = self.groups.rank(node)
            if rank is None:
                rank = self._free(inputs)
                self.groups.put(node, rank)
            self.found[node] = rank
            self.simulation.run(node, rank, inputs)

    def _free(self, inputs: Sequence[Node]) -> int:
        if self.greedy:
            start = self.simulation.start  # where it would be done first
            return min(range(self.groups.n_devices), key=lambda rank: (start(rank, inputs), rank))
        return _nearest([(self.found[n], n) for n in inputs])

    def _loop(self, loop: Loop) -> None:
        """Place what is inside a loop, then its variables: where the body computes them."""
        op, inputs = loop.op, loop.node.inputs
        outside = zip(op.given, inputs, strict=True)
        begun = {p: self._now(p, source) for p, source in outside}
        self.found.update({p: rank for p, rank in begun.items() if rank is not None})
        self.level(loop.test, loop.given)
        self.level(loop.body, loop.given)
        for placeholder in begun:
            self.found.pop(placeholder, None)
        self._settle(loop, begun)

    def _now(self, placeholder: Node, source: Node) -> int | None:
        """Return where what enters a loop is likely to be."""
        rank = self.groups.rank(placeholder)
        return self.found.get(source) if rank is None else rank

    def _settle(self, loop: Loop, begun: Mapping[Node, int | None]) -> None:
        """Place the variables, and what is taken out of the loop but was made by no node in it."""
        ranks = {rank for node, rank in self._inside(loop)}
        for variable in loop.op.variables:
            rank, first = self.groups.rank(variable), begun[variable]
            if rank is None:
                rank = first if first is not None and first in ranks else min(ranks)
                self.groups.put(variable, rank)
            if variable not in loop.staying:
                self.found[variable] = rank
        for taker in loop.kept.values():
            if self.groups.rank(taker) is None:
                self.groups.put(taker, min(ranks))

    def _inside(self, loop: Loop) -> list[tuple[Node, int]]:
        """Return the nodes inside a loop, and inside those in it, with their ranks."""
        found: list[tuple[Node, int]] = []
        for node in loop.inner:
            if node in self.groups.cuts:
                found += self._inside(self.groups.cuts[node])
            elif node in self.found:
                found.append((node, self.found[node]))
        return found


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
