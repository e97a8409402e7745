"""Calls as programs of the time wrote them: by parameter's name, with feeds in tuples."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError

X = np.arange(12, dtype=np.float32).reshape(4, 3)
SQUARE = X[:3] + 10 * np.eye(3, dtype=np.float32)


NAMED: dict[str, tuple[Callable[[Any], Any], Any]] = {
    "gather": (lambda x: tf.gather(params=x, indices=[2, 0]), X[[2, 0]]),
    "gather_nd": (lambda x: tf.gather_nd(params=x, indices=[[1, 2]]), X[[1], [2]]),
    "slice": (lambda x: tf.slice(input_=x, begin=[1, 0], size=[2, -1]), X[1:3]),
    "tile": (lambda x: tf.tile(input=x, multiples=[1, 2]), np.tile(X, (1, 2))),
    "pad": (lambda x: tf.pad(tensor=x, paddings=[[1, 0], [0, 0]]), np.pad(X, ((1, 0), (0, 0)))),
    "reverse": (lambda x: tf.reverse(tensor=x, axis=[0]), X[::-1]),
    "cumsum": (lambda x: tf.cumsum(x=x, axis=1), X.cumsum(1)),
    "segment_sum": (
        lambda x: tf.segment_sum(data=x, segment_ids=[0, 0, 1, 1]),
        np.stack([X[:2].sum(0), X[2:].sum(0)]),
    ),
    "atan2": (lambda x: tf.atan2(y=x, x=tf.constant(2.0)), np.arctan2(X, 2)),
    "accumulate_n": (lambda x: tf.accumulate_n([x, x], shape=[4, 3], tensor_dtype="f4"), X * 2),
}


@pytest.mark.parametrize("shape", [(4, 3), None], ids=["known", "unknown"])
@pytest.mark.parametrize("name", sorted(NAMED))
def test_arguments_may_go_by_tensorflows_names(name: str, shape: Any) -> None:
    call, want = NAMED[name]
    x = tf.placeholder(tf.float32, shape)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(call(x), {x: X}), want, rtol=1e-6)


LATE: dict[str, tuple[Callable[[Any, Any], Any], Any, Any]] = {
    "gather": (tf.gather, [2, 0], X[[2, 0]]),
    "gather_nd": (lambda x, i: tf.gather_nd(x, tf.stack([i, i], 1)), [2, 0], X[[2, 0], [2, 0]]),
    "slice": (lambda x, i: tf.slice(x, i, [1, 2]), [2, 0], X[2:3, :2]),
    "slice by a list": (lambda x, i: tf.slice(x, [i[0], 0], [1, 2]), [2, 0], X[2:3, :2]),
    "tile": (tf.tile, [1, 2], np.tile(X, (1, 2))),
    "named": (lambda x, i: tf.gather(params=x, indices=i), [1, 1], X[[1, 1]]),
}


@pytest.mark.parametrize("name", sorted(LATE))
def test_what_waits_for_a_shape_reads_its_other_inputs_in_the_run(name: str) -> None:
    call, fed, want = LATE[name]
    x, i = tf.placeholder(tf.float32), tf.placeholder(tf.int32)
    if name in ("gather_nd", "slice", "slice by a list"):
        i = tf.placeholder(tf.int32, [2])
    y = call(x, i + 0)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(y, {x: X, i: fed}), want)
        (slope,) = session.run(tf.gradients(y, [x]), {x: X, i: fed})
    picked = np.zeros_like(X)
    np.add.at(picked.reshape(-1), np.asarray(want, int).reshape(-1), 1.0)
    np.testing.assert_array_equal(slope, picked)


def test_a_system_of_unknown_size_is_solved() -> None:
    matrix, right = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with tf.Session() as session:
        got = session.run(tf.matrix_solve(matrix, right), {matrix: SQUARE, right: X[:3]})
    np.testing.assert_allclose(SQUARE @ got, X[:3], rtol=1e-4, atol=1e-4)


def test_a_missing_argument_is_pythons_error() -> None:
    with pytest.raises(TypeError, match=r"gather\(\) missing"):
        tf.gather()  # type: ignore[call-arg]


def test_options_of_a_run_are_taken_and_their_records_are_not_written(tmp_path: Any) -> None:
    x = tf.constant(2.0)
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    record = tf.RunMetadata()
    with tf.Session() as session, tf.summary.FileWriter(tmp_path, session.graph) as writer:
        assert session.run(x * x, options=options, run_metadata=record) == 4.0
        writer.add_run_metadata(record, "step 1", 1)


def test_a_state_in_tuples_is_fed_by_a_state_in_tuples() -> None:
    cell = tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.BasicLSTMCell(3) for _ in range(2)])
    first = cell.zero_state(2, tf.float32)
    x = tf.placeholder(tf.float32, [2, 4, 5])
    outputs, last = tf.nn.dynamic_rnn(cell, x, initial_state=first)
    fed = np.random.default_rng(0).normal(size=(2, 8, 5)).astype(np.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        begun, state = session.run([outputs, last], {x: fed[:, :4]})
        rest = session.run(outputs, {x: fed[:, 4:], first: state})
        halves = session.run([outputs, last], {x: fed[:, :4], first: session.run(first)})
        by_array = session.run(outputs, {x: fed[:, 4:], first: np.asarray(state)})
        (both,) = session.run([outputs], {x: fed[:, 4:], first[0]: state[0], first[1]: state[1]})
        with pytest.raises(GraphError, match="tuple of 2 does not fit: got 1 values"):
            session.run(outputs, {x: fed[:, :4], first: state[:1]})
        with pytest.raises(GraphError, match="tuple of 2 does not fit: got float"):
            session.run(outputs, {x: fed[:, :4], first: 0.0})
    np.testing.assert_array_equal(halves[0], begun)
    np.testing.assert_array_equal(by_array, rest)
    np.testing.assert_array_equal(both, rest)
    assert not np.allclose(rest, begun)
