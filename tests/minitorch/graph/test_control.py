"""Branches and loops: dead values, cond, while_loop, nested, with gradients and effects."""

import gc
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.op import Op


@pytest.fixture(autouse=True, params=["compiled", "interpreter", "tokens"])
def _fresh_graph(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test runs with every executor."""
    tf.reset_default_graph()
    usual, tf.Session.default_executor = tf.Session.default_executor, request.param
    yield
    tf.Session.default_executor = usual


class Counter(Op):
    def __init__(self) -> None:
        self.runs = 0

    def compute(self, xp: Any, *arrays: Any) -> Any:
        self.runs += 1
        return arrays[0]

    def infer(self, *specs: Any) -> Any:
        return specs[0]

    def gradient(self, out_grad: Any, node: Any) -> Any:
        return out_grad


def test_a_value_goes_one_way_and_the_other_is_dead() -> None:
    p = tf.placeholder(tf.bool, ())
    no, yes = tf.switch(tf.constant(3.0), p)
    left, right = Counter(), Counter()
    doubled, tripled = left(no) * 2.0, right(yes) * 3.0
    with tf.Session() as session:
        assert session.run(tripled, {p: True}) == 9.0
        assert session.run(doubled, {p: False}) == 6.0
        with pytest.raises(GraphError, match=r"dead.*test_control"):
            session.run(doubled, {p: True})
        with pytest.raises(GraphError, match="dead"):
            session.run(no, {p: True})
    assert (left.runs, right.runs) == (1, 1)


def test_merge_takes_the_one_that_is_alive_and_says_which() -> None:
    p = tf.placeholder(tf.bool, ())
    no, yes = tf.switch(tf.constant(3.0), p)
    output, index = tf.merge([no * 2.0, yes * 3.0])
    with tf.Session() as session:
        assert session.run([output, index], {p: False}) == [6.0, 0]
        assert session.run([output, index], {p: True}) == [9.0, 1]


def test_a_merge_of_dead_values_is_dead() -> None:
    p = tf.placeholder(tf.bool, ())
    no, _ = tf.switch(tf.constant(3.0), p)
    output, _ = tf.merge([no, no * 2.0])
    with tf.Session() as session, pytest.raises(GraphError, match="dead"):
        session.run(output + 1.0, {p: True})


def test_what_runs_after_something_dead_is_dead() -> None:
    p = tf.placeholder(tf.bool, ())
    _, yes = tf.switch(tf.constant(3.0), p)
    w = tf.Variable(0.0)
    with tf.control_dependencies([yes]):
        write = tf.assign(w, 5.0)
    operation = tf.group(write)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(operation, {p: False}) is None
        assert session.run(w) == 0.0
        session.run(operation, {p: True})
        assert session.run(w) == 5.0


def test_only_the_side_that_is_taken_is_computed() -> None:
    p, x = tf.placeholder(tf.bool, ()), tf.placeholder(tf.float32, ())
    one, other = Counter(), Counter()
    y = tf.cond(p, lambda: one(x) * 2.0, lambda: other(x) + 10.0)
    with tf.Session() as session:
        assert session.run(y, {p: True, x: 3.0}) == 6.0
        assert (one.runs, other.runs) == (1, 0)
        assert session.run(y, {p: False, x: 3.0}) == 13.0
        assert (one.runs, other.runs) == (1, 1)


def test_effects_happen_on_the_side_that_is_taken() -> None:
    p = tf.placeholder(tf.bool, ())
    w = tf.Variable(1.0)
    y = tf.cond(p, lambda: tf.assign_add(w, 10.0), lambda: tf.constant(0.0))
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(y, {p: False}) == 0.0
        assert session.run(w) == 1.0
        assert session.run(y, {p: True}) == 11.0
        assert session.run(w) == 11.0


def test_several_values_keep_their_structure() -> None:
    p = tf.placeholder(tf.bool, ())
    pair = tf.cond(p, lambda: (tf.constant(1.0), 2.0), lambda: (tf.constant(3.0), 4.0))
    listed = tf.cond(p, lambda: [tf.constant(1.0)], lambda: [tf.constant(2.0)])
    with tf.Session() as session:
        assert session.run(pair, {p: True}) == (1.0, 2.0)
        assert session.run(listed, {p: False}) == 2.0


def test_a_list_of_one_stays_a_list_where_it_must() -> None:
    p = tf.placeholder(tf.bool, ())
    listed = tf.cond(p, lambda: [tf.constant(1.0)], lambda: [tf.constant(2.0)], strict=True)
    with tf.Session() as session:
        assert session.run(listed, {p: False}) == [2.0]


class Pair(NamedTuple):
    left: Any
    right: Any


def test_sides_may_give_nested_structures() -> None:
    p, x = tf.placeholder(tf.bool, ()), tf.constant(3.0)
    both = tf.cond(
        p,
        lambda: {"a": Pair(x, (x + 1.0, [1.0, 2.0])), "b": x},
        lambda: {"a": Pair(-x, (x - 1.0, [3.0, 4.0])), "b": 7.0},
    )
    with tf.Session() as session:
        got = session.run(both, {p: False})
    assert (got["a"].left, got["a"].right[0], got["b"]) == (-3.0, 2.0, 7.0)
    assert got["a"].right[1].tolist() == [3.0, 4.0]
    with pytest.raises(GraphError, match=r"structure: true_fn gives \{'a': \*\}, false_fn \*"):
        tf.cond(p, lambda: {"a": x}, lambda: x)


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens", "arena"])
@pytest.mark.parametrize("optimize", [False, True])
def test_a_side_may_be_an_operation_without_a_value(executor: str, optimize: bool) -> None:
    p, w = tf.placeholder(tf.bool, ()), tf.Variable(1.0)
    done = tf.cond(p, lambda: tf.group(tf.assign(w, 5.0)), tf.no_op)
    session = tf.Session(optimize=optimize, executor=executor)
    session.run(tf.global_variables_initializer())
    assert not session.run(done, {p: False})
    assert session.run(w) == 1.0
    assert session.run(done, {p: True})
    assert session.run(w) == 5.0


@pytest.mark.parametrize("optimize", [False, True])
def test_nested_conds_with_gradients(optimize: bool) -> None:
    x, w = tf.placeholder(tf.float64, ()), tf.Variable(np.float64(3.0))

    def inner() -> Any:
        return tf.cond(x > 10.0, lambda: w * x * x, lambda: tf.exp(x * 0.1) * w)

    y = tf.cond(x > 0.0, inner, lambda: -x * 2.0) + w * x
    by_x, by_w = tf.gradients(y, [x, w])
    assert by_x is not None
    (second,) = tf.gradients(by_x, [x])
    cases = {
        20.0: (3 * 400 + 60, 6 * 20 + 3, 400 + 20, 6.0),
        5.0: (
            np.exp(0.5) * 3 + 15,
            0.3 * np.exp(0.5) + 3,
            np.exp(0.5) + 5,
            0.03 * np.exp(0.5),
        ),
        -4.0: (8 - 12, -2 + 3, -4, 0.0),
    }
    with tf.Session(optimize=optimize) as session:
        session.run(tf.initialize_all_variables())
        for at, want in cases.items():
            got = session.run([y, by_x, by_w, second], {x: at})
            np.testing.assert_allclose(got, want, rtol=1e-12)


def test_training_through_a_cond() -> None:
    p, w = tf.placeholder(tf.bool, ()), tf.Variable(np.array([1.0, 2.0]))
    loss = tf.cond(p, lambda: tf.reduce_sum(w * w), lambda: tf.reduce_sum(w))
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        session.run(step, {p: False})
        np.testing.assert_allclose(session.run(w), [0.5, 1.5])
        session.run(step, {p: True})
        np.testing.assert_allclose(session.run(w), [0.0, 0.0])


def test_sides_that_do_not_fit_and_predicates_that_are_none_are_refused() -> None:
    p = tf.placeholder(tf.bool, ())
    with pytest.raises(GraphError, match="one boolean"):
        tf.cond(tf.constant(1.0), lambda: 1.0, lambda: 2.0)
    with pytest.raises(GraphError, match="structure"):
        tf.cond(p, lambda: (1.0, 2.0), lambda: 1.0)
    with pytest.raises(GraphError, match="one dtype"):
        tf.cond(p, lambda: tf.constant(1.0), lambda: tf.constant(1))
    with pytest.raises(GraphError, match="no input"):
        tf.merge([])


# ── loops ───────────────────────────────────────────────────────────────────────────────────────


def test_a_loop_runs_as_often_as_its_condition_says() -> None:
    n = tf.placeholder(tf.int32, ())
    i, total = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), [0, 0])
    with tf.Session() as session:
        for count in (0, 1, 10):
            assert session.run([i, total], {n: count}) == [count, count * (count - 1) // 2]


def test_a_single_variable_comes_back_alone() -> None:
    doubled = tf.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, [tf.constant(3.0)])
    with tf.Session() as session:
        assert session.run(doubled) == 192.0


@pytest.mark.parametrize("optimize", [False, True])
def test_the_gradient_of_a_loop_whose_length_depends_on_data(optimize: bool) -> None:
    x, w = tf.placeholder(tf.float64, ()), tf.Variable(np.float64(1.5))
    y = tf.while_loop(lambda v: v < 50.0, lambda v: v * w + 1.0, [x])
    by_x, by_w = tf.gradients(y * y, [x, w])

    def by_hand(start: float) -> tuple[float, float, float]:
        v, dx, dw = start, 1.0, 0.0
        while v < 50.0:
            v, dx, dw = v * 1.5 + 1.0, dx * 1.5, dw * 1.5 + v
        return v * v, 2 * v * dx, 2 * v * dw

    with tf.Session(optimize=optimize) as session:
        session.run(tf.initialize_all_variables())
        for start in (0.5, 7.0, 49.0, 60.0):
            got = session.run([y * y, by_x, by_w], {x: start})
            np.testing.assert_allclose(got, by_hand(start), rtol=1e-12)


def test_a_recurrent_network_as_a_loop_equals_the_unrolled_one() -> None:
    rng = np.random.default_rng(0)
    steps, w = tf.placeholder(tf.int32, ()), tf.Variable(rng.normal(size=(4, 4)) * 0.5)
    data = tf.placeholder(tf.float64, (6, 4))
    weight = tf.stack([tf.cast(tf.equal(tf.range(6), k), tf.float64) for k in range(6)])

    def body(t: Any, h: Any) -> Any:
        row = tf.reduce_sum(data * tf.expand_dims(weight[t], 1), 0, keepdims=True)
        return t + 1, tf.tanh(tf.matmul(h, w) + row)

    _, last = tf.while_loop(lambda t, h: t < steps, body, [0, tf.zeros((1, 4), tf.float64)])
    (by_w,) = tf.gradients(tf.reduce_sum(last), [w])
    at = rng.normal(size=(6, 4))
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        for count in (1, 4):
            h = tf.zeros((1, 4), tf.float64)
            for k in range(count):
                h = tf.tanh(tf.matmul(h, w) + tf.constant(at[k : k + 1]))
            want = session.run([h, tf.gradients(tf.reduce_sum(h), [w])[0]])
            got = session.run([last, by_w], {data: at, steps: count})
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10)


def test_loops_inside_loops_inside_branches_with_gradients() -> None:
    p, x = tf.placeholder(tf.bool, ()), tf.placeholder(tf.float64, ())

    def inner(v: Any) -> Any:
        return tf.while_loop(lambda i, u: i < 2, lambda i, u: (i + 1, u * x), [0, v])[1]

    def outer() -> Any:
        return tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, inner(v)), [0, x])[1]

    y = tf.cond(p, outer, lambda: x * 5.0)
    (by_x,) = tf.gradients(y, [x])
    with tf.Session() as session:
        np.testing.assert_allclose(session.run([y, by_x], {p: True, x: 1.1}), [1.1**7, 7 * 1.1**6])
        np.testing.assert_allclose(session.run([y, by_x], {p: False, x: 1.1}), [5.5, 5.0])


def test_a_branch_inside_a_loop_is_chosen_anew_each_round() -> None:
    collatz = tf.while_loop(
        lambda n, count: n > 1,
        lambda n, count: (
            tf.cond(tf.equal(tf.mod(n, 2), 0), lambda: tf.floordiv(n, 2), lambda: n * 3 + 1),
            count + 1,
        ),
        [tf.placeholder(tf.int32, (), name="n"), 0],
    )[1]
    with tf.Session() as session:
        assert session.run(collatz, {"n": 27}) == 111


def test_effects_inside_a_loop_happen_every_round() -> None:
    w = tf.Variable(0.0)

    def body(i: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(w, 2.0)]):
            return tf.identity(i + 1)

    rounds = tf.while_loop(lambda i: i < 5, body, [tf.constant(0)])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(rounds) == 5
        assert session.run(w) == 10.0


def test_a_body_that_changes_a_type_is_refused() -> None:
    with pytest.raises(GraphError, match="variable 0 changes from int32"):
        tf.while_loop(lambda i: i < 3, lambda i: tf.cast(i, tf.float32), [0])
    with pytest.raises(GraphError, match="2 values, expected 1"):
        tf.while_loop(lambda i: i < 3, lambda i: (i, i), [0])
    with pytest.raises(GraphError, match="shape_invariants"):
        grown = lambda x: tf.concat([x, x], 0)  # noqa: E731
        tf.while_loop(lambda x: tf.reduce_sum(x) < 9.0, grown, [tf.ones((2,))])


def test_sizes_may_vary_where_the_invariant_says_so() -> None:
    y = tf.while_loop(
        lambda x: tf.reduce_sum(x) < 9.0,
        lambda x: tf.concat([x, x], 0),
        [tf.ones((2,))],
        shape_invariants=[(None,)],
    )
    with tf.Session() as session:
        assert session.run(y).shape == (16,)


def test_gradients_of_higher_order_through_loops_and_branches_are_pytorchs() -> None:
    x, w = tf.placeholder(tf.float64, ()), tf.Variable(np.float64(1.5))

    def branchy(v: Any) -> Any:
        return tf.cond(v > 10.0, lambda: v * w * w + 1.0, lambda: tf.exp(v * 0.1) * w + v)

    def nested(i: Any, v: Any) -> Any:
        inner = tf.while_loop(
            lambda j, u: j < i, lambda j, u: (j + 1, u * x * tf.sin(u)), [tf.constant(0), v]
        )
        return i + 1, inner[1] + x

    first = tf.while_loop(lambda v: v < 50.0, branchy, [x])
    second = tf.while_loop(lambda i, v: i < 4, nested, [0, x * w])[1]
    derived = [first * first, second]
    for y in (first * first, second):
        by = tf.gradients(y, [x, w])
        again = tf.gradients(by[0], [x, w])
        derived += [*by, *again, *tf.gradients(again[0], [x])]
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        for at in (0.5, 3.0):
            got = session.run(derived, {x: at})
            np.testing.assert_allclose(got, higher_orders(at, 1.5), rtol=1e-10)


def higher_orders(at: float, weight: float) -> list[float]:
    """The same by PyTorch: values, then for each its first, second and third derivatives."""
    x, w = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (at, weight))
    v, u = x, x * w
    while v < 50.0:
        v = v * w * w + 1.0 if v > 10.0 else torch.exp(v * 0.1) * w + v
    for i in range(4):
        for _ in range(i):
            u = u * x * torch.sin(u)
        u = u + x

    def grad(y: Any, *xs: Any) -> Any:
        return torch.autograd.grad(y, xs, create_graph=True, materialize_grads=True)

    derived = [v * v, u]
    for y in (v * v, u):
        by = grad(y, x, w)
        again = grad(by[0], x, w)
        derived += [*by, *again, *grad(again[0], x)]
    return [value.item() for value in derived]


def test_gradients_of_a_loop_see_the_random_numbers_and_effects_of_the_forward_rounds() -> None:
    drawn, count = tf.Variable(np.ones(3)), tf.Variable(0.0)

    def body(i: Any, y: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(count, 1.0)]):
            noise = tf.random_uniform((3,), 1.0, 2.0, dtype=tf.float64)
        return i + 1, y * noise

    _, y = tf.while_loop(lambda i, y: i < 5, body, [0, drawn])
    (by,) = tf.gradients(y, [drawn])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        value, grad = session.run([y, by])
        assert session.run(count) == 5.0
    np.testing.assert_allclose(grad, value, rtol=1e-12)  # y is drawn times the noise


def test_a_loop_that_writes_a_variable_leaves_the_value_read_before_it_alone() -> None:
    w = tf.Variable(np.zeros(2, np.float32))

    def body(i: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(w, tf.ones((2,)))]):
            return tf.identity(i + 1)

    rounds = tf.while_loop(lambda i: i < 3, body, [tf.constant(0)])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run([w + 0.0, rounds])[0].tolist() == [0.0, 0.0]
        assert session.run([w, rounds])[0].tolist() == [3.0, 3.0]


def test_a_long_loop_has_a_gradient() -> None:
    x = tf.placeholder(tf.float64, ())
    y = tf.while_loop(lambda i, v: i < 5_000, lambda i, v: (i + 1, v * 1.0001), [0, x])[1]
    with tf.Session() as session:
        got = session.run(tf.gradients(y, [x])[0], {x: 1.0})
    np.testing.assert_allclose(got, 1.0001**5_000, rtol=1e-9)


def test_a_loop_needs_a_variable_and_numbers_that_mean_something() -> None:
    x = tf.placeholder(tf.float32, ())
    with pytest.raises(GraphError, match="one or more"):
        tf.while_loop(lambda: True, list, [])
    for nonsense in (0, 1.5, "x", None, True):
        with pytest.raises(GraphError, match=f"parallel_iterations {nonsense!r}"):
            tf.while_loop(lambda v: v < 1.0, lambda v: v + 1.0, [x], parallel_iterations=nonsense)


def test_the_gradient_of_a_variable_that_is_read_after_a_write_in_a_branch() -> None:
    p, w, count = tf.placeholder(tf.bool, ()), tf.Variable(3.0), tf.Variable(0.0)

    def counted() -> Any:
        with tf.control_dependencies([tf.assign_add(count, 1.0)]):
            return w * w

    (by,) = tf.gradients(tf.cond(p, counted, lambda: w * 2.0), [w])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(by, {p: True}) == 6.0
        assert session.run(by, {p: False}) == 2.0
        assert session.run(count) == 1.0


def test_loop_variables_may_be_structures() -> None:
    def body(i: Any, pair: Any, named: Any) -> Any:
        return i + 1, (pair[1], pair[0] + pair[1]), {"x": named["x"] * 2.0}

    start = (tf.constant(0), (tf.constant(0), tf.constant(1)), {"x": tf.constant([1.0])})
    found = tf.while_loop(lambda i, *_: i < 10, body, start)
    grown = tf.while_loop(
        lambda i, pair: i < 3,
        lambda i, pair: (i + 1, (tf.concat([pair[0], pair[0]], 0), pair[1])),
        (tf.constant(0), (tf.ones((1,)), tf.ones((2,)))),
        shape_invariants=((), ((None,), (2,))),
    )
    with tf.Session() as session:
        count, pair, named = session.run(found)
        assert (count, pair, named["x"].tolist()) == (10, (55, 89), [1024.0])
        assert session.run(grown)[1][0].shape == (8,)
    with pytest.raises(GraphError, match="structure changes"):
        tf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p[0]), (0, (1.0, 2.0)))
    with pytest.raises(GraphError, match="1 shape_invariants, expected 2"):
        tf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p), (0, 1.0), shape_invariants=[()])
    with pytest.raises(GraphError, match=r"shape \(3,\), expected \(2,\), its shape_invariant"):
        tf.while_loop(lambda p: p[0] < 3.0, lambda p: p, [tf.ones((3,))], [(2,)])


def test_branches_and_loops_over_what_has_no_shape_yet_have_gradients() -> None:
    p, a = tf.placeholder(tf.bool, ()), tf.Variable("A")
    chosen = tf.cond(p, lambda: a * a, lambda: a + 1.0)
    power = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, v * a), [0, a])[1]
    products = tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v @ a), [0, a])[1]
    by = [tf.gradients(y, [a])[0] for y in (chosen, power, products)]
    at = np.array([[1.0, 2.0], [0.5, -1.0]], np.float32)
    given = torch.tensor(at, requires_grad=True)
    (want,) = torch.autograd.grad((given @ given @ given).sum(), [given])
    with tf.Session() as session:
        found = session.run(by, {a: at, p: True})
    for got, expected in zip(found, (2 * at, 4 * at**3, want), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_functions_that_return_nothing_or_are_none_are_named() -> None:
    p = tf.placeholder(tf.bool, ())
    with pytest.raises(GraphError, match="got None"):
        tf.while_loop(lambda i: i < 3, lambda i: None, [0])
    with pytest.raises(TypeError, match="expected functions for cond and body"):
        tf.while_loop(None, lambda i: i, [0])
    with pytest.raises(TypeError, match="expected two functions"):
        tf.cond(p, 1.0, 2.0)  # type: ignore[arg-type]


def test_loops_that_nobody_holds_are_freed_without_the_cycle_collector() -> None:
    def ran() -> list[Any]:
        x = tf.placeholder(tf.float64, ())
        y = tf.while_loop(
            lambda v: v < 9.0, lambda v: tf.cond(v > 2.0, lambda: v * x, lambda: v + x), [x]
        )
        (by,) = tf.gradients(y, [x])
        with tf.Session() as session:
            session.run([y, by], {x: 1.5})
        return [weakref.ref(node) for node in (x, y, by)]

    gc.disable()
    try:
        assert [ref() for ref in ran()] == [None] * 3
    finally:
        gc.enable()
