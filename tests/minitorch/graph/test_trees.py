"""Models shaped like trees, by control flow, against recursion in PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError

UNITS = 4
TREE = ((0, 1), ((2, 3), 4))
trees = tf.trees


def weight() -> tf.Variable:
    return tf.Variable(np.random.default_rng(0).normal(size=(2 * UNITS, UNITS)) * 0.5)


def combined(w: Any) -> Any:
    return lambda left, right: tf.tanh(tf.matmul(tf.concat([left, right], 1), w))


def recursive(tree: Any, leaves: Any, w: Any) -> Any:
    if isinstance(tree, int):
        return leaves[tree]
    left, right = (recursive(child, leaves, w) for child in tree)
    return torch.tanh(torch.cat([left, right]) @ w)


def by_torch(tree: Any, x: Any, w: Any) -> list[Any]:
    leaves, weights = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    root = recursive(tree, leaves, weights)
    nothing = (leaves.sum() + weights.sum()) * 0.0  # a single leaf does not look at the weights
    by = torch.autograd.grad((root**2).sum() + nothing, [leaves, weights], create_graph=True)
    again = torch.autograd.grad(by[1].sum() + nothing, [leaves, weights])
    return [value.detach().numpy() for value in (root, *by, *again)]


def derived(root: Any, leaves: Any, w: Any) -> list[Any]:
    by = tf.gradients(tf.reduce_sum(root**2), [leaves, w])
    return [root, *by, *tf.gradients(tf.reduce_sum(by[1]), [leaves, w])]


@pytest.mark.parametrize("executor", ["compiled", "tokens", "parallel"])
def test_a_tree_by_control_flow_is_the_recursion(executor: str) -> None:
    w = weight()
    leaves = tf.placeholder(tf.float64, (None, UNITS))
    order = tf.placeholder(tf.bool, (None,))
    root = trees.tree_by_control_flow(combined(w), leaves, order)
    fetches = derived(root, leaves, w)
    rng = np.random.default_rng(1)
    with tf.Session(executor=executor) as session:
        session.run(tf.initialize_all_variables())
        for tree, count in ((TREE, 5), (0, 1), (((0, 1), 2), 3)):
            x = rng.normal(size=(count, UNITS))
            found = session.run(fetches, {leaves: x, order: trees.post_order(tree)})
            for got, want in zip(found, by_torch(tree, x, session.run(w)), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
def test_the_model_is_called_once_a_node(executor: str) -> None:
    calls = tf.Variable(0, trainable=False)
    w = weight()

    def counted(left: Any, right: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(calls, 1)]):
            return combined(w)(tf.identity(left), tf.identity(right))

    balanced = (((0, 1), (2, 3)), ((4, 5), (6, 7)))
    leaves = tf.constant(np.random.default_rng(1).normal(size=(8, UNITS)))
    root = trees.tree_by_control_flow(counted, leaves, trees.post_order(balanced))
    init = tf.initialize_all_variables()
    with tf.Session(executor=executor) as session:
        session.run(init)
        session.run(root)
        assert session.run(calls) == 7


def test_a_chain_as_deep_as_it_is_long() -> None:
    chain: Any = 0
    for leaf in range(1, 2000):
        chain = (chain, leaf)
    assert len(trees.post_order(chain)) == 3999


def test_what_is_no_tree_is_refused() -> None:
    with pytest.raises(GraphError, match=r"\(0, 1, 2\), expected the number of a leaf or a pair"):
        trees.post_order((0, 1, 2))
    with pytest.raises(GraphError, match=r"order \[1, 0\], expected ascending"):
        trees.post_order((1, 0))
    with pytest.raises(GraphError, match="units known"):
        trees.tree_by_control_flow(lambda a, b: a, tf.zeros((3,)), [True])
