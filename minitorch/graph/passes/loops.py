"""Passes inside loops: a loop's condition and body are graphs, and are rewritten as such.

A loop that changes becomes another one, since nodes and operators never do; what takes values out
of it then asks the other one. A loop made again keeps only the rounds that somebody asks for.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from ..control.loop_stacks import History, Output, Slot, placeholder_like
from ..control.while_op import While, loops_used
from ..core.copying import copy_nodes
from ..core.graph import like, outside
from ..core.node import Node
from ..core.order import list_needed, schedule
from .rewrite import may_change, over, replace_nodes

Pass = Callable[[Sequence[Node], Collection[Node]], list[Node]]


@dataclass(frozen=True)
class Remade:
    """A loop in the place of another one.

    Attributes:
        loop: the other loop.
        inputs: its first values, then what it captures.
        slots: where it has what the first one had elsewhere.
        waits: what the first one died of, and this one would not.
    """

    loop: While
    inputs: tuple[Node, ...]
    slots: dict[Slot, Slot] = field(default_factory=dict)
    waits: tuple[Node, ...] = ()


Remake = Callable[[Node, tuple[Node, ...], Collection[Slot]], Remade | None]
"""(a loop's node, its inputs after the rewrite, the slots asked for) -> another loop, or None."""


def inside(rewriting: Pass) -> Pass:
    """Return a pass that also rewrites the conditions and bodies of loops, nested ones too."""

    def run(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
        return each_loop(rewriting(fetches, fed), fed, run)

    return run


def each_loop(fetches: Sequence[Node], fed: Collection[Node], change: Pass) -> list[Node]:
    """Return the fetches with every loop's condition and body as `change` makes them."""

    def remade(node: Node, inputs: tuple[Node, ...], asked: Collection[Slot]) -> Remade | None:
        loop: While = node.op
        places, saved = number_kept_lists(loop, asked)
        ends = [*loop.body, *saved]
        test, after = change([loop.test], loop.placeholders), change(ends, loop.placeholders)
        if all(a is b for a, b in zip((*test, *after), (loop.test, *ends), strict=True)):
            return None
        body, saved_ends = after[: len(loop.body)], after[len(loop.body) :]
        new = While(
            test[0], body, loop.variables, loop.entrances, saved_ends, loop.parallel_iterations
        )
        return Remade(new, inputs, places)

    return with_loops(fetches, fed, remade)


def number_kept_lists(loop: While, asked: Collection[Slot]) -> tuple[dict[Slot, Slot], list[Node]]:
    """Return the new places of the lists that are asked for, and the nodes that they are of."""
    old = sorted(k for kind, k in asked if kind == "past")
    return {("past", k): ("past", i) for i, k in enumerate(old)}, [loop.saved[k] for k in old]


def capture(
    node: Node,
    inputs: tuple[Node, ...],
    inner: Sequence[Node],
    outer: Sequence[Node],
    asked: Collection[Slot],
) -> Remade:
    """Return the loop `node` with the nodes `inner` captured: from outside comes `outer`."""
    loop: While = node.op
    places, saved = number_kept_lists(loop, asked)
    with like(node), outside():
        entrances = [placeholder_like(n, "captured") for n in inner]
    new: dict[Node, Node] = {p: p for p in loop.given}
    new.update(zip(inner, entrances, strict=True))
    test, *after = copy_nodes([loop.test, *loop.body, *saved], new)
    body, saved_ends = after[: len(loop.body)], after[len(loop.body) :]
    every = [*loop.entrances, *entrances]
    wider = While(test, body, loop.variables, every, saved_ends, loop.parallel_iterations)
    return Remade(wider, (*inputs, *outer), places)


def with_loops(fetches: Sequence[Node], fed: Collection[Node], remake: Remake) -> list[Node]:
    """Return the fetches with other loops in the place of those that `remake` makes anew."""
    if not any(isinstance(node.op, While) for node in list_needed(fetches, fed)):
        return list(fetches)
    order = schedule(fetches, fed)
    asked = _find_used_slots(order, fed, fetches)
    if not asked:
        return list(fetches)
    new: dict[Node, Node] = {}
    slots: dict[Node, dict[Slot, Slot]] = {}
    for node in order:
        new[node] = node
        if node in fed or not may_change(node):
            continue
        inputs, control = replace_nodes(node.inputs, new), replace_nodes(node.control_inputs, new)
        remade = remake(node, inputs, asked[node]) if node in asked else None
        if remade is not None:
            new[node] = with_op(node, remade.loop, remade.inputs, (*control, *remade.waits))
            slots[node] = remade.slots
        elif node.inputs and node.inputs[0] in slots:
            new[node] = _take_from_new_loop(node, slots[node.inputs[0]], inputs, control)
        else:
            new[node] = over(node, inputs, control)
    return [new[node] for node in fetches]


def _find_used_slots(
    order: Sequence[Node], fed: Collection[Node], fetches: Sequence[Node]
) -> dict[Node, set[Slot]]:
    """Return the loops, each with the slots that are asked for; not those used in other ways."""
    fetched = set(fetches)
    return {
        loop: {taker.op.slot for taker in takers}
        for loop, (takers, users) in loops_used(order, fed).items()
        if not users and loop not in fetched
    }


def _take_from_new_loop(
    node: Node, slots: dict[Slot, Slot], inputs: tuple[Node, ...], control: tuple[Node, ...]
) -> Node:
    """Return what takes the same value out of the loop that came in the place of another one."""
    op: Output = node.op
    slot = slots.get(op.slot, op.slot)
    like = History(slot[1], node) if isinstance(op, History) else Output(slot, node)
    like.shape, like.dtype = op.shape, op.dtype
    return with_op(node, like, inputs, control)


def with_op(
    node: Node, op: While | Output, inputs: tuple[Node, ...], control: tuple[Node, ...]
) -> Node:
    """Return the same node with another operator."""
    copy = node.with_inputs(inputs, control)
    copy.op, copy.id = op, node.id
    return copy
