"""An executor that holds the memory plan to its word: all results stand where the plan put them.

Every operator writes its result to its place: generated kernels and NumPy's functions through
`out=`, in place where the plan says so. What is measured is where arrays really stood. With
`poison` a buffer is filled with NaN (all bits set) as soon as the plan calls it free, so that a
value which is read too late cannot go unnoticed.

A loop has an arena for one round within its own buffer, and every round uses it again. What a side
of a branch would have computed stays unwritten where the run goes the other way. The lists that a
loop keeps for its gradient hold copies outside the arena.
"""

import functools
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from minitorch.arrays.library import CPU, Array, Device, DType
from minitorch.compile import engine
from minitorch.compile.kernels import kernel
from minitorch.errors import GraphError
from minitorch.graph.control.liveness import maybe_dead
from minitorch.graph.control.loop_stacks import (
    DEAD,
    EMPTY,
    HandleNode,
    Outcome,
    outcome,
    push_each,
    require_alive,
)
from minitorch.graph.control.while_op import While
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import sources
from minitorch.graph.core.variables import State, StateOp
from minitorch.graph.executors.compiled import check_source, copy_result
from minitorch.graph.executors.interpreter import fetched_value, is_dead, value_of
from minitorch.graph.executors.node_errors import explain
from minitorch.graph.executors.registry import EXECUTORS
from minitorch.graph.memory.aliasing import running_order
from minitorch.graph.memory.plan import ALIGNMENT, LoopPlan, MemoryPlan, memory_plan, sizes_of
from minitorch.graph.passes.fused import Fused
from minitorch.graph.passes.lowering import program_of
from minitorch.graph.shapes.computed import Counting, OfShape
from minitorch.graph.shapes.deferred import Late, Places
from minitorch.op import Op
from minitorch.ops.elementwise.rows import ROWS, Elementwise
from minitorch.ops.products.linalg import MatMul
from minitorch.ops.reducing.reduction import Extreme, Mean, Sum

MOST_SHAPES = 16  # sets of shapes whose blocks of memory a run keeps

Into = Callable[..., object]
"""(out, *arrays): compute into `out`."""


class ArenaStep:
    """The run of `fetches` from `feeds` in one block of memory; called as a `Step` is.

    Args:
        poison: fill a buffer with NaN as soon as it is free.
    Attributes:
        plan: of the last run; it depends on the shapes that were fed.
        measured_bytes: how far the last run's arrays reached into the arena.
    Raises:
        GraphError: the device is not the CPU, or a size is only known once it is computed.
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
        self.order = running_order(fetches, self.fed)
        for node in self.order:
            if node not in self.fed:
                _check(node, device)
                check_source(node)
        self.plan: MemoryPlan = MemoryPlan(0, 0, (), (), (), {})
        self.measured_bytes = 0
        self._runs: dict[tuple[tuple[int, ...], ...], _Run] = {}
        self._turn = threading.Lock()  # two runs at once would write the same memory

    def __call__(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        """Return the fetched arrays, copied out of the arena.

        Raises:
            GraphError, ShapeError, ...: what went wrong, with the node and the line that built it.
        """
        with self._turn:
            return self._computed(state, arrays)

    def _computed(self, state: State, arrays: Sequence[Array]) -> tuple[Array, ...]:
        shapes = tuple(a.shape for a in arrays)
        if shapes not in self._runs:
            sizes = sizes_of(self.order, dict(zip(self.feeds, shapes, strict=True)))
            plan = memory_plan(list(self.fetches), self.fed, sizes)
            arena = _Arena(plan.peak_bytes, self.poison)
            while len(self._runs) >= MOST_SHAPES:
                del self._runs[next(iter(self._runs))]
            self._runs[shapes] = _Run(plan, self.fed, sizes, arena)
        run = self._runs[shapes]
        self.plan, run.arena.reach = run.plan, 0
        with np.errstate(all="ignore"):
            values = run(state, dict(zip(self.feeds, arrays, strict=True)))
        self.measured_bytes = run.arena.reach
        return tuple(fetched_value(node, values[node]) for node in self.fetches)


class _Arena:
    """A block of memory, and how far it has been written.

    Attributes:
        memory: the bytes, aligned.
        reach: the end of what was written last in the run, from the start.
        poison: whether freed pieces are filled with NaN.
    """

    def __init__(self, n_bytes: int, poison: bool) -> None:
        block = np.empty(n_bytes + ALIGNMENT, np.uint8)
        start = -block.ctypes.data % ALIGNMENT
        self.memory = block[start : start + n_bytes]
        self.reach, self.poison = 0, poison

    def at(self, offset: int, shape: tuple[int, ...], dtype: DType) -> Array:
        """Return an array that stands at `offset`."""
        n_bytes = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
        piece: Array = self.memory[offset : offset + n_bytes].view(dtype)
        return piece.reshape(shape)

    def spoil(self, place: Array) -> None:
        """Fill an array's memory with what no number is."""
        start = place.ctypes.data - self.memory.ctypes.data
        self.memory[start : start + place.nbytes].fill(0xFF)

    def wrote(self, place: Array) -> None:
        """Take note of an array that was written."""
        end = place.ctypes.data + place.nbytes - self.memory.ctypes.data
        self.reach = max(self.reach, end)


