"""Slices that NumPy's basic indexing cannot take before the run: `x[:n]` of a node n, `x[::-1]`.

Each such slice becomes the places it names, which a gather then takes along its axis.
"""

from __future__ import annotations

from typing import Any

from ...arrays import Array, int32, native_dtype
from ...errors import GraphError
from ...op import Op, Spec, Value
from .late import as_scalar


class Places(Op):
    """The places along an axis of the first input that a slice names.

    Attributes:
        axis: the axis.
        bounds: start, stop and step of the slice; ... for one that is a further input.
    """

    reads_inputs = reads_output = False

    def __init__(self, axis: int, bounds: tuple[Any, Any, Any]) -> None:
        self.axis, self.bounds = axis, bounds

    def compute(self, xp: Any, *arrays: Array) -> Array:
        """Return the places."""
        given = iter(arrays[1:])
        cut = slice(*(int(next(given)) if n is ... else n for n in self.bounds))
        return xp.arange(*cut.indices(arrays[0].shape[self.axis]), dtype=native_dtype(xp, int32))

    def infer(self, *specs: Spec) -> Spec:
        """Return the spec of a vector, of a known length where no bound is an input."""
        size = specs[0].shape[self.axis]
        if size is None or ... in self.bounds:
            return Spec((None,), int32)
        return Spec((len(range(*slice(*self.bounds).indices(size))),), int32)

    def gradient(self, out_grad: Any, node: Any) -> Any:
        """Return nothing: places do not depend on elements."""
        return (None,) * len(node.inputs)


def is_cut(item: Any) -> bool:
    """Tell whether an index is a slice with a node in it, or one that goes back."""
    if not isinstance(item, slice):
        return False
    if any(isinstance(n, Value) for n in (item.start, item.stop, item.step)):
        return True
    return item.step is not None and item.step < 0


def cut(x: Any, index: tuple[Any, ...]) -> Any:
    """Return x[index], where some of the slices are cuts.

    Raises:
        GraphError: there are arrays of places as well.
    """
    if any(not isinstance(n, int | slice) and n is not None and n is not ... for n in index):
        raise GraphError(
            f"index: got {x.name!r} indexed by places and by a computed slice at once (built at "
            f"{x.location}). Index twice."
        )
    found = x[tuple(slice(None) if is_cut(n) else n for n in index)]
    kept = [n for n in index if not isinstance(n, int)]
    for i, item in enumerate(kept):
        if is_cut(item):
            axis = i - len(kept) if ... in kept[:i] else i
            found = _taken(found, axis % len(found.shape), item)
    return found


def _taken(x: Any, axis: int, item: slice) -> Any:
    bounds = (item.start, item.stop, item.step)
    nodes = [as_scalar(n) for n in bounds if isinstance(n, Value)]
    fixed = tuple(... if isinstance(n, Value) else n for n in bounds)
    places = Places(axis, fixed)(x, *nodes)  # type: ignore[arg-type]
    return x[(*(slice(None),) * axis, places)]
