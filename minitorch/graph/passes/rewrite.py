"""What every pass stands on: a graph rebuilt from its inputs up, a rule asked at each node.

Nodes never change; a pass makes new ones where something differs and keeps the rest. Names, lines
and control inputs go over to the new nodes, so errors still name what the user wrote.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from operator import is_

from ...op import Op
from ..core.gradients import Identity
from ..core.graph import Graph, like
from ..core.node import Constant, Node, build, fresh_id
from ..core.order import schedule
from ..core.variables import StateOp

PLANNING = threading.RLock()
"""Held while parts of a graph are rebuilt: `like` sets what all threads see of the graph."""

Rule = Callable[[Node, tuple[Node, ...]], Node | None]
"""(a node, its inputs after the rewrite) -> what stands for it, or None to leave it."""


def rewrite(
    fetches: Sequence[Node],
    rule: Rule,
    fed: Collection[Node] = (),
    every: bool = False,
    at: Collection[Node] | None = None,
    within: Collection[Node] = (),
    new: dict[Node, Node] | None = None,
) -> list[Node]:
    """Return what stands for `fetches` after `rule` has been asked at the simple nodes below them.

    Args:
        every: ask at every node with an operator. What stands for a node that waits for others
            waits for them too.
        at: ask only at these nodes, and at those of whose inputs one was replaced.
        within: simple nodes that stay, for whoever uses one is replaced together with it.
        new: an empty dict, which gets what stands for each node that is replaced, as it goes.
    """
    if at is not None and not at:
        return list(fetches)
    new = {} if new is None else new  # only what differs
    with likenesses() as build_like:
        for node in schedule(fetches, fed):
            inputs, control = node.inputs, node.control_inputs
            if node in fed or not (may_change(node) if control else node.op is not None):
                continue
            if node in within:
                continue
            if new:
                inputs = replace_nodes(inputs, new)
                control = replace_nodes(control, new) if control else control
            instead = None
            same = inputs is node.inputs and control is node.control_inputs
            if same and at is not None and node not in at:
                continue
            if simple(node) or (every and node.op is not None):
                build_like(node)
                instead = rule(node, inputs)
                if instead is not None and control:
                    instead = rebuild(Identity(), instead).with_inputs((instead,), control)
            elif same:
                continue
            after = over(node, inputs, control) if instead is None else instead
            if after is not node:
                new[node] = after
    return [new.get(node, node) for node in fetches]


class UntilSettled:
    """A rule that asks the first of `rules` that applies, and all again about its answer.

    Only nodes that a rule has built are asked about again; those it was given have been already.
    Two functions that call each other would hold the graph until the collector comes.
    """

    def __init__(self, *rules: Rule) -> None:
        self.rules = rules
        self.begin = fresh_id()
        self.done: set[Node] = set()

    def __call__(self, node: Node, inputs: tuple[Node, ...]) -> Node | None:
        """Return what stands for a node, or None to leave it."""
        for each in self.rules:
            instead = each(node, inputs)
            if instead is not None:
                return instead if instead is node else self._settle(instead)
        return None

    def _settle(self, node: Node) -> Node:
        if node.id < self.begin or node.op is None or node in self.done:
            return node
        self.done.add(node)
        inputs = tuple([self._settle(source) for source in node.inputs])
        instead = self(node, inputs)
        after = over(node, inputs, ()) if instead is None else instead
        self.done.add(after)
        return after


def replace_nodes(nodes: tuple[Node, ...], new: Mapping[Node, Node]) -> tuple[Node, ...]:
    """Return what stands for these nodes; the same tuple where that is they themselves."""
    if new.keys().isdisjoint(nodes):
        return nodes
    return tuple([new.get(node, node) for node in nodes])


def may_change(node: Node) -> bool:
    """Tell whether another node may stand for this one: not where a run looks it up by itself."""
    return node.op is not None or isinstance(node, Constant)


def over(node: Node, inputs: tuple[Node, ...], control: tuple[Node, ...]) -> Node:
    """Return the same node over other inputs; itself when they are the same.

    It keeps its number, and so its turn among what is free to run: two writes stay in order.
    """
    if _all_same(inputs, node.inputs) and _all_same(control, node.control_inputs):
        return node
    copy = node.with_inputs(inputs, control)
    copy.id = node.id
    return copy


def rebuild(op: Op, *inputs: Node) -> Node:
    """Return a new node; for rules, inside `rewrite`."""
    return build(op, inputs)


def simple(node: Node) -> bool:
    """Tell whether a node is only its value: no effect, no order to keep, the same each time."""
    return (
        node.op is not None
        and node.op.pure
        and not isinstance(node.op, StateOp)
        and not node.control_inputs
    )


def simple_among(nodes: Iterable[Node]) -> list[Node]:
    """Return those of the nodes that are `simple`."""
    return [node for node in nodes if simple(node)]


def users_of(order: Sequence[Node], fetches: Collection[Node]) -> dict[Node, int]:
    """Return how often each node is used; a fetch and a control edge count as uses."""
    uses = dict.fromkeys(order, 0)
    for node in order:
        for source in (*node.inputs, *node.control_inputs):
            if source in uses:
                uses[source] += 1
    for node in fetches:
        uses[node] = uses.get(node, 0) + 1
    return uses


@contextmanager
def likenesses() -> Iterator[Callable[[Node], None]]:
    """Give a function after whose calls nodes are built `like` the one that it was given last."""
    here: Graph | None = None

    def build_like(node: Node) -> None:
        nonlocal here
        if node.graph is not here:
            blocks.close()
            blocks.enter_context(like(node))
            here = node.graph
        node.graph.site, node.graph.devices = node.built_at, [node.device]

    with ExitStack() as blocks:
        yield build_like


def _all_same(a: Sequence[Node], b: Sequence[Node]) -> bool:
    return a is b or (len(a) == len(b) and all(map(is_, a, b)))
