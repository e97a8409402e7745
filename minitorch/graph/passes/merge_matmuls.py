"""Products that share an input as one: x A and x B are slices of x [A B].

One wide product can be faster than two narrow ones, but putting A and B side by side costs a copy
of both, unless they are constants, whose copy is made once; and what uses a slice no longer reads
memory in one run. So the machine's cost model decides, for each group by its sizes.

Source: Jia et al., TASO, SOSP 2019, Figure 2.
"""

from collections.abc import Collection, Sequence
from itertools import takewhile

import numpy as np

from ...ops.products.linalg import MatMul
from ...ops.shaping.indexing import narrow
from ...ops.shaping.joining import Cat
from ..core.node import Constant, Node
from ..core.order import schedule
from ..costs.machine import machine
from .matmul_chain import size_of
from .rewrite import rebuild, rewrite, simple

GAIN = 0.95  # the one product must take this much less: a measurement is not more exact


def merge_matmuls(fetches: Sequence[Node], fed: Collection[Node] = ()) -> list[Node]:
    """Return the fetches with products of one input merged where that pays."""
    member = {node: group for group in _groups(fetches, fed) for node in group}
    merged: dict[Node, Node] = {}

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        group = member.get(node)
        if group is None:
            return None
        first = group[0]
        if first not in merged:
            merged[first] = rebuild(MatMul(), inputs[0], _side_by_side(group))
        before = takewhile(lambda other: other is not node, group)
        start = sum(int(other.shape[1]) for other in before)
        piece: Node = narrow(merged[first], 1, start, int(node.shape[1]))
        return piece

    return rewrite(fetches, rule, fed) if member else list(fetches)


def _groups(fetches: Sequence[Node], fed: Collection[Node]) -> list[list[Node]]:
    """Return the products of one input each that are faster as one."""
    groups: dict[tuple[Node, str | None], list[Node]] = {}
    for node in schedule(fetches, fed):
        if isinstance(node.op, MatMul) and node not in fed and simple(node) and _fits(node):
            groups.setdefault((node.inputs[0], node.device), []).append(node)
    worthwhile = []
    for group in groups.values():
        if len(group) < 2:
            continue
        apart, together = costs(group, fed)
        if together < GAIN * apart:
            worthwhile.append(group)
    return worthwhile


def costs(group: Sequence[Node], fed: Collection[Node] = ()) -> tuple[float, float]:
    """Return the predicted seconds of the products one by one, and as one with its slices."""
    here, dtype = machine(), group[0].dtype
    m, k = map(size_of, group[0].inputs[0].shape)
    widths = [size_of(node.shape[1]) for node in group]
    apart = sum(here.matmul_s(m, k, n, dtype) for n in widths)
    together = here.matmul_s(m, k, sum(widths), dtype) + len(group) * here.view_s
    if not _constant(group, fed):
        together += here.join_s + here.byte_s * k * sum(widths) * dtype.itemsize
    return apart, together


def _constant(group: Sequence[Node], fed: Collection[Node]) -> bool:
    weights = [node.inputs[1] for node in group]
    return all(isinstance(weight, Constant) and weight not in fed for weight in weights)


def _side_by_side(group: Sequence[Node]) -> Node:
    weights = [node.inputs[1] for node in group]
    if all(isinstance(weight, Constant) for weight in weights):
        return Constant(np.concatenate([weight.value for weight in weights], axis=1))
    return rebuild(Cat(1), *weights)


def _fits(node: Node) -> bool:
    """Tell whether a product is of matrices, the second known, and so there before the first is.

    What is put side by side must not depend on one of the products: constants, variables and feeds
    cannot.
    """
    x, weight = node.inputs
    return (
        weight.op is None
        and len(x.shape) == len(weight.shape) == 2
        and None not in weight.shape
        and x.dtype == weight.dtype
    )
