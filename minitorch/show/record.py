"""Record: a computation as it was, as plain data; `recorded` and `recorded_own` fill it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from minitorch.op import Value
from minitorch.show import trace


@dataclass(frozen=True)
class Visit:
    """One value in the reverse sweep: its complete gradient, and the share of each input."""

    place: int
    grad: Any
    shares: tuple[tuple[int, Any], ...]


@dataclass
class Record:
    """A computation.

    Attributes:
        names, ops, types: of each value, inputs before users; ops are "" for leaves.
        inputs: the places of each value's inputs.
        numbers: its array, None where it has none.
        visits: the reverse sweep, from the root down; empty where there is none.
        uses: how many shares the gradient of each value is the sum of.
        controls: the places of what each value only runs after.
        hidden: how many values were left out.
        problem: what stopped the reverse sweep, "" for nothing.
    """

    names: list[str]
    ops: list[str]
    types: list[str]
    inputs: list[tuple[int, ...]]
    numbers: list[Any]
    roots: list[int]
    visits: list[Visit] = field(default_factory=list)
    uses: dict[int, int] = field(default_factory=dict)
    controls: list[tuple[int, ...]] = field(default_factory=list)
    hidden: int = 0
    problem: str = ""


def structure(
    order: Sequence[Any], roots: Sequence[Any], names: Mapping[int, str], hidden: int
) -> Record:
    """Return a record of the structure alone: names, operators, types and inputs."""
    place = {id(value): i for i, value in enumerate(order)}
    sources = [tuple(place[id(s)] for s in inputs_of(value) if id(s) in place) for value in order]
    made = Record([], [], [], sources, [None] * len(order), [place[id(r)] for r in roots])
    counts: dict[str, int] = {}
    for value in order:
        op = "" if value.op is None else str(getattr(value.op, "name", type(value.op).__name__))
        given = names.get(id(value)) or getattr(value, "name", None)
        base = str(given or op or "input")
        counts[base] = counts.get(base, 0) + 1
        made.names.append(base if given or counts[base] == 1 else f"{base} {counts[base]}")
        made.ops.append(op)
        made.types.append(trace._type(value) if hasattr(value, "dtype") else "")
        before = getattr(value, "control_inputs", ())
        made.controls.append(tuple(place[id(s)] for s in before if id(s) in place))
    made.hidden = hidden
    return made


def inputs_of(value: Value) -> tuple[Value, ...]:
    """Return what a value was computed from; nothing for a leaf."""
    return tuple(value.inputs) if value.op is not None else ()
