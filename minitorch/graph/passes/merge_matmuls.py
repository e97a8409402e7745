"""Products that share an input as one: x A and x B are slices of x [A B].

Putting A and B side by side costs a copy of both. It pays when they are constants, whose copy is
made once (0.87 to 1.27 times the speed); at run time it loses (0.33 to 0.99), so then it is left.

Source: Jia et al., TASO, SOSP 2019, Figure 2.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile

import numpy as np

from ...ops.indexing import narrow
from ...ops.linalg import MatMul
from ..node import Constant, Node
from ..order import schedule
from .rewrite import rewrite, simple

WIDEST = 256  # columns: a wider product keeps the processor busy on its own


def merge_matmuls(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with products of one input and several constants merged."""
    groups: dict[Node, list[Node]] = {}
    for node in schedule(fetches, fed):
        if node not in fed and simple(node) and isinstance(node.op, MatMul) and _fits(node, fed):
            groups.setdefault(node.inputs[0], []).append(node)
    member = {node: group for group in groups.values() if len(group) > 1 for node in group}
    merged: dict[Node, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        group = member.get(node)
        if group is None:
            return None
        first = group[0]
        if first not in merged:
            weights = np.concatenate([n.inputs[1].value for n in group], axis=1)
            merged[first] = inputs[0] @ Constant(weights)
        before = takewhile(lambda other: other is not node, group)
        start = sum(int(other.shape[1]) for other in before)
        piece: Node = narrow(merged[first], 1, start, int(node.shape[1]))
        return piece

    return rewrite(fetches, rule, fed)


def _fits(node: Node, fed: Collection[Node]) -> bool:
    x, weight = node.inputs
    return (
        isinstance(weight, Constant)
        and weight not in fed
        and len(x.shape) == len(weight.shape) == 2
        and int(weight.shape[1]) <= WIDEST
    )
