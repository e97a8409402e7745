"""Trees of NAND: random ones, their truth, and networks that compute a state for each node."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import minitorch as mt
from minitorch.tensor.tensor import Tensor

Tree = Any  # a bool, or a pair of trees
Heights = Callable[[list[int], list[int]], list[list[int]]]
Vertex = Callable[[Tensor, Tensor], Tensor]  # the states of the children -> those of the nodes


def random_tree(depth: int, rng: np.random.Generator) -> Tree:
    """Return a tree: a bool, or a pair of trees."""
    if depth == 0 or rng.random() < 0.2:
        return bool(rng.integers(2))
    return random_tree(depth - 1, rng), random_tree(depth - 1, rng)


def truth(tree: Tree) -> bool:
    """Return the NAND of the children, all the way down."""
    return tree if isinstance(tree, bool) else not (truth(tree[0]) and truth(tree[1]))


def flatten(trees: Sequence[Tree]) -> tuple[list[int], list[int], list[int], list[int]]:
    """Return (left, right, symbol, roots): the children's numbers, -1 at a leaf; leaves' values.

    Children have smaller numbers than their parents.
    """
    left: list[int] = []
    right: list[int] = []
    symbol: list[int] = []

    def add(tree: Tree) -> int:
        pair = (-1, -1) if isinstance(tree, bool) else (add(tree[0]), add(tree[1]))
        left.append(pair[0])
        right.append(pair[1])
        symbol.append(int(tree) if isinstance(tree, bool) else 0)
        return len(left) - 1

    roots = [add(tree) for tree in trees]
    return left, right, symbol, roots


def tree_weights(device: str, d: int = 12) -> list[Tensor]:
    """Return embed (2, d), left (d, d), right (d, d), bias (d,) and readout (d, 1)."""
    r = np.random.default_rng(8)
    arrays = [r.normal(size=s) / 2 for s in [(2, d), (d, d), (d, d), (d,), (d, 1)]]
    return [mt.tensor(a.astype(np.float32), requires_grad=True, device=device) for a in arrays]


def by_batching(trees: Sequence[Tree], by_height: Heights, vertex: Vertex, embed: Tensor) -> Tensor:
    """Return the states of the trees' roots, (len(trees), d): one call of `vertex` a height."""
    left, right, symbol, roots = flatten(trees)
    leaves, *groups = by_height(left, right)
    rows = embed[np.array([symbol[node] for node in leaves])]
    place = {node: i for i, node in enumerate(leaves)}
    for group in groups:
        a = rows[np.array([place[left[node]] for node in group])]
        b = rows[np.array([place[right[node]] for node in group])]
        rows = mt.cat([rows, vertex(a, b)])
        place |= {node: len(place) + i for i, node in enumerate(group)}
    return rows[np.array([place[root] for root in roots])]


def tree_lstm(device: str, d: int = 12) -> tuple[Tensor, Vertex]:
    """Return embed (2, 2d) and the vertex function of a tree-LSTM; a row is (h, c) side by side.

    Source: Tai et al. 2015, with one forget gate for each child.
    """
    r = np.random.default_rng(8)
    shapes = [(2, 2 * d), (d, 5 * d), (d, 5 * d), (5 * d,)]
    arrays = [(r.normal(size=s) / 2).astype(np.float32) for s in shapes]
    embed, left, right, bias = (mt.tensor(a, requires_grad=True, device=device) for a in arrays)

    def vertex(a: Tensor, b: Tensor) -> Tensor:
        z = a[:, :d] @ left + b[:, :d] @ right + bias
        inwards, keep_a, keep_b, outwards = (
            mt.sigmoid(z[:, k * d : (k + 1) * d]) for k in range(4)
        )
        c = inwards * mt.tanh(z[:, 4 * d :]) + keep_a * a[:, d:] + keep_b * b[:, d:]
        state: Tensor = mt.cat([outwards * mt.tanh(c), c], dim=1)
        return state

    return embed, vertex


def kernels(value: Tensor) -> int:
    """Return how many operators computed `value`."""
    counted, waiting = set[int](), [value]
    while waiting:
        node = waiting.pop()
        if node.op is not None and id(node) not in counted:
            counted.add(id(node))
            waiting += node.inputs
    return len(counted)


def tree_step(states: Any, readout: Any, trees: Sequence[Tree]) -> float:
    """Return the loss of a batch of trees, after its backward pass."""
    signs = np.array([[1.0 if truth(tree) else -1.0] for tree in trees], np.float32)
    targets = mt.tensor(signs, device=readout.device)
    loss = mt.log(1.0 + mt.exp(-targets * (states @ readout))).mean()
    loss.backward()
    return float(loss.item())
