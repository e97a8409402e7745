"""The gradient of a loop: a loop backwards, over lists of what the rounds computed.

Let a round be v' = body(v, c). With g the gradient of v', one round backwards is

    g, dc  ->  (d body / d v)^T g,  dc + (d body / d c)^T g

at the values of that round, newest first. Whatever of the forward round these rules look at is
kept in a list by the forward loop, so nothing is computed twice: a random number or an effect in
the body stays what it was. The backward loop runs while the lists last, which is how often the
forward loop ran. It is built from the same operators, so it has a gradient by the same rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..core.copying import copy_nodes
from ..core.gradients import gradients
from ..core.graph import get_default_graph, in_branches, outside
from ..core.node import Constant, Node, build
from ..core.order import list_needed
from ..core.placeholders import Placeholder
from ..operators.creation import zeros_like
from .loop_stacks import (
    HandleNode,
    History,
    Output,
    Slot,
    empty,
    has_more,
    kind_of,
    loop_outputs,
    placeholder_like,
    top,
    top_or_zeros,
    without_top,
)

if TYPE_CHECKING:
    from .while_op import While


@dataclass(frozen=True)
class RoundBack:
    """One round backwards, as a graph over the values of the same round forwards.

    Attributes:
        flowing: the variables with a gradient, by number.
        arriving: for each of them the placeholder of the gradient of its next value.
        pasts: for each list that has a gradient, by number, the placeholder of that of its item.
        flown: for each flowing variable the gradient of its value in this round.
        shares: for each captured node with a gradient, by number, this round's part of it.
        needs: nodes of the forward round whose values are looked at.
    """

    flowing: list[int]
    arriving: list[Placeholder]
    pasts: dict[int, Placeholder]
    flown: list[Node]
    shares: dict[int, Node]
    needs: list[Node]


def backward(loop: While, out_grad: Node, node: Node) -> tuple[Node | None, ...]:
    """Return the gradient of each input of `node`, which runs `loop`.

    Args:
        out_grad: a bundle of the gradients of what was taken out of the outcome.
    """
    taken: frozenset[Slot] = out_grad.op.places
    once = _round_back(loop, taken)
    first = _first(loop, once, taken, out_grad, node)
    back = _loop_back(loop, once, first, node)
    outputs = loop_outputs(back, first)
    after_lists = outputs[len(once.needs) :]
    grads = dict(zip(once.flowing, after_lists, strict=False))
    grads.update(zip(once.shares, outputs[len(outputs) - len(once.shares) :], strict=True))
    return tuple(grads.get(i) for i in range(len(node.inputs)))


def _round_back(loop: While, taken: frozenset[Slot]) -> RoundBack:
    count = len(loop.variables)
    flowing = [i for i, v in enumerate(loop.variables) if _flows(v)]
    outer = {count + j: c for j, c in enumerate(loop.entrances) if _flows(c)}
    lists = sorted(k for kind, k in taken if kind == "past")
    variables = [loop.variables[i] for i in flowing]
    with outside():
        arriving = [placeholder_like(v, "arriving") for v in variables]
        pasts = {k: placeholder_like(loop.saved[k], "arriving") for k in lists}
        ends = [*(loop.body[i] for i in flowing), *(loop.saved[k] for k in lists)]
        seeds = [*arriving, *pasts.values()]
        grads = gradients(ends, [*variables, *outer.values()], seeds) if ends else []
        flown = [_zeros(v) if g is None else g for v, g in zip(variables, grads, strict=False)]
    rest_of = grads[len(flowing) :]
    shares = {i: g for i, g in zip(outer, rest_of, strict=False) if g is not None}
    needs = _needs(loop, [*flown, *shares.values()])
    needs.update((loop.saved[k], None) for k in lists)
    if not needs:
        needs[loop.variables[0]] = None  # the list counts the rounds
    return RoundBack(flowing, arriving, pasts, flown, shares, list(needs))


def _needs(loop: While, results: Sequence[Node]) -> dict[Node, None]:
    """Return the nodes of the forward round that `results` use directly."""
    outer = set(loop.entrances)
    forward = {*list_needed([*loop.body, *loop.saved], outer), *loop.variables} - outer
    needs: dict[Node, None] = {}
    met: set[Node] = set()
    waiting = list(results)
    while waiting:
        node = waiting.pop()
        if node in met or node in outer or isinstance(node, Constant):
            continue
        met.add(node)
        if node in forward or (isinstance(node.op, Output) and node.inputs[0] in forward):
            needs[node] = None
        else:
            waiting += [*node.inputs, *node.control_inputs]
    return needs


def _first(
    loop: While, once: RoundBack, taken: frozenset[Slot], out_grad: Node, node: Node
) -> list[Node]:
    """Return the first values of the backward loop: lists, gradients, their lists, sums."""
    lists = [_out_of(node, History(loop.place_of(n), n), HandleNode) for n in once.needs]
    grads = []
    for i in once.flowing:
        like, slot = loop.variables[i], ("out", i)
        take, kind = Output(slot, like), kind_of(like)
        if slot in taken:
            grads.append(build(take, (out_grad,), kind=kind))
        else:
            grads.append(_zeros(_out_of(node, take, kind)))
    of_lists = [build(History(k, loop.saved[k]), (out_grad,), kind=HandleNode) for k in once.pasts]
    return [*lists, *grads, *of_lists, *(_zeros(node.inputs[i]) for i in once.shares)]


def _out_of(node: Node, take: Output, kind: type[Node]) -> Node:
    """Return what `take` gives of the loop `node`: in the branches that the loop is in, no others.

    A gradient may be built in a branch that the loop is not in. The value goes there then, not the
    loop's outcome, which holds no more than what is taken out of it at once.
    """
    with in_branches([b for b in get_default_graph().branches if node in b.inside]):
        return build(take, (node,), kind=kind)


def _loop_back(loop: While, once: RoundBack, first: Sequence[Node], node: Node) -> While:
    """Return the backward loop: every list loses its top, every sum gains its share."""
    count = len(loop.variables)
    with outside():
        variables = [placeholder_like(value, "loop_var") for value in first]
        at = iter(variables)
        lists = [next(at) for _ in once.needs]
        new: dict[Node, Node] = dict(zip(loop.entrances, node.inputs[count:], strict=True))
        new.update((n, top(stack, n)) for n, stack in zip(once.needs, lists, strict=True))
        new.update((grad, next(at)) for grad in once.arriving)
        of_lists = [next(at) for _ in once.pasts]
        for (k, grad), stack in zip(once.pasts.items(), of_lists, strict=True):
            new[grad] = top_or_zeros(stack, new[loop.saved[k]])
        results = [*once.flown, *once.shares.values()]
        new.update((n, n.with_inputs((), ())) for n in list_needed(results, set(new)) if _waits(n))
        after = copy_nodes(results, new, anew=True)  # all of it inside
        flown, shares = after[: len(once.flown)], after[len(once.flown) :]
        body = [
            *map(without_top, lists),
            *flown,
            *map(without_top, of_lists),
            *(total + share for total, share in zip(at, shares, strict=True)),
        ]
        test = has_more(lists[0])
    return type(loop).capture(test, body, variables, loop.parallel_iterations)


def _waits(node: Node) -> bool:
    """Tell whether a node is a constant that waits for something of the forward round."""
    return isinstance(node, Constant) and bool(node.control_inputs)


def _flows(node: Node) -> bool:
    return bool(node.dtype.kind == "f")


def _zeros(node: Node) -> Node:
    return empty() if isinstance(node, HandleNode) else zeros_like(node)
