"""Ranks whose programs differ are told so, instead of taking each other's values for their own."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from ddp_lab import launch
from ddp_lab.errors import RankFailed
from minitorch.errors import GraphError
from tests.minitorch.graph.rendezvous import on_rendezvous

X = np.random.default_rng(0).normal(size=(3, 4))


def on(rank: int) -> Any:
    return tf.device(f"cpu:{rank}")


def outcomes(program: Callable[[int, Any], Any], size: int = 2) -> list[Any]:
    """Return what each rank gives for `program(rank, x)`, or the text of its GraphError."""

    def work(comm: Any) -> Any:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            x = tf.placeholder(tf.float64, X.shape)
            try:
                return session.run(program(comm.rank, x), {x: X})
            except GraphError as error:
                return str(error)

    found: list[Any] = on_rendezvous(work, size)[0]
    return found


def crossing(x: Any, there: Callable[[Any], Any]) -> Any:
    with on(0):
        h = tf.tanh(x)
    with on(1):
        return there(h)


def test_another_operator_is_named_with_both_lines_on_all_ranks() -> None:
    messages = outcomes(lambda rank, x: crossing(x, tf.sin if rank == 1 else tf.exp), size=3)
    for message in messages:
        assert message == messages[0]
    assert messages[0].startswith("run: rank 1 has another graph than rank 0: it has sin of")
    assert "where rank 0 has exp of" in messages[0]
    assert messages[0].count("test_place_agreement.py:") == 2
    assert "on rank 1" in messages[0]


DIFFERENT: dict[str, Callable[[int, Any], Any]] = {
    "a parameter": lambda rank, x: crossing(x, lambda h: tf.reduce_sum(h, axis=rank)),
    "an input": lambda rank, x: crossing(x, lambda h: h - x if rank else x - h),
    "a device": lambda rank, x: crossing(x, lambda h: _sin_on(rank, h)),
    "another fetch": lambda rank, x: crossing(x, lambda h: (tf.sin(h), tf.cos(h)))[rank],
    "fewer fetches": lambda rank, x: crossing(x, lambda h: [h, h, tf.sin(h)][rank:]),
    "more nodes": lambda rank, x: crossing(x, tf.sin if rank else lambda h: tf.sin(h) + h),
    "an array that both read": lambda rank, x: _same_constant(rank, x),
    "a number that one reads": lambda rank, x: crossing(x, lambda h: h * (0.1 + rank)),
    "a number in a loop": lambda rank, x: _counted(x, 0.5 + rank),
    "what a loop does": lambda rank, x: _counted(x, 0.5, tf.sin if rank else tf.cos),
    "another variable": lambda rank, x: _two_variables(x)[rank],
}


def _sin_on(rank: int, h: Any) -> Any:
    with on(rank):
        return tf.sin(h)


def _same_constant(rank: int, x: Any) -> Any:
    c = tf.constant(np.full(4, 1.0 + rank))
    with on(0):
        h = x * c
    return crossing(h, lambda h: h + c)


def _counted(x: Any, number: float, inner: Any = tf.tanh) -> Any:
    def body(i: Any, v: Any) -> Any:
        with on(0):
            v = inner(v)
        with on(1):
            return i + 1, v * number

    return tf.while_loop(lambda i, v: i < 3, body, [0, x])[1]


def _two_variables(x: Any) -> Any:
    with on(1):
        pair = [tf.Variable(np.ones(4), name=name) for name in "ab"]
    with tf.control_dependencies([v.initializer for v in pair]):
        reads = [v.read_value() for v in pair]
    return [crossing(x, lambda h, read=read: h * read) for read in reads]


@pytest.mark.parametrize("what", DIFFERENT)
def test_two_ranks_that_differ_are_both_told(what: str) -> None:
    first, second = outcomes(DIFFERENT[what])
    assert isinstance(first, str)
    assert first == second
    assert "run: rank 1 has another graph than rank 0" in first


@pytest.mark.parametrize("what", DIFFERENT)
def test_the_same_programs_run_where_all_ranks_do_as_the_first(what: str) -> None:
    first, second = outcomes(lambda rank, x: DIFFERENT[what](0, x))
    for a, b in zip(np.atleast_1d(first), np.atleast_1d(second), strict=True):
        np.testing.assert_array_equal(a, b)


def test_what_only_one_rank_reads_may_differ() -> None:
    """Weights drawn without a seed, for a variable of one rank; names; nodes that nobody runs."""

    def program(rank: int, x: Any) -> Any:
        if rank == 0:
            tf.constant(5.0) * 2.0
        weights = np.random.default_rng(rank).normal(size=4)
        noise = tf.random_normal((4,), seed=rank, dtype=tf.float64)
        return crossing(x, lambda h: h * weights + noise)

    first, second = outcomes(program)
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("alone", [0, 1])
def test_a_rank_that_runs_something_alone_is_told(alone: int) -> None:
    def rank(comm: Any) -> None:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            x = tf.placeholder(tf.float64, X.shape)
            y = crossing(x, tf.sin)
            total = tf.reduce_sum(y)
            for _ in range(3):
                session.run(y, {x: X})
                if comm.rank == alone:
                    session.run(total, {x: X})  # as to print the loss on one rank

    with pytest.raises(RankFailed, match="is in another run"):
        launch(rank, 2, transport="threads", timeout_s=200)


@pytest.mark.parametrize("size", [2, 3])
def test_known_runs_in_another_order_are_told_apart_though_shapes_agree(size: int) -> None:
    def rank(comm: Any) -> None:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            x = tf.placeholder(tf.float64, X.shape)
            runs = [crossing(x, tf.sin), crossing(tf.square(x), tf.cos)]
            for y in (*runs, *runs, runs[comm.rank == 1]):
                session.run(y, {x: X})

    told = "the first value of a run of 'cos' from it, got the first value of another one"
    with pytest.raises(RankFailed, match=told):
        launch(rank, size, transport="threads", timeout_s=200)


@pytest.mark.parametrize("new", [0, 1])
def test_numbers_of_a_known_run_are_not_taken_for_a_graph(new: int) -> None:
    """What crosses is a vector of int64, as what the ranks compare is."""

    def rank(comm: Any) -> None:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            n = tf.placeholder(tf.int64, (3,))
            with on(0):
                m = n + 1
            with on(1):
                y, z = m * 2, m * 3
            session.run(y, {n: [1, 2, 3]})
            session.run(z if comm.rank == new else y, {n: [1, 2, 3]})

    with pytest.raises(RankFailed, match="is in another run"):
        launch(rank, 2, transport="threads", timeout_s=200)


@pytest.mark.parametrize("ranks", [None, 2, tf.Graph()])
def test_what_is_no_communicator_is_refused_at_once(ranks: Any) -> None:
    with pytest.raises(GraphError, match=r"expected a communicator.*ddp_lab\.launch"):
        tf.PlacedSession(ranks)
