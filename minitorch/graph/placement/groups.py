"""What must be on one device, and on which: groups of nodes, the inside of loops included.

Together are a variable, its reads and all that writes it; a list and all that is put on it or taken
off it, through loops; and a loop's variable with what the body makes of it. A group goes where one
of its members was put by `device("...")`.

A loop that has at most one device inside runs whole on one, as an operator does; one that has more
is cut, and then only its parts are placed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ...errors import GraphError
from ..control.loop_stacks import Empty, Opaque
from ..control.while_op import While
from ..core.node import Node
from ..core.order import writes_of
from ..core.variables import Read, Variable
from .levels import Loop, everywhere, loops_in

Member = tuple[Node, Collection[Node], Mapping[Node, Loop]]
"""A node, what its graph is given (a run's feeds or a loop's placeholders), the loops there."""


class Groups:
    """The groups that must stay together, and where each is wanted.

    Args:
        order: the nodes of a run; loops among them are looked into.
        writers: nodes of other runs; what these write is together, too.
        fed: what the run is given.
        n: how many devices there are.
        ranks: the rank of each device name, or of what it begins with; by default the number of
            the task in it, else that at its end.
        homes: where variables are already.

    Attributes:
        rank_of: the rank of each group that has one.
        cuts: the loops that run on several devices.

    Raises:
        GraphError: a device that is not there, or two devices for what belongs together.
    """

    def __init__(
        self,
        order: Sequence[Node],
        writers: Sequence[Node],
        fed: Collection[Node],
        n: int,
        ranks: Mapping[str, int],
        homes: Mapping[Node, int],
    ) -> None:
        self.n_devices, self.ranks = n, ranks
        self.rank_of: dict[Node, int] = {}
        self.cuts: dict[Node, Loop] = {}
        self._parent: dict[Node, Node] = {}
        mine = set(order)
        others = [node for node in writers if node not in mine]
        members = [*self._walk(order, fed), *self._walk(others, fed)]
        for member in members:
            for a, b in self._ties(*member):
                self._join(a, b)
        self._obey([node for node, *_ in members])
        for variable, rank in homes.items():
            self.put(variable, rank)
        self._settle(order, fed)
        self._settle(others, fed, running=False)

    def group(self, node: Node) -> Node:
        """Return the node that stands for the group of `node`."""
        parent = self._parent
        while (above := parent.get(node, node)) is not node:
            parent[node] = parent.get(above, above)
            node = above
        return node

    def rank(self, node: Node) -> int | None:
        """Return where the group of `node` is; None if that is open."""
        return self.rank_of.get(self.group(node))

    def put(self, node: Node, rank: int) -> None:
        """Put the group of `node` on a rank."""
        self.rank_of[self.group(node)] = rank

    def rank_called(self, node: Node) -> int:
        """Return the rank of the device that `node` asks for."""
        name = node.device or ""
        number = re.search(r"/task:(\d+)(?=/|$)", name) or re.search(r"(\d+)$", name)
        known = [key for key in self.ranks if name == key or name.startswith(f"{key}/")]
        rank = self.ranks[max(known, key=len)] if known else int(number[1]) if number else -1
        if not 0 <= rank < self.n_devices:
            raise node.error(
                f"place: there is no device {name!r}: got {self.n_devices} ranks. End the name "
                "with the number of a rank, or say in ranks= which one it is."
            )
        return rank

    def _walk(self, order: Sequence[Node], given: Collection[Node]) -> Iterator[Member]:
        """Yield every node that is somewhere; after a loop, what is inside it."""
        loops = loops_in(order, given)
        for node in order:
            if everywhere(node, given):
                continue
            yield node, given, loops
            if node in loops:
                yield from self._walk(loops[node].inner, loops[node].given)

    def _join(self, a: Node, b: Node) -> None:
        """Make one group of those of `a` and `b`; where both have a rank, that of b counts."""
        a, b = self.group(a), self.group(b)
        if a is b:
            return
        self._parent[a] = b
        if a in self.rank_of:
            self.rank_of.setdefault(b, self.rank_of.pop(a))

    def _ties(
        self, node: Node, given: Collection[Node], loops: Mapping[Node, Loop]
    ) -> Iterator[tuple[Node, Node]]:
        """Yield the pairs of nodes that are together because of `node`."""
        if node in loops:
            yield from _ties_of_loop(loops[node])
            return
        yield from ((node, variable) for variable in variables_of(node) if variable not in given)
        for source in node.inputs:
            listed = isinstance(source, Opaque) and not isinstance(source.op, Empty)
            if listed and not (source in loops and not loops[source].users):
                yield node, source

    def _obey(self, nodes: Sequence[Node]) -> None:
        """Put groups where the program says.

        Raises:
            GraphError: two variables that belong together are wanted on two devices.
        """
        named: dict[Node, Node] = {}
        chosen = [n for n in nodes if n.device is not None and not isinstance(n.op, While)]
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

    def _settle(self, order: Sequence[Node], given: Collection[Node], running: bool = True) -> None:
        """Decide for every loop whether it is cut; what is in one that is not stays together.

        Raises:
            GraphError: a loop that is to run would have to be cut, and cannot be.
        """
        for node, loop in loops_in(order, given).items():
            wanted = self._wanted(loop)
            if len(wanted) > 1:
                if running:
                    _refuse_unless_open(loop, wanted)
                    self.cuts[node] = loop
                self._settle(loop.inner, loop.given, running)
                continue
            for inner, *_ in self._walk(loop.inner, loop.given):
                self._join(inner, node)
            for other in (*loop.op.variables, *loop.takers):
                self._join(other, node)
            if node.device is not None and self.rank(node) is None:
                self.put(node, self.rank_called(node))

    def _wanted(self, loop: Loop) -> dict[int, Node]:
        """Return the ranks that are wanted inside a loop, each with the first node that is there.

        A node that asks for its rank by name is the better witness.
        """
        found: dict[int, Node] = {}
        for node, *_ in self._walk(loop.inner, loop.given):
            rank = self.rank(node)
            if rank is not None:
                first = found.setdefault(rank, node)
                if first.device is None and node.device is not None:
                    found[rank] = node
        return found


def variables_of(node: Node) -> list[Node]:
    """Return the variables whose memory `node` looks at or changes; of a variable itself."""
    if isinstance(node, Variable):
        return [node]
    if isinstance(node.op, Read):
        return [node.op.variable]
    return list(writes_of(node))


def kept_by(node: Node) -> list[Node]:
    """Return the variables that `node` touches, or what is inside it if it is a loop."""
    found = variables_of(node)
    if isinstance(node.op, While):
        for inner in node.op.nodes():
            found += kept_by(inner)
    return found


def _ties_of_loop(loop: Loop) -> Iterator[tuple[Node, Node]]:
    """Yield the pairs of nodes that are together across a loop's border, and from round to round.

    An array crosses the border on its own; a list stays where it is.
    """
    op, inputs = loop.op, loop.node.inputs
    for placeholder, source in zip(op.given, inputs, strict=True):
        if isinstance(placeholder, Opaque) and not isinstance(source.op, Empty):
            yield source, placeholder
    for variable, after in zip(op.variables, op.body, strict=True):
        if after is not variable and not loop.roams(after):
            yield variable, after
    for taker in loop.takers:
        kind, place = taker.op.slot
        if kind == "out":
            yield taker, op.variables[place]
        else:
            saved = op.saved[place]
            yield taker, loop.kept[place] if loop.roams(saved) else saved


def _refuse_unless_open(loop: Loop, wanted: Mapping[int, Node]) -> None:
    if not loop.users:
        return
    node, user = loop.node, loop.users[0]
    (a, first), (b, second) = list(wanted.items())[:2]
    raise GraphError(
        f"place: loop {node.name!r} (built at {node.location}) cannot be cut: {user.name!r} uses "
        f"it as a whole (built at {user.location}), but inside are {first.name!r} on rank {a} "
        f"(built at {first.location}) and {second.name!r} on rank {b} (built at "
        f"{second.location}). Put both on one device, or use what it gives one by one."
    )
