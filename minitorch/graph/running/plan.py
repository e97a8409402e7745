"""The memory plan: which value lives when, and where in one arena it can stand.

A value lives from the node that computes it to the last node that uses it. Views have no memory of
their own and keep their source alive. An elementwise result takes over the memory of an input that
dies there. Each remaining buffer is placed, largest first, at the lowest offset where it meets no
other that lives at the same time; of very many, in the order of the run, in the smallest gap that
is wide enough, which takes no longer for each of them. `arena` runs a graph by its plan.

Source: greedy by size, Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference,
2020.
"""

from __future__ import annotations

import bisect
import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...errors import GraphError
from ...op import Spec
from ...ops.broadcasting import ExpandTo
from ...ops.movement import InsertAxes, Permute, RemoveAxes, Reshape
from ...ops.rows import Elementwise
from ...shapes import numel
from ..gradients import Identity, StopGradient
from ..node import Node, UnknownShape
from ..operators.random import Random
from ..order import schedule
from ..passes.fused import Fused, FusedReduction
from ..state import StateOp
from ..structure import flatten

ALIGNMENT = 16
"""Bytes to which offsets are rounded: a multiple of every element's size."""
VIEWS = (ExpandTo, Identity, InsertAxes, Permute, RemoveAxes, Reshape, StopGradient)


@dataclass(frozen=True)
class Buffer:
    """A piece of the arena: bytes from `offset`, from the step `first` to the step `last`."""

    node: Node
    n_bytes: int
    first: int
    last: int
    offset: int = 0


@dataclass(frozen=True)
class MemoryPlan:
    """What a run of some fetches needs, without feeds, variables and constants.

    Attributes:
        total_bytes: all buffers that a run produces, one after another.
        peak_bytes: the planned high-water mark: the size of the arena.
        buffers: where each stands and when.
        in_place: nodes whose result takes over an input's memory.
        order: the nodes in the order in which they run; `first` and `last` count in it.
        home: for each node, the node in whose memory its value is.
    """

    total_bytes: int
    peak_bytes: int
    buffers: tuple[Buffer, ...]
    in_place: tuple[Node, ...]
    order: tuple[Node, ...]
    home: dict[Node, Node]


def memory_plan(
    fetches: Any, fed: Collection[Node] = (), sizes: dict[Node, tuple[int, ...]] | None = None
) -> MemoryPlan:
    """Return the plan of a run of `fetches`, in the order in which a session runs it.

    Args:
        fed: nodes that the run is given; placeholders always are.
        sizes: shapes of nodes whose static shape does not say all.
    Raises:
        GraphError: a size is not known before the run; names the node.
    """
    leaves: list[Node] = []
    flatten(fetches, leaves)
    fed = set(fed)
    order = schedule(leaves, fed)
    planner = _Planner(order, leaves, fed, sizes or {})
    planner.place_views()
    in_place = planner.reuse()
    lives = planner.lives()
    total = sum(planner.n_bytes(node) for node in order if planner.produces(node))
    buffers = _place([Buffer(node, planner.n_bytes(node), *lives[node]) for node in lives])
    peak = max((b.offset + b.n_bytes for b in buffers), default=0)
    return MemoryPlan(
        total, peak, tuple(buffers), tuple(in_place), tuple(order), dict(planner.home)
    )


def sizes_of(
    order: Sequence[Node], fed: dict[Node, tuple[int, ...]]
) -> dict[Node, tuple[int, ...]]:
    """Return the shape of every node, once the shapes of the feeds are known.

    Raises:
        GraphError: it is still not known; names the node.
    """
    found: dict[Node, tuple[int, ...]] = {}
    for node in order:
        if node in fed:
            found[node] = fed[node]
        elif not isinstance(node.shape, UnknownShape) and None not in node.shape:
            found[node] = tuple(node.shape)
        elif node.op is not None and all(source in found for source in node.inputs):
            specs = [Spec(found[source], source.dtype) for source in node.inputs]
            found[node] = tuple(n or 0 for n in node.op.infer(*specs).shape)
        elif node.op is None and node.inputs and node.inputs[0] in found:
            found[node] = found[node.inputs[0]]  # a placeholder's default
        else:
            raise GraphError(
                f"memory_plan: the size of {node.name!r} is not known: got {node.shape}, expected "
                f"numbers (node {node.name!r} built at {node.location}). Give it a shape."
            )
    return found


