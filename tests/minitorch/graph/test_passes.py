"""Passes keep every value and every effect, and each does what it is for."""

import functools
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.core.order import schedule
from minitorch.graph.core.verify import verify
from minitorch.graph.costs.machine import Fixed, Machine, machine, use
from minitorch.graph.passes.fuse import LONGEST, fuse
from minitorch.graph.passes.fused import Fused
from minitorch.graph.passes.matmul_chain import cheapest
from minitorch.graph.passes.merge_matmuls import costs
from minitorch.graph.passes.placed import PlaceEach
from minitorch.op import Op
from minitorch.ops.elementwise import compiled
from minitorch.ops.networks.normalization import layer_norm

pytestmark = pytest.mark.as_built


@pytest.fixture(autouse=True)
def _fresh_graph_on_a_machine_that_is_the_same_everywhere() -> Iterator[None]:
    tf.reset_default_graph()
    with use(Fixed()):
        yield


def operators(fetches: Any) -> list[str]:
    listed = fetches if isinstance(fetches, list) else [fetches]
    return [n.op.name for n in schedule(listed, ()) if n.op is not None]


def run(node: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(node, feeds)


# ── equal values and effects ──────────────────────────────────────────────────────────────────────


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
        (lambda x: tf.maximum(x, x), 0),
        (lambda x: (x * 2.0) * 0.5, 2),  # infinity in between where x is huge
        (lambda x: (x * 1e-30) * 1e-30, 2),  # the product is no normal number
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


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.int32])
def test_adding_nothing_is_dropped_as_tensorflow_does(dtype: Any) -> None:
    """Though -0.0 + 0.0 is 0.0: the one place where the sign of a zero is not kept."""
    x = tf.placeholder(dtype, (3,))
    nothing = tf.constant(0, dtype)
    assert tf.optimize([x + nothing, nothing + x, x - nothing, x * 1 + 0]) == [x] * 4
    assert tf.count_nodes(tf.optimize(x * 1 + 0)) == 1


