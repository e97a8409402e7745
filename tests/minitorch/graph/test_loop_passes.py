"""Passes inside loops and branches: what they find there, what they must leave."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.control.liveness import deadness_of
from minitorch.graph.control.while_op import While
from minitorch.graph.core.node import Node
from minitorch.graph.core.order import list_needed, schedule
from minitorch.graph.costs.prediction import count_rounds, predict_s
from minitorch.graph.passes.loops import inside
from minitorch.graph.passes.optimize import verify_pass
from minitorch.graph.passes.rewrite import rebuild, rewrite, simple
from minitorch.ops.elementwise import binary

pytestmark = [pytest.mark.as_built, pytest.mark.usefixtures("without_kernels")]

AT = np.random.default_rng(0).normal(size=(4, 4)) * 0.5


def the_loop(fetches: Any) -> While:
    (found,) = [n.op for n in list_needed(_listed(fetches), ()) if isinstance(n.op, While)]
    return found


def _listed(fetches: Any) -> list[Any]:
    return list(fetches) if isinstance(fetches, list | tuple) else [fetches]


def names_inside(fetches: Any) -> list[str]:
    loop = the_loop(fetches)
    fed = {*loop.variables, *loop.entrances}
    ends = [loop.test, *loop.body, *loop.saved]
    return [n.op.name for n in schedule(ends, fed) if n.op is not None and n not in fed]


def operators(fetches: Any) -> list[str]:
    return [n.op.name for n in list_needed(_listed(fetches), ()) if n.op is not None]


def agree(before: Any, after: Any, feeds: dict[Any, Any]) -> None:
    for executor in ("compiled", "interpreter", "tokens", "arena"):
        with tf.Session(executor=executor) as session:
            session.run(tf.initialize_all_variables())
            want, got = session.run(_listed(before), feeds), session.run(_listed(after), feeds)
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10)


# ── what passes find inside ─────────────────────────────────────────────────────────────────────


def test_a_product_of_what_never_changes_leaves_the_loop() -> None:
    x, w = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.float64, (4, 4))
    n = tf.placeholder(tf.int32, ())
    y = tf.while_loop(lambda i, v: i < n, lambda i, v: (i + 1, tf.tanh(v @ (w @ w))), [0, x])[1]
    after = tf.optimize(y)
    assert names_inside(y).count("matmul") == 2
    assert names_inside(after).count("matmul") == 1
    assert operators(after).count("matmul") == 1
    for count in (0, 3):
        agree(y, after, {x: AT, w: AT.T, n: count})


def test_a_product_leaves_two_loops_at_once() -> None:
    x, w = (tf.placeholder(tf.float64, (4, 4)) for _ in range(2))
    n = tf.placeholder(tf.int32, ())

    def outer(i: Any, v: Any) -> Any:
        inner = tf.while_loop(lambda j, u: j < n, lambda j, u: (j + 1, u @ (w @ w)), [0, v])[1]
        return i + 1, tf.tanh(inner)

    y = tf.while_loop(lambda i, v: i < n, outer, [0, x])[1]
    after = tf.optimize(y)
    assert operators(after).count("matmul") == 1
    agree(y, after, {x: AT, w: AT, n: 2})


def test_what_could_fail_leaves_only_a_loop_that_is_entered() -> None:
    """Sizes that are not known may not fit: no round, no error."""
    a, b = tf.placeholder(tf.float64, (None,)), tf.placeholder(tf.float64, (None,))
    n = tf.placeholder(tf.int32, ())

    unsure = tf.optimize(_summing(a, b, n))
    certain = tf.optimize(_summing(a, b, 3))
    assert "mul" not in operators(unsure)
    assert "mul" in " ".join(operators(certain))
    with tf.Session() as session:
        assert session.run(unsure, {a: [1.0, 2.0], b: [1.0, 2.0, 3.0], n: 0}) == 1.0


def _summing(a: Any, b: Any, count: Any) -> Any:
    start = tf.constant(np.float64(1.0))
    return tf.while_loop(
        lambda i, v: i < count, lambda i, v: (i + 1, v + tf.reduce_sum(a * b)), [0, start]
    )[1]


def test_a_body_is_folded_shared_and_fused() -> None:
    x, n = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.int32, ())
    two = tf.constant(np.float64(1.0)) + 1.0

    def step(i: Any, v: Any) -> Any:
        twice = tf.exp(v * 1.0) * two + tf.exp(v) * (two * 3.0)
        return i + 1, tf.tanh(twice * 0.1)

    y = tf.while_loop(lambda i, v: i < n, step, [0, x])[1]
    after = tf.optimize(y)
    assert any(name.startswith("fused") for name in names_inside(after))
    assert len(names_inside(after)) < len(names_inside(y)) / 2
    assert not the_loop(after).entrances[1:]  # n alone; the constants are inside
    agree(y, after, {x: AT, n: 3})


def test_a_variable_that_nobody_asks_for_is_dropped_with_its_work() -> None:
    x = tf.placeholder(tf.float64, (4, 4))
    found = tf.while_loop(
        lambda i, v, u: i < 3, lambda i, v, u: (i + 1, tf.tanh(v), tf.exp(u)), [0, x, x]
    )
    after = tf.optimize(found[1])
    assert len(the_loop(after).variables) == 2
    assert "exp" not in names_inside(after)
    agree(found[1], after, {x: AT})


def test_a_variable_with_an_effect_on_its_way_stays() -> None:
    x, w = tf.placeholder(tf.float64, ()), tf.Variable(np.float64(0.0))

    def step(i: Any, v: Any, u: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(w, u)]):
            return i + 1, v * 2.0, u + tf.constant(np.float64(1.0))

    found = tf.while_loop(lambda i, v, u: i < 3, step, [0, x, x])
    with tf.control_dependencies([found[1]]):
        seen = w.read() * 1.0
    for executor in ("compiled", "tokens"):
        with tf.Session(optimize=True, executor=executor) as session:
            session.run(tf.initialize_all_variables())
            assert session.run([found[1], seen], {x: 1.0}) == [8.0, 6.0]


def test_a_random_number_in_a_body_is_drawn_in_every_round() -> None:
    def draws(**options: Any) -> Any:
        tf.reset_default_graph()
        noise = tf.while_loop(
            lambda i, v: i < 4,
            lambda i, v: (i + 1, v + tf.random_uniform((3,), seed=1)),
            [0, tf.zeros((3,))],
        )[1]
        with tf.Session(**options) as session:
            return session.run([noise, noise])

    np.testing.assert_array_equal(draws(optimize=True)[0], draws()[0])


def test_branches_are_rewritten_as_any_other_part() -> None:
    x = tf.placeholder(tf.float64, (4, 4))
    y = tf.cond(
        tf.reduce_sum(x) > 0.0,
        lambda: tf.tanh(x * 1.0) + tf.tanh(x) * tf.exp(tf.negative(-x)),
        lambda: tf.transpose(tf.transpose(x) * 2.0) + 1.0,
    )
    after = tf.optimize(y)
    names = operators(after)
    assert "Permute" not in names
    assert "Identity" not in names
    assert sum(name.startswith("fused") for name in names) >= 2
    for sign in (1.0, -1.0):
        agree(y, after, {x: sign * np.abs(AT)})


def test_what_a_value_dies_of_is_found_through_merges() -> None:
    x, p = tf.placeholder(tf.float64, ()), tf.placeholder(tf.bool, ())
    y = tf.cond(p, lambda: tf.sin(x), lambda: x * 2.0)
    order = schedule([tf.exp(y)], ())
    known = deadness_of(order, ())
    sine = next(n for n in order if n.op is not None and n.op.name == "sin")
    assert [(pred.name, side) for pred, side in known[sine].deaths] == [(p.name, True)]
    assert order[-1] not in known  # one side always comes


@pytest.mark.parametrize("passes", [None, ["loop_values"], ["loop_invariants"], ["cse", "fuse"]])
def test_gradients_through_optimized_loops_are_those_through_the_loops(passes: Any) -> None:
    x, w = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.float64, (4, 4))
    n = tf.placeholder(tf.int32, ())

    def step(i: Any, v: Any, same: Any) -> Any:
        side = tf.cond(i > 0, lambda: tf.tanh(v @ w) * 1.0, lambda: v + tf.square(same))
        return i + 1, side + (w @ w) * 0.1, same

    y = tf.while_loop(lambda i, v, s: i < n, step, [0, x, x])[1]
    after = tf.optimize(y, passes=passes)
    want = tf.gradients(tf.reduce_sum(tf.tanh(y)), [x, w])
    got = tf.gradients(tf.reduce_sum(tf.tanh(after)), [x, w])
    second = [tf.gradients(g[0], [w])[0] for g in (want, got)]
    for count in (0, 3):
        agree([*want, second[0]], [*got, second[1]], {x: AT, w: AT.T, n: count})


# ── counting, verifying ─────────────────────────────────────────────────────────────────────────


def counted(limit: Any, step: int = 1) -> Node:
    found = tf.while_loop(lambda i: i < limit, lambda i: i + step, [tf.constant(0)])
    (node,) = [n for n in list_needed([found], ()) if isinstance(n.op, While)]
    return node


def test_rounds_are_counted_where_constants_decide() -> None:
    assert count_rounds(counted(7)) == 7
    assert count_rounds(counted(7, step=3)) == 3
    assert count_rounds(counted(0)) == 0
    assert count_rounds(counted(10**6), most=50) == 50
    assert count_rounds(counted(tf.placeholder(tf.int32, ()))) is None


def test_a_loop_counts_as_one_node() -> None:
    x = tf.placeholder(tf.float32, (8, 8))
    y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.tanh(v @ v) * 2.0), [0, x])[1]
    assert tf.count_nodes(y) == 4  # x, 0, the loop and what is taken out of it


def test_a_loop_is_predicted_to_take_its_rounds() -> None:
    x = tf.placeholder(tf.float32, (64, 64))

    def seconds(count: Any) -> float:
        y = tf.while_loop(lambda i, v: i < count, lambda i, v: (i + 1, v @ v), [0, x])[1]
        return predict_s([y], set())

    assert seconds(20) == pytest.approx(2 * seconds(10), rel=0.05)
    assert seconds(tf.placeholder(tf.int32, ())) == pytest.approx(seconds(10), rel=0.1)


def test_a_pass_that_is_wrong_inside_a_loop_is_stopped_there() -> None:
    x = tf.placeholder(tf.float32, (2, 3))
    y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.sin(v) + 1.0), [0, x])[1]

    def rule(node: Node, inputs: tuple[Node, ...]) -> Node | None:
        if simple(node) and node.op is binary.add.op and node.shape == (2, 3):
            return rebuild(binary.mul.op, tf.ones((5, 2, 3)), inputs[0])
        return None

    wrong = inside(lambda nodes, fed: rewrite(nodes, rule, fed))
    with pytest.raises(GraphError, match=r"wrong: changed .*loop_var"):
        verify_pass(wrong([y], set()), [y], set(), "wrong")


def test_a_constant_of_a_branch_never_taken_is_alive_where_it_is_shared() -> None:
    x, p = tf.placeholder(tf.float64, ()), tf.placeholder(tf.bool, ())

    def halved() -> Any:
        return tf.cond(tf.constant(False), lambda: x * 0.5, lambda: tf.sin(x)) * 0.5

    y = tf.cond(p, halved, lambda: tf.exp(x) * 0.5) * 0.5
    fetches = [y, *tf.gradients(y, [x])]
    once = tf.optimize(fetches, passes=["cse"])
    after = tf.optimize(tf.optimize(once, passes=["dead_code"]))
    for side in (False, True):
        agree(fetches, after, {x: 0.3, p: side})
