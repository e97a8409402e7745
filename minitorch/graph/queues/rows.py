"""Elements of datasets as rows of arrays: a part of the graph run on one, several stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import Device, to_numpy
from ...errors import GraphError
from ...op import Spec
from ..node import Node, Placeholder, UnknownShape, convert
from ..operators.late import ByShape, needs_shapes
from ..passes.rewrite import PLANNING
from ..running.executors import Run, executor_called
from ..scope import outside
from ..state import State
from ..static_shape import agree
from .elements import Structure, apart
from .queue_ops import padded

Row = tuple[Any, ...]


class Inner:
    """What a function builds from an element: a part of the graph with a placeholder a value.

    Attributes:
        result: what the function returned.
        leaves: the nodes to be computed for an element.
        structure: of the result, where it is one of nodes.
    """

    def __init__(self, function: Callable[..., Any], of: Structure) -> None:
        with outside():
            self.feeds = tuple(Placeholder(s.dtype, s.shape, "element") for s in of.specs)
            element = of.rebuild(self.feeds)
            plain = isinstance(element, tuple) and not hasattr(element, "_fields")
            self.result = function(*element) if plain else function(element)
            inner = getattr(self.result, "sources", None)
            given = tuple(self.result) if isinstance(self.result, list) else self.result
            values, rebuild = apart(given) if inner is None else (inner, tuple)
            self.leaves: list[Node] = [convert(v) for v in values]
        self.structure = Structure([Spec(n.shape, n.dtype) for n in self.leaves], rebuild)
        self._runs: dict[Device, Run] = {}

    def compute(self, state: State, row: Row) -> Row:
        """Return the leaves' arrays for an element."""
        run = self._runs.get(state.device)
        if run is None:
            run = self._runs[state.device] = planned(self.leaves, self.feeds, state.device)
        given = [np.asarray(v, f.dtype) for v, f in zip(row, self.feeds, strict=True)]
        return tuple(run(state, given))


def planned(leaves: list[Node], feeds: tuple[Node, ...], device: Device) -> Run:
    """Return a plan of these nodes, of which the shapes may only be known in the run."""
    executor = executor_called("compiled", {})

    def plan(fetches: list[Node], fed: tuple[Node, ...]) -> Run:
        return executor(fetches, fed, device)

    with PLANNING:
        return ByShape(leaves, feeds, plan) if needs_shapes(leaves, feeds) else plan(leaves, feeds)


def same_shapes(where: str, values: Sequence[Any], specs: Sequence[Spec]) -> Row:
    """Return values of Python's as arrays of the dtypes that were declared.

    Raises:
        GraphError: there are more or fewer, or one has another shape.
    """
    if len(values) != len(specs):
        raise GraphError(f"{where}: got {len(values)} values, expected {len(specs)} an element.")
    found = []
    for value, spec in zip(values, specs, strict=True):
        array = np.asarray(value, spec.dtype)
        shape = spec.shape
        if not agree(array.shape, shape):
            raise GraphError(f"{where}: got shape {array.shape}, expected {shape}.")
        found.append(array)
    return tuple(found)


def batched(rows: Sequence[Row]) -> Row:
    """Return elements stacked.

    Raises:
        GraphError: their shapes differ.
    """
    columns = [[np.asarray(to_numpy(v)) for v in column] for column in zip(*rows, strict=True)]
    for column in columns:
        shapes = sorted({part.shape for part in column})
        if len(shapes) > 1:
            raise GraphError(
                f"batch: got elements of shapes {shapes[0]} and {shapes[1]}, expected one shape. "
                "Use padded_batch."
            )
    return tuple(np.stack(column) for column in columns)


def padded_to(shapes: Sequence[Any], fill: Sequence[Any]) -> Callable[[Sequence[Row]], Row]:
    """Return a function that stacks elements filled up to these shapes, to the largest for None."""

    def join(rows: Sequence[Row]) -> Row:
        columns = zip(zip(*rows, strict=True), shapes, fill, strict=True)
        return tuple(_padded(column, shape, value) for column, shape, value in columns)

    return join


def _padded(column: Sequence[Any], shape: Any, value: Any) -> Any:
    parts = [np.asarray(to_numpy(part)) for part in column]
    largest = np.max([part.shape for part in parts], axis=0).astype(int).tolist()
    goal = [None] * len(largest) if isinstance(shape, UnknownShape) else list(shape)
    if len(goal) != len(largest) or any(
        g is not None and n > g for n, g in zip(largest, goal, strict=True)
    ):
        raise GraphError(f"padded_batch: got elements up to {tuple(largest)} for {tuple(goal)}.")
    sizes = [n if g is None else g for n, g in zip(largest, goal, strict=True)]
    return padded(parts, sizes, value)
