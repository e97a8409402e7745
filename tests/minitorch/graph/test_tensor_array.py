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
        assert session.run([grown.size(), grown.gather([3, 0])], {n: 40})[0] == 40
        assert session.run(grown.stack(), {n: 0}).shape == (0,)
        assert session.run(grown.stack(), {n: 2000}).sum() == sum(k * k for k in range(2000))


def test_pieces_are_joined_and_branches_write_different_things() -> None:
    p, x = tf.placeholder(tf.bool, ()), tf.placeholder(tf.float32, ())
    array = tf.TensorArray(tf.float32, 2).write(0, tf.stack([x, x]))
    flow = tf.cond(p, lambda: array.write(1, [x * 2.0, x]).flow, lambda: array.flow)
    joined = array.with_flow(flow).concat()
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


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
def test_an_array_is_cut_into_pieces_and_glued_with_its_gradient(executor: str) -> None:
    x = tf.placeholder(tf.float32, [5, 2])
    pieces = tf.TensorArray(tf.float32, size=3, infer_shape=False).split(x, [1, 3, 1])
    weighted = pieces.read(0) * 2.0, pieces.read(1) * 3.0, pieces.read(2) * 5.0
    again = tf.TensorArray(tf.float32, size=3, infer_shape=False)
    for i, part in enumerate(weighted):
        again = again.write(i, part)
    y = again.concat()
    factors = np.array([2, 3, 3, 3, 5], np.float32)[:, None]
    slope = tf.gradients(tf.reduce_sum(tf.square(y)), x)[0]
    array = np.arange(10, dtype=np.float32).reshape(5, 2)
    with tf.Session(executor=executor) as session:
        got, by_x = session.run([y, slope], {x: array})
    np.testing.assert_array_equal(got, array * factors)
    np.testing.assert_allclose(by_x, 2 * array * factors**2)


def test_rows_are_scattered_beside_what_was_written_and_gathered_twice() -> None:
    x = tf.placeholder(tf.float32, [2, 2])
    first = tf.TensorArray(tf.float32, size=4).write(1, [7.0, 7.0])
    found = first.scatter([3, 0], x).gather([0, 3, 1, 0])
    slope = tf.gradients(tf.reduce_sum(found * [[1.0], [10.0], [100.0], [1000.0]]), x)[0]
    with tf.Session() as session:
        got, by_x = session.run([found, slope], {x: [[1, 2], [3, 4]]})
    assert got.tolist() == [[3, 4], [1, 2], [7, 7], [3, 4]]
    assert by_x.tolist() == [[10, 10], [1001, 1001]]  # row 1 of x was read twice


def _of_any_length() -> Any:
    return tf.placeholder_with_default(np.ones(1, np.float32), [None])


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda a: a.split([[1.0], [2.0]], [1, 2]).read(0), r"lengths \[1, 2\] for 2 rows"),
        (lambda a: a.scatter([0, 9], [[1.0], [2.0]]).read(0), "index 9"),
        (lambda a: a.scatter([0, 0], [[1.0], [2.0]]).read(0), "index 0 was written before"),
        (lambda a: a.write(0, [1.0]).gather([1]), "index 1 has not been written"),
        (lambda a: a.write(0, _of_any_length()).concat(), "an index was not written"),
    ],
)
def test_what_does_not_fit_in_slots_is_refused_in_the_run(build: Any, says: str) -> None:
    y = build(tf.TensorArray(tf.float32, size=2, infer_shape=False))
    with tf.Session() as session, pytest.raises(GraphError, match=says):
        session.run(y)
