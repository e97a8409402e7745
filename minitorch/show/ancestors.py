"""What a value was computed from: tensors, nodes of a dataflow graph, a learner's own nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitorch.op import Value


def inputs_of(value: Value) -> tuple[Value, ...]:
    """Return what a value was computed from; nothing for a leaf."""
    return tuple(value.inputs) if value.op is not None else ()


def controls_of(value: Value) -> tuple[Value, ...]:
    """Return what a node only runs after."""
    return tuple(getattr(value, "control_inputs", ()))


def _before(value: Value) -> tuple[Value, ...]:
    return inputs_of(value) + controls_of(value)


def nearest(roots: Sequence[Any], limit: int) -> tuple[list[Any], int]:
    """Return the `limit` values nearest to the roots, inputs first, and how many more there are."""
    found: dict[int, Any] = {id(value): value for value in roots}
    level = list(found.values())
    while level:
        following = []
        for value in level:
            for source in _before(value):
                if id(source) not in found:
                    found[id(source)] = source
                    following.append(source)
        level = following
    kept = dict(list(found.items())[:limit])
    order = inputs_first(
        list(kept.values()), lambda value: [s for s in _before(value) if id(s) in kept]
    )
    return order, len(found) - len(kept)


def inputs_first(
    roots: Sequence[Any], before: Callable[[Any], Sequence[Any]], seen: set[int] | None = None
) -> list[Any]:
    """Return the roots and all before them, but those `seen`, each behind what it comes from."""
    order: list[Any] = []
    seen = set() if seen is None else seen
    stack = [(root, False) for root in reversed(roots)]
    while stack:
        value, ready = stack.pop()
        if ready:
            order.append(value)
        elif id(value) not in seen:
            seen.add(id(value))
            stack.append((value, True))
            stack += [(source, False) for source in reversed(before(value))]
    return order
