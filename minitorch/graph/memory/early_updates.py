"""Updates moved up: a variable is written as soon as nobody needs what it held.

`schedule` lets writes wait for everything else, which is what a reader expects; but then all
gradients of a training step live until its end. Here an optimizer's update runs right after its
gradient and the last node that looks at the old value, and its gradient's memory is free again. The
values are the same: nothing moves past a node that shares memory with what is written, or past an
effect that is no write.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..core.node import Constant, Node
from ..core.order import runs_before, schedule
from ..core.variables import Read, StateOp, Variable
from .aliasing import looked_at


def running_order(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return the needed nodes in running order, updates as early as they can be."""
    order = schedule(fetches, fed)
    if not any(_is_soon(node) for node in order):
        return order
    order = sorted(order, key=_is_late)  # a rate that was built last must not hold its update back
    after: dict[int, list[Node]] = {}
    for node, place in _earliest(order, fed).items():
        after.setdefault(place, []).append(node)
    moved = {node for nodes in after.values() for node in nodes}
    found = after.get(-1, [])
    for i, node in enumerate(order):
        if node not in moved:
            found.append(node)
        found += after.get(i, ())
    return found


def _earliest(order: Sequence[Node], fed: Collection[Node]) -> dict[Node, int]:
    """Return for each update the place in `order` right after which it may run."""
    looks = looked_at(order, fed)
    place: dict[Node, int] = {}  # where each node runs; an update right after that
    touched: dict[Variable, int] = {}  # the last place so far that needs a variable as it is
    effect = -1
    found: dict[Node, int] = {}
    for i, node in enumerate(order):
        before = runs_before(node, fed)
        place[node] = i
        if _is_soon(node) and node not in fed:
            waits = [place[n] for n in before] + [touched.get(v, -1) for v in node.op.writes]
            place[node] = found[node] = max(effect, *waits)
        elif _has_effect(node, fed):
            effect = i
        for source in (node, *before):
            for variable in looks[source]:
                touched[variable] = max(touched.get(variable, -1), place[node])
    return found


def _is_late(node: Node) -> bool:
    return bool(node.control_inputs) or not isinstance(node, Constant)


def _is_soon(node: Node) -> bool:
    return isinstance(node.op, StateOp) and node.op.soon


def _has_effect(node: Node, fed: Collection[Node]) -> bool:
    """Tell whether a node does more than give a value and write variables that it names."""
    if node in fed or isinstance(node, Variable) or isinstance(node.op, Read):
        return False
    writes: tuple[Variable, ...] = getattr(node.op, "writes", ())
    return not writes and node.op is not None and getattr(node.op, "ordered", not node.op.pure)