@pytest.mark.parametrize("factors", [(1e30, 1e30), (1e-30, 1e30), (1e30, 1e-30), (0.5, 4.0)])
def test_factors_that_meet_do_not_make_infinities(factors: tuple[float, float]) -> None:
    x = tf.placeholder(tf.float32, (4,))
    y = x * factors[0] * factors[1]
    at = np.array([0.0, 1e-45, 3e38, -1.0], np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(
            *run([y, tf.optimize(y, passes=["algebra", "fold"])], {x: at})
        )


def test_the_gradient_of_a_bias_is_a_plain_sum() -> None:
    x, b = tf.placeholder(tf.float32, (None, 5)), tf.placeholder(tf.float32, (5,))
    grad = tf.gradients(tf.reduce_sum(tf.square(x + b)), [b])[0]
    after = tf.optimize(grad, passes=["algebra"])
    assert "SumTo" in operators(grad)
    assert "SumTo" not in operators(after)
    feeds = {x: np.arange(15.0).reshape(3, 5), b: np.ones(5)}
    np.testing.assert_allclose(*run([grad, after], feeds))


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


def test_a_chain_of_the_textbooks_sizes_takes_its_order() -> None:
    sizes = [30, 35, 15, 5, 10, 20, 25]
    factors = [tf.placeholder(tf.float64, pair) for pair in itertools.pairwise(sizes)]
    left = functools.reduce(tf.matmul, factors)
    after = tf.optimize(left, passes=["matmul_chain"])
    products = [n for n in schedule([after], ()) if n.op is not None]
    flops = sum(int(np.prod(n.shape)) * n.inputs[0].shape[1] for n in products)
    assert flops == 15125


def test_a_product_that_is_used_elsewhere_is_kept_whole() -> None:
    a, b, v = (tf.placeholder(tf.float64, s) for s in ((8, 8), (8, 8), (8, 1)))
    inner = tf.matmul(a, b)
    fetches = tf.optimize([inner, tf.matmul(inner, v)], passes=["matmul_chain"])
    assert fetches[1].inputs[0] is fetches[0]


def test_products_with_constants_of_one_input_are_merged() -> None:
    x = tf.placeholder(tf.float64, (None, 16))
    rng = np.random.default_rng(0)
    w1, w2 = tf.constant(rng.normal(size=(16, 3))), tf.constant(rng.normal(size=(16, 5)))
    pair = [tf.matmul(x, w1), tf.matmul(x, w2)]
    after = tf.optimize(pair)
    assert operators(after).count("matmul") == 1
    at = rng.normal(size=(6, 16))
    with tf.Session() as session:
        for a, b in zip(session.run(pair, {x: at}), session.run(after, {x: at}), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12)


class Slow(Fixed):
    """A machine on which copies take long."""

    def __init__(self) -> None:
        super().__init__()
        self.__dict__["byte_s"] = 1e-6


@pytest.mark.parametrize(("machine", "products"), [(Fixed(), 1), (Slow(), 2)])
def test_products_with_variables_are_merged_only_where_the_copy_pays(
    machine: Machine, products: int
) -> None:
    x = tf.placeholder(tf.float64, (1024, 64))
    w = [tf.Variable(np.ones((64, 3))) for _ in range(2)]
    pair = [tf.matmul(x, v) for v in w]
    with use(machine):
        after = tf.optimize(pair)
        apart, together = costs(pair)
    assert operators(after).count("matmul") == products
    assert (together < apart) == (products == 1)


def test_a_merge_that_loses_is_not_made_on_this_machine() -> None:
    x = tf.placeholder(tf.float32, (256, 256))
    w = [tf.Variable(np.ones((256, 256), np.float32)) for _ in range(2)]
    pair = [tf.matmul(x, v) for v in w]
    with use(Machine()):
        apart, together = costs(pair)
        after = tf.optimize(pair, passes=["merge_matmuls"])
    assert operators(after).count("matmul") == (1 if together < 0.95 * apart else 2)


def test_elementwise_groups_are_fused_and_the_rest_is_left() -> None:
    x, w, y = (tf.placeholder(tf.float32, (5, 7)) for _ in range(3))
    shared = tf.exp(y)
    z = tf.nn.relu(x * w + 0.5) * shared + tf.tanh(shared)
    after = fuse([z, tf.matmul(tf.transpose(x), tf.square(w)), tf.tanh(x + w[0])])
    assert isinstance(after[0].op, Fused)
    assert operators(after[0]) == [after[0].op.name]  # `shared` is used twice, both times inside
    assert after[0].op.least is None  # too few elements for a kernel
    scaled, seen, beyond = fuse([tf.exp(y[0] + 1.0) * w, shared, shared + 1.0])
    assert "mul" in operators(scaled)  # of another shape than exp
    assert seen in beyond.inputs  # it is fetched


def test_a_value_used_in_two_groups_is_computed_once() -> None:
    x = tf.placeholder(tf.float32, (6, 6))
    shared = tf.exp(x) * 2.0
    after = fuse([tf.tanh(shared), tf.matmul(shared + 1.0, x)])
    assert sum("exp" in name for name in operators(after)) == 1


@pytest.mark.parametrize("count", [10, 10**6])
def test_a_kernel_computes_from_the_size_on_at_which_it_pays(count: int) -> None:
    x = tf.placeholder(tf.float32, (count,))
    after = tf.optimize(tf.tanh(x * 2.0 + 1.0))
    assert (after.op.least is not None) == (count > 1000)
    at = np.linspace(-1, 1, count, dtype=np.float32)
    np.testing.assert_allclose(run(after, {x: at}), np.tanh(at * 2 + 1), rtol=1e-6)


def test_without_a_compiler_numpy_computes_everything() -> None:
    x = tf.placeholder(tf.float32, (10**6,))
    with use(Fixed(kernels=False)):
        after = tf.optimize(tf.tanh(x * 2.0 + 1.0))
    assert isinstance(after.op, Fused)
    assert after.op.least is None


def test_a_size_that_is_not_known_is_looked_at_when_it_runs() -> None:
    x, y = tf.placeholder(tf.float32), tf.placeholder(tf.float32, (None, 3))
    for node in (x, y):
        after = tf.optimize(tf.tanh(node * 2.0 + 1.0))
        assert 1 < after.op.least < 10**6
        for rows in (1, 10**5):
            at = np.ones((rows, 3), np.float32)
            np.testing.assert_allclose(run(after, {node: at}), np.tanh(at * 3), rtol=1e-6)


def test_what_has_no_vector_code_has_no_kernel() -> None:
    x, halves = tf.placeholder(tf.float32, (10**6,)), tf.placeholder(tf.float16, (9999,))
    for fused in fuse([tf.tan(x) + 1.0, tf.exp(halves) + 1.0]):
        assert isinstance(fused.op, Fused)
        assert fused.op.least is None


@pytest.mark.parametrize("count", [3, 1000])
@pytest.mark.parametrize("reduce", [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_min])
@pytest.mark.parametrize(("axis", "keep"), [(1, False), (1, True), (None, False), (None, True)])
def test_a_reduction_takes_what_is_fused_as_it_comes(
    reduce: Any, count: int, axis: Any, keep: bool
) -> None:
    x, b = tf.placeholder(tf.float64, (count, 70)), tf.placeholder(tf.float64, (70,))
    y = reduce(tf.exp(x * 0.1) + b, axis, keepdims=keep)
    (after,) = fuse([y])
    assert isinstance(after.op, Fused) and after.op.reduction is not None
    assert (after.op.least is not None) == (count == 1000)
    rng = np.random.default_rng(0)
    feeds = {x: rng.normal(size=(count, 70)), b: rng.normal(size=70)}
    want, got = run([y, after], feeds)
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-12)
    plain, fused = (tf.gradients(v, [x, b]) for v in (y, after))
    for u, v in zip(run(plain, feeds), run(fused, feeds), strict=True):
        np.testing.assert_allclose(u, v, rtol=1e-11)


