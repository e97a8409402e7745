"""Constants: what depends on them alone is computed now; one that a run feeds is none.

A loop captures what it uses from outside, but for constants, which stay as they are within. One
that is fed is brought into the loops that have it inside, like anything else.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ...arrays import Array
from ...ops.broadcasting import ExpandTo
from ..control.loop_stacks import Slot, placeholder_like
from ..control.while_op import While
from ..core.copying import copied
from ..core.graph import outside
from ..core.node import Constant, Node, UnknownShape
from ..core.order import needed
from .loops import Remade, each_loop, kept_places, with_loops
from .rewrite import like, rewrite

LARGEST = 2**20  # bytes: a larger result would only move work into memory


def fold(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with constant operators replaced by constants."""

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if not inputs or isinstance(node.op, ExpandTo):
            return None
        if not all(isinstance(source, Constant) and source not in fed for source in inputs):
            return None
        if _is_large(node):
            return None
        array = _computed(node.op, [s.value for s in inputs])  # type: ignore[attr-defined]
        if array is None or array.nbytes > LARGEST or array.dtype != node.dtype:
            return None
        return Constant(array, name=node.name)

    return rewrite(fetches, rule, fed)


def _is_large(node: Node) -> bool:
    """Tell whether a result would be too large to keep, as far as its size is known."""
    if isinstance(node.shape, UnknownShape) or None in node.shape:
        return False
    count = math.prod(int(size) for size in node.shape)
    return count * int(node.dtype.itemsize) > LARGEST


def _computed(op: Any, values: Sequence[Array]) -> Array | None:
    """Return the result; None where the operator fails, which a run shall say and not this pass."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(op.compute(np, *values))
    except Exception:
        return None


def fed_constants(fetches: Sequence[Node], fed: Collection[Node]) -> list[Node]:
    """Return nodes of the same values whose loops take the constants among `fed` from outside."""
    constants = [node for node in fed if isinstance(node, Constant)]

    def run(nodes: Sequence[Node], given: Collection[Node]) -> list[Node]:
        return with_loops(each_loop(nodes, given, run), given, remade)

    def remade(node: Node, inputs: tuple[Node, ...], asked: Collection[Slot]) -> Remade | None:
        return _capturing(node, inputs, asked, constants)

    return run(fetches, set(fed)) if constants else list(fetches)


def _capturing(
    node: Node, inputs: tuple[Node, ...], asked: Collection[Slot], constants: Sequence[Node]
) -> Remade | None:
    """Return the loop with those of `constants` captured that are inside; None if none is."""
    loop: While = node.op
    places, saved = kept_places(loop, asked)
    ends = [loop.test, *loop.body, *saved]
    there = set(needed(ends, {*loop.variables, *loop.entrances}))
    found = [constant for constant in constants if constant in there]
    if not found:
        return None
    with like(node), outside():
        entrances = [placeholder_like(constant, "captured") for constant in found]
    new: dict[Node, Node] = {p: p for p in (*loop.variables, *loop.entrances)}
    new.update(zip(found, entrances, strict=True))
    test, *after = copied(ends, new)
    body, kept = after[: len(loop.body)], after[len(loop.body) :]
    every = [*loop.entrances, *entrances]
    made = While.over(test, body, loop.variables, every, kept, loop.parallel_iterations)
    return Remade(made, (*inputs, *found), places)
