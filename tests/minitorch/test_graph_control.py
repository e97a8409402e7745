"""Branches: dead values, cond, nested, with gradients and effects on one side."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.op import Op


@pytest.fixture(autouse=True)
def _fresh_graph() -> None:
    tf.reset_default_graph()


class Counter(Op):
    def __init__(self) -> None:
        self.runs = 0

    def compute(self, xp: Any, *arrays: Any) -> Any:
        self.runs += 1
        return arrays[0]

    def infer(self, *specs: Any) -> Any:
        return specs[0]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad


def test_a_value_goes_one_way_and_the_other_is_dead() -> None:
    p = tf.placeholder(tf.bool, ())
    no, yes = tf.switch(tf.constant(3.0), p)
    left, right = Counter(), Counter()
    doubled, tripled = left(no) * 2.0, right(yes) * 3.0
    with tf.Session() as session:
        assert session.run(tripled, {p: True}) == 9.0
        assert session.run(doubled, {p: False}) == 6.0
        with pytest.raises(GraphError, match=r"dead.*test_graph_control"):
            session.run(doubled, {p: True})
        with pytest.raises(GraphError, match="dead"):
            session.run(no, {p: True})
    assert (left.runs, right.runs) == (1, 1)


def test_merge_takes_the_one_that_is_alive_and_says_which() -> None:
    p = tf.placeholder(tf.bool, ())
    no, yes = tf.switch(tf.constant(3.0), p)
    output, index = tf.merge([no * 2.0, yes * 3.0])
    with tf.Session() as session:
        assert session.run([output, index], {p: False}) == [6.0, 0]
        assert session.run([output, index], {p: True}) == [9.0, 1]


def test_a_merge_of_dead_values_is_dead() -> None:
    p = tf.placeholder(tf.bool, ())
    no, _ = tf.switch(tf.constant(3.0), p)
    output, _ = tf.merge([no, no * 2.0])
    with tf.Session() as session, pytest.raises(GraphError, match="dead"):
        session.run(output + 1.0, {p: True})


def test_what_runs_after_something_dead_is_dead() -> None:
    p = tf.placeholder(tf.bool, ())
    _, yes = tf.switch(tf.constant(3.0), p)
    w = tf.Variable(0.0)
    with tf.control_dependencies([yes]):
        write = tf.assign(w, 5.0)
    operation = tf.group(write)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(operation, {p: False}) is None
        assert session.run(w) == 0.0
        session.run(operation, {p: True})
        assert session.run(w) == 5.0


def test_only_the_side_that_is_taken_is_computed() -> None:
    p, x = tf.placeholder(tf.bool, ()), tf.placeholder(tf.float32, ())
    one, other = Counter(), Counter()
    y = tf.cond(p, lambda: one(x) * 2.0, lambda: other(x) + 10.0)
    with tf.Session() as session:
        assert session.run(y, {p: True, x: 3.0}) == 6.0
        assert (one.runs, other.runs) == (1, 0)
        assert session.run(y, {p: False, x: 3.0}) == 13.0
        assert (one.runs, other.runs) == (1, 1)


def test_effects_happen_on_the_side_that_is_taken() -> None:
    p = tf.placeholder(tf.bool, ())
    w = tf.Variable(1.0)
    y = tf.cond(p, lambda: tf.assign_add(w, 10.0), lambda: tf.constant(0.0))
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(y, {p: False}) == 0.0
        assert session.run(w) == 1.0
        assert session.run(y, {p: True}) == 11.0
        assert session.run(w) == 11.0


def test_several_values_keep_their_structure() -> None:
    p = tf.placeholder(tf.bool, ())
    pair = tf.cond(p, lambda: (tf.constant(1.0), 2.0), lambda: (tf.constant(3.0), 4.0))
    listed = tf.cond(p, lambda: [tf.constant(1.0)], lambda: [tf.constant(2.0)])
    with tf.Session() as session:
        assert session.run(pair, {p: True}) == (1.0, 2.0)
        assert session.run(listed, {p: False}) == [2.0]


@pytest.mark.parametrize("optimize", [False, True])
def test_nested_conds_with_gradients(optimize: bool) -> None:
    x, w = tf.placeholder(tf.float64, ()), tf.Variable(np.float64(3.0))

    def inner() -> Any:
        return tf.cond(x > 10.0, lambda: w * x * x, lambda: tf.exp(x * 0.1) * w)

    y = tf.cond(x > 0.0, inner, lambda: -x * 2.0) + w * x
    by_x, by_w = tf.gradients(y, [x, w])
    assert by_x is not None
    (second,) = tf.gradients(by_x, [x])
    cases = {
        20.0: (3 * 400 + 60, 6 * 20 + 3, 400 + 20, 6.0),
        5.0: (
            np.exp(0.5) * 3 + 15,
            0.3 * np.exp(0.5) + 3,
            np.exp(0.5) + 5,
            0.03 * np.exp(0.5),
        ),
        -4.0: (8 - 12, -2 + 3, -4, 0.0),
    }
    with tf.Session(optimize=optimize) as session:
        session.run(tf.initialize_all_variables())
        for at, want in cases.items():
            got = session.run([y, by_x, by_w, second], {x: at})
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_training_through_a_cond() -> None:
    p, w = tf.placeholder(tf.bool, ()), tf.Variable(np.array([1.0, 2.0]))
    loss = tf.cond(p, lambda: tf.reduce_sum(w * w), lambda: tf.reduce_sum(w))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        session.run(step, {p: False})
        np.testing.assert_allclose(session.run(w), [0.5, 1.5])
        session.run(step, {p: True})
        np.testing.assert_allclose(session.run(w), [0.0, 0.0])


def test_sides_that_do_not_fit_and_predicates_that_are_none_are_refused() -> None:
    p = tf.placeholder(tf.bool, ())
    with pytest.raises(GraphError, match="one boolean"):
        tf.cond(tf.constant(1.0), lambda: 1.0, lambda: 2.0)
    with pytest.raises(GraphError, match="structure"):
        tf.cond(p, lambda: (1.0, 2.0), lambda: 1.0)
    with pytest.raises(GraphError, match="one dtype"):
        tf.cond(p, lambda: tf.constant(1.0), lambda: tf.constant(1))
    with pytest.raises(GraphError, match="no input"):
        tf.merge([])
