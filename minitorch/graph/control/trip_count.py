"""How often a loop goes round, where that hangs on constants alone: counted by counting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import MinitorchError
from ..core.node import Constant, Node
from ..core.order import needed, schedule
from ..passes.rewrite import simple
from .while_op import While

SMALL = 64  # bytes of a constant that may be a counter, or its bound
MOST = 256  # rounds that are counted


def known_rounds(node: Node, most: int = MOST) -> int | None:
    """Return how many rounds the loop `node` runs, or `most` if more; None if that is not known.

    The variables that decide are followed from their first values, by their own operators.
    """
    loop: While = node.op
    count = len(loop.variables)
    placeholders = {*loop.variables, *loop.entrances}
    deciding = _deciding(loop, placeholders)
    ends = [loop.test, *(loop.body[i] for i in deciding)]
    order = [n for n in schedule(ends, placeholders) if n not in placeholders]
    if not all(_computable(n) for n in order):
        return None
    used = placeholders & set(needed(ends, placeholders))
    sources = dict(zip((*loop.variables, *loop.entrances), node.inputs, strict=True))
    if not all(_is_small(sources[p]) for p in used):
        return None
    fixed = {loop.entrances[j]: node.inputs[count + j] for j in range(len(loop.entrances))}
    known = {p: source.value for p, source in fixed.items() if p in used}
    now = {loop.variables[i]: node.inputs[i].value for i in deciding}
    try:
        return _counted(loop, order, deciding, known, now, most)
    except (MinitorchError, ArithmeticError, ValueError, TypeError):
        return None


def _counted(
    loop: While,
    order: Sequence[Node],
    deciding: Sequence[int],
    known: dict[Node, Any],
    now: dict[Node, Any],
    most: int,
) -> int:
    for done in range(most):
        values = {**known, **now}
        with np.errstate(all="ignore"):
            for node in order:
                values[node] = _value(node, values)
        if not values[loop.test]:
            return done
        now = {loop.variables[i]: values[loop.body[i]] for i in deciding}
    return most


def _value(node: Node, values: dict[Node, Any]) -> Any:
    if isinstance(node, Constant):
        return node.value
    assert node.op is not None  # `_computable`
    return node.op.compute(np, *[values[source] for source in node.inputs])


def _deciding(loop: While, placeholders: set[Node]) -> list[int]:
    """Return the variables, by number, on which it depends whether there is another round."""
    place = {v: i for i, v in enumerate(loop.variables)}
    found: dict[int, None] = {}
    waiting = [loop.test]
    while waiting:
        for node in needed([waiting.pop()], placeholders):
            i = place.get(node)
            if i is not None and i not in found:
                found[i] = None
                waiting.append(loop.body[i])
    return list(found)


def _computable(node: Node) -> bool:
    return isinstance(node, Constant) or (simple(node) and bool(node.inputs))


def _is_small(node: Node) -> bool:
    return isinstance(node, Constant) and node.value.nbytes <= SMALL