def test_a_reduction_over_leading_axes_is_left() -> None:
    x = tf.placeholder(tf.float64, (100, 70))
    (after,) = fuse([tf.reduce_sum(tf.exp(x) * 2.0, 0)])
    assert not isinstance(after.op, Fused)


def test_a_fused_operator_has_a_gradient() -> None:
    x, w = (tf.placeholder(tf.float64, (50, 7)) for _ in range(2))
    z = tf.tanh(x * w + 0.5) * x
    after = tf.optimize(z)
    rng = np.random.default_rng(0)
    feeds = {n: rng.normal(size=(50, 7)) for n in (x, w)}
    np.testing.assert_allclose(*run([z, after], feeds), rtol=1e-14)
    plain, fused = tf.gradients(z, [x, w]), tf.gradients(after, [x, w])
    for a, b in zip(run(plain, feeds), run(fused, feeds), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


# ── dead code, transposes, mixed precision, recomputation ───────────────────────────────────────


def test_a_branch_that_is_never_taken_goes() -> None:
    x = tf.placeholder(tf.float32, (2,))
    taken = tf.cond(tf.constant(True), lambda: x * 2.0, lambda: tf.exp(x))
    after = tf.optimize(taken)
    assert not {"Switch", "Merge", "exp"} & set(operators(after))
    np.testing.assert_array_equal(run(after, {x: [1, 2]}), [2, 4])


def test_a_branch_inside_a_branch_keeps_what_depends_on_the_run() -> None:
    x = tf.placeholder(tf.float32, ())
    y = tf.cond(
        x > 0.0,
        lambda: tf.cond(tf.constant(False), lambda: x * 2.0, lambda: x * 3.0),
        lambda: x * 5.0,
    )
    after = tf.optimize(y)
    assert operators(after).count("Merge") == 1
    assert [float(run(after, {x: v})) for v in (1.0, -1.0)] == [3.0, -5.0]


def test_a_predicate_found_constant_behind_a_switch_sends_its_own_way() -> None:
    x = tf.placeholder(tf.float32, ())
    off = tf.constant(False)
    behind, _ = tf.switch(off, off)
    _, dead = tf.switch(x, behind)
    alive, _ = tf.switch(x * 3.0, behind)
    value, place = tf.merge([dead, alive])
    after = tf.optimize([value, place])
    assert [float(v) for v in run(after, {x: 2.0})] == [6.0, 1.0]


def test_waiting_for_what_has_no_effect_goes_and_for_effects_stays() -> None:
    w = tf.Variable(1.0)
    with tf.control_dependencies([tf.exp(tf.assign_add(w, 1.0)) * 2.0]):
        y = w.read() * 10.0
    after = tf.optimize(y, passes=["dead_code"])
    assert "exp" in operators(y)
    assert "exp" not in operators(after)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(after) == 20.0


def test_who_waits_for_a_constant_outlives_the_branch_that_the_constant_waits_for() -> None:
    p, v = tf.placeholder(tf.bool, ()), tf.Variable(0.0)
    with tf.control_dependencies([tf.switch(p, p)[1]]):
        shared = tf.constant(1.0)
    with tf.control_dependencies([tf.exp(shared)]):
        write = tf.assign_add(v, 1.0)
    after = tf.optimize(write, passes=["dead_code"])
    assert "exp" not in operators(after)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert [session.run(after, {p: side}) for side in (False, True)] == [1.0, 2.0]


def test_an_effect_after_a_branch_happens_whatever_both_sides_share() -> None:
    x, v = tf.placeholder(tf.float32, ()), tf.Variable(0.0)
    y = tf.cond(tf.constant(1.0) > 2.0, lambda: x * 0.5, lambda: tf.sin(x) * 0.5)
    with tf.control_dependencies([y]):
        write = tf.assign_add(v, 1.0)
    once = tf.optimize(write)
    twice = tf.optimize(once)
    assert twice is once
    assert len(operators(once)) == 1  # neither side, nor what the constant waited for
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert [session.run(after, {x: 3.0}) for after in (once, twice)] == [1.0, 2.0]


def test_a_loss_that_nobody_reads_is_not_computed() -> None:
    x, y = tf.placeholder(tf.float32, (None, 4)), tf.placeholder(tf.int64, (None,))
    w = tf.Variable(np.ones((4, 3), np.float32))
    rows = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=tf.matmul(x, w))
    loss = tf.reduce_mean(rows)
    grad = tf.gradients(loss, [w])[0]
    name = "sparse_softmax_cross_entropy_with_logits"
    assert name in operators(grad)
    after = tf.optimize(grad)
    assert name not in operators(after)
    assert name in operators(tf.optimize([grad, loss]))
    rng = np.random.default_rng(0)
    feeds = {x: rng.normal(size=(5, 4)), y: [0, 2, 1, 1, 0]}
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        np.testing.assert_allclose(*session.run([grad, after], feeds), rtol=1e-6)


