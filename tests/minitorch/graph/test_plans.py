"""Plans of a session: one for each pair of fetches and feeds, and not without end."""

import pytest

import minitorch.graph as tf
from minitorch.graph import session as sessions


def test_a_run_of_the_same_fetches_and_feeds_is_planned_once() -> None:
    x, y = tf.placeholder(tf.float32, ()), tf.placeholder_with_default(1.0, ())
    z = x * y
    with tf.Session() as session:
        for k in range(3):
            assert session.run(z, {x: float(k)}) == k
        assert session.plans == 1
        session.run(z, {x: 1.0, y: 2.0})  # other feeds
        session.run([z], {x: 1.0})  # the same nodes in another structure
        session.run([z, x], {x: 1.0})  # other fetches
        assert session.plans == 3


def test_plans_of_nodes_that_are_built_for_ever_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sessions, "MOST_PLANS", 5)
    x = tf.placeholder(tf.float32, ())
    first = x * 2.0
    with tf.Session() as session:
        session.run(first, {x: 1.0})
        for k in range(20):
            assert session.run(x + float(k), {x: 1.0}) == 1.0 + k
            assert session.plans <= 5
        assert session.run(first, {x: 4.0}) == 8.0  # planned again
