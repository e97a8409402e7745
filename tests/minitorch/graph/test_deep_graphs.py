"""A graph may be as deep as memory allows: nothing recurses with it, and nothing forgets it.

Oracles are closed forms: the chains are linear, so their values and derivatives are powers.
"""

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import ArgumentError
from minitorch.graph.core.verify import verify
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.executors.tokens import loop_nodes
from minitorch.graph.memory.plan import memory_plan
from minitorch.graph.passes.optimize import PASSES, run_pass
from minitorch.show import compare_passes, map_memory
from minitorch.show.numbers import in_bytes

pytestmark = pytest.mark.as_built

HUGE = pytest.param(100_000, marks=pytest.mark.wide)
FACTOR = 1.0 - 2.0**-20
EXECUTORS = ("compiled", "interpreter", "tokens", "arena")
AT = np.array([[1.0, 2.0], [3.0, 4.0]])


def chain(x: Any, n: int) -> Any:
    """FACTOR ** (n / 2) * x, by products and by what an algebraic rule takes for no product."""
    for _ in range(n // 2):
        x = tf.maximum(x * FACTOR, -1.0)
    return x


def run(fetch: Any, x: Any, executor: str = "compiled") -> Any:
    with tf.Session(executor=executor) as session:
        return session.run(fetch, {x: AT})


@pytest.mark.parametrize("n", [4_000, HUGE])
def test_a_chain_is_run_differentiated_and_optimized(n: int) -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = chain(x, n)
    (by_x,) = tf.gradients(y, [x])
    want = FACTOR ** (n // 2)
    with use(Fixed(kernels=False)):
        better, steeper = tf.optimize([y, by_x], [x])
    for value, slope in ((y, by_x), (better, steeper)):
        np.testing.assert_allclose(run(value, x), want * AT, rtol=1e-9)
        np.testing.assert_allclose(run(slope, x), np.full((2, 2), want), rtol=1e-9)
    assert tf.count_nodes(better) < tf.count_nodes(y)


@pytest.mark.parametrize("n", [3_000, HUGE])
def test_every_executor_runs_a_chain(n: int) -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = chain(x, n)
    for executor in EXECUTORS:
        np.testing.assert_allclose(run(y, x, executor), FACTOR ** (n // 2) * AT, rtol=1e-9)


@pytest.mark.wide
def test_every_pass_takes_a_very_long_chain() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = chain(x, 100_000)
    with use(Fixed(kernels=False)):
        for name in (*PASSES,):
            run_pass(name, [y], {x})
    verify([y])
    assert memory_plan(y).peak_bytes == AT.nbytes


@pytest.mark.parametrize("n", [1_000, HUGE])
def test_a_second_derivative_of_a_long_chain(n: int) -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = tf.square(chain(x, n))
    (by_x,) = tf.gradients(y, [x])
    (twice,) = tf.gradients(by_x, [x])
    np.testing.assert_allclose(run(twice, x), np.full((2, 2), 2.0 * FACTOR**n), rtol=1e-8)


@pytest.mark.parametrize("n", [2_000, pytest.param(50_000, marks=pytest.mark.wide)])
def test_one_node_is_used_very_often(n: int) -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    middle = x * 0.5
    total = tf.add_n([middle * float(i % 5) for i in range(n)])
    (by_x,) = tf.gradients(total, [x])
    want = 0.5 * sum(i % 5 for i in range(n))
    with use(Fixed(kernels=False)):
        fewer = tf.optimize([total, by_x], [x])
    for value, slope in ((total, by_x), fewer):
        np.testing.assert_allclose(run(value, x), want * AT, rtol=1e-9)
        np.testing.assert_allclose(run(slope, x), np.full((2, 2), want), rtol=1e-9)


def in_a_loop(x: Any, n: int) -> Any:
    return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, chain(v, n)), [0, x])[1]


def in_a_branch(x: Any, n: int) -> Any:
    above = tf.reduce_sum(x) > 0.0
    sides = [tf.cond(above, lambda: chain(x, n), lambda: chain(-x, n)) for _ in range(2)]
    return tf.cond(above, lambda: chain(sides[0], n), lambda: sides[1] * 0.0) * FACTOR ** (n // 2)


def in_a_branch_in_a_loop(x: Any, n: int) -> Any:
    def inner(v: Any) -> Any:
        return tf.while_loop(lambda j, w: j < 2, lambda j, w: (j + 1, chain(w, n)), [0, v])[1]

    def around(i: Any, v: Any) -> Any:
        return i + 1, tf.cond(i < 1, lambda: inner(v), lambda: chain(v, n))

    return tf.while_loop(lambda i, v: i < 2, around, [0, x])[1]


@pytest.mark.parametrize("build", [in_a_loop, in_a_branch, in_a_branch_in_a_loop])
@pytest.mark.parametrize("n", [200, pytest.param(5_000, marks=pytest.mark.wide)])
def test_bodies_may_be_long(build: Callable[[Any, int], Any], n: int) -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    y = build(x, n)
    (by_x,) = tf.gradients(y, [x])
    times = FACTOR ** (3 * (n // 2))  # each goes through three chains
    with use(Fixed(kernels=False)):
        optimized = tf.optimize(by_x, [x])
    for executor in EXECUTORS:
        np.testing.assert_allclose(run(y, x, executor), times * AT, rtol=1e-9)
        for slope in (by_x, optimized):
            np.testing.assert_allclose(run(slope, x, executor), np.full((2, 2), times), rtol=1e-9)


@pytest.mark.parametrize("many", [0, 10_000])
def test_a_loop_waits_the_same_through_one_node(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr(loop_nodes, "MANY", many)
    x = tf.placeholder(tf.float64, (2, 2))
    (by_x,) = tf.gradients(in_a_branch_in_a_loop(x, 40), [x])
    np.testing.assert_allclose(run(by_x, x, "tokens"), FACTOR**60 * np.ones((2, 2)))


@pytest.mark.parametrize("n", [10_000, HUGE])
def test_a_dropped_graph_is_freed_however_deep(n: int) -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    first = tf.tanh(x)
    y = chain(first, n)
    seen = weakref.ref(first)
    del first, y
    gc.collect()
    assert seen() is None


def test_a_deep_node_is_printed_by_itself() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    assert len(repr(chain(x, 2_500))) < 100


def test_a_map_of_memory_says_when_it_would_be_too_large() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    with pytest.raises(
        ArgumentError, match=r"map_memory: .* 3000 operators, expected at most 2000"
    ):
        map_memory(chain(x, 3_000))


def test_a_map_of_memory_counts_what_is_alive_at_each_step() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    (by_x,) = tf.gradients(tf.reduce_sum(tf.square(tf.tanh(x @ x))), [x])
    plan = memory_plan(by_x)
    texts = [step.text for step in map_memory(by_x).steps[1:]]
    times = [time for time, node in enumerate(plan.order) if node.op is not None]
    assert len(texts) == len(times)
    for time, text in zip(times, texts, strict=True):
        alive = [b for b in plan.buffers if b.first <= time <= b.last]
        assert f" {len(alive)} buffer" in text
        assert f"alive, {in_bytes(sum(b.n_bytes for b in alive))} of" in text


def test_passes_over_a_long_chain_are_compared_by_the_nodes_at_its_end() -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    with use(Fixed(kernels=False)):
        scene = compare_passes(chain(x, 3_000))
    assert "6001 nodes become" in "".join(step.text for step in scene.steps)
    assert len(scene.marks) < 8_000
