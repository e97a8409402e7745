"""Placement: which operator runs on which of several devices.

What must be on one device is a group, the inside of loops included. Together are a variable, its
reads and all that writes it; a list and all that is put on it or taken off it; and a loop and all
that is inside. A group goes where one of its members was put by `device("...")`: a variable's word
counts first, then that of the first node inside a loop. The others follow their data. Feeds,
placeholders and constants are on every device.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ...arrays.shapes import numel
from ...errors import GraphError
from ..control.loop_stacks import Empty, HandleNode
from ..control.while_op import While
from ..core.node import Constant, Node, UnknownShape
from ..core.order import schedule, sources, writes_of
from ..core.placeholders import Placeholder
from ..core.variables import Read, Variable


def place(
    order: Sequence[Node],
    fed: Collection[Node],
    n_devices: int,
    ranks: Mapping[str, int] | None = None,
    writers: Sequence[Node] = (),
    homes: Mapping[Node, int] | None = None,
) -> dict[Node, int]:
    """Return the rank of every node of `order` that is not on all of them.

    Args:
        order: the nodes of a run, inputs first.
        ranks: the rank of each device name, or of what it begins with; by default the number of
            the task in it, else that at its end.
        writers: nodes of other runs that write variables: what they write is together, too.
        homes: where variables are already.
    Raises:
        GraphError: a device that is not there, or two devices for what belongs together.
    """
    groups = Groups(order, writers, fed, n_devices, ranks or {}, homes or {})
    rank_of: dict[Node, int] = {}
    for node in order:
        if everywhere(node, fed):
            continue
        group = groups.group(node)
        if group not in groups.rank_of:
            inputs = [n for n in sources(node, fed) if n in rank_of]
            groups.rank_of[group] = _nearest(inputs, rank_of)
        rank_of[node] = groups.rank_of[group]
    return rank_of


def _nearest(inputs: Sequence[Node], rank_of: Mapping[Node, int]) -> int:
    """Return the rank that has most bytes of the inputs; the first one if there are none."""
    bytes_on: dict[int, float] = {0: 0.0}
    for node in inputs:
        rank = rank_of[node]
        bytes_on[rank] = bytes_on.get(rank, 0.0) + n_bytes(node) + 1.0
    return max(bytes_on, key=lambda rank: (bytes_on[rank], -rank))


def n_bytes(node: Node) -> float:
    """Return the size of a node's value; a size that is not known counts as 1."""
    if isinstance(node.shape, UnknownShape):
        return float(node.dtype.itemsize)
    return float((numel(tuple(n or 1 for n in node.shape)) or 0) * node.dtype.itemsize)


class Groups:
    """The groups that must stay together, and where each is wanted; arguments are those of `place`.

    Attributes:
        rank_of: the rank of each group that has one.
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
        self._parent: dict[Node, Node] = {}
        nodes = list(dict.fromkeys([*order, *writers]))
        members = [node for node in nodes if not everywhere(node, fed)]
        for node in members:
            for other in _find_colocated(node, fed):
                self._parent[self.group(other)] = self.group(node)
        inside = [n for node in members for n in _inside(node)]
        self._obey([*inside, *members])
        for variable, rank in homes.items():
            self.rank_of[self.group(variable)] = rank

    def group(self, node: Node) -> Node:
        """Return the node that stands for the group of `node`."""
        parent = self._parent
        while (above := parent.get(node, node)) is not node:
            parent[node] = parent.get(above, above)
            node = above
        return node

    def rank_of_device(self, node: Node) -> int:
        """Return the rank of the device that `node` asks for."""
        name = node.device or ""
        number = re.search(r"/task:(\d+)(?=/|$)", name) or re.search(r"(\d+)$", name)
        keys = [key for key in self.ranks if name == key or name.startswith(f"{key}/")]
        rank = self.ranks[max(keys, key=len)] if keys else int(number[1]) if number else -1
        if not 0 <= rank < self.n_devices:
            raise node.error(
                f"place: there is no device {name!r}: got {self.n_devices} ranks. End the name "
                "with the number of a rank, or say in devices= which rank it is."
            )
        return rank

    def _obey(self, nodes: Sequence[Node]) -> None:
        """Put groups on the devices that the program names."""
        named: dict[Node, Node] = {}
        chosen = [node for node in nodes if node.device is not None]
        for node in sorted(chosen, key=_turn):
            group, rank = self.group(node), self.rank_of_device(node)
            if self.rank_of.setdefault(group, rank) == rank:
                named.setdefault(group, node)
            elif isinstance(node, Variable):
                first = named[group]
                raise GraphError(
                    f"place: {first.name!r} on {first.device!r} and {node.name!r} on "
                    f"{node.device!r} belong together: one operator writes both (built at "
                    f"{first.location} and {node.location}). Put them on one device."
                )


def everywhere(node: Node, fed: Collection[Node]) -> bool:
    """Tell whether every device has the value of `node`, or can have it for nothing."""
    return node in fed or isinstance(node, Constant | Placeholder) or isinstance(node.op, Empty)


def variables_of(node: Node) -> list[Node]:
    """Return the variables whose memory `node` looks at or changes; of a variable itself."""
    if isinstance(node, Variable):
        return [node]
    if isinstance(node.op, Read):
        return [node.op.variable]
    variables: list[Node] = list(writes_of(node))
    for inner in _inside(node):
        variables += variables_of(inner)
    return variables


def _inside(node: Node) -> Iterator[Node]:
    """Yield what is inside a loop and is somewhere, that of loops in it included."""
    if isinstance(node.op, While):
        loop = node.op
        for inner in schedule([loop.test, *loop.body, *loop.saved], loop.placeholders):
            if not everywhere(inner, loop.placeholders):
                yield inner
                yield from _inside(inner)


def _find_colocated(node: Node, fed: Collection[Node]) -> Iterator[Node]:
    """Yield the nodes that are where `node` is."""
    yield from (variable for variable in variables_of(node) if variable not in fed)
    yield from _inside(node)
    for source in node.inputs:
        if isinstance(source, HandleNode) and not isinstance(source.op, Empty):
            yield source


def _turn(node: Node) -> int:
    """Return the priority of a wish: a variable's first, then a node's, then a whole loop's."""
    return 0 if isinstance(node, Variable) else 2 if isinstance(node, HandleNode) else 1