def _bytes(node: Node, size: tuple[int, ...] | None) -> int:
    if size is not None:
        count = numel(size)
    else:
        count = None if isinstance(node.shape, UnknownShape) else numel(tuple(node.shape))
    if count is None:
        raise GraphError(
            f"memory_plan: the size of {node.name!r} is not known: got {node.shape}, expected "
            f"numbers. Give the placeholder its batch size (node {node.name!r} built at "
            f"{node.location})."
        )
    return count * int(node.dtype.itemsize)


class _Planner:
    """Whose memory each value is in, and until when it is needed.

    Attributes:
        home: for each node, the node that its memory was made for.
        straight: nodes whose elements lie in memory in their own order.
        last: for each home, the last step that uses it; one past the end for what is fetched.
    """

    def __init__(
        self,
        order: Sequence[Node],
        fetches: Sequence[Node],
        fed: Collection[Node],
        sizes: dict[Node, tuple[int, ...]],
    ) -> None:
        self.order, self.fetches, self.fed, self.sizes = order, fetches, fed, sizes
        self.home: dict[Node, Node] = {}
        self.straight: set[Node] = set()
        self.last: dict[Node, int] = {}
        self._made: set[Node] = set()
        self._members: dict[Node, list[Node]] = {}  # a home, with the nodes whose home it is

    def n_bytes(self, node: Node) -> int:
        """Return the size of a node's value."""
        return _bytes(node, self.sizes.get(node))

    def produces(self, node: Node) -> bool:
        """Tell whether a run makes memory for this node's result."""
        return node in self._made

    def place_views(self) -> None:
        """Find the home of every node, and the last use of every home."""
        for node in self.order:
            if self._is_view(node):
                source = node.inputs[0]
                self.home[node] = self.home.get(source, source)
                if source in self.straight and self._keeps_order(node):
                    self.straight.add(node)
                continue
            self.home[node] = node
            self.straight.add(node)
            if node not in self.fed and _makes_memory(node):
                self._made.add(node)
        for i, node in enumerate(self.order):
            self.last[self.home[node]] = max(self.last.get(self.home[node], 0), i)
            for source in () if node in self.fed else node.inputs:
                home = self.home.get(source, source)
                self.last[home] = max(self.last.get(home, 0), i)
        for node in self.fetches:
            self.last[self.home[node]] = len(self.order)
        for node, home in self.home.items():
            self._members.setdefault(home, []).append(node)

    def _is_view(self, node: Node) -> bool:
        """Tell whether a result only looks into its input's memory.

        A transpose can be looked at in place, but not under another shape: that is a copy.
        """
        if node in self.fed or not isinstance(node.op, VIEWS):
            return False
        return not isinstance(node.op, Reshape) or node.inputs[0] in self.straight

    def _keeps_order(self, node: Node) -> bool:
        if isinstance(node.op, Permute):
            return tuple(node.op.dims) == tuple(range(len(node.op.dims)))
        if isinstance(node.op, ExpandTo):
            return node.shape == node.inputs[0].shape and None not in node.shape
        return True

    def reuse(self) -> list[Node]:
        """Let elementwise results take over an input that dies there; return those nodes."""
        found = []
        for i, node in enumerate(self.order):
            if not self.produces(node) or not _may_overwrite(node):
                continue
            owner = next((self.home[s] for s in node.inputs if self._dies(s, node, i)), None)
            if owner is not None:
                found.append(node)
                self.last[owner] = self.last.pop(node)
                for other in self._members.pop(node):
                    self.home[other] = owner
                    self._members[owner].append(other)
        return found

    def _dies(self, source: Node, node: Node, i: int) -> bool:
        """Tell whether `node`, at step i, may write over the memory of `source` as it reads it.

        Every input in that memory must then lie there element for element as the result will.
        """
        owner = self.home.get(source, source)
        wanted = self.n_bytes(node)
        if not self.produces(owner) or self.last[owner] != i or self.n_bytes(owner) != wanted:
            return False
        inside = [s for s in node.inputs if self.home.get(s, s) is owner]
        return all(s in self.straight and self.n_bytes(s) == wanted for s in inside)

    def lives(self) -> dict[Node, tuple[int, int]]:
        """Return the first and last step of every buffer."""
        place = {node: i for i, node in enumerate(self.order)}
        homes = dict.fromkeys(self.home[node] for node in self.order)
        return {h: (place[h], self.last[h]) for h in homes if self.produces(h)}


