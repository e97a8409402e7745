"""Updates run as soon as they may, and no sooner."""

from itertools import pairwise
from threading import Barrier, Thread
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.core.node import build
from minitorch.graph.core.order import schedule
from minitorch.graph.core.variables import StateOp
from minitorch.graph.memory.aliasing import running_order
from minitorch.op import KeepsSpec

pytestmark = pytest.mark.as_built

EXECUTORS = ("compiled", "interpreter", "tokens", "arena")


def _network(widths: tuple[int, ...], batch: int) -> tuple[Any, dict[Any, Any]]:
    """A loss, and feeds for it."""
    rng = np.random.default_rng(0)
    x, y = tf.placeholder(tf.float32, (batch, widths[0])), tf.placeholder(tf.int64, (batch,))
    h: Any = x
    for i, (a, b) in enumerate(pairwise(widths)):
        w = tf.Variable((rng.normal(size=(a, b)) / a**0.5).astype(np.float32))
        h = tf.matmul(h, w) + tf.Variable(np.zeros(b, np.float32))
        h = tf.nn.relu(h) if i < len(widths) - 2 else h
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=h))
    at = {x: rng.normal(size=(batch, widths[0])), y: rng.integers(0, widths[-1], batch)}
    return loss, at


def _update_of(variable: Any, order: list[Any]) -> Any:
    return next(n for n in order if any(v is variable for v in getattr(n.op, "writes", ())))


OPTIMIZERS = [
    lambda: tf.train.GradientDescentOptimizer(0.1),
    lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    lambda: tf.train.AdagradOptimizer(0.1),
    lambda: tf.train.AdamOptimizer(0.01),
]


@pytest.mark.parametrize("make", OPTIMIZERS)
@pytest.mark.parametrize("optimize", [False, True])
def test_a_training_step_of_eight_layers_needs_less_than_half(make: Any, optimize: bool) -> None:
    """Weights larger than activations: all gradients at once would be two thirds of everything."""
    loss, at = _network((784, *[256] * 7, 10), 32)
    asked = [make().minimize(loss), loss]
    plan = tf.memory_plan(tf.optimize(asked, list(at)) if optimize else asked)
    assert plan.peak_bytes <= plan.total_bytes / 2


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_every_executor_takes_the_same_steps(make: Any) -> None:
    loss, at = _network((6, 5, 4, 3), 7)
    step = make().minimize(loss)
    found = []
    for executor in EXECUTORS:
        with tf.Session(executor=executor) as session:
            session.run(tf.global_variables_initializer())
            found.append([session.run([step, loss], at)[1] for _ in range(4)])
    np.testing.assert_allclose(found, [found[1]] * len(found), rtol=1e-6)
    assert found[1][-1] < found[1][0]


def test_an_update_waits_for_whoever_looks_at_the_old_value() -> None:
    w, v = tf.Variable([1.0, 2.0]), tf.Variable([3.0, 4.0])
    loss = tf.reduce_sum(tf.square(w) * v)
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss, var_list=[w, v])
    late = tf.exp(tf.reshape(w, (1, 2)))  # built last, of the old value all the same
    order = running_order([step, late], set())
    places = {node: i for i, node in enumerate(order)}
    assert sorted(order, key=id) == sorted(schedule([step, late], set()), key=id)
    assert places[late] < places[_update_of(w, order)]
    for executor in EXECUTORS:
        with tf.Session(executor=executor) as session:
            session.run(tf.global_variables_initializer())
            _, seen, before = session.run([step, late, w])
            np.testing.assert_allclose(seen, np.exp([[1.0, 2.0]]), rtol=1e-6)
            assert before.tolist() == [1.0, 2.0]
            assert session.run(w).tolist() == [-2.0, -6.0]


def test_an_update_stays_behind_effects_that_are_no_writes() -> None:
    class Effect(KeepsSpec, StateOp):
        def run(self, state: Any, x: Any) -> Any:
            return x

    w = tf.Variable(1.0)
    step = tf.train.GradientDescentOptimizer(0.5).minimize(tf.square(w))
    effect = build(Effect(), [tf.constant(1.0)])
    order = running_order([step, effect], set())
    places = {node: i for i, node in enumerate(order)}
    assert places[effect] < places[_update_of(w, order)]


def test_two_threads_share_a_session_that_runs_in_an_arena() -> None:
    x = tf.placeholder(tf.float64, (2000,))
    y = tf.tanh(x * 2.0) + tf.exp(-x)
    session, start = tf.Session(executor="arena"), Barrier(4)
    wrong: list[float] = []

    def work(value: float) -> None:
        at = np.full(2000, value)
        start.wait()
        for _ in range(50):
            got = session.run(y, {x: at})
            wrong.extend(got[~np.isclose(got, np.tanh(2 * value) + np.exp(-value))])

    threads = [Thread(target=work, args=(0.1 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_arena_has_no_place_for_what_only_the_run_can_size() -> None:
    x = tf.placeholder(tf.float32, (3, 4), "x")
    session = tf.Session(executor="arena")
    with pytest.raises(GraphError, match=r"not known|computed in the run"):
        session.run(tf.where(x > 0.0), {x: np.ones((3, 4))})
