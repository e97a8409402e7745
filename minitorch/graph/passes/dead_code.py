"""Dead-code elimination: what is only waited for, and branches that are never taken.

Nodes that no fetch needs were never in the run. What is left is subtler. A node that runs only
because another waits for it, and has no effect, need not run: whoever waited for it waits for the
effects above it instead. And a Switch whose predicate is a constant always sends its value one way,
so the Merge below it has one input to choose from. Last, what is in a branch need not wait for the
branch's predicate when one of its inputs came through the same Switch; nor need a constant, which
is there on either side.
"""

from collections.abc import Collection, Iterable, Sequence

from ..control.cond import Merge, MergeIndex, Switch
from ..control.liveness import deadness_of, is_spared, may_kill, maybe_dead, merges, required_inputs
from ..core.gradients import Identity
from ..core.node import Constant, Node
from ..core.order import before_each, list_needed, schedule, select_ordered
from .rewrite import may_change, over, rebuild, replace_nodes, rewrite

BRANCHING = (Switch, Merge, MergeIndex)


def dead_code(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches without branches never taken, and without waiting for nothing."""
    if not any(n.control_inputs or isinstance(n.op, BRANCHING) for n in list_needed(fetches, fed)):
        return list(fetches)
    return _pivots(_waits(_branches(fetches, fed), fed), fed)


def _pivots(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return the fetches with nobody waiting for a predicate that an input has waited for."""
    order = schedule(fetches, fed)
    if not any(node.control_inputs for node in order):
        return list(fetches)
    deadness, idle = deadness_of(order, fed), _idle(order, fed)
    new: dict[Node, Node] = {}
    for node in order:
        if not node.control_inputs and new.keys().isdisjoint(node.inputs):
            continue  # it stays
        if node in fed or not may_change(node):
            continue
        inputs = replace_nodes(node.inputs, new)
        waits = [s for s in node.control_inputs if not is_spared(node, s, deadness)]
        if isinstance(node, Constant):
            waits = [s for s in waits if s not in idle]
        new[node] = over(node, inputs, tuple(new.get(s, s) for s in waits))
    return [new.get(node, node) for node in fetches]


def _idle(order: Sequence[Node], fed: Collection[Node]) -> set[Node]:
    """Return the nodes that have no effect, nor has anything that runs before them."""
    idle: set[Node] = set()
    ordered = select_ordered(order)
    for node, before in zip(order, before_each(order, fed), strict=True):
        if node in fed or (node not in ordered and idle.issuperset(before)):
            idle.add(node)
    return idle


def _branches(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return the fetches with each Switch on a constant replaced by what it sends."""
    order = schedule(fetches, fed)
    never = _never(order, fed)

    def kills(node: Node) -> bool:
        """Tell whether a node can be dead, knowing which way constants send."""
        sends = isinstance(node.op, Switch) and _constant(node.inputs[1], fed) is not None
        return may_kill(node) and not sends

    risky = maybe_dead([node for node in order if node not in never], fed, kills)

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if node in never:
            return None
        if isinstance(node.op, Switch) and _constant(inputs[1], fed) is node.op.branch:
            return _after(inputs[0], inputs[1]) if inputs[1].control_inputs else inputs[0]
        if isinstance(node.op, Merge | MergeIndex):
            left = [i for i, source in enumerate(node.inputs) if source not in never]
            if len(left) == 1 or (left and node.inputs[left[0]] not in risky):
                return _resolve_merge(node, inputs, left[0])
        return None

    return rewrite(fetches, rule, fed, every=True)


def _resolve_merge(node: Node, inputs: Sequence[Node], place: int) -> Node | None:
    """Return what a merge gives that always takes the input at `place`."""
    if isinstance(node.op, Merge):
        return inputs[place]
    return _after(Constant(place, node.dtype), inputs[place])


def _after(value: Node, before: Node) -> Node:
    """Return `value` once `before` has run, dead when that is dead."""
    return rebuild(Identity(), value).with_inputs((value,), (before,))


def _never(order: Sequence[Node], fed: Collection[Node]) -> set[Node]:
    """Return the nodes that are dead in every run."""
    never: set[Node] = set()
    for node in order:
        if node in fed:
            continue
        if isinstance(node.op, Switch):
            pred = _constant(node.inputs[1], fed)
            if pred is not None and pred is not node.op.branch:
                never.add(node)
        if merges(node):
            dead = bool(node.inputs) and all(source in never for source in node.inputs)
        else:
            dead = any(source in never for source in required_inputs(node))
        if dead:
            never.add(node)
    return never


def _constant(node: Node, fed: Collection[Node]) -> bool | None:
    """Return the value of a predicate that is known now, else None."""
    return None if not isinstance(node, Constant) or node in fed else bool(node.value)


def _waits(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return the fetches with nobody waiting for a node that would not run otherwise."""
    order = schedule(fetches, fed)
    if not any(node.control_inputs for node in order):
        return list(fetches)
    risky, ordered = maybe_dead(order, fed), select_ordered(order)
    above: dict[Node, tuple[Node, ...]] = {}
    for node in order:
        above[node] = (node,)
        if not (node in fed or node in ordered or node in risky):
            risks = _join(above.get(s, ()) for s in (*node.inputs, *node.control_inputs))
            if risky.isdisjoint(risks):  # else who waits would die of what `node` outlives
                above[node] = risks
    must_run = _find_live(fetches, fed, above)
    if must_run.issuperset(s for node in order if node in must_run for s in node.control_inputs):
        return list(fetches)
    return _without(order, fetches, fed, must_run, above)


def _without(
    order: Sequence[Node],
    fetches: Sequence[Node],
    fed: Collection[Node],
    kept: Collection[Node],
    above: dict[Node, tuple[Node, ...]],
) -> list[Node]:
    new: dict[Node, Node] = {}
    for node in order:
        if node not in kept:
            continue
        inputs = replace_nodes(node.inputs, new)
        waits = _join((s,) if s in kept else above[s] for s in node.control_inputs)
        control = tuple(new.get(s, s) for s in waits)
        fixed = node in fed or not may_change(node)
        new[node] = node if fixed else over(node, inputs, control)
    return [new[node] for node in fetches]


def _find_live(
    fetches: Sequence[Node], fed: Collection[Node], above: dict[Node, tuple[Node, ...]]
) -> set[Node]:
    """Return the nodes that must run when waits go to what is above."""
    must_run: set[Node] = set()
    waiting = list(fetches)
    while waiting:
        node = waiting.pop()
        if node in must_run:
            continue
        must_run.add(node)
        if node not in fed:
            waiting += node.inputs
            waiting += _join(above.get(s, (s,)) for s in node.control_inputs)
    return must_run


def _join(groups: Iterable[Sequence[Node]]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(node for group in groups for node in group))