def _makes_memory(node: Node) -> bool:
    """Tell whether a result is new memory of the run: not what variables hold, nor a loop's."""
    return node.op is not None and (not isinstance(node.op, StateOp) or isinstance(node.op, Random))


def _may_overwrite(node: Node) -> bool:
    return isinstance(node.op, Elementwise | Fused) and not isinstance(node.op, FusedReduction)


MANY = 2000
"""Buffers from which on they are placed in the order of the run: the other way takes the square."""


def _place(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return the buffers with offsets, so that no two that live at the same time overlap."""
    return _by_time(buffers) if len(buffers) > MANY else _by_size(buffers)


def _by_size(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return the buffers with offsets: largest first, each at the lowest place that is free."""
    placed: list[Buffer] = []
    for buffer in sorted(buffers, key=lambda b: (-b.n_bytes, b.first)):
        beside = sorted(
            (b.offset, b.offset + b.n_bytes)
            for b in placed
            if b.first <= buffer.last and buffer.first <= b.last
        )
        offset = 0
        for start, end in beside:
            if offset + buffer.n_bytes <= start:
                break
            offset = max(offset, -(-end // ALIGNMENT) * ALIGNMENT)
        placed.append(Buffer(buffer.node, buffer.n_bytes, buffer.first, buffer.last, offset))
    return placed


def _by_time(buffers: Sequence[Buffer]) -> list[Buffer]:
    """Return the buffers with offsets: in the order of the run, each in the smallest gap."""
    gaps, placed = Gaps(), []
    ending: list[tuple[int, int, int]] = []  # the last step of a buffer, its offset and its bytes
    for buffer in sorted(buffers, key=lambda b: b.first):
        while ending and ending[0][0] < buffer.first:
            gaps.give_back(*heapq.heappop(ending)[1:])
        n_bytes = -(-buffer.n_bytes // ALIGNMENT) * ALIGNMENT
        offset = gaps.take(n_bytes)
        heapq.heappush(ending, (buffer.last, offset, n_bytes))
        placed.append(replace(buffer, offset=offset))
    return placed


class Gaps:
    """The free pieces of an arena that grows as it must.

    Attributes:
        top: how far it reaches.
    """

    def __init__(self) -> None:
        self.top = 0
        self._sizes: list[tuple[int, int]] = []  # (bytes, offset), sorted
        self._starts: dict[int, int] = {}  # offset: bytes
        self._ends: dict[int, int] = {}  # end: offset

    def take(self, n_bytes: int) -> int:
        """Return the offset of a piece: the smallest gap that is wide enough, or a new end."""
        if not n_bytes:
            return 0
        at = bisect.bisect_left(self._sizes, (n_bytes, 0))
        if at < len(self._sizes):
            size, offset = self._sizes[at]
            self._drop(offset)
            self._add(offset + n_bytes, size - n_bytes)
            return offset
        start = self._ends.get(self.top, self.top)  # the last gap becomes wider
        if start < self.top:
            self._drop(start)
        self.top = start + n_bytes
        return start

    def give_back(self, offset: int, n_bytes: int) -> None:
        """Make a piece free; gaps that touch become one."""
        if not n_bytes:
            return
        after = self._starts.get(offset + n_bytes, 0)
        if after:
            self._drop(offset + n_bytes)
        before = self._ends.get(offset, offset)
        if before < offset:
            self._drop(before)
        self._add(before, offset - before + n_bytes + after)

    def _add(self, offset: int, size: int) -> None:
        if size:
            bisect.insort(self._sizes, (size, offset))
            self._starts[offset], self._ends[offset + size] = size, offset

    def _drop(self, offset: int) -> None:
        size = self._starts.pop(offset)
        del self._ends[offset + size]
        del self._sizes[bisect.bisect_left(self._sizes, (size, offset))]