@pytest.mark.parametrize(
    ("build", "left"),
    [
        (lambda x, y: tf.transpose(tf.exp(tf.transpose(x))), 0),
        (lambda x, y: tf.transpose(tf.transpose(x) * tf.transpose(x) + 1.0), 0),
        (lambda x, y: tf.matmul(tf.transpose(x), tf.transpose(y)), 1),
        (lambda x, y: tf.transpose(tf.matmul(tf.transpose(x), tf.transpose(y))), 0),
        (lambda x, y: tf.transpose(tf.matmul(tf.transpose(x), x)), 1),
        (lambda x, y: tf.reduce_sum(tf.transpose(x), 0), 0),
        (lambda x, y: tf.reduce_mean(tf.transpose(x) * 2.0), 0),
        (lambda x, y: tf.transpose(tf.matmul(y, x)), 1),  # nothing to gain
        (lambda x, y: tf.transpose(x) + tf.reduce_sum(y, 1), 1),  # nor here
    ],
)
def test_transposes_sink_until_they_cancel(build: Any, left: int) -> None:
    x, y = tf.placeholder(tf.float64, (3, 5)), tf.placeholder(tf.float64, (3, 3))
    node = build(x, y)
    after = tf.optimize(node, passes=["transposes"])
    assert operators(after).count("Permute") == left
    rng = np.random.default_rng(0)
    feeds = {x: rng.normal(size=(3, 5)), y: rng.normal(size=(3, 3))}
    np.testing.assert_allclose(*run([node, after], feeds), rtol=1e-12)


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
    with pytest.raises(GraphError, match="expected one of dead_code, fold"):
        tf.optimize(x, passes=["magic"])
    with pytest.raises(GraphError, match=r"Write \['fold'\]"):
        tf.optimize(x, passes="fold")
    with pytest.raises(GraphError, match="expected nodes"):
        tf.optimize([3])


