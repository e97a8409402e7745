"""The arena executor: all results of a run stand in one block of memory, where the plan put them.

Every operator writes its result to its place: generated kernels and NumPy's functions through
`out=`, in place where the plan says so. What is measured is where arrays really stood. With
`poison` a buffer is filled with NaN (all bits set) as soon as the plan calls it free, so that a
value which is read too late cannot go unnoticed.

A run with branches or loops has no order that is known before, so it has no arena.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import compile as code
from ...arrays import CPU, Array, Device
from ...errors import GraphError
from ...op import Op
from ...ops.linalg import MatMul
from ...ops.reduction import Extreme, Mean, Sum
from ...ops.rows import ROWS, Elementwise
from ..control.dead import merges
from ..control.history import Opacity
from ..node import Constant, Node, Placeholder
from ..operators.cutting import Places
from ..operators.late import Late
from ..operators.sized import Counting, OfShape
from ..order import schedule
from ..passes.fused import Fused
from ..passes.lowering import program_of
from ..state import NoOp, Read, State, StateOp, Variable
from .plan import ALIGNMENT, MemoryPlan, memory_plan, sizes_of
from .step import check_source, copied, explain

Into = Callable[..., None]
"""(out, *arrays): compute into `out`."""


class ArenaStep:
    """The run of `fetches` from `feeds` in one block of memory; called as a `Step` is.

    Args:
        poison: fill a buffer with NaN as soon as it is free.
    Attributes:
        plan: of the last run; it depends on the shapes that were fed.
        measured_bytes: how far the last run's arrays reached into the arena.
    Raises:
        GraphError: there are branches or loops, or the device is not the CPU.
    """

    def __init__(
        self,
        fetches: Sequence[Node],
        feeds: Sequence[Node],
        device: Device = CPU,
        poison: bool = False,
    ) -> None:
        self.fetches, self.feeds, self.poison = tuple(fetches), tuple(feeds), poison
        self.fed = set(feeds)
        self.order = schedule(fetches, self.fed)
        for node in self.order:
            if node not in self.fed:
                _check(node, device)
                check_source(node)
        self.plan: MemoryPlan = MemoryPlan(0, 0, (), (), (), {})
        self.measured_bytes = 0
        self._runs: dict[tuple[Any, ...], _Run] = {}

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Any, ...]:
        """Return the fetched arrays, copied out of the arena.

        Raises:
            GraphError, ShapeError, ...: what went wrong, with the node and the line that built it.
        """
        shapes = tuple(a.shape for a in arrays)
        if shapes not in self._runs:
            sizes = sizes_of(self.order, dict(zip(self.feeds, shapes, strict=True)))
            self._runs[shapes] = _Run(self, memory_plan(list(self.fetches), self.fed, sizes), sizes)
        run = self._runs[shapes]
        self.plan = run.plan
        with np.errstate(all="ignore"):
            values = run(state, dict(zip(self.feeds, arrays, strict=True)))
        self.measured_bytes = run.reach
        return tuple(
            None if isinstance(node.op, NoOp) else copied(values[node]) for node in self.fetches
        )


class _Run:
    """The runs for feeds of one set of shapes: their plan and their memory."""

    def __init__(self, step: ArenaStep, plan: MemoryPlan, sizes: dict[Node, Any]) -> None:
        self.step, self.plan = step, plan
        block = np.empty(plan.peak_bytes + ALIGNMENT, np.uint8)
        start = -block.ctypes.data % ALIGNMENT
        self.memory = block[start : start + plan.peak_bytes]
        self.base = self.memory.ctypes.data
        self.reach = 0
        in_place = set(plan.in_place)
        offsets = {buffer.node: buffer.offset for buffer in plan.buffers}
        self.places = {
            node: self._at(offsets[home], sizes[node], node.dtype)
            for node, home in plan.home.items()
            if home in offsets and (node is home or node in in_place)
        }
        self.into = {node: _into(node) for node in self.places}
        self.free: list[list[Array]] = [[] for _ in plan.order]
        for buffer in plan.buffers:
            if buffer.last < len(plan.order):
                piece = self.memory[buffer.offset : buffer.offset + buffer.n_bytes]
                self.free[buffer.last].append(piece)

    def _at(self, offset: int, shape: tuple[int, ...], dtype: Any) -> Array:
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        return self.memory[offset : offset + n_bytes].view(dtype).reshape(shape)

    def __call__(self, state: State, values: dict[Node, Any]) -> dict[Node, Any]:
        self.reach = 0
        for i, node in enumerate(self.plan.order):
            if node not in values:
                inputs = [values[source] for source in _read(node, self.step.fed)]
                try:
                    values[node] = self._value(node, inputs, state)
                except Exception as error:
                    raise explain(node, inputs, error) from error
            if self.step.poison:
                for piece in self.free[i]:
                    piece.fill(0xFF)
        return values

    def _value(self, node: Node, inputs: list[Any], state: State) -> Any:
        place = self.places.get(node)
        if place is not None:
            if isinstance(node.op, StateOp):
                np.copyto(place, node.op.run(state, *inputs))
            else:
                self.into[node](place, *inputs)
            self.reach = max(self.reach, place.ctypes.data + place.nbytes - self.base)
            return place
        if isinstance(node, Constant):
            return node.value
        if isinstance(node, Placeholder):
            return inputs[0]
        if isinstance(node, Variable) or isinstance(node.op, Read):
            return (node if isinstance(node, Variable) else node.op.variable).value_in(state)
        if isinstance(node.op, StateOp):
            return node.op.run(state, *inputs)
        return _viewed(node, inputs)


def _viewed(node: Node, inputs: Sequence[Array]) -> Array:
    assert node.op is not None  # sources have been dealt with
    return node.op.compute(np, *inputs)


def _read(node: Node, fed: set[Node]) -> tuple[Node, ...]:
    """Return the nodes whose values an operator is given; a read looks into the state itself."""
    reads = isinstance(node.op, Read) and node.op.variable not in fed
    return () if reads else node.inputs


def _check(node: Node, device: Device) -> None:
    op = node.op
    if isinstance(op, Counting | OfShape) or (isinstance(op, Places) and ... in op.bounds):
        raise GraphError(
            f"arena: cannot plan for a size that is computed in the run: got node {node.name!r} "
            f"(built at {node.location}), expected sizes from the feeds. Use another executor."
        )
    branches = merges(node) or getattr(op, "may_kill", False)
    if device != CPU or branches or isinstance(op, Opacity | Late):
        what = f"device {device}" if device != CPU else "branches or loops"
        raise GraphError(
            f"arena: cannot run {what}: got node {node.name!r} (built at {node.location}), "
            "expected operators in one order on the CPU. Use another executor."
        )


# ── operators with a place for their result ─────────────────────────────────────────────────────

UFUNCS: dict[str, Any] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.true_divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}


def _into(node: Node) -> Into:
    """Return how to compute a node into a given place, with little or no memory beside it."""
    op = node.op
    if isinstance(op, Fused):
        return op.into
    if isinstance(op, MatMul):
        return lambda out, a, b: np.matmul(a, b, out=out)
    if isinstance(op, Sum | Mean | Extreme):
        return functools.partial(_reduced, op)
    if isinstance(op, Elementwise) and ROWS.get(op.name) is op:
        return _row_into(node, op)
    return functools.partial(_copied, op)


def _row_into(node: Node, op: Elementwise) -> Into:
    ufunc = UFUNCS.get(op.name)
    if ufunc is not None and node.dtype.kind == "f":
        return lambda out, *arrays: ufunc(*arrays, out=out)
    operands = tuple(range(len(node.inputs)))
    program = program_of(((op, operands),), [source.dtype for source in node.inputs])
    if isinstance(program, code.Program) and code.available():
        return functools.partial(_by_kernel, program)
    return functools.partial(_copied, op)


def _by_kernel(program: code.Program, out: Array, *arrays: Array) -> None:
    code.kernel(program)(*arrays, out=out)


def _copied(op: Op | None, out: Array, *arrays: Array) -> None:
    """Compute beside the arena and copy: for operators that cannot be told where to."""
    assert op is not None  # only operators have a place
    np.copyto(out, op.compute(np, *arrays))


def _reduced(op: Sum | Mean | Extreme, out: Array, x: Array) -> None:
    if isinstance(op, Extreme):
        (np.max if op.largest else np.min)(x, axis=op.dims, keepdims=op.keepdim, out=out)
        return
    np.add.reduce(x, axis=op.dims, keepdims=op.keepdim, dtype=out.dtype, out=out)
    if isinstance(op, Mean):
        out /= out.dtype.type(np.prod([x.shape[d] for d in op.dims]))
