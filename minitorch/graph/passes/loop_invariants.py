"""Loop-invariant code motion: what is the same in every round is computed once, before the loop.

It leaves the loop when the machine's cost model says that a round saves more than one more captured
value costs. A loop may run no round at all; then what left it is computed for nothing, so nothing
leaves that could fail, unless a round is certain: the condition is always tried once, and some
loops count from constants. Inner loops come first, so that a product can leave several.

Source: Aho, Lam, Sethi & Ullman, Compilers, section 9.5.
"""

from collections.abc import Collection, Sequence

from ...ops.elementwise.casting import Cast
from ...ops.elementwise.pointwise import Power
from ...ops.elementwise.rows import Elementwise
from ...ops.products.linalg import Linear, MatMul
from ...ops.reducing.reduction import Mean, Sum
from ...ops.shaping.broadcasting import ExpandTo, SumTo
from ...ops.shaping.indexing import Slice
from ...ops.shaping.joining import Cat
from ...ops.shaping.movement import InsertAxes, Permute, RemoveAxes, Reshape
from ..control.loop_stacks import Slot
from ..control.while_op import While
from ..core.copying import copy_nodes
from ..core.node import Constant, Node, UnknownShape
from ..core.order import list_needed, schedule
from ..costs.machine import machine
from ..costs.prediction import count_rounds, node_s
from .fused import Fused
from .loops import Remade, capture, each_loop, number_kept_lists, with_loops
from .rewrite import simple

TOTAL = (Cast, Elementwise, Mean, Permute, Power, Sum)
"""Operators that never fail on one input, whatever its size."""
VIEWS = (ExpandTo, InsertAxes, RemoveAxes, Reshape, Slice)
SIZED = (*TOTAL, *VIEWS, Cat, Linear, MatMul, Fused, SumTo)
"""Operators that never fail where `infer` has seen all sizes."""


def loop_invariants(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with nothing in a loop that could as well be done before it."""

    def remade(node: Node, inputs: tuple[Node, ...], asked: Collection[Slot]) -> Remade | None:
        leaving = _find_invariants(node, number_kept_lists(node.op, asked)[1])
        if not leaving:
            return None
        outer = zip(node.op.entrances, inputs[len(node.op.variables) :], strict=True)
        return capture(node, inputs, leaving, copy_nodes(leaving, dict(outer)), asked)

    return with_loops(each_loop(fetches, fed, loop_invariants), fed, remade)


def _find_invariants(node: Node, saved: Sequence[Node]) -> list[Node]:
    """Return the nodes inside the loop that are to be computed before it."""
    loop: While = node.op
    placeholders, ends = loop.placeholders, [loop.test, *loop.body, *saved]
    tried = set(list_needed([loop.test], placeholders))
    certain = bool(count_rounds(node, most=1))
    same = set(loop.entrances)
    pays: set[Node] = set()
    for inner in schedule(ends, placeholders):
        if not simple(inner) or not all(s in same or _constant(s) for s in inner.inputs):
            continue
        if not any(s in same for s in inner.inputs):
            continue  # of constants alone: folded, where that is wise
        if certain or inner in tried or cannot_fail(inner):
            same.add(inner)
            if any(s in pays for s in inner.inputs) or node_s(inner) > machine().view_s:
                pays.add(inner)
    return _outermost(ends, placeholders, pays)


def _outermost(ends: Sequence[Node], placeholders: Collection[Node], pays: set[Node]) -> list[Node]:
    """Return those of `pays` that something else than these uses."""
    used: dict[Node, None] = dict.fromkeys(end for end in ends if end in pays)
    for inner in list_needed(ends, placeholders) if pays else ():
        if inner not in pays:
            used.update((s, None) for s in (*inner.inputs, *inner.control_inputs) if s in pays)
    return list(used)


def _constant(node: Node) -> bool:
    return isinstance(node, Constant) and not node.control_inputs


def cannot_fail(node: Node) -> bool:
    """Tell whether an operator gives a result for all inputs of the types that are known."""
    if any(isinstance(n.shape, UnknownShape) for n in (node, *node.inputs)):
        return False
    if all(None not in n.shape for n in (node, *node.inputs)):
        return isinstance(node.op, SIZED)
    if isinstance(node.op, MatMul):
        a, b = node.inputs
        return len(a.shape) == len(b.shape) == 2 and None not in (a.shape[1], b.shape[0])
    sized = [s for s in node.inputs if len(s.shape)]
    return isinstance(node.op, TOTAL) and len(sized) <= 1
