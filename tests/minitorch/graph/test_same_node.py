"""Python's own questions about nodes: `in`, `index`, `==` of lists, and what has no answer."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError


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


def test_a_comparison_with_a_number_is_no_question_of_pythons() -> None:
    with pytest.raises(GraphError, match="used as True or False"):
        bool(tf.placeholder(tf.float32, []) == 0.0)
