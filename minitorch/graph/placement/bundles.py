"""Bundles of gradients taken apart, so that each gradient goes its own way.

The gradient of a loop's outcome is a bundle: the gradients of what was taken out, packed and added
up, of which the backward loop takes one after another. A whole bundle would have to be in one
place. What is taken out of it is the sum of what was packed under that number: that sum is put in
its stead.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..control.loop_stacks import Join, Opaque, Slot, kind_of
from ..control.outcome import Output, Pack
from ..core.gradients import Identity
from ..core.node import Node, build
from ..core.order import schedule
from ..passes.loops import inside
from ..passes.rewrite import like, may_change, over

Pieces = dict[Slot, Node]


def unbundled(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return nodes of the same values that take nothing out of a bundle, inside loops too."""
    return inside(_apart)(fetches, fed)


def _apart(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    order = schedule(fetches, fed)
    if not any(isinstance(node.op, Pack) for node in order):
        return list(fetches)
    new: dict[Node, Node] = {}
    bundles: dict[Node, Pieces] = {}
    for node in order:
        if node in fed or not may_change(node):
            new[node] = node
            continue
        inputs = tuple(new.get(source, source) for source in node.inputs)
        control = tuple(new.get(source, source) for source in node.control_inputs)
        pieces = _pieces(node, inputs, bundles)
        if pieces is not None:
            bundles[node] = pieces
        taken = _taken(node, bundles)
        if taken is not None and control:
            taken = _after(taken, control, node)
        new[node] = over(node, inputs, control) if taken is None else taken
    return [new[node] for node in fetches]


def _pieces(node: Node, inputs: Sequence[Node], bundles: dict[Node, Pieces]) -> Pieces | None:
    """Return what is in a bundle; None if `node` is none, or one of which that is not known."""
    if isinstance(node.op, Pack):
        return {node.op.slot: inputs[0]}
    if not isinstance(node.op, Join) or any(source not in bundles for source in node.inputs):
        return None
    a, b = (bundles[source] for source in node.inputs)
    return {**a, **b, **{slot: _total(a[slot], b[slot], node) for slot in a if slot in b}}


def _total(a: Node, b: Node, join: Node) -> Node:
    if isinstance(a, Opaque):
        copy = join.with_inputs((a, b), ())
        copy.op = Join()
        return copy
    with like(join):
        total: Node = a + b
        return total


def _taken(node: Node, bundles: dict[Node, Pieces]) -> Node | None:
    """Return the value that `node` takes out of a bundle; None if it takes none out of one."""
    if not isinstance(node.op, Output) or node.inputs[0] not in bundles:
        return None
    return bundles[node.inputs[0]].get(node.op.slot)


def _after(value: Node, control: tuple[Node, ...], node: Node) -> Node:
    """Return `value` once `control` has run, in the place of `node`."""
    with like(node):
        waiting = build(Identity(), (value,), kind=kind_of(value))
    return waiting.with_inputs((value,), control)
