"""Constants: what depends on them alone is computed now, unless a run feeds them.

A loop captures what it uses from outside, except constants, which stay as they are inside. One
that is fed is brought into the loops that use it, like anything else.
"""

from collections.abc import Collection, Sequence

import numpy as np

from ...arrays.library import Array
from ...arrays.shapes import numel
from ...op import Op
from ...ops.shaping.broadcasting import ExpandTo
from ..control.loop_stacks import Slot
from ..control.while_op import While
from ..core.node import Constant, Node, UnknownShape
from ..core.order import list_needed
from .loops import Remade, capture, each_loop, number_kept_lists, with_loops
from .rewrite import Rule, rewrite

LARGEST = 2**20  # bytes: a larger result would only move work into memory


def fold(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with constant operators replaced by constants."""
    return rewrite(fetches, folding(fed), fed)


def folding(fed: Collection[Node]) -> Rule:
    """Return a rule that computes what depends on constants alone."""

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        for source in inputs:
            if source.op is not None or not isinstance(source, Constant) or source in fed:
                return None
        if not inputs or isinstance(node.op, ExpandTo):
            return None
        count = 0 if isinstance(node.shape, UnknownShape) else numel(tuple(node.shape))
        if (count or 0) * node.dtype.itemsize > LARGEST:  # as far as the size is known
            return None
        array = _compute_constant(node.op, [s.value for s in inputs])  # type: ignore[attr-defined]
        if array is None or array.nbytes > LARGEST or array.dtype != node.dtype:
            return None
        return Constant(array, name=node.name)

    return rule


def _compute_constant(op: Op, values: Sequence[Array]) -> Array | None:
    """Return the result; None where the operator fails, which a run shall say and not this pass."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(op.compute(np, *values))
    except Exception:
        return None


def fed_constants(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return nodes of the same values whose loops take the constants among `fed` from outside."""
    constants = [node for node in fed if isinstance(node, Constant)]

    def run(nodes: Sequence[Node], fed: Collection[Node]) -> list[Node]:
        return with_loops(each_loop(nodes, fed, run), fed, remade)

    def remade(node: Node, inputs: tuple[Node, ...], asked: Collection[Slot]) -> Remade | None:
        return _capture_constants(node, inputs, asked, constants)

    return run(fetches, set(fed)) if constants else list(fetches)


def _capture_constants(
    node: Node, inputs: tuple[Node, ...], asked: Collection[Slot], constants: Sequence[Node]
) -> Remade | None:
    """Return the loop with those of `constants` captured that are inside; None if none is."""
    loop: While = node.op
    ends = [loop.test, *loop.body, *number_kept_lists(loop, asked)[1]]
    there = set(list_needed(ends, loop.placeholders))
    inside = [constant for constant in constants if constant in there]
    return capture(node, inputs, inside, inside, asked) if inside else None
