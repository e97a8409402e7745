"""Mixed precision: small gradients survive, an overflow costs a step and halves the scale."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError


def network() -> tuple[Any, Any, dict[Any, Any]]:
    rng = np.random.default_rng(0)
    x, y = tf.placeholder(tf.float32, (32, 8)), tf.placeholder(tf.float32, (32, 1))
    w1 = tf.Variable(rng.normal(size=(8, 16)).astype(np.float32) * 0.5)
    w2 = tf.Variable(rng.normal(size=(16, 1)).astype(np.float32) * 0.5)
    loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, w1)), w2) - y))
    data = rng.normal(size=(32, 8)).astype(np.float32)
    return loss, [w1, w2], {x: data, y: data[:, :1] * 2 - data[:, 1:2]}


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
def test_a_network_learns_in_mixed_precision(executor: str) -> None:
    loss, weights, feeds = network()
    optimizer = tf.LossScaleOptimizer(tf.train.AdamOptimizer(0.02), 2.0**10)
    fetches = tf.mixed_precision([loss, optimizer.minimize(loss)])
    with tf.Session(executor=executor) as session:
        session.run(tf.initialize_all_variables())
        losses = [session.run(fetches, feeds)[0] for _ in range(60)]
        assert losses[-1] < losses[0] / 5
        assert session.run(weights[0]).dtype == np.float32


def test_scaling_alone_changes_nothing_but_rounding() -> None:
    def weights(scaled: bool) -> Any:
        tf.reset_default_graph()
        loss, variables, feeds = network()
        optimizer: Any = tf.train.MomentumOptimizer(0.05, 0.9)
        optimizer = tf.LossScaleOptimizer(optimizer, 2.0**8) if scaled else optimizer
        step = optimizer.minimize(loss)
        with tf.Session() as session:
            session.run(tf.initialize_all_variables())
            for _ in range(5):
                session.run(step, feeds)
            return session.run(variables)

    for a, b in zip(weights(True), weights(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_an_overflow_costs_the_step_and_halves_the_scale() -> None:
    loss, weights, feeds = network()
    optimizer = tf.LossScaleOptimizer(tf.train.AdamOptimizer(0.1), 2.0**15, growth_steps=2)
    step = optimizer.minimize(loss)
    x = next(iter(feeds))
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        before = session.run(weights)
        session.run(step, {**feeds, x: np.full((32, 8), np.inf, np.float32)})
        for a, b in zip(session.run(weights), before, strict=True):
            np.testing.assert_array_equal(a, b)
        assert session.run(optimizer.scale) == 2.0**14
        session.run(step, feeds)
        session.run(step, feeds)
        assert session.run(optimizer.scale) == 2.0**15
        assert not np.array_equal(session.run(weights[0]), before[0])


def test_a_gradient_below_half_precision_survives_by_its_scale() -> None:
    def gradient(scale: float) -> float:
        tf.reset_default_graph()
        x = tf.placeholder(tf.float32, (1, 1))
        w = tf.Variable(np.ones((1, 1), np.float32))
        loss = tf.reduce_sum(tf.matmul(x, w)) * 1e-9
        (grad, _), *_ = tf.LossScaleOptimizer(
            tf.train.GradientDescentOptimizer(1.0), scale
        ).compute_gradients(loss, [w])
        with tf.Session() as session:
            session.run(tf.initialize_all_variables())
            return float(session.run(tf.mixed_precision([grad])[0], {x: [[1.0]]})[0, 0])

    assert gradient(1.0) == 0.0
    assert gradient(2.0**15) == pytest.approx(1e-9, rel=1e-3)


def test_what_is_no_optimizer_is_refused() -> None:
    with pytest.raises(GraphError, match="scale -1"):
        tf.LossScaleOptimizer(tf.train.GradientDescentOptimizer(0.1), -1)
    with pytest.raises(GraphError, match="got float"):
        tf.LossScaleOptimizer(0.1)  # type: ignore[arg-type]
