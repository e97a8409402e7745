"""Some rows of a variable written, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...arrays import Array, add_at, asarray, cast, int64, to_numpy
from ...errors import GraphError
from ...op import Spec
from ..lined import lined
from ..naming import rename
from ..node import Node, build, convert
from ..state import State, StateOp, Variable, fresh

__all__ = [
    "scatter_add",
    "scatter_div",
    "scatter_max",
    "scatter_min",
    "scatter_mul",
    "scatter_sub",
    "scatter_update",
]

COMBINED = {
    "div": np.true_divide,
    "max": np.maximum,
    "min": np.minimum,
    "mul": np.multiply,
}
"""What the rarer kinds of writes make of a row and its update."""


class ScatterWrite(StateOp):
    """Rows of a variable set, or changed by their updates; inputs indices, updates."""

    def __init__(self, variable: Variable, combine: str) -> None:
        self.variable, self.combine = variable, combine
        self.writes = (variable,)

    @property
    def name(self) -> str:
        """scatter_update, scatter_add, ..."""
        return f"scatter_{self.combine}"

    def run(self, state: State, *arrays: Array) -> Array:
        """Write into a copy; whoever holds the old array keeps it."""
        with state.lock:  # what a run of another thread writes meanwhile is not lost
            state.values[self.variable] = fresh(self.variable.value_in(state))
            return self.run_in_place(state, *arrays)

    def run_in_place(self, state: State, *arrays: Array) -> Array:
        """Write into the variable's own array.

        Raises:
            GraphError: an index is outside the variable.
        """
        indices, updates = arrays
        value = self.variable.value_in(state)
        places = cast(indices, int64)
        outside = (places < 0) | (places >= value.shape[0])
        if bool(outside.any()):
            raise GraphError(
                f"{self.name}: got index {int(places[outside][0])}, expected 0 to "
                f"{value.shape[0] - 1}, rows of variable {self.variable.name!r}."
            )
        if self.combine == "update":
            value[places] = updates
        elif self.combine in COMBINED:
            _each(COMBINED[self.combine], value, places, updates)
        else:
            add_at(value, (places,), updates if self.combine == "add" else -updates)
        return value

    def infer(self, *specs: Spec) -> Spec:
        """Return the variable's spec."""
        return Spec(self.variable.shape, self.variable.dtype)


def _each(combine: Any, value: Array, places: Array, updates: Array) -> None:
    """Combine each update with its row, one after another where rows are named twice."""
    if isinstance(value, np.ndarray):
        combine.at(value, places, updates)
        return
    rows = np.array(to_numpy(value))
    combine.at(rows, to_numpy(places), to_numpy(updates))
    value[...] = asarray(rows, None, value.device)


@lined
def _scatter(ref: Any, indices: Any, updates: Any, combine: str, name: str | None) -> Node:
    if not isinstance(ref, Variable):
        raise GraphError(f"scatter_{combine}: got {type(ref).__name__}, expected a Variable.")
    places, values = convert(indices), convert(updates, ref.dtype)
    if places.dtype.kind not in "iu" or values.dtype != ref.dtype:
        raise GraphError(
            f"scatter_{combine}: got indices of {places.dtype} and updates of {values.dtype}, "
            f"expected integers and {ref.dtype}, that of variable {ref.name!r} (built at "
            f"{ref.location})."
        )
    return rename(build(ScatterWrite(ref, combine), (places, values)), name)


def scatter_update(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Node:
    """A node that sets rows of a variable, and gives the whole variable."""
    return _scatter(ref, indices, updates, "update", name)


def scatter_add(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Node:
    """A node that adds to rows of a variable; equal indices add up."""
    return _scatter(ref, indices, updates, "add", name)


def scatter_sub(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Node:
    """A node that subtracts from rows of a variable."""
    return _scatter(ref, indices, updates, "sub", name)


def scatter_mul(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Node:
    """A node that multiplies rows of a variable by their updates; equal indices multiply up."""
    return _scatter(ref, indices, updates, "mul", name)


def scatter_div(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Node:
    """A node that divides rows of a variable by their updates; equal indices divide again."""
    return _scatter(ref, indices, updates, "div", name)


def scatter_min(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Node:
    """A node that leaves the smaller of a row of a variable and its update."""
    return _scatter(ref, indices, updates, "min", name)


def scatter_max(
    ref: Variable, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Node:
    """A node that leaves the larger of a row of a variable and its update."""
    return _scatter(ref, indices, updates, "max", name)
