"""The memory plan: which value lives when, and where in one arena it can stand.

A value lives from the node that computes it to the last node that uses it. Views have no memory of
their own and keep their source alive. An elementwise result takes over the memory of an input that
dies there. Each remaining buffer is placed, largest first, at the lowest offset where it meets no
other that lives at the same time.

Source: greedy by size, Pisarchyk & Lee, Efficient Memory Management for Deep Neural Net Inference,
2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import GraphError
from ..ops.broadcasting import ExpandTo
from ..ops.movement import InsertAxes, Permute, RemoveAxes, Reshape
from ..ops.rows import Elementwise
from ..shapes import numel
from .gradients import Identity, StopGradient
from .node import Node, UnknownShape
from .optimize import flatten
from .order import schedule
from .passes.fuse import Fused
from .state import StateOp

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
    """

    total_bytes: int
    peak_bytes: int
    buffers: tuple[Buffer, ...]
    in_place: tuple[Node, ...]


def memory_plan(fetches: Any) -> MemoryPlan:
    """Return the plan of a run of `fetches`, in the order in which a session runs it.

    Raises:
        GraphError: a size is not known before the run; names the node.
    """
    leaves: list[Node] = []
    flatten(fetches, leaves)
    order = schedule(leaves, ())
    home, in_place = _homes(order, leaves)
    lives = _lives(order, leaves, home)
    total = sum(_bytes(node) for node in order if _produces(node))
    buffers = _place([Buffer(node, _bytes(node), *lives[node]) for node in lives])
    peak = max((b.offset + b.n_bytes for b in buffers), default=0)
    return MemoryPlan(total, peak, tuple(buffers), tuple(in_place))


def _produces(node: Node) -> bool:
    """Tell whether a run allocates memory for this node's result."""
    return (
        node.op is not None and not isinstance(node.op, VIEWS) and not isinstance(node.op, StateOp)
    )


def _bytes(node: Node) -> int:
    count = None if isinstance(node.shape, UnknownShape) else numel(tuple(node.shape))
    if count is None:
        raise GraphError(
            f"memory_plan: the size of {node.name!r} is not known: got {node.shape}, expected "
            f"numbers. Give the placeholder its batch size (node {node.name!r} built at "
            f"{node.location})."
        )
    return count * int(node.dtype.itemsize)


def _homes(order: Sequence[Node], fetches: Sequence[Node]) -> tuple[dict[Node, Node], list[Node]]:
    """Return whose memory each node's result is in, and the nodes that reuse an input's."""
    last_use: dict[Node, int] = {}
    home: dict[Node, Node] = {}
    in_place: list[Node] = []
    for i, node in enumerate(order):
        for source in node.inputs:
            last_use[source] = i
    kept = set(fetches)
    for i, node in enumerate(order):
        home[node] = node
        if isinstance(node.op, VIEWS):
            home[node] = home.get(node.inputs[0], node.inputs[0])
            last_use[home[node]] = max(last_use.get(home[node], i), last_use.get(node, i))
            kept |= {home[node]} if node in kept else set()
    for i, node in enumerate(order):
        if isinstance(node.op, Elementwise | Fused):
            for source in node.inputs:
                owner = home[source]
                if _free_at(owner, i, last_use, kept) and _bytes(owner) == _bytes(node):
                    in_place.append(node)
                    last_use[owner] = last_use.get(node, i)
                    kept |= {owner} if node in kept else set()
                    _move(home, node, owner)
                    break
    return home, in_place


def _free_at(owner: Node, i: int, last_use: dict[Node, int], kept: set[Node]) -> bool:
    return _produces(owner) and owner not in kept and last_use.get(owner, -1) == i


def _move(home: dict[Node, Node], old: Node, new: Node) -> None:
    for node, owner in home.items():
        if owner is old:
            home[node] = new


def _lives(
    order: Sequence[Node], fetches: Sequence[Node], home: dict[Node, Node]
) -> dict[Node, tuple[int, int]]:
    """Return the first and last step of every buffer."""
    place = {node: i for i, node in enumerate(order)}
    lives: dict[Node, tuple[int, int]] = {}
    for i, node in enumerate(order):
        for used in (node, *node.inputs):
            owner = home[used]
            if _produces(owner):
                lives[owner] = (place[owner], max(i, lives.get(owner, (0, 0))[1]))
    for node in fetches:
        owner = home[node]
        if owner in lives:
            lives[owner] = (lives[owner][0], len(order))
    return lives


def _place(buffers: Sequence[Buffer]) -> list[Buffer]:
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
            offset = max(offset, end)
        placed.append(Buffer(buffer.node, buffer.n_bytes, buffer.first, buffer.last, offset))
    return placed
