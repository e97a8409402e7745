"""TensorArray: written and read in loops, in any order, with gradients."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError


@pytest.fixture(autouse=True, params=["compiled", "interpreter", "tokens", "parallel"])
def _fresh_graph(request: pytest.FixtureRequest) -> Any:
    """Every test runs with every executor."""
    tf.reset_default_graph()
    usual, tf.Session.default_executor = tf.Session.default_executor, request.param
    yield
    tf.Session.default_executor = usual


def test_a_recurrence_written_and_read_in_a_loop_has_pytorchs_derivatives() -> None:
    """h[t] = tanh(w h[t-1] + x[t] h[t // 2]): each round reads two earlier ones."""
    x, w = tf.placeholder(tf.float64, (6,)), tf.Variable(np.float64(0.7))
    given = tf.TensorArray(tf.float64, 6).unstack(x)
    states = tf.TensorArray(tf.float64, 7, element_shape=()).write(0, np.float64(0.5))

    def body(t: Any, states: Any) -> Any:
        half = states.read(tf.floordiv(t, 2))
        new = tf.tanh(w * states.read(t) + given.read(t) * half)
        return t + 1, states.write(t + 1, new)

    _, states = tf.while_loop(lambda t, _: t < 6, body, (tf.constant(0), states))
    y = states.stack()
    by = tf.gradients(tf.reduce_sum(y * y), [x, w])
    again = tf.gradients(tf.reduce_sum(by[0]) + by[1], [x, w])

    at = np.linspace(-1.0, 2.0, 6)
    u = torch.tensor(at, requires_grad=True)
    v = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    h = [torch.tensor(0.5, dtype=torch.float64)]
    for t in range(6):
        h.append(torch.tanh(v * h[t] + u[t] * h[t // 2]))
    grads = torch.autograd.grad((torch.stack(h) ** 2).sum(), [u, v], create_graph=True)
    seconds = torch.autograd.grad(grads[0].sum() + grads[1], [u, v])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        found = session.run([y, *by, *again], {x: at})
    want = [torch.stack(h), *grads, *seconds]
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_allclose(got, expected.detach(), rtol=1e-9)


def test_writes_in_any_order_and_as_many_as_there_are() -> None:
    n = tf.placeholder(tf.int32, ())
    grown = tf.while_loop(
        lambda i, a: i < n,
        lambda i, a: (i + 1, a.write(n - 1 - i, i * i)),
        (tf.constant(0), tf.TensorArray(tf.int32, dynamic_size=True, element_shape=())),
    )[1]
    with tf.Session() as session:
        assert session.run(grown.stack(), {n: 4}).tolist() == [9, 4, 1, 0]
        assert session.run([grown.size(), grown.read(3)], {n: 40})[0] == 40
        assert session.run(grown.stack(), {n: 0}).shape == (0,)
        assert session.run(grown.stack(), {n: 2000}).sum() == sum(k * k for k in range(2000))


def test_branches_write_different_things() -> None:
    p, x = tf.placeholder(tf.bool, ()), tf.placeholder(tf.float32, ())
    array = tf.TensorArray(tf.float32, 2).write(0, tf.stack([x, x]))
    flow = tf.cond(p, lambda: array.write(1, [x * 2.0, x]).flow, lambda: array.flow)
    joined = tf.reshape(array.with_flow(flow).stack(), [-1])
    (by,) = tf.gradients(joined, [x])
    with tf.Session() as session:
        assert session.run(joined, {p: True, x: 3.0}).tolist() == [3.0, 3.0, 6.0, 3.0]
        assert session.run(joined, {p: False, x: 3.0}).tolist() == [3.0, 3.0, 0.0, 0.0]
        assert session.run(by, {p: True, x: 3.0}) == 5.0
        assert session.run(by, {p: False, x: 3.0}) == 2.0


def test_what_does_not_fit_is_refused_with_its_line() -> None:
    array = tf.TensorArray(tf.float32, 2)
    with pytest.raises(GraphError, match="no size"):
        tf.TensorArray(tf.float32)
    with pytest.raises(GraphError, match="not known yet"):
        array.read(0)
    one = array.write(0, [1.0, 2.0])
    with pytest.raises(GraphError, match=r"shape \(3,\), expected \(2,\)"):
        one.write(1, [1.0, 2.0, 3.0])
    with pytest.raises(GraphError, match="int64, expected float32"):
        one.write(1, tf.constant(np.array([1, 2])))
    i = tf.placeholder(tf.int32, ())
    with tf.Session() as session:
        with pytest.raises(GraphError, match=r"index 2, expected one from 0 to 1.*tensor_array"):
            session.run(one.write(i, [1.0, 2.0]).stack(), {i: 2})
        with pytest.raises(GraphError, match="index 0 was written before"):
            session.run(one.write(i, [1.0, 2.0]).stack(), {i: 0})
        with pytest.raises(GraphError, match="index 1 has not been written"):
            session.run(one.read(i), {i: 1})


# ── many values at once ─────────────────────────────────────────────────────────────────────────
