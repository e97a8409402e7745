"""Python's own questions about nodes: `in`, `index`, `==` of lists, and what has no answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import DTypeError, GraphError


def test_lists_find_their_nodes_whatever_else_is_in_them() -> None:
    v = tf.Variable([1.0, 2.0], name="v")
    w = tf.Variable(np.ones((3, 4), np.float32), name="w")
    i = tf.Variable(1, name="i")
    held = [v, w, i]
    assert w in tf.trainable_variables()
    assert v * 2.0 not in held
    assert held.index(i) == 2
    assert held.count(w) == 1
    assert held == [v, w, i]
    assert held != [v, i, w]
    assert bool(v == v) is True
    assert bool(v != v) is False
    assert bool(v == w) is False
    assert bool(v != w) is True
    held.remove(w)
    assert held == [v, i]
    assert tf.gradients(v * 1.0, [w]) == [None]


def test_in_a_run_nodes_are_compared_element_by_element() -> None:
    a, b = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.float32, [3])
    feeds = {a: [1, 2, 3], b: [1, 5, 3]}
    same, other = tf.Session().run([a == b, a != b], feeds)
    assert same.tolist() == [True, False, True]
    assert other.tolist() == [False, True, False]
    assert tf.Session().run(a == 2.0, feeds).tolist() == [False, True, False]


@pytest.mark.parametrize(
    "question", [bool, float, int, len, lambda x: x > 1.0 or x, lambda x: x == 1.0 or x]
)
def test_a_value_before_the_run_is_a_type_error(question: Callable[[Any], Any]) -> None:
    x = tf.placeholder(tf.float32, [2], "x")
    with pytest.raises(TypeError):
        question(x)


def test_the_function_still_says_which_dtypes_differ() -> None:
    with pytest.raises(DTypeError, match="equal: dtypes differ"):
        tf.equal(tf.placeholder(tf.float32, []), tf.placeholder(tf.int32, []))
    with pytest.raises(GraphError, match="used as True or False"):
        bool(tf.placeholder(tf.float32, []) == 0.0)


def test_an_operator_can_be_run_for_its_effect_alone() -> None:
    v = tf.Variable(1.0)
    more = tf.assign_add(v, 1.0)
    with tf.control_dependencies([more.op]):
        seen = tf.identity(v)
    ten = tf.assign_add(v, 10.0)
    both = tf.group(ten.op)
    with tf.Session() as session:
        session.run(v.initializer)
        assert session.run(more.op) is None
        assert session.run([more.op, more]) == [None, 3.0]
        assert session.run(seen) == 4.0
        session.run(both)
        assert session.run(v) == 14.0


def test_an_operator_of_several_nodes_or_none_is_refused() -> None:
    x = tf.placeholder(tf.float32, [])
    first, second = tf.exp(x), tf.exp(x)
    assert first.op is second.op
    with pytest.raises(TypeError, match="cannot fetch exp"):
        tf.Session().run(first.op, {x: 1.0})
    for wrong in (None, 3, "x", first.op):
        with (
            pytest.raises(TypeError, match="control_dependencies"),
            tf.control_dependencies([wrong]),
        ):
            pass


def test_writes_take_tensorflows_arguments() -> None:
    v = tf.Variable([1.0, 2.0])
    open_shape = tf.Variable([1.0, 2.0], validate_shape=False)
    writes = [
        tf.assign(v, [3.0, 4.0], True, True, "a"),
        tf.assign_add(v, [1.0, 1.0], use_locking=True, name="b"),
        v.assign_sub([1.0, 1.0], True),
    ]
    assert [node.name for node in writes[:2]] == ["a", "b"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert [session.run(node).tolist() for node in writes] == [[3, 4], [4, 5], [3, 4]]
        grown = tf.assign(open_shape, np.ones(3, np.float32), validate_shape=False)
        assert session.run(grown).tolist() == [1, 1, 1]
        assert session.run(open_shape).tolist() == [1, 1, 1]
