"""What a run should take: the machine's cost model, asked for every node.

What no formula describes (a convolution, a pooling, an optimizer's step) counts as its bytes.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...arrays.library import Array
from ...errors import MinitorchError
from ...ops.elementwise.pointwise import Power
from ...ops.elementwise.rows import Elementwise
from ...ops.products.linalg import Linear, MatMul
from ..control.while_op import While
from ..core.node import Constant, Node
from ..core.order import list_needed, schedule
from ..memory.plan import VIEWS
from ..passes.fused import Fused
from ..passes.lowering import names_of, runs_of
from ..passes.matmul_chain import UNKNOWN_SIZE, size_of
from ..passes.rewrite import simple
from ..shapes.deferred import unknown
from .machine import machine

FRESH = 2**21  # bytes from which on a new array is new memory, and not what was freed last
ROUNDS = 10  # of a loop whose number of rounds depends on what is fed


def predict_s(fetches: Sequence[Node], fed: Collection[Node]) -> float:
    """Return the seconds that the machine's cost model gives a run of `fetches`.

    A loop counts as often as it goes round, or `ROUNDS` times where that is not known; 64 stands
    for sizes that are not known.
    """
    nodes = [node for node in list_needed(fetches, fed) if node not in fed and node.op is not None]
    return sum(map(node_s, nodes))


def node_s(node: Node) -> float:
    """Return the predicted seconds of one node."""
    here, op = machine(), node.op
    if isinstance(op, While):
        return _loop_s(node)
    if isinstance(op, VIEWS):
        return here.view_s
    count = _count(node)
    inside = max((_count(source) for source in node.inputs), default=0)
    if isinstance(op, Fused):
        rows = names_of(op.parts)
        uses_kernel = op.least is not None and inside >= op.least
        beginning = _beginning_s(node, op, uses_kernel) * inside
        return beginning + (here.fused_s if uses_kernel else here.numpy_s)(rows, inside)
    if isinstance(op, MatMul | Linear) and not unknown(node, *node.inputs):
        inner, columns = _shape(node.inputs[0])[-1], _shape(node)[-1]
        return here.matmul_s(count // max(columns, 1), inner, columns, node.dtype)
    if isinstance(op, Elementwise | Power):
        written = count * int(node.dtype.itemsize)  # into memory that no cache holds, if so large
        fresh_s = written * here.fresh_byte_s if written >= FRESH else 0.0
        return here.numpy_s([op.name], count) + fresh_s
    moved = sum(_count(n) * int(n.dtype.itemsize) for n in (node, *node.inputs))
    return here.call_s + here.byte_s * moved


def _beginning_s(node: Node, op: Fused, by_kernel: bool) -> float:
    """Return the predicted seconds, for an element, of beginning rows."""
    if unknown(node, *node.inputs):
        return 0.0
    shapes = [_shape(source) for source in node.inputs]
    folded = 0 if op.reduction is None else len(op.reduction.dims)
    whole = np.broadcast_shapes(*shapes)
    runs = runs_of(op.parts, shapes, whole, folded)
    return runs.kernel_s(op.parts) if by_kernel else runs.numpy_s()


def _loop_s(node: Node) -> float:
    """Return the predicted seconds of a loop; sizes inside are those that are known anyway."""
    loop: While = node.op
    test = predict_s([loop.test], loop.placeholders)
    body = predict_s([*loop.body, *loop.saved], loop.placeholders)
    rounds = count_rounds(node)
    rounds = ROUNDS if rounds is None else rounds
    handed_on = (len(loop.variables) + len(loop.saved)) * machine().call_s
    return (rounds + 1) * test + rounds * (body + handed_on)


def _shape(node: Node) -> tuple[int, ...]:
    return tuple(size_of(n) for n in node.shape)


def _count(node: Node) -> int:
    return UNKNOWN_SIZE if unknown(node) else math.prod(_shape(node))


SMALL = 64  # bytes of a constant that may be a counter, or its bound
MOST = 256  # rounds that are counted


def count_rounds(node: Node, most: int = MOST) -> int | None:
    """Return how many rounds the loop `node` runs, or `most` if more; None if that is not known.

    The variables that decide are followed from their first values, by their own operators.
    """
    loop: While = node.op
    placeholders = loop.placeholders
    deciding = _find_deciding_variables(loop)
    ends = [loop.test, *(loop.body[i] for i in deciding)]
    order = [n for n in schedule(ends, placeholders) if n not in placeholders]
    if not all(_computable(n) for n in order):
        return None
    used = placeholders.intersection(list_needed(ends, placeholders))
    sources = dict(zip(loop.given, node.inputs, strict=True))
    initial = (sources[p] for p in used)
    if not all(isinstance(n, Constant) and n.value.nbytes <= SMALL for n in initial):
        return None
    constants = {p: sources[p].value for p in loop.entrances if p in used}
    now = {loop.variables[i]: node.inputs[i].value for i in deciding}
    try:
        return _count_rounds(loop, order, deciding, constants, now, most)
    except (MinitorchError, ArithmeticError, ValueError, TypeError):
        return None


def _count_rounds(
    loop: While,
    order: Sequence[Node],
    deciding: Sequence[int],
    constants: dict[Node, Array],
    now: dict[Node, Array],
    most: int,
) -> int:
    for done in range(most):
        values = {**constants, **now}
        with np.errstate(all="ignore"):
            for node in order:
                values[node] = _value(node, values)
        if not values[loop.test]:
            return done
        now = {loop.variables[i]: values[loop.body[i]] for i in deciding}
    return most


def _value(node: Node, values: dict[Node, Array]) -> Any:
    if isinstance(node, Constant):
        return node.value
    assert node.op is not None  # `_computable`
    return node.op.compute(np, *[values[source] for source in node.inputs])


def _find_deciding_variables(loop: While) -> list[int]:
    """Return the variables, by number, on which it depends whether there is another round."""
    place = {v: i for i, v in enumerate(loop.variables)}
    deciding: dict[int, None] = {}
    waiting = [loop.test]
    while waiting:
        for node in list_needed([waiting.pop()], loop.placeholders):
            i = place.get(node)
            if i is not None and i not in deciding:
                deciding[i] = None
                waiting.append(loop.body[i])
    return list(deciding)


def _computable(node: Node) -> bool:
    return isinstance(node, Constant) or (simple(node) and bool(node.inputs))
