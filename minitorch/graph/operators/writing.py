"""Some rows of a variable written, under TensorFlow's names."""

from __future__ import annotations

from typing import Any

from ...arrays import Array, add_at, cast, int64
from ...errors import GraphError
from ...op import Spec
from ..core.error_location import lined
from ..core.naming import rename
from ..core.node import Node, build, convert
from ..core.variables import State, StateOp, Variable, fresh

__all__ = ["scatter_add", "scatter_sub", "scatter_update"]


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
        else:
            add_at(value, (places,), updates if self.combine == "add" else -updates)
        return value

    def infer(self, *specs: Spec) -> Spec:
        """Return the variable's spec."""
        return Spec(self.variable.shape, self.variable.dtype)


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


def scatter_update(ref: Variable, indices: Any, updates: Any, name: str | None = None) -> Node:
    """A node that sets rows of a variable, and gives the whole variable."""
    return _scatter(ref, indices, updates, "update", name)


def scatter_add(ref: Variable, indices: Any, updates: Any, name: str | None = None) -> Node:
    """A node that adds to rows of a variable; equal indices add up."""
    return _scatter(ref, indices, updates, "add", name)


def scatter_sub(ref: Variable, indices: Any, updates: Any, name: str | None = None) -> Node:
    """A node that subtracts from rows of a variable."""
    return _scatter(ref, indices, updates, "sub", name)