def chain(depth: int, batch: int = 32) -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, (batch, 64))
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


def test_a_transpose_under_another_shape_is_a_copy() -> None:
    x = tf.placeholder(tf.float32, (10, 20))
    y = tf.reshape(tf.transpose(tf.exp(x)), (200,))
    assert tf.memory_plan(y).total_bytes == 1600
    assert tf.memory_plan(tf.reshape(tf.exp(x), (200,))).total_bytes == 800


def test_a_result_does_not_overwrite_an_input_that_is_also_read_transposed() -> None:
    x = tf.placeholder(tf.float32, (8, 8))
    h = tf.exp(x)
    plan = tf.memory_plan(h + tf.transpose(h))
    assert plan.in_place == ()


def test_a_slow_operator_alone_becomes_a_kernel_and_a_quick_one_does_not() -> None:
    x = tf.placeholder(tf.float32, (10**6,))
    slow, quick, absent = tf.optimize([tf.erf(x), x + 1.0, tf.tan(x)])
    assert isinstance(slow.op, Fused)
    assert quick.op.name == "add"
    assert absent.op.name == "tan"


def test_without_llvmlite_everything_is_numpys(without_llvmlite: None) -> None:
    x = tf.placeholder(tf.float32, (10**6,))
    (after,) = fuse([tf.tanh(x * 2.0)])
    assert after.op.least is None
    at = np.linspace(-1, 1, 10**6, dtype=np.float32)
    np.testing.assert_allclose(run(after, {x: at}), np.tanh(at * 2), rtol=1e-6)


def test_nodes_of_different_devices_stay_apart() -> None:
    x = tf.placeholder(tf.float32, (64, 64))
    found = []
    for name in ("cpu:0", "cpu:1"):
        with tf.device(name):
            found += [tf.exp(x) * 2.0, tf.matmul(x, tf.Variable(np.ones((64, 3), np.float32)))]
    with tf.device("cpu:1"):
        found.append(tf.tanh(found[0]))
    after = tf.optimize(found)
    assert [node.device for node in after] == [node.device for node in found]
    assert len({id(after[0]), id(after[2])}) == 2
    with tf.device("cpu:0"):
        inner = tf.exp(x) * 3.0
    with tf.device("cpu:1"):
        (after,) = fuse([tf.tanh(inner)])
    assert after.inputs[0].device == "cpu:0"


# ── the cost model ──────────────────────────────────────────────────────────────────────────────