class _Run:
    """The runs for feeds of one set of shapes by their plan, from `start` of an arena on."""

    def __init__(
        self,
        plan: MemoryPlan,
        fed: Collection[Node],
        sizes: dict[Node, tuple[int, ...]],
        arena: _Arena,
        start: int = 0,
    ) -> None:
        self.plan, self.fed, self.arena = plan, fed, arena
        in_place = set(plan.in_place)
        offsets = {buffer.node: start + buffer.offset for buffer in plan.buffers}
        self.loops = {n: _LoopRun(n, p, arena, offsets[n]) for n, p in plan.loops.items()}
        self.places = {
            node: arena.at(offsets[home], sizes[node], node.dtype)
            for node, home in plan.home.items()
            if home in offsets and (node is home or node in in_place) and node not in self.loops
        }
        self.into = {node: _into(node) for node in self.places}
        self.mortal = maybe_dead(plan.order, fed)
        self.free: list[list[Array]] = [[] for _ in plan.order]
        for buffer in plan.buffers:
            if buffer.last < len(plan.order):
                at = start + buffer.offset
                self.free[buffer.last].append(arena.memory[at : at + buffer.n_bytes])

    def __call__(self, state: State, values: dict[Node, object]) -> dict[Node, object]:
        for i, node in enumerate(self.plan.order):
            if node not in values:
                inputs = [values[source] for source in sources(node, self.fed)]
                try:
                    values[node] = self._value(node, inputs, values, state)
                except Exception as error:
                    raise explain(node, inputs, error) from error
            if self.arena.poison:
                for piece in self.free[i]:
                    piece.fill(0xFF)
        return values

    def _value(
        self, node: Node, inputs: list[Any], values: dict[Node, object], state: State
    ) -> Any:
        if node in self.mortal and is_dead(node, values):
            return DEAD
        place = self.places.get(node)
        if place is not None:
            if isinstance(node.op, StateOp):
                np.copyto(place, node.op.run(state, *inputs))
            else:
                self.into[node](place, *inputs)
            self.arena.wrote(place)
            return place
        if node in self.loops:
            return self.loops[node](state, inputs)
        return _outside(node, inputs, state)


