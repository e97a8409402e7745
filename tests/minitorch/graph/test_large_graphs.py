"""Large graphs: no pass recurses with their depth, and none looks at every pair of nodes."""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.memory import offsets as planning
from minitorch.graph.memory.offsets import Buffer
from minitorch.graph.memory.plan import memory_plan
from minitorch.graph.passes.matmul_chain import LONGEST
from minitorch.graph.passes.optimize import PASSES, run_pass

pytestmark = pytest.mark.as_built

DEEP = 2400  # more than twice as deep as Python recurses


def chain(x: Any) -> Any:
    for _ in range(DEEP // 3):
        x = tf.tanh(x * 1.5) + 0.25
    return x


def products(x: Any) -> Any:
    y = x
    for _ in range(DEEP // 2):
        y = tf.matmul(y, x)
    return y


def waits(x: Any) -> Any:
    y = x * 1.0
    for _ in range(DEEP):
        with tf.control_dependencies([y]):
            y = tf.identity(x)
    return y


@pytest.mark.parametrize("build", [chain, products, waits])
def test_a_deep_graph_passes_every_pass_plan_and_executor(build: Callable[[Any], Any]) -> None:
    x = tf.placeholder(tf.float64, (2, 2))
    at = {x: np.array([[0.6, 0.8], [-0.8, 0.6]])}  # a rotation: its powers stay what they are
    leaves = [build(x)]
    with tf.Session() as session:
        want = session.run(leaves, at)[0]
    with use(Fixed(kernels=False)):
        for name in (*PASSES,):
            leaves = run_pass(name, leaves, {x})
    memory_plan(leaves)
    for executor in ("compiled", "interpreter", "tokens", "arena"):
        with tf.Session(executor=executor) as session:
            np.testing.assert_allclose(session.run(leaves, at)[0], want, atol=1e-9)


@pytest.mark.parametrize(("count", "thin"), [(LONGEST - 1, LONGEST - 1), (3 * LONGEST, 3)])
def test_a_very_long_chain_of_products_is_ordered_in_stretches(count: int, thin: int) -> None:
    v = tf.placeholder(tf.float64, (64, 1))
    factors = [tf.placeholder(tf.float64, (64, 64)) for _ in range(count)]
    left = functools.reduce(tf.matmul, factors)
    with use(Fixed(kernels=False)):
        after = tf.optimize(tf.matmul(left, v), passes=["matmul_chain"])
    assert sum(n.shape == (64, 1) for n in _nodes(after) if n.op is not None) == thin


def _nodes(fetch: Any) -> list[Any]:
    from minitorch.graph.core.order import list_needed

    return list_needed([fetch], ())


def test_many_buffers_are_placed_apart_from_those_that_live_with_them() -> None:
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, (4,))
    buffers = []
    for first in range(planning.MANY + 500):
        last = first + int(rng.integers(0, 40))
        buffers.append(Buffer(x, int(rng.integers(0, 400)), first, last))
    placed = planning.assign_offsets(buffers)
    assert {(b.first, b.last, b.n_bytes) for b in placed} == {
        (b.first, b.last, b.n_bytes) for b in buffers
    }
    _check_apart(placed)
    used = max(b.offset + b.n_bytes for b in placed)
    live = max(
        sum(b.n_bytes for b in placed if b.first <= step <= b.last) for step in range(0, 2500, 7)
    )
    assert used <= 1.6 * live


def _check_apart(placed: list[Buffer]) -> None:
    for i, a in enumerate(placed):
        for b in placed[i + 1 : i + 60]:  # in the order of the run: later ones come after its end
            if a.n_bytes and b.n_bytes and a.first <= b.last and b.first <= a.last:
                assert a.offset + a.n_bytes <= b.offset or b.offset + b.n_bytes <= a.offset


def test_buffers_that_overlap_are_found_out() -> None:
    x = tf.placeholder(tf.float32, (4,))
    with pytest.raises(AssertionError):
        _check_apart([Buffer(x, 16, 0, 5, 0), Buffer(x, 16, 5, 6, 8)])


def test_a_plan_of_thousands_of_buffers_is_what_the_arena_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(planning, "MANY", 10)
    x = tf.placeholder(tf.float32, (8, 8))
    parts = [tf.reduce_sum(tf.tanh(x * float(k)), k % 2) for k in range(40)]
    total = tf.add_n(parts)
    with tf.Session(executor="arena", poison=True) as session:
        found = session.run(total, {x: np.ones((8, 8))})
        (step,) = session._steps.values()
    np.testing.assert_allclose(found, sum(np.tanh(float(k)) * 8 for k in range(40)), rtol=1e-5)
    assert step.measured_bytes == step.plan.peak_bytes  # type: ignore[attr-defined]
