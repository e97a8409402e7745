"""Models shaped like trees: each inner node combines the values of its two children.

The tree is data, another one in each run. Two ways, with the same result:

- `tree_by_control_flow`: a loop over the nodes in post-order with a stack. A leaf is pushed; an
  inner node pops its children and pushes what they combine to. Which it is, a `cond` decides in
  each round.
- `tree_by_level`: a loop over heights. All nodes of one height, of all trees at once, are one call
  of `combine` on matrices: a row a node, gathered from the rows below.

A tree is written as nested pairs of leaf numbers: `((0, 1), 2)`.

Sources: shift and reduce are SPINN's, Bowman et al., ACL 2016; batching by height is that of Looks
et al., ICLR 2017, seen from the vertices as in Cavs, Xu et al., USENIX ATC 2018.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ...arrays import int32
from ...errors import GraphError
from ..control.cond import cond
from ..control.loop import while_loop
from ..control.loop_stacks import Opaque, Top, empty, has_more, pushed, without_top
from ..control.row_lists import Spread, next_row, spread
from ..core.node import Node, UnknownShape, build, convert
from ..operators.shaping import concat, expand_dims, gather, reshape

Combine = Callable[[Node, Node], object]
Tree = int | Sequence["Tree"]
"""A leaf number, or a pair of trees."""
Place = tuple[int, int]
"""A node's height, and its number at that height."""
Numbers = npt.NDArray[np.int32]


def tree_by_control_flow(combine: Combine, leaves: object, order: object) -> Node:
    """Return the value of a tree's root, (units,).

    Args:
        combine: (left, right) -> value, each (n, units); called with n = 1.
        leaves: values of the leaves from left to right, (leaves, units).
        order: the nodes in post-order, a vector of booleans: whether each is a leaf; see
            `post_order`.
    """
    table, steps = _matrix("tree_by_control_flow", leaves), convert(order)
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


def tree_by_level(combine: Combine, leaves: object, left: object, right: object) -> Node:
    """Return the values of all nodes: the leaves' rows first, then level by level, (n, units).

    Args:
        combine: (left, right) -> value, each (n, units); called once a level, on all its nodes.
        leaves: values of the leaves of all trees, (leaves, units).
        left, right: rows of the children of each node, (levels, width), integers; see `by_level`,
            whose `roots` are the rows to look for.
    """
    table = _matrix("tree_by_level", leaves)
    lefts, rights = convert(left), convert(right)
    rows = [build(Spread(True, "tree_by_level"), (n, lefts), kind=Opaque) for n in (lefts, rights)]

    def body(a: Node, b: Node, values: Node) -> list[Node]:
        children = [gather(values, build(Top(lefts.shape[1:], int32), (n,))) for n in (a, b)]
        return [without_top(a), without_top(b), concat([values, convert(combine(*children))], 0)]

    found = while_loop(
        lambda a, *_: has_more(a),
        body,
        [*rows, table],
        shape_invariants=[(), (), (None, *table.shape[1:])],
    )
    return found[2]  # type: ignore[no-any-return]


class Levels(NamedTuple):
    """A forest by heights, as `tree_by_level` reads it; rows count as that function returns them.

    Attributes:
        left, right: rows of the children of each node, (levels, width). A level with fewer nodes
            than `width` is filled with nodes that nobody looks at.
        roots: the row of each tree's root.
    """

    left: Numbers
    right: Numbers
    roots: Numbers


def post_order(tree: Tree) -> npt.NDArray[np.bool_]:
    """Return for every node of a tree in post-order whether it is a leaf.

    The leaves must be numbered from left to right, as a stack meets them.
    """
    nodes = list(_walked(tree))
    leaves = [leaf for leaf in nodes if leaf is not None]
    if leaves != sorted(leaves):
        raise GraphError(f"post_order: got leaves in the order {leaves}, expected ascending.")
    return np.array([leaf is not None for leaf in nodes])


def by_level(trees: Sequence[Tree], n_leaves: int) -> Levels:
    """Return the nodes of all `trees` by height, over `n_leaves` leaves that they share."""
    levels: list[list[tuple[Place, Place]]] = []
    roots = [_placed(tree, levels) for tree in trees]
    width = max((len(level) for level in levels), default=0)

    def row(place: Place) -> int:
        height, i = place
        return i if height == 0 else n_leaves + (height - 1) * width + i

    filled = [[*level, *[((0, 0), (0, 0))] * (width - len(level))] for level in levels]
    sides = [[[row(pair[s]) for pair in level] for level in filled] for s in (0, 1)]
    left, right = (np.array(side, np.int32).reshape(len(levels), width) for side in sides)
    return Levels(left, right, np.array([row(root) for root in roots], np.int32))


def _placed(tree: Tree, levels: list[list[tuple[Place, Place]]]) -> Place:
    """Put the inner nodes of a tree into `levels`; return height and place of its root."""
    done: list[Place] = []
    for leaf in _walked(tree):
        if leaf is not None:
            done.append((0, leaf))
            continue
        right, left = done.pop(), done.pop()
        height = 1 + max(left[0], right[0])
        while len(levels) < height:
            levels.append([])
        levels[height - 1].append((left, right))
        done.append((height, len(levels[height - 1]) - 1))
    return done[0]


def _walked(tree: Tree) -> Iterator[int | None]:
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


def _matrix(where: str, leaves: object) -> Node:
    node = convert(leaves)
    if isinstance(node.shape, UnknownShape) or len(node.shape) != 2 or node.shape[1] is None:
        raise node.error(
            f"{where}: got leaves of shape {node.shape}, expected (leaves, units) with the units "
            "known."
        )
    return node
