"""What a run should take: the machine's cost model, asked for every node."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from ..ops.linalg import Linear, MatMul
from ..ops.pointwise import Power
from ..ops.rows import Elementwise
from .control.while_op import While
from .cost import machine
from .node import Node, UnknownShape
from .order import needed
from .passes.fused import Fused
from .passes.lowering import names_of
from .passes.matmul_chain import UNKNOWN_SIZE, size_of
from .rounds import known_rounds
from .running.plan import VIEWS

ROUNDS = 10  # of a loop whose number of rounds depends on what is fed

Sizes = Mapping[Node, tuple[int, ...]]


def predicted_s(fetches: Sequence[Node], fed: set[Node], sizes: Sizes | None = None) -> float:
    """Return the seconds that the machine's cost model gives a run of `fetches`.

    A loop counts as often as it goes round, or `ROUNDS` times where that is not known.
    """
    nodes = needed(fetches, fed)
    return sum(
        node_s(node, sizes or {}) for node in nodes if node not in fed and node.op is not None
    )


def node_s(node: Node, sizes: Sizes) -> float:
    """Return the predicted seconds of one node; 64 stands for sizes that are not known."""
    here, op = machine(), node.op
    if isinstance(op, While):
        return _loop_s(node)
    if isinstance(op, VIEWS):
        return here.view_s
    count = _count(node, sizes)
    inside = max((_count(source, sizes) for source in node.inputs), default=0)
    if isinstance(op, Fused):
        rows = names_of(op.parts)
        uses_kernel = op.least is not None and inside >= op.least
        return here.fused_s(rows, inside) if uses_kernel else here.numpy_s(rows, inside)
    if isinstance(op, MatMul | Linear) and not any(map(unknown, (node, *node.inputs))):
        inner, columns = _shape(node.inputs[0], sizes)[-1], _shape(node, sizes)[-1]
        return here.matmul_s(count // max(columns, 1), inner, columns, node.dtype)
    if isinstance(op, Elementwise | Power):
        return here.numpy_s([op.name], count)
    moved = sum(_count(n, sizes) * int(n.dtype.itemsize) for n in (node, *node.inputs))
    return here.call_s + here.byte_s * moved


def _loop_s(node: Node) -> float:
    """Return the predicted seconds of a loop; sizes inside are those that are known anyway."""
    loop: While = node.op
    placeholders = {*loop.variables, *loop.entrances}
    test = predicted_s([loop.test], placeholders)
    body = predicted_s([*loop.body, *loop.saved], placeholders)
    rounds = known_rounds(node)
    rounds = ROUNDS if rounds is None else rounds
    return (rounds + 1) * test + rounds * body


def unknown(node: Node) -> bool:
    """Tell whether the number of axes is not known."""
    return isinstance(node.shape, UnknownShape)


def _shape(node: Node, sizes: Sizes) -> tuple[int, ...]:
    return sizes[node] if node in sizes else tuple(size_of(n) for n in node.shape)


def _count(node: Node, sizes: Sizes) -> int:
    known = node in sizes or not unknown(node)
    return math.prod(_shape(node, sizes)) if known else UNKNOWN_SIZE
