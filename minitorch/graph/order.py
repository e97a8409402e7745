"""Which nodes a run needs, and in which order they run."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Sequence

from .node import Node
from .state import Read


def sources(node: Node, fed: Collection[Node]) -> tuple[Node, ...]:
    """Return the nodes whose values `node` needs: none when fed or when it reads the memory."""
    if node in fed:
        return ()
    if isinstance(node.op, Read):
        return (node.op.variable,) if node.op.variable in fed else ()
    found: tuple[Node, ...] = node.inputs
    return found


def needed(fetches: Iterable[Node], fed: Collection[Node]) -> list[Node]:
    """Return every node that must run to give `fetches`; nothing above a fed node."""
    found: dict[Node, None] = {}
    waiting = list(fetches)
    while waiting:
        node = waiting.pop()
        if node in found:
            continue
        found[node] = None
        waiting += sources(node, fed)
        waiting += () if node in fed else node.control_inputs
    return list(found)


def schedule(fetches: Iterable[Node], fed: Collection[Node]) -> list[Node]:
    """Return the needed nodes in running order: inputs and control inputs before their users.

    Among nodes that are free to run, those that write variables wait for all others, so a value
    read without a control dependency is the one from before the run; ties run in the order in
    which they were built.
    """
    nodes = needed(fetches, fed)
    users: dict[Node, list[Node]] = {node: [] for node in nodes}
    missing: dict[Node, int] = {}
    for node in nodes:
        before = {*sources(node, fed), *(() if node in fed else node.control_inputs)}
        missing[node] = len(before)
        for source in before:
            users[source].append(node)
    place = {node: i for i, node in enumerate(nodes)}  # decides between a node and its copy
    ready = [(_writes(node), node.id, i) for node, i in place.items() if not missing[node]]
    heapq.heapify(ready)
    order: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)[2]]
        order.append(node)
        for user in users[node]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (_writes(user), user.id, place[user]))
    return order


def last_uses(
    order: Sequence[Node], fed: Collection[Node], kept: Collection[Node]
) -> list[list[Node]]:
    """Return, for each place in `order`, the nodes whose value nobody needs afterwards."""
    last: dict[Node, int] = {}
    for i, node in enumerate(order):
        last[node] = i
        for source in sources(node, fed):
            last[source] = i
        for source in () if node in fed else node.control_inputs:
            last[source] = i  # whether it is dead is asked here
    free: list[list[Node]] = [[] for _ in order]
    for node, i in last.items():
        if node not in kept:
            free[i].append(node)
    return free


def _writes(node: Node) -> bool:
    return bool(getattr(node.op, "writes", ()))
