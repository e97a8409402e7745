"""Placement: which operator runs on which of several devices.

What belongs together is placed together (`groups`). A group goes where one of its members was put
by `device("...")`; the others follow their data. Feeds, placeholders and constants are on every
device. What is inside a loop that is cut is placed as if the loop ran once.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ...shapes import numel
from ..core.node import Node, UnknownShape
from ..core.order import sources
from .groups import Groups
from .levels import Loop, everywhere


def place(
    order: Sequence[Node],
    fed: Collection[Node],
    n_devices: int,
    ranks: Mapping[str, int] | None = None,
    writers: Sequence[Node] = (),
    homes: Mapping[Node, int] | None = None,
) -> dict[Node, int]:
    """Return the rank of every node of `order` that is not on all of them.

    A loop that is cut is not among them; what is inside it is, and so are its variables.

    Args:
        order: the nodes of a run, inputs first.
        ranks: the rank of each device name; by default the number at the end of the name.
        writers: nodes of other runs that write variables: what they write is together, too.
        homes: where variables are already.
    Raises:
        GraphError: a device that is not there, or two devices for what belongs together.
    """
    groups = Groups(order, writers, fed, n_devices, ranks or {}, homes or {})
    placing = _Placing(groups)
    placing.level(order, fed)
    return placing.found


class _Placing:
    """The ranks that were found so far.

    Attributes:
        found: the rank of each node.
    """

    def __init__(self, groups: Groups) -> None:
        self.groups = groups
        self.found: dict[Node, int] = {}

    def level(self, order: Sequence[Node], given: Collection[Node]) -> None:
        """Place the nodes of a run, or of a loop's condition or round."""
        for node in order:
            if everywhere(node, given) or node in self.found:
                continue
            if node in self.groups.cuts:
                self._loop(self.groups.cuts[node])
                continue
            rank = self.groups.rank(node)
            if rank is None:
                rank = self._nearest([n for n in sources(node, given) if n in self.found])
                self.groups.put(node, rank)
            self.found[node] = rank

    def _nearest(self, inputs: Sequence[Node]) -> int:
        """Return the rank that has most bytes of the inputs; the first one if there are none."""
        have: dict[int, float] = {0: 0.0}
        for node in inputs:
            rank = self.found[node]
            have[rank] = have.get(rank, 0.0) + n_bytes(node) + 1.0
        return max(have, key=lambda rank: (have[rank], -rank))

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


def n_bytes(node: Node) -> float:
    """Return the size of a node's value; a size that is not known counts as 1."""
    if isinstance(node.shape, UnknownShape):
        return float(node.dtype.itemsize)
    return float((numel(tuple(n or 1 for n in node.shape)) or 0) * node.dtype.itemsize)
