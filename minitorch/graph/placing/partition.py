"""A placed graph cut into one program a rank, with Send and Recv where an edge crosses.

Every rank runs its part of one common order, and a value is sent right after it was computed and
received at the same place of that order. So of all transfers that are not done the first one has
both its ranks waiting for nothing else: it gets done, and no ranks ever wait for each other, even
if sending waits for the receiver. Between two ranks values arrive in the order in which they were
sent, which is all the addressing that is needed.

A value that can be dead travels behind a flag: a dead token crosses as the flag alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ...arrays import Array, as_dtype
from ...errors import GraphError
from ...op import Spec
from ..control.dead import DEAD, endangered
from ..control.history import Opaque
from ..copying import made
from ..node import Node
from ..order import sources
from ..state import NoOp, State, StateOp
from .place import everywhere


class Ranks(Protocol):
    """What placement asks of a group of ranks; a `ddp_lab` communicator is one."""

    @property
    def rank(self) -> int:
        """The number of this rank."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    def send(self, x: Any, dst: int) -> None:
        """Send an array to rank `dst`."""

    def recv(self, src: Any) -> Any:
        """Return the next array from rank `src`, in the order in which it sent them."""


@dataclass(frozen=True)
class Wire:
    """How a value crosses: behind a flag if it can be dead, as a flag alone if nobody reads it."""

    mortal: bool
    carries: bool

    @property
    def flagged(self) -> bool:
        """Whether a flag is sent: 1 for alive."""
        return self.mortal or not self.carries


class Send(StateOp):
    """Send the input to another rank, dead or alive; gives nothing."""

    fires_on_dead = (0,)

    def __init__(self, ranks: Ranks, dst: int, wire: Wire) -> None:
        self.ranks, self.dst, self.wire = ranks, dst, wire

    def run(self, state: State, *arrays: Array) -> Array:
        """Send the flag, if there is one, then the value, if it is alive and read."""
        (value,) = arrays
        if self.wire.flagged:
            self.ranks.send(np.array([value is not DEAD], np.uint8), self.dst)
        if self.wire.carries and value is not DEAD:
            self.ranks.send(np.asarray(value), self.dst)
        return None

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a scalar, which nobody reads."""
        return Spec((), as_dtype(bool))


class Recv(StateOp):
    """The value that another rank sends at this point of the order; dead if it says so."""

    def __init__(self, ranks: Ranks, src: int, wire: Wire, like: Node) -> None:
        self.ranks, self.src, self.wire = ranks, src, wire
        self.may_kill = wire.mortal
        self.spec = Spec(like.shape, like.dtype)

    def run(self, state: State, *arrays: Array) -> Array:
        """Receive what `Send` sends."""
        if self.wire.flagged and not self.ranks.recv(self.src)[0]:
            return DEAD
        return self.ranks.recv(self.src) if self.wire.carries else None

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of what is sent."""
        return self.spec


@dataclass
class Part:
    """What one rank runs.

    Attributes:
        order: its nodes, Send and Recv among them, in the order in which they run.
        here: what stands for a node of the whole graph on this rank.
        sends, recvs: how many values it sends and receives in a run.
    """

    order: list[Node] = field(default_factory=list)
    here: dict[Node, Node] = field(default_factory=dict)
    sends: int = 0
    recvs: int = 0


def cut(
    order: Sequence[Node],
    fetches: Sequence[Node],
    fed: Collection[Node],
    placed: Mapping[Node, int],
    ranks: Ranks,
) -> Part:
    """Return the part of this rank. Every rank has the values of `fetches` in the end."""
    mortal, users = endangered(order, fed), Users(order, fetches, fed, placed, ranks.size)
    part = Part()
    for node in order:
        home = placed.get(node)
        if home is None or home == ranks.rank:
            part.here[node] = own = _local(node, part.here, fed)
            part.order.append(own)
        if home is None:
            continue
        for dst in sorted(users.ranks(node) - {home}):
            wire = Wire(node in mortal, users.read(node, dst))
            if home == ranks.rank:
                _check(node, wire)
                sending = Send(ranks, dst, wire)
                part.order.append(made(sending, (part.here[node],), node, name=f"{node.name}/send"))
                part.sends += 1
            elif dst == ranks.rank:
                part.here[node] = come = made(Recv(ranks, home, wire, node), (), node)
                part.order.append(come)
                part.recvs += 1
    return part


class Users:
    """On which ranks a value is waited for, and on which it is read."""

    def __init__(
        self,
        order: Sequence[Node],
        fetches: Sequence[Node],
        fed: Collection[Node],
        placed: Mapping[Node, int],
        size: int,
    ) -> None:
        self._read: dict[Node, set[int]] = {}
        self._awaited: dict[Node, set[int]] = {}
        for node in fetches:
            kind = self._awaited if isinstance(node.op, NoOp) else self._read
            kind.setdefault(node, set()).update(range(size))
        for node in order:
            at = range(size) if everywhere(node, fed) else (placed[node],)
            for source in () if node in fed else sources(node, fed):
                self._read.setdefault(source, set()).update(at)
            for source in () if node in fed or node.op is None else node.control_inputs:
                self._awaited.setdefault(source, set()).update(at)

    def ranks(self, node: Node) -> set[int]:
        """Return the ranks on which something waits for `node`."""
        return self._read.get(node, set()) | self._awaited.get(node, set())

    def read(self, node: Node, rank: int) -> bool:
        """Tell whether something on `rank` reads the value."""
        return rank in self._read.get(node, set())


def _check(node: Node, wire: Wire) -> None:
    if isinstance(node, Opaque) and wire.carries:
        raise GraphError(
            f"place: {node.name!r} is a loop or a list and cannot be sent (built at "
            f"{node.location}). Put what uses it on one device."
        )


def _local(node: Node, here: Mapping[Node, Node], fed: Collection[Node]) -> Node:
    """Return `node` over what stands for its inputs on this rank."""
    if node in fed:
        return node
    inputs = tuple(here.get(source, source) for source in node.inputs)
    control = tuple(here.get(source, source) for source in node.control_inputs)
    if node.op is None:
        # What has no operator waits for nothing.
        return node if not (node.inputs or node.control_inputs) else node.with_inputs(inputs, ())
    pairs = zip((*inputs, *control), (*node.inputs, *node.control_inputs), strict=True)
    return node if all(a is b for a, b in pairs) else node.with_inputs(inputs, control)
