"""What a run should take: the machine's cost model, asked for every node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from ...ops.linalg import Linear, MatMul
from ...ops.pointwise import Power
from ...ops.rows import Elementwise
from ..control.trip_count import known_rounds
from ..control.while_op import While
from ..core.node import Node, UnknownShape
from ..core.order import needed
from ..memory.plan import VIEWS
from ..passes.fused import Fused, FusedReduction
from ..passes.lowering import names_of
from ..passes.matmul_chain import UNKNOWN_SIZE, size_of
from ..passes.runs import runs_of
from .machine import machine
from .op_timing import trial

FRESH = 2**21  # bytes from which on a new array is new memory, and not what was freed last
ROUNDS = 10  # of a loop whose number of rounds depends on what is fed

Sizes = Mapping[Node, tuple[int, ...]]


def predicted_s(
    fetches: Sequence[Node], fed: set[Node], sizes: Sizes | None = None, trials: bool = False
) -> float:
    """Return the seconds that the machine's cost model gives a run of `fetches`.

    A loop counts as often as it goes round, or `ROUNDS` times where that is not known.

    Args:
        sizes: of the nodes, where they are known; 64 stands for those that are not.
        trials: time what no formula describes, once each; else it counts as its bytes.
    """
    nodes = [node for node in needed(fetches, fed) if node not in fed and node.op is not None]
    return sum(node_s(node, sizes or {}, trials) for node in nodes)


def node_s(node: Node, sizes: Sizes, trials: bool = False) -> float:
    """Return the predicted seconds of one node."""
    here, op = machine(), node.op
    if isinstance(op, While):
        return _loop_s(node, trials)
    tried = _tried_s(node, sizes) if trials else None
    if tried is not None:
        return tried
    if isinstance(op, VIEWS):
        return here.view_s
    count = _count(node, sizes)
    inside = max((_count(source, sizes) for source in node.inputs), default=0)
    if isinstance(op, Fused):
        rows = names_of(op.parts)
        uses_kernel = op.least is not None and inside >= op.least
        beginning = _beginning_s(node, op, uses_kernel, sizes) * inside
        return beginning + (here.fused_s if uses_kernel else here.numpy_s)(rows, inside)
    if isinstance(op, MatMul | Linear) and not any(map(unknown, (node, *node.inputs))):
        inner, columns = _shape(node.inputs[0], sizes)[-1], _shape(node, sizes)[-1]
        return here.matmul_s(count // max(columns, 1), inner, columns, node.dtype)
    if isinstance(op, Elementwise | Power):
        return here.numpy_s([op.name], count) + _fresh_s(count * int(node.dtype.itemsize))
    moved = sum(_count(n, sizes) * int(n.dtype.itemsize) for n in (node, *node.inputs))
    return here.call_s + here.byte_s * moved


def _fresh_s(n_bytes: int) -> float:
    """Return what it takes to write a result into memory that no cache holds yet."""
    return n_bytes * machine().fresh_byte_s if n_bytes >= FRESH else 0.0


def _tried_s(node: Node, sizes: Sizes) -> float | None:
    """Return the seconds of an operator that was tried; None where a formula describes it."""
    op = node.op
    if op is None or isinstance(op, Elementwise | Fused | Linear | MatMul | Power):
        return None
    if any(n not in sizes and unknown(n) for n in node.inputs):
        return None
    found = trial(op, [(_shape(source, sizes), source.dtype) for source in node.inputs])
    return None if found is None else machine().trial_s(*found)


def _beginning_s(node: Node, op: Fused, by_kernel: bool, sizes: Sizes) -> float:
    """Return the predicted seconds, for an element, of beginning rows."""
    if any(n not in sizes and unknown(n) for n in (node, *node.inputs)):
        return 0.0
    shapes = [_shape(source, sizes) for source in node.inputs]
    folded = len(op.reduction.dims) if isinstance(op, FusedReduction) else 0
    whole = np.broadcast_shapes(*shapes)
    runs = runs_of(op.parts, shapes, whole, folded)
    return runs.kernel_s(op.parts) if by_kernel else runs.numpy_s()


def _loop_s(node: Node, trials: bool) -> float:
    """Return the predicted seconds of a loop; sizes inside are those that are known anyway."""
    loop: While = node.op
    placeholders = {*loop.variables, *loop.entrances}
    test = predicted_s([loop.test], placeholders, None, trials)
    body = predicted_s([*loop.body, *loop.saved], placeholders, None, trials)
    rounds = known_rounds(node)
    rounds = ROUNDS if rounds is None else rounds
    handed_on = (len(loop.variables) + len(loop.saved)) * machine().call_s
    return (rounds + 1) * test + rounds * (body + handed_on)


def unknown(node: Node) -> bool:
    """Tell whether the number of axes is not known."""
    return isinstance(node.shape, UnknownShape)


def _shape(node: Node, sizes: Sizes) -> tuple[int, ...]:
    return sizes[node] if node in sizes else tuple(size_of(n) for n in node.shape)


def _count(node: Node, sizes: Sizes) -> int:
    known = node in sizes or not unknown(node)
    return math.prod(_shape(node, sizes)) if known else UNKNOWN_SIZE
