"""Reverse-mode differentiation: which values matter, and the sweep that visits them backwards.

Everything here is iterative, so a chain of 100,000 operators is as good as one of ten. The sweep
holds a table of gradients still to be delivered. A value is visited when all of its uses have been,
so its gradient is complete by then; a leaf's gradient is final at that moment, long before the
sweep ends, which is what lets communication overlap with backward.

The sweep is the same for every kind of value. What differs is the `rule` it calls: in `vjp` rules
build new values (tensors that record, or nodes of a graph), in `backward` they run on plain arrays.

Imports nothing of the package. Sources: Griewank & Walther, Evaluating Derivatives, 2nd ed., ch. 3
and 4; the table of gradients is HIPS autograd's.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

Rule = Callable[[Any, Any], Sequence[Any]]


def sweep(
    seeds: dict[Any, Any],
    uses: dict[Any, int],
    rule: Rule,
    deliver: Callable[[Any, Any], None],
    targets: Iterable[Any] = (),
    own: Callable[[Any], Any] = lambda grad: grad,
    parts: type[Any] | None = None,
) -> None:
    """Propagate the gradients `seeds` of the roots backwards through everything in `uses`.

    Args:
        seeds: gradient of each root.
        uses: as `count_uses` gives it; consumed.
        rule: (value, its gradient) -> gradient or None for each of its inputs.
        deliver: called with each leaf, and each of `targets`, once its gradient is complete.
        targets: values that are not leaves whose gradients are wanted as well.
        own: copies a gradient that a rule hands on as it is to a leaf, who may overwrite it.
        parts: a class of gradients whose `dense()` rules and hooks get.
    """
    pending = dict(seeds)
    wanted = set(targets)
    ready = [root for root in seeds if uses[root] == 0]
    while ready:
        value = ready.pop()
        grad, op, hooks = pending.pop(value, None), value.op, value.hooks
        if type(grad) is parts and not (op is None and hooks is None):
            grad = grad.dense()
        if hooks is not None and grad is not None:
            grad = hooks.on_gradient(value, grad)
        if op is None or (wanted and value in wanted):
            deliver(value, grad)
            if op is None:
                continue
        inputs = value.inputs
        shares = (None,) * len(inputs) if grad is None else rule(value, grad)
        for source, share in zip(inputs, shares, strict=True):
            left = uses.get(source)
            if left is None:
                continue
            if share is not None:
                if share is grad and source.op is None:
                    share = own(share)
                have = pending.get(source)
                pending[source] = share if have is None else have + share
            uses[source] = left = left - 1
            if not left:
                ready.append(source)


def count_uses(roots: Iterable[Any], needed: Callable[[Any], bool]) -> dict[Any, int]:
    """Return every value below `roots` through which a gradient flows, and how often it is used.

    Args:
        roots: the values to differentiate.
        needed: tells whether a gradient is to flow into a value.
    """
    uses = dict.fromkeys(roots, 0)
    waiting = list(uses)
    while waiting:
        value = waiting.pop()
        if value.op is None:
            continue
        for source in value.inputs:
            count = uses.get(source)
            if count is not None:
                uses[source] = count + 1
            elif needed(source):
                uses[source] = 1
                waiting.append(source)
    return uses


def ancestors(targets: Iterable[object], roots: Iterable[object]) -> set[object]:
    """Return the values between `targets` and `roots`, both included: those that use a target."""
    users: dict[Any, list[Any]] = {root: [] for root in roots}
    waiting = list(users)
    while waiting:
        value = waiting.pop()
        for source in value.inputs if value.op is not None else ():
            if source not in users:
                users[source] = []
                waiting.append(source)
            users[source].append(value)
    visited: set[Any] = set()
    waiting = [target for target in targets if target in users]
    while waiting:
        value = waiting.pop()
        if value not in visited:
            visited.add(value)
            waiting += users[value]
    return visited
