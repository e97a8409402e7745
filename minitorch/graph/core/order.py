"""Which nodes a run needs, and in which order they run.

Nodes never change, so an order stays right for as long as the same fetches are asked for. Passes
leave most graphs as they were, or ask for one order several times: inside `keep_orders` each is
made once, and a rewrite, which gives other fetches, asks for another by itself.
"""

import heapq
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from operator import attrgetter

from .node import Node
from .variables import Read, Variable

MOST_KEPT = 500_000  # nodes in all the orders that are kept: some versions of a very large graph


# ── orders that are asked for again ─────────────────────────────────────────────────────────────


class _Orders:
    """The latest orders, by what was asked for."""

    def __init__(self) -> None:
        self.known: dict[object, list[Node]] = {}
        self.count = 0

    def add(self, key: object, order: list[Node]) -> None:
        """Keep an order; the oldest ones go when there are too many nodes in all."""
        self.known[key] = order
        self.count += len(order)
        while self.count > MOST_KEPT and len(self.known) > 2:
            self.count -= len(self.known.pop(next(iter(self.known))))


class _Local(threading.local):
    orders: _Orders | None = None


_local = _Local()


@contextmanager
def keep_orders() -> Iterator[None]:
    """Keep the latest orders of this thread until the block ends: nobody is to change a node."""
    outer = _local.orders
    _local.orders = outer or _Orders()
    try:
        yield
    finally:
        _local.orders = outer


Fetches = Iterable[Node]
Order = Callable[[Fetches, Collection[Node]], list[Node]]


def _remember(make: Order) -> Order:
    """Return `make` with a memory: who asks again gets the same order, in a list of their own."""

    @wraps(make)
    def order(fetches: Fetches, fed: Collection[Node]) -> list[Node]:
        orders = _local.orders
        if orders is None:
            return make(fetches, fed)
        ends = tuple(fetches)
        key = (make, ends, frozenset(fed))
        if key not in orders.known:
            orders.add(key, make(ends, fed))
        return list(orders.known[key])

    return order


# ── orders ──────────────────────────────────────────────────────────────────────────────────────


def sources(node: Node, fed: Collection[Node]) -> tuple[Node, ...]:
    """Return the nodes whose values `node` needs: none when it is fed, or reads a variable."""
    if node in fed:
        return ()
    if isinstance(node.op, Read):
        return (node.op.variable,) if node.op.variable in fed else ()
    inputs: tuple[Node, ...] = node.inputs
    return inputs


def runs_before(node: Node, fed: Collection[Node]) -> tuple[Node, ...]:
    """Return the nodes that must run before `node`: for their values, or only to have run."""
    if node in fed:
        return ()
    control: tuple[Node, ...] = node.control_inputs
    inputs = sources(node, fed)
    return (*inputs, *control) if control else inputs


def _needs(fetches: Fetches, fed: Collection[Node]) -> dict[Node, tuple[Node, ...]]:
    """Return every node that must run to give `fetches`, with what must run before it."""
    before: dict[Node, tuple[Node, ...]] = {}
    waiting = list(fetches)
    while waiting:
        node = waiting.pop()
        if node not in before:
            plain = node not in fed and not node.control_inputs and not isinstance(node.op, Read)
            before[node] = node.inputs if plain else runs_before(node, fed)
            waiting += before[node]
    return before


@_remember
def list_needed(fetches: Fetches, fed: Collection[Node]) -> list[Node]:
    """Return every node that must run to give `fetches`; nothing above a fed node."""
    return list(_needs(fetches, fed))


@_remember
def schedule(fetches: Fetches, fed: Collection[Node]) -> list[Node]:
    """Return the needed nodes in running order: inputs and control inputs before their users.

    Among nodes that are free to run, those that write variables wait for all others, so a value
    read without a control dependency is the one from before the run; ties run in the order in
    which they were built.
    """
    needs = _needs(fetches, fed)
    nodes = _by_turn(needs)
    have_run: set[Node] = set()
    for node in nodes:
        if not have_run.issuperset(needs[node]):
            break
        have_run.add(node)
    else:
        return nodes  # as they were built
    turn = {node: i for i, node in enumerate(nodes)}
    before = [[turn[source] for source in needs[node]] for node in nodes]
    users: list[list[int]] = [[] for _ in nodes]
    for i, turns in enumerate(before):
        for j in turns:
            users[j].append(i)
    missing = [len(turns) for turns in before]
    ready = [i for i, count in enumerate(missing) if not count]  # sorted, and so a heap
    order: list[Node] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(nodes[i])
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, user)
    if len(order) < len(nodes):
        node = nodes[next(i for i, count in enumerate(missing) if count)]
        raise node.error(
            f"run: the graph has a cycle: {node.name!r} waits for itself, or for a node that does. "
            "Repeat by while_loop."
        )
    return order


def _by_turn(nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes in the order in which they would run if none waited for another."""
    by_age = sorted(nodes, key=attrgetter("id"))  # a node and its copy stay as they were
    late = [node for node in by_age if getattr(node.op, "writes", ())]
    if not late:
        return by_age
    writing = set(late)
    return [*[node for node in by_age if node not in writing], *late]


def last_uses(
    order: Sequence[Node], fed: Collection[Node], needed_later: Collection[Node]
) -> list[list[Node]]:
    """Return, for each place in `order`, the nodes whose value nobody needs afterwards."""
    last: dict[Node, int] = {}
    for i, node in enumerate(order):
        last[node] = i
        for source in runs_before(node, fed):  # of a control input it is asked whether it is dead
            last[source] = i
    free: list[list[Node]] = [[] for _ in order]
    for node, i in last.items():
        if node not in needed_later:
            free[i].append(node)
    return free


def writes_of(node: Node) -> tuple[Variable, ...]:
    """Return the variables that a node sets."""
    return getattr(node.op, "writes", ())


def read_by(order: Sequence[Node], fed: Collection[Node]) -> list[tuple[Node, ...]]:
    """Return for each node of `order` the nodes whose values it needs."""
    return [sources(node, fed) for node in order]


def before_each(order: Sequence[Node], fed: Collection[Node]) -> list[tuple[Node, ...]]:
    """Return for each node of `order` what must run before it."""
    return [runs_before(node, fed) for node in order]


def select_ordered(nodes: Iterable[Node]) -> set[Node]:
    """Return those of the nodes for which it matters when they run."""
    return {node for node in nodes if is_ordered(node)}


def is_ordered(node: Node) -> bool:
    """Tell whether it matters when, or that, an operator runs: it has, or sees, an effect."""
    return node.op is not None and bool(getattr(node.op, "ordered", not node.op.pure))
