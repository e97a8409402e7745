"""Which values can be dead, and when: for which side of which predicates.

Inside a branch every value that comes from outside passes a Switch, so a node there is dead where
an input is. It need not wait for the branch's predicate besides, as it was told to when it was
built; without that wait it is only its value, and passes may rewrite it.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from ..core.node import Node
from ..core.variables import Read
from .cond import Merge, MergeIndex, Switch


def may_kill(node: Node) -> bool:
    """Tell whether `node` can be dead though nothing before it is."""
    return getattr(node.op, "may_kill", False)


def maybe_dead(
    order: Sequence[Node], fed: Collection[Node], kills: Callable[[Node], bool] = may_kill
) -> set[Node]:
    """Return the nodes that can be dead in some run: a Switch, and what comes after one."""
    mortal: set[Node] = set()
    for node in order:
        if node in fed:
            continue
        if kills(node):
            mortal.add(node)
        elif mortal:
            before = node.inputs if merges(node) else required_inputs(node)
            if not mortal.isdisjoint(before):
                mortal.add(node)
    return mortal


def merges(node: Node) -> bool:
    """Tell whether `node` is alive as soon as one of its inputs is."""
    return bool(getattr(node.op, "merges", False))


def required_inputs(node: Node) -> tuple[Node, ...]:
    """Return the nodes of which one dead makes `node` dead: all before it; none for a merge.

    A read of a variable is given no value: what it has as an input is for gradients alone. What has
    no operator, a constant say, is there whether or not what it waits for was sent.
    """
    if merges(node):
        return ()
    if node.op is None:
        return tuple(node.inputs)
    if isinstance(node.op, Read):
        return tuple(node.control_inputs)
    spared = getattr(node.op, "fires_on_dead", ())
    inputs = tuple(source for i, source in enumerate(node.inputs) if i not in spared)
    return (*inputs, *node.control_inputs)


# ── when a value is dead ──────────────────────────────────────────────────────────────────────────

Death = tuple[Node, bool]
"""A predicate and a side: dead when it takes the other, or is dead itself."""
NEVER: frozenset[Death] = frozenset()


class Deadness(NamedTuple):
    """When a value is dead: if any of `deaths` comes true; only then, where `exact`."""

    deaths: frozenset[Death]
    exact: bool


IMMORTAL = Deadness(NEVER, True)


def deadness_of(order: Sequence[Node], fed: Collection[Node]) -> dict[Node, Deadness]:
    """Return the deadness of every node of `order` that can be dead; the others are not in it."""
    by_node: dict[Node, Deadness] = {}
    for node in order:
        if node in fed or node.op is None or not (by_node or may_kill(node)):
            continue
        deadness = (
            _deadness_of_merge(node, by_node)
            if merges(node)
            else _of_all(required_inputs(node), by_node)
        )
        if isinstance(node.op, Switch):
            deadness = Deadness(
                deadness.deaths | {(node.inputs[1], node.op.branch)}, deadness.exact
            )
        elif may_kill(node):
            deadness = Deadness(deadness.deaths, False)
        if deadness != IMMORTAL:
            by_node[node] = deadness
    return by_node


def _of_all(nodes: Iterable[Node], by_node: dict[Node, Deadness]) -> Deadness:
    """Return the deadness of a value that is dead whenever one of `nodes` is."""
    deaths, exact = NEVER, True
    for node in nodes:
        deadness = by_node.get(node)
        if deadness is not None:
            exact = exact and deadness.exact
            if not deadness.deaths <= deaths:  # most often one has all, and is shared
                deaths = deadness.deaths if deaths <= deadness.deaths else deaths | deadness.deaths
    return Deadness(deaths, exact)


def _deadness_of_merge(node: Node, by_node: dict[Node, Deadness]) -> Deadness:
    """Return the deadness of a merge, which is dead only when all its inputs are."""
    sides = [by_node.get(source, IMMORTAL) for source in node.inputs]
    common = frozenset.intersection(*(side.deaths for side in sides))
    exact = all(side.exact for side in sides)
    if isinstance(node.op, Merge | MergeIndex) and len(sides) == 2:
        own_deaths = [side.deaths - common for side in sides]
        exact = exact and len(own_deaths[0]) == len(own_deaths[1]) == 1
        if exact:
            ((pred, yes),), ((other, no),) = own_deaths
            exact = pred is other and yes is not no
    else:
        exact = exact and all(side.deaths == common for side in sides)
    return Deadness(common, exact)


def is_spared(node: Node, wait: Node, by_node: dict[Node, Deadness]) -> bool:
    """Tell whether `node` need not wait for `wait`: it is dead when that is, and has no order.

    That is so for a branch's own pivot, a Switch that sends the predicate by the predicate.
    """
    if isinstance(node.op, Read) or not isinstance(wait.op, Switch) or wait.control_inputs:
        return False
    data, pred = wait.inputs
    if data is not pred:
        return False
    waits = set(node.control_inputs)
    inputs = (source for source in required_inputs(node) if source not in waits)
    return (pred, wait.op.branch) in _of_all(inputs, by_node).deaths


def die_first(nodes: Iterable[Node], other: Node, by_node: dict[Node, Deadness]) -> bool:
    """Tell whether it is certain that one of `nodes` is dead whenever `other` is."""
    deadness = by_node.get(other, IMMORTAL)
    return deadness.exact and deadness.deaths <= _of_all(nodes, by_node).deaths
