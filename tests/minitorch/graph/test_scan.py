"""Loops over rows: scan, map_fn, foldl, foldr, with gradients of any order, against PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError, ShapeError

EXECUTORS = ("compiled", "interpreter", "tokens", "parallel")


def scanned(fn: Any, start: Any, rows: Any) -> list[Any]:
    found = []
    for row in rows:
        start = fn(start, row)
        found.append(start)
    return found


def by_pytorch(rows: Any, weight: float) -> list[Any]:
    x = torch.tensor(rows, requires_grad=True)
    w = torch.tensor(weight, dtype=torch.float64, requires_grad=True)

    def step(a: Any, e: Any) -> Any:
        return torch.tanh(a * w + e)

    def fold(a: Any, e: Any) -> Any:
        return a * e + w

    zero = torch.zeros(3, dtype=torch.float64)
    forward = torch.stack(scanned(step, zero, x))
    backward = torch.stack(scanned(step, zero, x.flip(0))[::-1])
    sums, squares = x.cumsum(0), x * x * w
    left, right = scanned(fold, x[0], x[1:])[-1], scanned(fold, x[-1], x[:-1].flip(0))[-1]
    loss = (forward**2).sum() + (backward**3).sum() + left.sum() + (right**2).sum()
    loss = loss + (squares * sums).sum()
    by = torch.autograd.grad(loss, [x, w], create_graph=True)
    again = torch.autograd.grad((by[0] ** 2).sum() + by[1], [x, w])
    found = [forward, backward, sums, left, right, squares, loss, *by, *again]
    return [value.detach().numpy() for value in found]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_scans_folds_and_maps_with_two_derivatives_are_pytorchs(executor: str) -> None:
    x, w = tf.placeholder(tf.float64, (None, 3)), tf.Variable(np.array(0.7))
    zero = tf.zeros((3,), tf.float64)
    forward = tf.scan(lambda a, e: tf.tanh(a * w + e), x, zero)
    backward = tf.scan(lambda a, e: tf.tanh(a * w + e), x, zero, reverse=True)
    sums = tf.scan(lambda a, e: a + e, x)
    left, right = (fold(lambda a, e: a * e + w, x) for fold in (tf.foldl, tf.foldr))
    squares = tf.map_fn(lambda e: e * e * w, x)
    loss = tf.reduce_sum(forward**2) + tf.reduce_sum(backward**3) + tf.reduce_sum(left)
    loss = loss + tf.reduce_sum(right**2) + tf.reduce_sum(squares * sums)
    by = tf.gradients(loss, [x, w])
    again = tf.gradients(tf.reduce_sum(by[0] ** 2) + by[1], [x, w])
    fed = np.random.default_rng(0).normal(size=(5, 3))
    with tf.Session(executor=executor) as session:
        session.run(tf.initialize_all_variables())
        found = [forward, backward, sums, left, right, squares, loss, *by, *again]
        for got, want in zip(session.run(found, {x: fed}), by_pytorch(fed, 0.7), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
        assert session.run(forward, {x: np.zeros((0, 3))}).shape == (0, 3)


def test_structures_of_elements_and_accumulators_are_kept() -> None:
    a, b = tf.constant([1.0, 2.0, 3.0]), tf.constant([[1, 1], [2, 2], [3, 3]])
    sums = tf.scan(
        lambda acc, e: {"a": acc["a"] + e[0], "b": acc["b"] + e[1]},
        (a, b),
        {"a": tf.constant(0.0), "b": tf.zeros((2,), tf.int32)},
    )
    assert sums["a"].shape == (3,)
    assert sums["b"].shape == (3, 2)
    with tf.Session() as session:
        found = session.run(sums)
        assert found["a"].tolist() == [1.0, 3.0, 6.0]
        assert found["b"].tolist() == [[1, 1], [3, 3], [6, 6]]


def test_map_takes_the_dtype_of_its_results() -> None:
    x = tf.constant([1, 2, 3])
    halves, same = tf.map_fn(
        lambda e: (tf.cast(e, tf.float32) / 2.0, e), x, dtype=(tf.float32, tf.int32)
    )
    with tf.Session() as session:
        assert session.run(halves).tolist() == [0.5, 1.0, 1.5]
        assert session.run(same).tolist() == [1, 2, 3]
        assert session.run(tf.map_fn(lambda e: e * 2, [1, 2, 3])).tolist() == [2, 4, 6]
    with pytest.raises(GraphError, match=r"float32 from fn, expected int32.*dtype="):
        tf.map_fn(lambda e: tf.cast(e, tf.float32), x)


def test_a_scan_inside_a_scan() -> None:
    """Prefix sums of prefix sums, and their gradient: how often each element was counted."""
    x = tf.placeholder(tf.float64, (3, 4))
    rows = tf.map_fn(lambda row: tf.scan(lambda a, e: a + e, row, np.float64(0.0)), x)
    total = tf.reduce_sum(tf.scan(lambda a, e: a + e, rows))
    fed = np.arange(12.0).reshape(3, 4)
    counted = np.outer([3, 2, 1], [4, 3, 2, 1])
    with tf.Session() as session:
        value, grad = session.run([total, tf.gradients(total, [x])[0]], {x: fed})
    np.testing.assert_allclose(value, (fed * counted).sum())
    np.testing.assert_allclose(grad, counted)


def test_what_does_not_fit_is_refused() -> None:
    x, y = tf.placeholder(tf.float32, (3,)), tf.placeholder(tf.float32, (None,))
    with pytest.raises(GraphError, match=r"scan: the structure changes: got \(\*, \*\), expected"):
        tf.scan(lambda a, e: (a, e), x)
    with pytest.raises(GraphError, match=r"scan: the accumulator changes from float32"):
        tf.scan(lambda a, e: tf.cast(a, tf.int32), x, 0.0)
    with pytest.raises(GraphError, match=r"foldl: the accumulator changes.*\(1,\) to .*\(2,\)"):
        tf.foldl(lambda a, e: tf.concat([a, a], 0), x, tf.zeros((1,)))
    with pytest.raises(TypeError, match="map_fn: got int as fn"):
        tf.map_fn(3, x)  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="expected one axis or more"):
        tf.scan(lambda a, e: a + e, tf.constant(1.0))
    with pytest.raises(GraphError, match="3 and 2 rows"):
        tf.scan(lambda a, e: a + e[0] + e[1], (x, tf.zeros((2,))), 0.0)
    with pytest.raises(GraphError, match="no row and no initializer"):
        tf.scan(lambda a, e: a + e, tf.zeros((0, 2)))
    with pytest.raises(GraphError, match="no elems"):
        tf.map_fn(lambda e: e, [])
    late = tf.scan(lambda a, e: a + e[0] + e[1], (x, y), 0.0)
    with (
        tf.Session() as session,
        pytest.raises(ShapeError, match=r"3 and 2 rows.*test_scan"),
    ):
        session.run(late, {x: [1, 2, 3], y: [1, 2]})
