"""The record of a learner's own graph: any objects with `inputs`, and perhaps names and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.errors import ArgumentError
from minitorch.op import Value
from minitorch.show import trace
from minitorch.show.record import Record, Visit, structure

NUMBERS = ("value", "data", "array", "output", "cached_data")
GRADIENTS = ("grad", "adjoint", "gradient")


@dataclass(frozen=True)
class _Own:
    """A learner's node under the names that `trace` asks for."""

    node: Any
    inputs: tuple[_Own, ...]
    op: Any
    name: str | None

    control_inputs = ()


def record_own(root: Any, names: Mapping[int, str], limit: int) -> Record:
    """Return the computation behind an object with `inputs`."""
    wrapped: dict[int, _Own] = {}
    for node in _below(root):
        inputs = tuple(wrapped[id(source)] for source in _inputs(node))
        op = getattr(node, "op", None)
        if op is None and inputs:
            op = _Named(type(node).__name__)
        name = names.get(id(node)) or getattr(node, "name", None)
        wrapped[id(node)] = _Own(node, inputs, _Named(op) if isinstance(op, str) else op, name)
    top = wrapped[id(root)]
    kept, hidden = trace._nearest([top], limit)
    order = trace._inputs_first(kept)
    return with_numbers(structure(order, [top], {}, hidden), [own.node for own in order])


def with_numbers(made: Record, order: Sequence[Value]) -> Record:
    """Return the record with the numbers and gradients that the objects themselves hold."""
    made.numbers = [_first(node, NUMBERS) for node in order]
    grads = [_first(node, GRADIENTS) for node in order]
    for i in range(len(order) - 1, -1, -1):
        if grads[i] is not None:
            made.visits.append(Visit(i, grads[i], ()))
            made.uses[i] = 0
    return made


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name


def _below(root: Any) -> list[Any]:
    """Return everything below a learner's node, inputs first; each object once."""
    order: list[Any] = []
    done: set[int] = set()
    open_: set[int] = set()  # begun, with inputs that are still to be visited
    stack: list[tuple[Any, bool]] = [(root, False)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
            open_.discard(id(node))
        elif id(node) not in done:
            done.add(id(node))
            open_.add(id(node))
            stack.append((node, True))
            stack += [(source, False) for source in reversed(_inputs(node))]
        elif id(node) in open_:
            raise ArgumentError(
                f"step_through: got a {type(node).__name__} that is computed from itself, expected "
                "a graph without cycles. Look at who puts it into `inputs`."
            )
    return order


def _inputs(node: Any) -> tuple[Any, ...]:
    return tuple(getattr(node, "inputs", None) or ())


def _first(node: Any, names: Sequence[str]) -> Any:
    """Return the first of these attributes that holds numbers."""
    for name in names:
        found = getattr(node, name, None)
        found = getattr(found, "array", None) if isinstance(found, Value) else found
        found = getattr(found, "value", found) if hasattr(found, "inputs") else found
        if found is not None and not callable(found):
            array = np.asarray(found)
            if array.dtype.kind in "biuf":
                return array
    return None
