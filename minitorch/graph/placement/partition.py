"""A placed graph cut into one program a rank, with Send and Recv where an edge crosses.

Every rank runs its part of one common order, and a value is sent right after it was computed and
received at the same place of that order. So of all transfers that are not done the first one has
both its ranks waiting for nothing else: it gets done, and no ranks ever wait for each other, even
if sending waits for the receiver.

A branch is cut as everything is: its Switches are where the values are that they let through, the
predicate is sent there, and what crosses an edge of a branch that is not taken is a flag that says
so. A loop runs whole on one rank.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..control.liveness import maybe_dead
from ..core.copying import make_node
from ..core.node import Node
from ..core.order import sources
from ..core.variables import NoOp
from .send_recv import Ranks, Recv, Send, Wire


@dataclass
class Part:
    """What one rank runs.

    Attributes:
        order: its nodes, Send and Recv among them, in the order in which they run.
        here: what stands for a node of the whole graph on this rank.
    """

    order: list[Node] = field(default_factory=list)
    here: dict[Node, Node] = field(default_factory=dict)


class Cutting:
    """One rank's part, and who uses what: the same on all ranks.

    Every rank has the values of `fetches` in the end.

    Args:
        placed: the rank of every node that is on one.
    """

    def __init__(
        self,
        order: Sequence[Node],
        fetches: Sequence[Node],
        fed: Collection[Node],
        placed: Mapping[Node, int],
        ranks: Ranks,
    ) -> None:
        self.fed, self.placed, self.ranks = fed, placed, ranks
        self.part = Part()
        self.mortal = maybe_dead(order, fed)
        self._read: dict[Node, set[int]] = {}
        self._awaited: dict[Node, set[int]] = {}
        for node in fetches:
            kind = self._awaited if isinstance(node.op, NoOp) else self._read
            _note(kind, (node,), range(ranks.size))
        for node in reversed(order):
            if node not in fed:
                at = {placed[node]} if node in placed else self._users(node)
                _note(self._read, sources(node, fed), at)
                _note(self._awaited, () if node.op is None else self._waits(node), at)
        for node in order:
            self._add(node)

    def _add(self, node: Node) -> None:
        """Add a node if it is of this rank, then what sends or receives its value."""
        home, users = self.placed.get(node), self._users(node)
        if self.ranks.rank in (users if home is None else {home}):
            self._stand(node, self._local(node))
        if home is not None:
            for dst in sorted(users - {home}):
                wire = Wire(node in self.mortal, dst in self._read.get(node, ()))
                self._cross(node, home, dst, wire)

    def _users(self, node: Node) -> set[int]:
        """Return the ranks on which something waits for `node`."""
        return self._read.get(node, set()) | self._awaited.get(node, set())

    def _waits(self, node: Node) -> list[Node]:
        """Return what a node waits for, but for what is there from the start."""
        return [n for n in node.control_inputs if n not in self.fed]

    def _stand(self, node: Node, own: Node) -> None:
        """Note that `own`, which runs now, is this rank's copy of `node`."""
        self.part.here[node] = own
        self.part.order.append(own)

    def _cross(self, node: Node, home: int, dst: int, wire: Wire) -> None:
        """Send the value of `node` if this is its rank, receive it if this is the other one."""
        if home == self.ranks.rank:
            sending = Send(self.ranks, dst, wire)
            own = self.part.here[node]
            self.part.order.append(make_node(sending, (own,), node, name=f"{node.name}/send"))
        elif dst == self.ranks.rank:
            self._stand(node, make_node(Recv(self.ranks, home, wire, node), (), node))

    def _local(self, node: Node) -> Node:
        """Return `node` over what stands for its inputs on this rank."""
        if node in self.fed:
            return node
        here = self.part.here
        inputs = tuple(here.get(source, source) for source in node.inputs)
        if node.op is None:
            # What has no operator waits for nothing.
            waits = not (node.inputs or node.control_inputs)
            return node if waits else node.with_inputs(inputs, ())
        control = tuple(here[source] for source in self._waits(node))
        same = len(control) == len(node.control_inputs)
        pairs = zip((*inputs, *control), (*node.inputs, *node.control_inputs), strict=False)
        if same and all(a is b for a, b in pairs):
            return node
        return node.with_inputs(inputs, control)


def _note(kind: dict[Node, set[int]], nodes: Iterable[Node], at: Iterable[int]) -> None:
    for node in nodes:
        kind.setdefault(node, set()).update(at)