class _LoopRun:
    """The rounds of one loop: variables at their places, every round in the same scratch memory."""

    def __init__(self, node: Node, plan: LoopPlan, arena: _Arena, start: int) -> None:
        self.loop: While = node.op
        self.plan, self.arena = plan, arena
        fed, scratch = self.loop.placeholders, start + plan.scratch
        self.test = _Run(plan.test, fed, plan.sizes, arena, scratch)
        self.body = _Run(plan.body, fed, plan.sizes, arena, scratch)
        self.sets = [self._places(shift) for shift in (start, start + plan.spare)]

    def _places(self, start: int) -> list[Array | None]:
        """Return the places of the variables, one set of them."""
        pairs = zip(self.loop.variables, self.plan.places, strict=True)
        return [None if p is None else self.arena.at(start + p[0], p[1], v.dtype) for v, p in pairs]

    def __call__(self, state: State, inputs: Sequence[object]) -> Outcome:
        loop, count = self.loop, len(self.loop.variables)
        now, spare = self.sets
        values = self._kept(inputs[:count], now)
        captured = dict(zip(loop.entrances, inputs[count:], strict=True))
        pasts = [EMPTY] * len(self.plan.kept)
        while True:
            inputs_of_round = {**captured, **dict(zip(loop.variables, values, strict=True))}
            if not require_alive(self.test(state, dict(inputs_of_round))[loop.test], loop.test):
                break
            results = self.body(state, inputs_of_round)
            ends = [require_alive(results[end], end) for end in loop.body]
            pasts = push_each(pasts, (copy_result(results[loop.saved[k]]) for k in self.plan.kept))
            values = self._kept(ends, spare)
            if self.arena.poison and self.plan.spare:
                for place in now:
                    if place is not None:
                        self.arena.spoil(place)
            now, spare = spare, now
        return outcome(values, zip(self.plan.kept, pasts, strict=True))

    def _kept(self, values: Sequence[Any], places: Sequence[Array | None]) -> list[object]:
        """Return the variables' values at their places."""
        in_place: list[object] = []
        for value, place in zip(values, places, strict=True):
            if place is not None:
                if value is not place:
                    np.copyto(place, value)
                self.arena.wrote(place)
            in_place.append(value if place is None else place)
        return in_place


def _outside(node: Node, inputs: list[Any], state: State) -> Any:
    """Return the value of a node that has no place in the arena."""
    if isinstance(node, HandleNode):
        inputs = [
            copy_result(value) for value in inputs
        ]  # it keeps them for longer than is planned
    result = value_of(node, inputs, state)
    # what hands an input on must not lie where the arena writes something else later
    return copy_result(result) if isinstance(node.op, StateOp) and node.op.hands_on else result


def _check(node: Node, device: Device) -> None:
    op = node.op
    where = f"got node {node.name!r} (built at {node.location})"
    if device != CPU or isinstance(op, Late):
        problem = f"device {device}" if device != CPU else "what is built in the run"
        raise GraphError(
            f"arena: cannot run {problem}: {where}, expected operators on the CPU, of known types. "
            "Use another executor."
        )
    if isinstance(op, Counting | OfShape) or (isinstance(op, Places) and ... in op.bounds):
        raise GraphError(
            f"arena: cannot plan for a size that is computed in the run: {where}, expected sizes "
            "from the feeds. Use another executor."
        )
    if isinstance(op, While):
        for inner in op.nodes():
            if inner not in op.placeholders:
                _check(inner, device)
                check_source(inner)


# ── operators with a place for their result ─────────────────────────────────────────────────────

UFUNCS: dict[str, np.ufunc] = {
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
        return functools.partial(_fused_into, op)
    if isinstance(op, MatMul):
        return lambda out, a, b: np.matmul(a, b, out=out)
    if isinstance(op, Sum | Mean | Extreme):
        return functools.partial(_reduced, op)
    if isinstance(op, Elementwise) and ROWS.get(op.name) is op:
        return _row_into(node, op)
    return functools.partial(_copied, op)


def _fused_into(op: Fused, out: Array, *arrays: Array) -> None:
    """Compute into `out`, which may be the memory of an input, but not of a reduction's."""
    if op.reduction is None and op.program is not None and engine.available():
        op.kernel(*arrays, out=out)
    else:
        np.copyto(out, op.compute(np, *arrays))


def _row_into(node: Node, op: Elementwise) -> Into:
    ufunc = UFUNCS.get(op.name)
    if ufunc is not None and node.dtype.kind == "f":
        return lambda out, *arrays: ufunc(*arrays, out=out)
    operands = tuple(range(len(node.inputs)))
    program = program_of(((op, operands),), [source.dtype for source in node.inputs])
    if program is not None and engine.available():
        compiled = kernel(program)
        return lambda out, *arrays: compiled(*arrays, out=out)
    return functools.partial(_copied, op)


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


EXECUTORS["arena"] = (ArenaStep, ("poison",))
