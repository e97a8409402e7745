"""What ranks say to each other in a loop's rounds, what they say when one fails, and training."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from ddp_lab import launch
from ddp_lab.errors import RankFailed
from minitorch.errors import GraphError
from minitorch.graph.control.cond import Switch
from minitorch.graph.control.loop_stacks import Empty, Keep, Opaque, Output, Top
from minitorch.graph.core.node import build
from minitorch.graph.core.order import schedule
from minitorch.graph.placement.partition import cut
from minitorch.graph.placement.place import place

pytestmark = pytest.mark.as_built

_spec = importlib.util.spec_from_file_location(
    "rendezvous", Path(__file__).parent / "rendezvous.py"
)
assert _spec is not None
assert _spec.loader is not None
_rendezvous = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_rendezvous)
on_rendezvous = _rendezvous.on_rendezvous

X = np.random.default_rng(0).normal(size=(3, 4)) * 0.5
ONE, VALUE = (), (3, 4)


def on(rank: int) -> Any:
    return tf.device(f"cpu:{rank}")


# ── messages ────────────────────────────────────────────────────────────────────────────────────


def sent_in_rounds(body: Any, going: Any, rounds: int, size: int) -> list[list[Any]]:
    """What each rank sends in a loop over (i, v), besides what it sends in one of no rounds."""

    def messages(count: int) -> list[list[Any]]:
        def work(comm: Any) -> Any:
            with tf.Graph().as_default(), tf.PlacedSession(comm, optimize=False) as session:
                x, n = tf.placeholder(tf.float64, VALUE), tf.placeholder(tf.int32, ())
                y = tf.while_loop(lambda i, v: going(i, v, n), body, [0, x])[1]
                return session.run(y, {x: X, n: count})

        return [rank.sent for rank in on_rendezvous(work, size)[1]]

    once, more = messages(0), messages(rounds)
    return [_without(a, b) for a, b in zip(more, once, strict=True)]


def _without(sent: list[Any], others: list[Any]) -> list[Any]:
    left = list(sent)
    for message in others:
        left.remove(message)
    return sorted(left)


def below(i: Any, v: Any, n: Any) -> Any:
    return i < n


def test_a_round_sends_each_crossing_value_once_and_the_predicate_to_each_follower() -> None:
    def body(i: Any, v: Any) -> Any:
        with on(0):
            h = tf.tanh(v)
        with on(1):
            v = h * h + tf.sin(h)
        return i + 1, v

    first, second = sent_in_rounds(body, below, 5, 2)
    assert first == sorted([(1, ONE), (1, VALUE)] * 5)  # the predicate, h
    assert second == [(0, VALUE)] * 5  # v


def test_three_ranks_pass_a_value_round_and_the_owner_tells_both_followers() -> None:
    def body(i: Any, v: Any) -> Any:
        for rank in range(3):
            with on(rank):
                v = tf.tanh(v)
        return i + 1, v

    def going(i: Any, v: Any, n: Any) -> Any:
        with on(2):
            return tf.logical_and(i < n, tf.reduce_sum(v) < 100.0)

    first, second, third = sent_in_rounds(body, going, 4, 3)
    assert first == sorted([(1, VALUE), (2, ONE)] * 4)  # the value, i
    assert second == [(2, VALUE)] * 4
    assert third == sorted([(0, ONE), (0, VALUE), (1, ONE)] * 4)


def test_a_variable_that_condition_and_body_read_is_sent_once_a_round() -> None:
    def body(i: Any, v: Any) -> Any:
        with on(1):
            other = tf.sin(v)
        with on(0):
            return i + 1, tf.tanh(v) + other

    def going(i: Any, v: Any, n: Any) -> Any:
        with on(1):
            return tf.logical_and(i < n, tf.reduce_sum(v) < 100.0)

    first, second = sent_in_rounds(body, going, 3, 2)
    assert first == sorted([(1, VALUE), (1, ONE)] * 3)  # v, i
    assert second == sorted([(0, ONE), (0, VALUE)] * 3)  # the predicate, the sine


def test_what_stays_the_same_is_sent_before_the_loop_and_never_again() -> None:
    def work(comm: Any) -> Any:
        with tf.Graph().as_default(), tf.PlacedSession(comm, optimize=False) as session:
            x, n = tf.placeholder(tf.float64, VALUE), tf.placeholder(tf.int32, ())
            with on(0):
                outer, same = tf.exp(x), tf.sin(x[:2])

            def body(i: Any, v: Any, same: Any) -> Any:
                with on(0):
                    i = i + 1
                with on(1):
                    return i, v + outer * tf.reduce_sum(same), same

            y = tf.while_loop(lambda i, *_: i < n, body, [0, x, same])[1]
            session.run(y, {x: X, n: 0})  # the ranks have compared their graphs
            comm.sent.clear()
            return session.run(y, {x: X, n: 6})

    _, (first, _) = on_rendezvous(work)
    assert sorted(first.sent) == sorted([(1, ONE)] * 7 + [(1, VALUE), (1, (2, 4))])


def test_a_side_that_is_not_taken_sends_flags_alone() -> None:
    def body(i: Any, v: Any) -> Any:
        with on(0):
            odd = tf.equal(i % 2, 1)

        def there() -> Any:
            with on(1):
                return tf.sin(v)

        with on(0):
            return i + 1, tf.cond(odd, there, lambda: tf.tanh(v))

    taken, one = (0, VALUE), (0, (1,))
    _, second = sent_in_rounds(body, below, 4, 2)
    assert second == sorted([one] * 4 + [taken] * 2)


def test_a_loop_that_names_one_device_is_not_cut() -> None:
    def body(i: Any, v: Any) -> Any:
        with on(1):
            return i + 1, tf.tanh(v)

    first, second = sent_in_rounds(body, below, 5, 2)
    assert first == second == []


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────


def fails_in_round_three() -> Any:
    table = tf.constant(np.arange(3.0))

    def body(i: Any, v: Any) -> Any:
        with on(0):
            v = tf.tanh(v) + 1.0
        with on(1):
            row = tf.gather(table, i, name="lookup")
            return i + 1, v * row

    return tf.while_loop(lambda i, v: i < 5, body, [0, tf.constant(1.0, tf.float64)])[1]


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_an_operator_that_fails_in_a_round_ends_all_ranks_and_is_named(transport: str) -> None:
    def rank(comm: Any) -> Any:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            return session.run(fails_in_round_three())

    with pytest.raises(RankFailed) as caught:
        launch(rank, 2, transport=transport, timeout_s=200)
    assert caught.value.rank == 1
    message = str(caught.value)
    assert "rank 1 of 2 failed" in message
    assert "index 3 is out of bounds" in message
    assert "node 'lookup' built at" in message
    assert "test_place_rounds.py" in message
    assert "rank 1 has failed" in caught.value.failures[0]


def test_a_placeholder_that_one_rank_needs_is_missed_by_all() -> None:
    def work(comm: Any) -> str:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            x, missing = tf.placeholder(tf.float64, VALUE), tf.placeholder(tf.float64, (), "gone")

            def body(i: Any, v: Any) -> Any:
                with on(0):
                    v = tf.tanh(v)
                with on(1):
                    return i + 1, v * missing

            y = tf.while_loop(lambda i, v: i < 2, body, [0, x])[1]
            with pytest.raises(GraphError) as caught:
                session.run(y, {x: X})
            return str(caught.value)

    for message in on_rendezvous(work)[0]:
        assert "placeholder 'gone' was not fed" in message


def test_a_dead_condition_is_named_on_every_rank() -> None:
    def work(comm: Any) -> str:
        with tf.Graph().as_default(), tf.PlacedSession(comm, optimize=False) as session:
            x = tf.placeholder(tf.float64, VALUE)

            def going(i: Any, v: Any) -> Any:
                with on(1):
                    return tf.identity(tf.switch(i < 5, i < 2)[1], name="asked")

            def body(i: Any, v: Any) -> Any:
                with on(0):
                    return i + 1, tf.tanh(v)

            y = tf.while_loop(going, body, [0, x])[1]
            with pytest.raises(GraphError) as caught:
                session.run(y, {x: X})
            return str(caught.value)

    for message in on_rendezvous(work)[0]:
        assert "'asked' is dead" in message


def over_both(x: Any) -> Any:
    def body(i: Any, v: Any) -> Any:
        with on(0):
            v = tf.tanh(v, name="curve")
        with on(1):
            v = tf.sin(v, name="more")
        return i + 1, v

    return tf.while_loop(lambda i, v: i < 3, body, [0, x])[1]


def test_a_loop_that_is_used_as_a_whole_is_refused_with_names_lines_and_ranks() -> None:
    x = tf.placeholder(tf.float64, VALUE)
    (loop,) = over_both(x).inputs
    sent = build(Switch(True), (loop, tf.constant(True)), kind=Opaque)
    taken = build(Output(("out", 1), x), (sent,))
    says = (
        r"place: loop 'while' \(built at .*test_place_rounds\.py:\d+\) cannot be cut: 'Switch' "
        r"uses it as a whole \(built at .*:\d+\), but inside are 'curve' on rank 0 \(built at "
        r".*:\d+\) and 'more' on rank 1 \(built at .*:\d+\)"
    )
    with pytest.raises(GraphError, match=says):
        place(schedule([taken], ()), (), 2)


def test_a_list_that_would_have_to_be_sent_is_refused_on_all_ranks() -> None:
    values = build(Keep(), (build(Empty(), (), kind=Opaque), tf.constant(1.0)), kind=Opaque)
    first = build(Top((), values.dtype), (values,))
    order = schedule([first], ())
    placed = dict.fromkeys(order, 1)
    placed[first] = 0

    class Alone:
        rank, size = 2, 3

    with pytest.raises(GraphError, match=r"'Keep' is a loop or a list.*test_place_rounds\.py:\d+"):
        cut(order, [first], (), placed, Alone())  # type: ignore[arg-type]


def test_a_device_that_is_not_there_is_named_inside_a_loop_over_two() -> None:
    def body(i: Any, v: Any) -> Any:
        with on(0):
            v = tf.tanh(v)
        with on(7):
            v = tf.sin(v, name="lost")
        return i + 1, v

    y = tf.while_loop(lambda i, v: i < 3, body, [0, tf.placeholder(tf.float64, VALUE)])[1]
    with pytest.raises(GraphError, match=r"there is no device 'cpu:7'.*'lost'"):
        place(schedule([y], ()), (), 2)


# ── a recurrent network: the cell on one rank, what is read out and its loss on the other ───────

TIMES, BATCH, WIDTH, HIDDEN = 6, 8, 3, 5
_rng = np.random.default_rng(1)
SERIES = _rng.normal(size=(TIMES, BATCH, WIDTH)).astype(np.float32)
SUMS = 0.3 * np.cumsum(SERIES.sum(axis=2, keepdims=True), axis=0)


def network() -> Any:
    """A step of training over the first n steps of a series; the loss is summed in the loop."""
    rng = np.random.default_rng(2)
    x = tf.placeholder(tf.float32, (None, BATCH, WIDTH))
    y = tf.placeholder(tf.float32, (None, BATCH, 1))
    n = tf.placeholder(tf.int32, ())

    def weight(*shape: int) -> Any:
        return tf.Variable(rng.normal(size=shape).astype(np.float32) * 0.5)

    with on(0):
        w_in, w_state = weight(WIDTH, HIDDEN), weight(HIDDEN, HIDDEN)
    with on(1):
        w_out = weight(HIDDEN, 1)

    def body(t: Any, h: Any, loss: Any) -> Any:
        with on(0):
            h = tf.tanh(tf.matmul(tf.gather(x, t), w_in) + tf.matmul(h, w_state))
        with on(1):
            error = tf.matmul(h, w_out) - tf.gather(y, t)
            return t + 1, h, loss + tf.reduce_mean(tf.square(error))

    start = [0, tf.zeros((BATCH, HIDDEN)), tf.constant(0.0)]
    loss = tf.while_loop(lambda t, h, loss: t < n, body, start)[2]
    return loss, tf.train.AdamOptimizer(0.02).minimize(loss), (x, y, n)


def trained(comm: Any = None, steps: int = 12) -> list[Any]:
    """The losses of some steps, and the weights after them."""
    with tf.Graph().as_default():
        loss, step, (x, y, n) = network()
        session = tf.Session() if comm is None else tf.PlacedSession(comm)
        with session:
            session.run(tf.initialize_all_variables())
            feeds = [{x: SERIES, y: SUMS, n: TIMES - k % 3} for k in range(steps)]
            losses = [session.run([loss, step], feed)[0] for feed in feeds]
            return [np.stack(losses), *session.run(tf.trainable_variables())]


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_a_recurrent_network_trains_on_two_ranks_as_on_one(transport: str) -> None:
    want = trained()
    assert want[0][-3:].sum() < 0.5 * want[0][:3].sum()
    for found in launch(trained, 2, transport=transport, timeout_s=200):
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