def test_the_machine_is_measured_once() -> None:
    here = Machine()
    first = [here.call_s, here.byte_s, here.element_s("exp"), here.kernel_element_s("exp")]
    first.append(here.matmul_s(8, 8, 8, np.dtype(np.float32)))
    assert all(0 <= seconds < 1 for seconds in first)
    again = [here.call_s, here.byte_s, here.element_s("exp"), here.kernel_element_s("exp")]
    assert first == [*again, here.matmul_s(8, 8, 8, np.dtype(np.float32))]
    assert here.element_s("sub") == here.element_s("add")


def test_another_machine_counts_only_inside_its_block() -> None:
    other = Fixed()
    with use(other):
        assert machine() is other
    assert machine() is not other


def test_a_very_long_chain_becomes_several_groups() -> None:
    x = tf.placeholder(tf.float64, (3,))
    y: Any = x
    for i in range(2 * LONGEST):
        y = tf.tanh(y) if i % 2 else y * 1.01
    after = tf.optimize(y, passes=["fuse"])
    assert 2 <= len(operators(after)) <= 4
    np.testing.assert_allclose(*run([y, after], {x: [0.1, 0.2, 0.3]}), rtol=1e-12)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0, 3.0])
def test_powers_whose_exponent_is_a_node_survive(exponent: float) -> None:
    x, n = tf.placeholder(tf.float64, (3,), "x"), tf.placeholder(tf.float64, (), "n")
    fixed, free, base = tf.pow(x, tf.constant(exponent, tf.float64)), tf.pow(x, n), tf.pow(0.5, x)
    at = np.array([0.25, 1.5, 3.0])
    with tf.Session(optimize=True) as session:
        got = session.run([fixed, free, base], {x: at, n: exponent})
    for found, want in zip(got, (at**exponent, at**exponent, 0.5**at), strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12)


def test_a_constant_that_cannot_be_computed_is_left_for_the_run_to_name() -> None:
    class Broken(Op):
        def compute(self, xp: Any, x: Any) -> Any:  # type: ignore[override]
            raise RuntimeError("no idea")

        def infer(self, *specs: Any) -> Any:
            return specs[0]

    node = Broken()(tf.constant(1.0))
    assert tf.optimize(node) is node
    with tf.Session(optimize=True) as session, pytest.raises(GraphError, match=r"Broken.*no idea"):
        session.run(node)


@pytest.mark.parametrize("inner", [True, False])
@pytest.mark.parametrize("outer", [True, False])
def test_nested_branches_on_constants_take_the_side_that_runs(outer: bool, inner: bool) -> None:
    def numbered(first: int) -> Any:
        return tf.cond(
            tf.constant(inner), lambda: tf.constant(first), lambda: tf.constant(first + 1)
        )

    nested = tf.cond(tf.constant(outer), lambda: numbered(0), lambda: numbered(2))
    want = (0 if outer else 2) + (0 if inner else 1)
    assert tf.Session().run(nested) == want
    assert tf.Session().run(tf.optimize(nested)) == want
    assert tf.Session(optimize=True).run(nested) == want
    assert tf.count_nodes(tf.optimize(nested)) == 1


def test_what_takes_the_place_of_a_fetch_has_its_name() -> None:
    x = tf.placeholder(tf.float32, [4], "x")
    inner = tf.exp(x, name="inner")
    total = tf.multiply(tf.tanh(inner) + 1.0, 2.0, name="total")
    same = tf.identity(inner * 1.0, name="same")
    again = tf.multiply(tf.tanh(inner) + 1.0, 2.0, name="again")
    found = tf.optimize([total, same, again, x])
    assert [node.name for node in found] == ["total", "inner", "total", "x"]
    assert [node.name for node in (total, inner, same)] == ["total", "inner", "same"]


def test_passes_that_are_not_there_are_refused() -> None:
    x = tf.placeholder(tf.float32, (16, 16))
    with pytest.raises(GraphError, match="got pass 'nothing', expected one of dead_code"):
        tf.optimize(x, passes=["nothing"])
    with pytest.raises(GraphError, match="expected a list"):
        tf.optimize(x, passes="fuse")


