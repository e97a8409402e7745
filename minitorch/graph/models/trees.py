"""Models shaped like trees: each inner node combines the values of its two children.

The tree is data, another one in each run: a loop over its nodes in post-order with a stack. A leaf
is pushed; an inner node pops its children and pushes what they combine to. Which it is, a `cond`
decides in each round. A tree is written as nested pairs of leaf numbers: `((0, 1), 2)`.

Source: shift and reduce are SPINN's, Bowman et al., ACL 2016.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ...errors import GraphError
from ..control.cond import cond
from ..control.loop import while_loop
from ..control.loop_stacks import Top, empty, has_more, pushed, without_top
from ..control.row_lists import next_row, spread
from ..core.node import Node, UnknownShape, build, convert
from ..operators.shaping import expand_dims, reshape

Combine = Callable[[Node, Node], object]
Tree = int | Sequence["Tree"]
"""A leaf number, or a pair of trees."""


def tree_by_control_flow(combine: Combine, leaves: object, order: object) -> Node:
    """Return the value of a tree's root, (units,).

    Args:
        combine: (left, right) -> value, each (n, units); called with n = 1.
        leaves: values of the leaves from left to right, (leaves, units).
        order: the nodes in post-order, a vector of booleans: whether each is a leaf; see
            `post_order`.
    """
    table, steps = convert(leaves), convert(order)
    if isinstance(table.shape, UnknownShape) or len(table.shape) != 2 or table.shape[1] is None:
        raise table.error(
            f"tree_by_control_flow: got leaves of shape {table.shape}, expected (leaves, units) "
            "with the units known."
        )
    units = table.shape[1:]
    waiting, kinds = spread(table), spread(steps)

    def body(kinds: Node, waiting: Node, stack: Node) -> list[Node]:
        is_leaf = build(Top((), steps.dtype), (kinds,))

        def shift() -> list[Node]:
            return [without_top(waiting), pushed(stack, next_row(waiting, table))]

        def reduce() -> list[Node]:
            right, below = next_row(stack, table), without_top(stack)
            left = next_row(below, table)
            value = convert(combine(expand_dims(left, 0), expand_dims(right, 0)))
            return [waiting, pushed(without_top(below), reshape(value, units))]

        return [without_top(kinds), *cond(is_leaf, shift, reduce)]

    start = [kinds, waiting, empty()]
    stack = while_loop(lambda kinds, *_: has_more(kinds), body, start)[2]
    return next_row(stack, table)


def post_order(tree: Tree) -> npt.NDArray[np.bool_]:
    """Return for every node of a tree in post-order whether it is a leaf.

    The leaves must be numbered from left to right, as a stack meets them.
    """
    nodes = list(_walk(tree))
    leaves = [leaf for leaf in nodes if leaf is not None]
    if leaves != sorted(leaves):
        raise GraphError(f"post_order: got leaves in the order {leaves}, expected ascending.")
    return np.array([leaf is not None for leaf in nodes])


def _walk(tree: Tree) -> Iterator[int | None]:
    """Yield the number of each leaf, and None for each inner node, in post-order."""
    waiting: list[tuple[Tree, bool]] = [(tree, False)]
    while waiting:
        node, seen = waiting.pop()
        if isinstance(node, int | np.integer):
            yield int(node)
        elif seen:
            yield None
        elif isinstance(node, tuple | list) and len(node) == 2:
            waiting += [(node, True), (node[1], False), (node[0], False)]
        else:
            raise GraphError(
                f"tree: got {node!r}, expected the number of a leaf or a pair of trees."
            )
