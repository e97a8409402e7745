"""Nodes that do something beside computing: call Python, print."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays.library import CPU, Array, DType, as_dtype, asarray, to_numpy
from ...errors import GraphError
from ...op import Flat, Gradients, KeepsSpec, Spec
from ..control.loop_stacks import HandleNode
from ..core.naming import locates_errors, rename
from ..core.node import UNKNOWN, Node, build, convert
from ..core.variables import NoOp, State, StateOp

__all__ = [
    "Print",
    "py_func",
]


# ── Python in the middle of a graph ─────────────────────────────────────────────────────────────


class Call(StateOp):
    """A Python function of arrays; the result is the tuple of what it returns.

    Attributes:
        function: what is called.
        dtypes: of what it returns.
    """

    def __init__(
        self, function: Callable[..., object], dtypes: tuple[DType, ...], many: bool
    ) -> None:
        self.function, self.dtypes, self.many = function, dtypes, many

    @property
    def name(self) -> str:
        """What the function is called."""
        return getattr(self.function, "__name__", "py_func").strip("<>")

    def run(self, state: State, *arrays: Array) -> Any:
        """Return the arrays that the function gives.

        Raises:
            GraphError: there are more or fewer than was said, or they have other dtypes.
        """
        found = self.function(*map(to_numpy, arrays))
        listed = list(found) if self.many and isinstance(found, list | tuple) else [found]
        if not self.many and found is None and not self.dtypes:
            listed = []
        if len(listed) != len(self.dtypes):
            raise GraphError(
                f"py_func: {self.name} gives {len(listed)} values, expected {len(self.dtypes)}."
            )
        return tuple(
            self._checked(np.asarray(value), dtype, state)
            for value, dtype in zip(listed, self.dtypes, strict=True)
        )

    def _checked(self, array: Array, dtype: DType, state: State) -> Array:
        if array.dtype != dtype:
            raise GraphError(
                f"py_func: {self.name} gives {array.dtype}, expected {dtype}, as Tout says. "
                f"Return value.astype({dtype})."
            )
        return array if state.device == CPU else asarray(array, None, state.device)

    def infer(self, *specs: Spec) -> Spec:
        """Return a spec that nobody reads: the result is a tuple."""
        return Spec((), as_dtype(bool))


class Picked(Flat, StateOp):
    """One of the values of a call."""

    ordered = False
    hands_on = True

    def __init__(self, place: int, dtype: DType) -> None:
        self.place, self.dtype = place, dtype

    def run(self, state: State, *arrays: Any) -> Array:
        """Return the value."""
        value: Array = arrays[0][self.place]
        return value

    def infer(self, *specs: Spec) -> Spec:
        """Return what is known: the dtype."""
        return Spec(UNKNOWN, self.dtype)


@locates_errors
def py_func(
    func: Callable[..., object],
    inp: Sequence[object],
    Tout: Any,
    name: str | None = None,
) -> Any:
    """What a Python function of the arrays of `inp` returns, a node for each dtype in `Tout`.

    Nothing is known of the shapes before the run (see `set_shape`), and no gradient flows.
    """
    many = isinstance(Tout, list | tuple)
    dtypes = tuple(as_dtype(t) for t in (Tout if many else [Tout]))
    call = build(Call(func, dtypes, many), [convert(v) for v in inp], kind=HandleNode)
    if many and not dtypes:
        return build(NoOp(), (call,)) if name is None else rename(build(NoOp(), (call,)), name)
    nodes = [build(Picked(i, t), (call,)) for i, t in enumerate(dtypes)]
    rename(nodes[0], name)
    return nodes if many else nodes[0]


# ── printing ────────────────────────────────────────────────────────────────────────────────────


class Printed(KeepsSpec, StateOp):
    """The first input, after the others have been printed."""

    hands_on = True

    def __init__(self, message: str, first_n: int | None, summarize: int) -> None:
        self.message, self.first_n, self.summarize = message, first_n, summarize
        self.times = 0

    def run(self, state: State, *arrays: Array) -> Array:
        """Print to the standard error stream, and return the first array."""
        self.times += 1
        if self.first_n is None or self.first_n < 0 or self.times <= self.first_n:
            shown = "".join(f"[{_some(to_numpy(a), self.summarize)}]" for a in arrays[1:])
            print(f"{self.message}{shown}", file=sys.stderr, flush=True)
        return arrays[0]

    def gradient(self, out_grad: Node, node: Node) -> Gradients:
        """The first input's is the gradient itself."""
        return (out_grad, *(None for _ in node.inputs[1:]))


def _some(array: object, summarize: int) -> str:
    flat = np.asarray(array).reshape(-1)
    more = "..." if 0 <= summarize < flat.size else ""
    items = flat if summarize < 0 else flat[:summarize]
    return " ".join(str(item) for item in items) + more


@locates_errors
def Print(
    input_: object,
    data: Sequence[object],
    message: str | None = None,
    first_n: int | None = None,
    summarize: int | None = None,
    name: str | None = None,
) -> Node:
    """`input_`; whenever it is computed, a line with `data` goes to the standard error stream.

    Args:
        first_n: only so many times.
        summarize: so many elements of each value, 3 unless given; -1 for all.
    """
    op = Printed(message or "", first_n, 3 if summarize is None else summarize)
    return rename(build(op, [convert(input_), *map(convert, data)]), name)
