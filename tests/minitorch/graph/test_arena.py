"""Runs in an arena: the values of any other run, in exactly the memory that was planned."""

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.running.arena import ArenaStep
from minitorch.graph.state import State


@pytest.fixture(autouse=True)
def _fresh_graph() -> None:
    tf.reset_default_graph()


def mlp(layers: int, batch: int | None, width: int = 64, activation: Any = tf.nn.relu) -> Any:
    """Loss and gradients of a network; placeholders for data and weights with their values."""
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, (batch, width))
    h, feeds = x, {x: rng.normal(size=(batch or 32, width)).astype(np.float32)}
    weights = []
    for _ in range(layers):
        w, b = tf.placeholder(tf.float32, (width, width)), tf.placeholder(tf.float32, (width,))
        feeds[w] = rng.normal(size=(width, width)).astype(np.float32) / 8
        feeds[b] = rng.normal(size=width).astype(np.float32)
        h = activation(tf.matmul(h, w) + b)
        weights += [w, b]
    loss = tf.reduce_mean(tf.square(h))
    return [loss, *tf.gradients(loss, weights)], feeds


def run_in_arena(fetches: Any, feeds: Any, poison: bool = True) -> tuple[Any, ArenaStep]:
    step = ArenaStep(fetches, list(feeds), poison=poison)
    return step(State(), list(feeds.values())), step


@pytest.mark.parametrize("activation", [tf.nn.relu, tf.tanh, tf.sigmoid, tf.nn.elu])
@pytest.mark.parametrize("optimized", [False, True])
@pytest.mark.parametrize("batch", [32, None])
def test_a_network_gives_the_same_values_in_the_planned_memory(
    activation: Any, optimized: bool, batch: int | None
) -> None:
    fetches, feeds = mlp(3, batch, activation=activation)
    with tf.Session() as session:
        want = session.run(fetches, feeds)
    nodes = tf.optimize(fetches, list(feeds)) if optimized else fetches
    got, step = run_in_arena(nodes, feeds)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-6)
    assert step.measured_bytes == step.plan.peak_bytes > 0


def test_the_measured_peak_of_an_8_layer_network_is_the_planned_one() -> None:
    fetches, feeds = mlp(8, 64)
    _, step = run_in_arena(fetches, feeds)
    assert step.measured_bytes == tf.memory_plan(fetches).peak_bytes
    assert step.measured_bytes <= step.plan.total_bytes / 2


def test_nothing_is_allocated_beside_the_arena() -> None:
    fetches, feeds = mlp(4, 2048)
    small = [tf.reduce_sum(node) for node in fetches]  # what is fetched is copied
    step = ArenaStep(small, list(feeds))
    step(State(), list(feeds.values()))  # kernels compiled, arena made
    tracemalloc.start()
    step(State(), list(feeds.values()))
    beside = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    activation = 2048 * 64 * 4
    assert step.plan.peak_bytes > 4 * activation
    assert beside < activation / 4  # Python's own bookkeeping


def test_a_session_runs_and_trains_in_an_arena() -> None:
    def weights(executor: str, **options: Any) -> Any:
        tf.reset_default_graph()
        x = tf.placeholder(tf.float64, (None, 5))
        w = tf.Variable(np.random.default_rng(0).normal(size=(5, 3)))
        loss = tf.reduce_mean(tf.square(tf.tanh(tf.matmul(x, w))))
        step = tf.train.AdamOptimizer(0.1).minimize(loss)
        with tf.Session(executor=executor, **options) as session:
            session.run(tf.initialize_all_variables())
            for i in range(5):
                session.run(step, {x: np.random.default_rng(i).normal(size=(4 + i, 5))})
            return session.run(w)

    np.testing.assert_allclose(weights("arena", poison=True), weights("compiled"), rtol=1e-12)


def test_results_outlive_the_next_run() -> None:
    x = tf.placeholder(tf.float32, (4,))
    step = ArenaStep([tf.exp(x)], [x])
    first = step(State(), [np.zeros(4, np.float32)])[0]
    step(State(), [np.ones(4, np.float32)])
    np.testing.assert_array_equal(first, np.ones(4))


@pytest.mark.parametrize(
    "build",
    [
        lambda x: tf.transpose(x) + x,
        lambda x: tf.reshape(tf.transpose(tf.exp(x)), (36,)) * 2.0,
        lambda x: tf.exp(x) + tf.transpose(tf.exp(x)),
        lambda x: tf.concat([x, tf.exp(x)], 0)[3:9] * 2.0,
        lambda x: tf.reduce_max(tf.where(x > 0.0, x, -x), 1) + tf.reduce_mean(x, 0),
        lambda x: tf.nn.softmax(tf.matmul(x, x)),
        lambda x: tf.identity(x),
        lambda x: tf.cast(tf.argmax(x, 1), tf.float32) + x[:, 0],
        lambda x: tf.reduce_sum(x),
    ],
)
def test_views_copies_and_reductions_are_right_under_poison(build: Any) -> None:
    x = tf.placeholder(tf.float32, (6, 6))
    h = tf.tanh(x)
    node = build(h)
    at = {x: np.random.default_rng(0).normal(size=(6, 6)).astype(np.float32)}
    with tf.Session() as session:
        want = session.run(node, at)
    got, step = run_in_arena([node], at)
    np.testing.assert_allclose(got[0], want, rtol=1e-6)
    assert step.measured_bytes == step.plan.peak_bytes


def test_a_plan_that_frees_too_early_is_found_out_by_poison() -> None:
    x = tf.placeholder(tf.float32, (8,))
    h = tf.exp(x)
    node = h[:4] * tf.reduce_sum(h[2:] * 2.0)
    feeds = {x: np.zeros(8, np.float32)}
    _, step = run_in_arena([node], feeds)
    run = step._runs[((8,),)]
    early = [dataclasses.replace(b, last=b.first) for b in step.plan.buffers]
    run.free = [[] for _ in step.plan.order]
    for buffer in early:
        run.free[buffer.last].append(run.memory[buffer.offset : buffer.offset + buffer.n_bytes])
    assert np.isnan(step(State(), [feeds[x]])[0]).all()


def test_branches_and_loops_are_refused_by_name() -> None:
    x = tf.placeholder(tf.float32, (), name="x")
    branch = tf.cond(x > 0.0, lambda: x, lambda: -x)
    with (
        tf.Session(executor="arena") as session,
        pytest.raises(GraphError, match=r"arena: cannot run branches or loops: got node .*Switch"),
    ):
        session.run(branch, {x: 1.0})
