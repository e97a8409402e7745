"""Placement: which operator runs on which of several devices.

What belongs together is placed together (`groups`). A group goes where one of its members was put
by `device("...")`; the others follow their data. Feeds, placeholders and constants are on every
device.
"""

from collections.abc import Collection, Mapping, Sequence

from ...arrays.shapes import numel
from ..core.node import Node, UnknownShape
from ..core.order import sources
from .groups import Groups, everywhere


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
        ranks: the rank of each device name; by default the number at the end of the name.
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
        rank = groups.rank(node)
        if rank is None:
            rank = _nearest([n for n in sources(node, fed) if n in rank_of], rank_of)
            groups.put(node, rank)
        rank_of[node] = rank
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
