"""Kernels where rows are long enough, NumPy where they are not, and no detour for small sums."""

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.passes.fuse import fuse
from minitorch.graph.passes.fused import Fused
from minitorch.graph.passes.lowering import Runs, runs_of
from minitorch.ops.elementwise import binary
from minitorch.ops.elementwise import unary as elementwise
from minitorch.ops.reducing.reduction import Mean

ADD_RELU = [(binary.add.op, (0, 1)), (elementwise.relu.op, (-1,))]


@pytest.fixture(autouse=True)
def _fresh_graph_on_a_machine_that_is_the_same_everywhere() -> Iterator[None]:
    tf.reset_default_graph()
    with use(Fixed()):
        yield


@pytest.mark.parametrize(
    ("shapes", "whole", "folded", "want"),
    [
        ([(100, 8), (8,)], (100, 8), 0, Runs(8, 1)),
        ([(100, 8), (100, 1)], (100, 8), 0, Runs(8, 1)),
        ([(100, 8), (100, 8)], (100, 8), 0, Runs(None, 0)),
        ([(100, 8), ()], (100, 8), 0, Runs(None, 0)),
        ([(100, 8), (1, 1)], (100, 8), 0, Runs(None, 0)),
        ([(1, 8), (8,)], (1, 8), 0, Runs(None, 0)),
        ([(5, 6, 8), (6, 8)], (5, 6, 8), 0, Runs(48, 1)),
        ([(5, 6, 8), (6, 1)], (5, 6, 8), 0, Runs(8, 1)),
        ([(None, 8), (8,)], (None, 8), 0, Runs(8, 1)),
        ([(None, None), (None,)], (None, None), 0, Runs(None, 1)),
        ([(50, 1), (1, 50)], (50, 50), 0, Runs(50, 1)),
        ([(100, 8), (100, 8)], (100, 8), 1, Runs(8, 2)),
        ([(100, 8), (100, 8)], (100, 8), 2, Runs(None, 0)),
        ([(0, 8), (8,)], (0, 8), 0, Runs(8, 1)),
    ],
)
def test_a_run_ends_where_an_input_begins_to_repeat(
    shapes: Any, whole: Any, folded: int, want: Runs
) -> None:
    assert runs_of(ADD_RELU, shapes, whole, folded) == want


@pytest.mark.parametrize(("width", "kernel"), [(8, False), (10, False), (16, True), (256, True)])
@pytest.mark.parametrize("batch", [None, 98304])
def test_a_bias_on_short_rows_is_left_to_numpy(width: int, kernel: bool, batch: int | None) -> None:
    x = tf.placeholder(tf.float32, (None if batch is None else batch // width, width))
    b = tf.placeholder(tf.float32, (width,))
    (after,) = fuse([tf.nn.relu(x + b)])
    assert isinstance(after.op, Fused)
    assert (after.op.least is not None) is kernel


def test_rows_that_no_vector_fills_cost_a_kernel_most() -> None:
    seconds = [Runs(n, 1).kernel_s(ADD_RELU) * n for n in (17, 15, 10, 16)]
    assert seconds[3] < min(seconds[:3])
    assert Runs(None, 1).kernel_s(ADD_RELU) == Runs(None, 1).numpy_s() == 0.0


@pytest.mark.parametrize("count", [6, 5000])
def test_a_small_sum_without_a_kernel_is_one_plain_function(count: int) -> None:
    x = tf.placeholder(tf.float32, (count,))
    with use(Fixed(kernels=False)):
        (after,) = fuse([tf.reduce_mean(x * x)])
    assert isinstance(after.op, Fused) and after.op.reduction is not None
    assert "compute" in vars(after.op)  # of its own: nothing is asked about sizes in the run
    at = np.linspace(-1, 1, count, dtype=np.float32)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(after, {x: at}), np.mean(at * at), rtol=1e-6)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (1, 1)])
def test_a_sum_of_unknown_size_is_right_without_a_kernel(shape: tuple[int, ...]) -> None:
    x = tf.placeholder(tf.float32, (None,) * len(shape))
    with use(Fixed(kernels=False)):
        (after,) = fuse([tf.reduce_max(tf.exp(x) * 2.0, -1, keepdims=True)])
    at = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    with tf.Session() as session:
        found = session.run(after, {x: at})
    np.testing.assert_allclose(found, (np.exp(at) * 2).max(-1, keepdims=True), rtol=1e-6)


def test_what_a_fused_operator_no_longer_needs_is_freed() -> None:
    parts: list[Any] = [(elementwise.tanh.op, (0,))]
    for _ in range(20):  # each value is used twice, and so has a name
        parts.append((binary.mul.op, (-len(parts), -len(parts))))
        parts.append((binary.add.op, (-len(parts), -len(parts))))
    x = np.full(2**18, 0.5, np.float32)
    tracemalloc.start()
    Fused(parts, [x.dtype]).compute(np, x)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * x.nbytes


def test_one_source_serves_functions_of_different_operators() -> None:
    x = np.array([1.0, 2.0], np.float32)
    first = Fused([(elementwise.exp.op, (0,)), (elementwise.neg.op, (-1,))])
    second = Fused([(elementwise.square.op, (0,)), (elementwise.tanh.op, (-1,))])
    np.testing.assert_array_equal(first.compute(np, x), -np.exp(x))
    np.testing.assert_array_equal(second.compute(np, x), np.tanh(x * x))
    mean = Fused([(elementwise.exp.op, (0,))], [x.dtype], None, Mean((0,), False))
    np.testing.assert_allclose(mean.compute(np, x), np.exp(x).mean(), rtol=1e-6)


def test_gradients_summed_over_time_do_not_wait_for_the_last() -> None:
    weight = tf.Variable(np.ones((64, 64), np.float32))
    h = tf.placeholder(tf.float32, (64, 64))
    for _ in range(20):  # each step of the sum is far from the next
        h = tf.tanh(tf.matmul(h, weight)) * tf.sigmoid(tf.matmul(h, weight))
    gradient = tf.gradients(tf.reduce_sum(h), [weight])[0]
    (after,) = fuse([gradient])
    before = tf.memory_plan(gradient).peak_bytes
    assert tf.memory_plan(after).peak_bytes <= before + 2 * 64 * 64 * 4


def test_a_chain_is_fused_however_long_it_is() -> None:
    x = y = tf.placeholder(tf.float32, (64, 64))
    for _ in range(40):
        y = tf.tanh(y) + x
    (after,) = fuse([y])
    assert tf.count_nodes(after) <= 4