# ── layer norms, and parts that are put together ──────────────────────────────────────────────────


@pytest.mark.parametrize("compiler", [True, False])
def test_the_gradients_of_a_layer_norm_are_computed_together(
    compiler: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, shapes = np.random.default_rng(5), [(3, 4, 40), (40,), (40,), (40,), (40,)]
    arrays = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    x, *vectors = [tf.placeholder(tf.float32, shape) for shape in shapes]
    y = layer_norm(layer_norm(x, (40,), *vectors[:2]).tanh(), (40,), *vectors[2:], 0.5)
    grads = tf.gradients((y * y * y).sum(), [x, *vectors])
    assert operators(grads).count("layer_norm_gradients") == 2
    if not compiler:
        monkeypatch.setattr(compiled, "fits_rows", lambda *_: False)
    u, *w = leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    inner = torch.nn.functional.layer_norm(u, (40,), *w[:2]).tanh()
    v = torch.nn.functional.layer_norm(inner, (40,), *w[2:], 0.5)
    want = torch.autograd.grad((v * v * v).sum(), leaves)
    with tf.Session() as session:
        got = session.run(grads, dict(zip([x, *vectors], arrays, strict=True)))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def test_parts_lie_as_the_transpose_of_their_sum_wants_them() -> None:
    x = tf.placeholder(tf.float64, (4, 3, 2))
    a, b, c = x.permute(1, 0, 2).unbind(0)
    (grad,) = tf.gradients((a * b * c).sum(), [x])
    after = tf.optimize(grad)
    (parts,) = [n.op for n in schedule([after], ()) if isinstance(n.op, PlaceEach)]
    numbers = np.random.default_rng(0).standard_normal((3, 4, 2))
    made = parts.compute(np, *numbers)
    assert made.transpose(parts.order).flags.c_contiguous
    for pattern, part in zip(parts.patterns, numbers, strict=True):
        assert (made[pattern] == part).all()
    feed = {x: np.random.default_rng(1).standard_normal((4, 3, 2))}
    with tf.Session(optimize=False) as session:
        np.testing.assert_allclose(*session.run([grad, after], feed))


@pytest.mark.parametrize("pieces", ["rows", "slices", "some slices", "slices that overlap"])
def test_parts_that_are_all_of_an_axis_need_no_zeros(pieces: str) -> None:
    x = tf.placeholder(tf.float64, (3, 6))
    bounds = {
        "slices": [(2, 6), (0, 2)],
        "some slices": [(0, 2), (2, 5)],
        "slices that overlap": [(0, 4), (2, 6)],
    }
    parts = x.unbind(0) if pieces == "rows" else [x[:, slice(*ends)] for ends in bounds[pieces]]
    (grad,) = tf.gradients(sum((part * part * part).sum() for part in parts), [x])
    after = tf.optimize(grad)
    (placed,) = [n.op for n in schedule([after], ()) if isinstance(n.op, PlaceEach)]
    assert placed.all is (pieces in ("rows", "slices"))
    feed = {x: np.random.default_rng(1).standard_normal((3, 6))}
    with tf.Session(optimize=False) as session:
        np.testing.assert_allclose(*session.run([grad, after], feed))


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (0, 1)])
def test_slices_placed_where_they_were_taken_are_the_array_itself(order: tuple[int, ...]) -> None:
    x, w = (tf.placeholder(tf.float64, (3, 4)) for _ in range(2))
    (grad,) = tf.gradients([x[i] for i in range(len(order))], [x], [w[i] for i in order])
    after = tf.optimize(grad)
    assert (after is w) is (order == (0, 1, 2))
    feed = dict(zip((x, w), np.random.default_rng(1).standard_normal((2, 3, 4)), strict=True))
    with tf.Session(optimize=False) as session:
        np.testing.assert_allclose(*session.run([grad, after], feed))
