"""What TensorFlow 1 refuses when a graph is built, and integers that stay integers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import DTypeError, GraphError

SQUARE = np.arange(4.0, dtype=np.float32).reshape(2, 2)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda x: tf.slice(x, [0, 0], [3, 3]), "slice: got begin 0 and size 3 for axis 0"),
        (lambda x: tf.slice(x, [0, 3], [1, -1]), "slice: got begin 3"),
        (lambda x: tf.slice(x, [-1, 0], [1, 1]), "slice: got begin -1"),
        (lambda x: tf.slice(x, [0], [1]), "slice: got 1 of begin, expected 2"),
        (lambda x: tf.squeeze(x, [0]), "squeeze: got axes .0,."),
        (lambda x: tf.tile(x, [2]), "tile: got 1 of multiples, expected 2"),
        (lambda x: tf.pad(x, [[1, 1]]), "pad: got 1 of paddings, expected 2"),
        (lambda x: tf.reduce_all(x), "reduce_all: .*booleans"),
        (lambda x: tf.reduce_sum(x > 0.0), "reduce_sum: .*numbers"),
        (lambda x: tf.reduce_logsumexp(tf.cast(x, tf.int32)), "reduce_logsumexp: .*numbers"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(build: Callable[..., Any], says: str) -> None:
    with pytest.raises(GraphError, match=says):
        build(tf.constant(SQUARE, name="square"))


def test_blocks_within_are_as_numpys() -> None:
    x = tf.placeholder(tf.float32, (None, 2))
    asked = [
        tf.slice(x, [1, 0], [1, -1]),
        tf.slice(x, tf.constant([0, 1]), [2, 1]),
        tf.slice(x, [0, tf.constant(1)], tf.shape(x) - [0, 1]),
        tf.tile(x, [1, 2]),
        tf.squeeze(tf.expand_dims(x, 0), [0]),
        tf.squeeze(x[:1], [0]),
    ]
    want = [
        SQUARE[1:2],
        SQUARE[:2, 1:2],
        SQUARE[:, 1:],
        np.tile(SQUARE, [1, 2]),
        SQUARE,
        SQUARE[0],
    ]
    with tf.Session() as session:
        for got, expected in zip(session.run(asked, {x: SQUARE}), want, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("dtype", [tf.int32, tf.int64, tf.uint8, tf.int16])
def test_reductions_of_integers_keep_their_dtype(dtype: Any) -> None:
    x = tf.constant([3, 4, 1, 0], dtype)
    asked = [tf.reduce_prod(x[:3]), tf.reduce_mean(x), tf.reduce_sum(x), tf.reduce_max(x)]
    assert {node.dtype for node in asked} == {dtype}
    with tf.Session() as session:
        assert session.run(asked) == [12, 2, 8, 4]


def test_a_mean_of_integers_drops_its_fraction_towards_zero() -> None:
    with tf.Session() as session:
        means = session.run([tf.reduce_mean(tf.constant(v)) for v in ([1, 0, 1, 0], [-1, -2])])
    assert means == [0, -1]


@pytest.mark.parametrize("feed", [["1", "2"], [None, 1.0], np.array([1, 2], "datetime64[s]")])
def test_a_feed_that_is_no_array_of_numbers_is_refused(feed: Any) -> None:
    p = tf.placeholder(tf.float32, (2,), "p")
    with tf.Session() as session, pytest.raises(GraphError, match=r"no array of numbers.*'p'"):
        session.run(p + 1.0, {p: feed})


def test_a_constant_that_does_not_fit_says_so() -> None:
    with pytest.raises(DTypeError, match="300, expected what uint8 can hold"):
        tf.constant(300, tf.uint8)
    with pytest.raises(GraphError, match="rows of one length"):
        tf.constant([[1.0], [1.0, 2.0]])
