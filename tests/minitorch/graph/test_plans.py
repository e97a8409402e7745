"""Plans of a session: one for each pair of fetches and feeds, and not without end."""

from threading import Thread
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.graph.core import session as sessions
from minitorch.graph.passes.rewrite import PLANNING
from minitorch.graph.shapes import by_shape, deferred


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


def test_threads_that_come_together_plan_a_run_once() -> None:
    planned: list[Any] = []

    class Told(tf.Session):
        def plan(self, leaves: Any, feeds: Any) -> Any:
            planned.append(leaves)
            return super().plan(leaves, feeds)

    y = tf.exp(tf.constant(0.0))
    with Told() as session:
        threads = [Thread(target=session.run, args=(y,)) for _ in range(4)]
        with PLANNING:  # all find that there is no plan, and wait to make one
            for thread in threads:
                thread.start()
            threads[-1].join(0.1)
        for thread in threads:
            thread.join()
    assert len(planned) == 1


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


def test_steps_of_shapes_that_come_for_ever_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(by_shape, "MOST_SHAPES", 3)
    x = tf.placeholder(tf.float64, (None, 2))
    total = deferred.late(lambda x: tf.add_n(tf.unstack(x)), [x], tf.float64)
    with tf.Session() as session:
        for n in (2, 4, 6, 8, 10, 2):
            values = np.arange(2.0 * n).reshape(n, 2)
            np.testing.assert_allclose(session.run(total, {x: values}), values.sum(0))
        (run,) = session._steps.values()
        assert isinstance(run, by_shape.ByShape)
        assert len(run._steps) == 3


@pytest.mark.parametrize("shape", [(), (3,), (5, 7), (0, 3)])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_the_planned_peak_is_never_more_than_all_buffers(shape: Any, dtype: Any) -> None:
    x = tf.placeholder(dtype, shape)
    values = [tf.exp(x), tf.tanh(x), tf.sqrt(x)]
    n_bytes = 3 * int(np.prod(shape)) * dtype.itemsize
    for fetches in (values, tf.add_n(values)):
        plan = tf.memory_plan(fetches)
        assert plan.peak_bytes <= plan.total_bytes
    assert tf.memory_plan(values).peak_bytes == n_bytes


def test_the_planned_peak_of_loops_is_never_more_than_all_buffers() -> None:
    x = tf.placeholder(tf.float64, (4, 5))

    def inner(a: Any, rounds: Any) -> Any:
        first = (tf.constant(0), a)
        return tf.while_loop(lambda i, b: i < rounds, lambda i, b: (i + 1, b * x), first)[1]

    first = (tf.constant(0), x)
    y = tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, inner(a, i)), first)[1]
    for fetches in (y, tf.gradients(tf.reduce_sum(y), [x])[0]):
        plan = tf.memory_plan(fetches)
        assert plan.peak_bytes <= plan.total_bytes
