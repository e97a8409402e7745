"""Runs in an arena: the values of any other run, in exactly the memory that was planned."""

import dataclasses
import tracemalloc
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.core.variables import State
from tests.minitorch.graph.arena import MOST_SHAPES, ArenaStep

pytestmark = pytest.mark.as_built


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
        run.free[buffer.last].append(
            run.arena.memory[buffer.offset : buffer.offset + buffer.n_bytes]
        )
    assert np.isnan(step(State(), [feeds[x]])[0]).all()


# ── branches and loops ──────────────────────────────────────────────────────────────────────────


def rounds(swap: bool) -> tuple[list[Any], dict[Any, Any], Any]:
    """A loop of `n` rounds over two matrices, its gradient, and a branch after it."""
    x, w = (tf.placeholder(tf.float32, (16, 16)) for _ in range(2))
    n = tf.placeholder(tf.int32, ())

    def step(i: Any, a: Any, b: Any) -> Any:
        new = tf.tanh(tf.matmul(b, w) + a) * 0.5
        return (i + 1, new, a) if swap else (i + 1, new, b + 1.0)

    _, a, b = tf.while_loop(lambda i, a, b: i < n, step, [0, x, w])
    grads = tf.gradients(tf.reduce_sum(a * b), [x, w])
    side = tf.cond(n > 1, lambda: tf.reduce_sum(a, 0), lambda: tf.reduce_max(b, 1) * 2.0)
    rng = np.random.default_rng(0)
    feeds = {m: rng.normal(size=(16, 16)).astype(np.float32) / 4 for m in (x, w)}
    return [a, b, *grads, side], feeds, n


@pytest.mark.parametrize("swap", [False, True])
@pytest.mark.parametrize("optimized", [False, True])
def test_a_loop_and_its_gradient_run_in_the_planned_memory(swap: bool, optimized: bool) -> None:
    fetches, feeds, n = rounds(swap)
    nodes = tf.optimize(fetches) if optimized else fetches
    step = ArenaStep(nodes, [*feeds, n], poison=True)
    planned = tf.memory_plan(nodes).peak_bytes
    for count in (0, 1, 2, 5):
        with tf.Session() as session:
            want = session.run(fetches, {**feeds, n: count})
        got = step(State(), [*feeds.values(), np.int32(count)])
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        assert step.measured_bytes <= planned
        if count > 1:
            assert step.measured_bytes == planned


def test_more_rounds_need_no_more_memory() -> None:
    x, n = tf.placeholder(tf.float32, (64, 64)), tf.placeholder(tf.int32, ())
    y = tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, tf.tanh(v @ v)), [0, x])[1]
    step = ArenaStep([y], [x, n])
    reached = set()
    for count in (1, 2, 50):
        step(State(), [np.eye(64, dtype=np.float32), np.int32(count)])
        reached.add(step.measured_bytes)
    assert reached == {step.plan.peak_bytes}
    assert step.plan.peak_bytes < 5 * 64 * 64 * 4  # the variable, and a round's two results


def test_nested_loops_and_lists_run_in_an_arena() -> None:
    x = tf.placeholder(tf.float64, (3,))

    def outer(i: Any, v: Any) -> Any:
        inner = tf.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, tf.sin(u) + v), [0, v])[1]
        return i + 1, inner * 0.5

    last = tf.while_loop(lambda i, _: i < 4, outer, [0, x])[1]
    fetches = [last, *tf.gradients(tf.reduce_sum(last), [x])]
    at = {x: np.array([0.1, 0.2, -0.4])}
    with tf.Session() as session:
        want = session.run(fetches, at)
    with tf.Session(executor="arena", poison=True) as session:
        for a, b in zip(session.run(fetches, at), want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_loop_whose_values_grow_is_refused_by_name() -> None:
    x = tf.placeholder(tf.float32, (1, 2))
    y = tf.while_loop(
        lambda i, v: i < 3,
        lambda i, v: (i + 1, tf.concat([v, v], 0)),
        [0, x],
        shape_invariants=[(), (None, 2)],
    )[1]
    says = r"loop 'while' is \(1, 2\) at first and \(2, 2\) after a round.*test_arena\.py:\d+"
    with (
        tf.Session(executor="arena") as session,
        pytest.raises(GraphError, match=says),
    ):
        session.run(y, {x: np.ones((1, 2))})


def test_what_comes_of_a_branch_that_is_not_taken_is_dead() -> None:
    x = tf.placeholder(tf.float32, (4,))
    no, _ = tf.switch(tf.exp(x), tf.reduce_sum(x) > 0.0)
    with (
        tf.Session(executor="arena") as session,
        pytest.raises(GraphError, match=r"'mul' is dead.*test_arena"),
    ):
        session.run(no * 2.0, {x: np.ones(4)})


def test_the_blocks_of_shapes_that_are_fed_no_more_are_let_go() -> None:
    x = tf.placeholder(tf.float32, (None,))
    step = ArenaStep([tf.exp(x) * 2.0], [x])
    state = State()
    for size in (*range(1, 3 * MOST_SHAPES), 1):
        (found,) = step(state, [np.zeros(size, np.float32)])
        np.testing.assert_array_equal(found, np.full(size, 2.0, np.float32))
        assert len(step._runs) <= MOST_SHAPES
