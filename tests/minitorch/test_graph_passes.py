"""Passes keep every value and every effect, and each does what it is for."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.node import Node
from minitorch.graph.optimize import PASSES, run_pass
from minitorch.graph.order import schedule
from minitorch.graph.passes.fuse import Fused, fuse
from minitorch.graph.passes.matmul_chain import cheapest
from minitorch.graph.verify import verify


@pytest.fixture(autouse=True)
def _fresh_graph() -> None:
    tf.reset_default_graph()


def operators(fetches: Any) -> list[str]:
    listed = fetches if isinstance(fetches, list) else [fetches]
    return [n.op.name for n in schedule(listed, ()) if n.op is not None]


def run(node: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(node, feeds)


# ── equal values, whatever the graph ────────────────────────────────────────────────────────────

UNARY = [tf.tanh, tf.square, tf.negative, tf.nn.relu, tf.abs, tf.sigmoid, lambda x: x * 1.0]
BINARY = [tf.add, tf.multiply, tf.subtract, tf.maximum, lambda a, b: tf.matmul(a, b)]


def random_graph(rng: np.random.Generator) -> tuple[list[Node], list[Node], dict[Node, Any]]:
    """A graph of 4 x 4 values with constants, repeats and dead ends; fetches and feeds."""
    inputs: list[Node] = [tf.placeholder(tf.float64, (4, 4)) for _ in range(2)]
    values: list[Node] = [*inputs, *(tf.constant(rng.normal(size=(4, 4))) for _ in range(2))]
    values += [tf.constant(np.float64(c)) * tf.ones((4, 4), tf.float64) for c in (1.0, -1.0)]
    for _ in range(int(rng.integers(3, 25))):
        pick = [values[int(i)] for i in rng.integers(len(values), size=2)]
        if rng.random() < 0.4:
            values.append(UNARY[int(rng.integers(len(UNARY)))](pick[0]))
        else:
            values.append(BINARY[int(rng.integers(len(BINARY)))](*pick) * 0.5)
    fetches = [values[-1], values[int(rng.integers(len(values)))], values[0]]
    gradient = tf.gradients(tf.reduce_sum(tf.tanh(values[-1])), [inputs[0]])[0]
    fetches += [] if gradient is None else [gradient]
    return fetches, inputs, {x: rng.normal(size=(4, 4)) for x in inputs}


@pytest.mark.parametrize("seed", range(200))
def test_random_graphs_agree_before_and_after_each_pass(seed: int) -> None:
    fetches, _, feeds = random_graph(np.random.default_rng(seed))
    with tf.Session() as session:
        want = session.run(fetches, feeds)
        leaves = list(fetches)
        for name in PASSES:
            leaves = run_pass(name, leaves, ())
            for a, b in zip(session.run(leaves, feeds), want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert tf.count_nodes(leaves) <= tf.count_nodes(fetches)


def test_an_optimizing_session_trains_to_the_same_weights() -> None:
    def weights(optimize: bool) -> Any:
        tf.reset_default_graph()
        rng = np.random.default_rng(0)
        x = tf.placeholder(tf.float64, (None, 5))
        w1, b1 = tf.Variable(rng.normal(size=(5, 6))), tf.Variable(np.zeros(6))
        w2 = tf.Variable(rng.normal(size=(6, 1)))
        loss = tf.reduce_mean(tf.square(tf.matmul(tf.nn.relu(tf.matmul(x, w1) + b1), w2)))
        step = tf.train.AdamOptimizer(0.01).minimize(loss)
        with tf.Session(optimize=optimize) as session:
            session.run(tf.initialize_all_variables())
            for i in range(10):
                data = np.random.default_rng(i).normal(size=(7, 5))
                session.run([step, loss], {x: data})
            return session.run([w1, b1, w2])

    for a, b in zip(weights(True), weights(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10)


def test_writes_and_their_order_survive() -> None:
    w = tf.Variable(2.0)
    with tf.control_dependencies([tf.assign(w, w * 3.0 * 1.0)]):
        after = w.read() * 1.0
    with tf.Session(optimize=True) as session:
        session.run(tf.initialize_all_variables())
        assert session.run(after) == 6.0
        assert session.run(w) == 6.0


def test_two_random_nodes_stay_two() -> None:
    a, b = tf.random_uniform((3,)), tf.random_uniform((3,))
    with tf.Session(optimize=True) as session:
        x, y, difference = session.run([a, b, a - b])
    assert (x != y).any()
    np.testing.assert_allclose(difference, x - y, rtol=1e-5)


def test_a_fed_node_is_left_alone() -> None:
    middle = tf.constant(2.0) * 3.0
    y = middle + 1.0
    with tf.Session(optimize=True) as session:
        assert session.run(y) == 7.0
        assert session.run(y, {middle: 10.0}) == 11.0


# ── each pass for itself ────────────────────────────────────────────────────────────────────────


def test_constants_are_folded() -> None:
    x = tf.placeholder(tf.float32, (2,))
    y = x * (tf.constant([1.0, 2.0]) * 3.0 + tf.exp(tf.constant(0.0)))
    assert tf.count_nodes(tf.optimize(y, passes=["fold"])) == 3
    np.testing.assert_array_equal(run(tf.optimize(y), {x: [1, 1]}), [4.0, 7.0])


def test_equal_expressions_become_one() -> None:
    x = tf.placeholder(tf.float32, (2, 3))
    y = tf.exp(x) + tf.exp(x) * tf.reduce_sum(tf.exp(x), 1, keepdims=True)
    after = tf.optimize(y, passes=["cse"])
    assert operators(y).count("exp") == 3
    assert operators(after).count("exp") == 1
    different = tf.reduce_sum(x, 0, keepdims=True) + tf.reduce_sum(x, 1, keepdims=True)
    assert operators(tf.optimize(different, passes=["cse"])).count("Sum") == 2


@pytest.mark.parametrize(
    ("build", "operator_count"),
    [
        (lambda x: x * 1.0, 0),
        (lambda x: 1.0 * x, 0),
        (lambda x: x / 1.0, 0),
        (lambda x: x - 0.0, 0),
        (lambda x: tf.negative(tf.negative(x)), 0),
        (lambda x: x**1, 0),
        (lambda x: tf.identity(x), 0),
        (lambda x: tf.transpose(tf.transpose(x)), 0),
        (lambda x: tf.reshape(tf.reshape(x, (3, 2)), (2, 3)), 0),
        (lambda x: tf.nn.relu(tf.nn.relu(x)), 1),
        (lambda x: tf.abs(tf.negative(x)), 1),
        (lambda x: x + (-tf.exp(x)), 2),
        (lambda x: (x * 2.0) * 3.0, 1),
        (lambda x: x * 0.0, 1),  # not 0 for infinities and NaN
        (lambda x: x + 0.0, 1),  # not x for -0.0
    ],
)
def test_algebra_simplifies_what_is_right_for_every_number(build: Any, operator_count: int) -> None:
    x = tf.placeholder(tf.float32, (2, 3))
    y = build(x)
    after = tf.optimize(y, passes=["algebra", "fold"])
    assert len(operators(after)) == operator_count
    at = np.array([[1.0, -2.0, 0.0], [np.inf, -np.inf, -0.0]], np.float32)
    a, b = run([y, after], {x: at})
    np.testing.assert_array_equal(np.signbit(a), np.signbit(b))
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_a_one_that_broadcasts_is_not_dropped() -> None:
    x = tf.placeholder(tf.float32, (3,))
    y = x * tf.ones((2, 3))
    assert run(tf.optimize(y), {x: [1, 2, 3]}).shape == (2, 3)


def test_a_chain_of_products_takes_the_cheapest_order() -> None:
    a, b = (tf.placeholder(tf.float64, (64, 64)) for _ in range(2))
    v = tf.placeholder(tf.float64, (64, 1))
    left = tf.matmul(tf.matmul(a, b), v)
    after = tf.optimize(left)
    shapes = [n.shape for n in schedule([after], ()) if n.op is not None]
    assert shapes == [(64, 1), (64, 1)]
    rng = np.random.default_rng(0)
    feeds = {n: rng.normal(size=tuple(n.shape)) for n in (a, b, v)}
    np.testing.assert_allclose(*run([left, after], feeds), rtol=1e-9)


def test_the_dynamic_program_finds_the_textbooks_order() -> None:
    assert cheapest([30, 35, 15, 5, 10, 20, 25])[0] == 15125  # Cormen et al., section 14.2


def test_a_product_that_is_used_elsewhere_is_kept_whole() -> None:
    a, b, v = (tf.placeholder(tf.float64, s) for s in ((8, 8), (8, 8), (8, 1)))
    inner = tf.matmul(a, b)
    fetches = tf.optimize([inner, tf.matmul(inner, v)], passes=["matmul_chain"])
    assert fetches[1].inputs[0] is fetches[0]


def test_products_with_constants_of_one_input_are_merged() -> None:
    x = tf.placeholder(tf.float64, (None, 4))
    rng = np.random.default_rng(0)
    w1, w2 = tf.constant(rng.normal(size=(4, 3))), tf.constant(rng.normal(size=(4, 5)))
    pair = [tf.matmul(x, w1), tf.matmul(x, w2)]
    after = tf.optimize(pair)
    assert operators(after).count("matmul") == 1
    at = rng.normal(size=(6, 4))
    with tf.Session() as session:
        for a, b in zip(session.run(pair, {x: at}), session.run(after, {x: at}), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


def test_products_with_variables_are_not_merged_because_that_loses() -> None:
    x = tf.placeholder(tf.float64, (None, 4))
    w = [tf.Variable(np.ones((4, 3))) for _ in range(2)]
    after = tf.optimize([tf.matmul(x, v) for v in w])
    assert operators(after) == ["matmul"] * 2


def test_elementwise_trees_are_fused_and_the_rest_has_a_reason() -> None:
    x, w, y = (tf.placeholder(tf.float32, (5, 7)) for _ in range(3))
    shared = tf.exp(y)
    z = tf.nn.relu(x * w + 0.5) * shared + tf.tanh(shared)
    reasons: list[str] = []
    (after,) = fuse([z], (), reasons)
    assert isinstance(after.op, Fused)
    assert len(operators(after)) == 2
    assert any("used 2 times" in reason for reason in reasons)
    assert "not fused" in tf.explain(z)


def test_a_fused_operator_works_block_by_block_and_has_a_gradient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x, w = (tf.placeholder(tf.float64, (50, 7)) for _ in range(2))
    z = tf.tanh(x * w + 0.5) * x
    after = tf.optimize(z)
    rng = np.random.default_rng(0)
    feeds = {n: rng.normal(size=(50, 7)) for n in (x, w)}
    for limit in (10**9, 1):
        monkeypatch.setattr("minitorch.graph.passes.fuse.LARGE", limit)
        monkeypatch.setattr("minitorch.graph.passes.fuse.BLOCK", 32)
        np.testing.assert_allclose(*run([z, after], feeds), rtol=1e-14)
    plain, fused = tf.gradients(z, [x, w]), tf.gradients(after, [x, w])
    for a, b in zip(run(plain, feeds), run(fused, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


# ── verifying, counting, planning ───────────────────────────────────────────────────────────────


def test_a_pass_that_breaks_a_type_is_caught_by_name() -> None:
    x = tf.placeholder(tf.float32, (2, 3))
    y = tf.exp(x)
    y.shape = type(y.shape)((3, 2))
    with pytest.raises(GraphError, match=r"my pass.*'exp'.*\(3, 2\)"):
        verify([y], after="my pass")


def test_nodes_are_counted_once_with_inputs_and_constants() -> None:
    x = tf.placeholder(tf.float32, (2,))
    y = x * 2.0
    assert tf.count_nodes(y) == 3
    assert tf.count_nodes([y, y + y]) == 4


def test_structures_come_back_and_unknown_passes_are_refused() -> None:
    x = tf.placeholder(tf.float32, (2,))
    after = tf.optimize({"a": [x * 1.0], "b": (x,)})
    assert after["a"][0] is x
    assert after["b"] == (x,) or after["b"][0] is x
    with pytest.raises(GraphError, match="expected one of fold"):
        tf.optimize(x, passes=["magic"])
    with pytest.raises(GraphError, match="expected nodes"):
        tf.optimize([3])


def chain(depth: int) -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, (32, 64))
    h, weights = x, []
    for _ in range(depth):
        weights.append(tf.Variable(np.ones((64, 64), np.float32)))
        h = tf.nn.relu(tf.matmul(h, weights[-1]))
    return tf.reduce_sum(h), weights


def test_the_plan_of_an_8_layer_network_needs_less_than_half_of_its_buffers() -> None:
    loss, weights = chain(8)
    grads = tf.gradients(loss, weights)
    plan = tf.memory_plan([loss, *grads])
    assert plan.peak_bytes <= plan.total_bytes / 2
    assert plan.peak_bytes >= 8 * 64 * 64 * 4  # the gradients themselves are fetched


def test_no_two_buffers_that_live_at_once_overlap() -> None:
    loss, weights = chain(4)
    plan = tf.memory_plan([loss, *tf.gradients(loss, weights)])
    buffers = plan.buffers
    for i, a in enumerate(buffers):
        for b in buffers[i + 1 :]:
            in_time = a.first <= b.last and b.first <= a.last
            in_space = a.offset < b.offset + b.n_bytes and b.offset < a.offset + a.n_bytes
            assert not (in_time and in_space)
    assert plan.peak_bytes == max(b.offset + b.n_bytes for b in buffers)


def test_bytes_are_counted_without_feeds_variables_constants_and_views() -> None:
    x = tf.placeholder(tf.float32, (10, 10))
    w = tf.Variable(np.ones((10, 10), np.float32))
    y = tf.matmul(tf.transpose(x), w)
    plan = tf.memory_plan(tf.exp(y))
    assert plan.total_bytes == 2 * 400
    assert plan.peak_bytes == 400  # exp takes over the product's memory
    assert len(plan.in_place) == 1


def test_a_plan_needs_every_size() -> None:
    x = tf.placeholder(tf.float32, (None, 3), name="batch")
    with pytest.raises(GraphError, match="'exp'"):
        tf.memory_plan(tf.exp(x))
