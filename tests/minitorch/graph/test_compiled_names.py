"""`compile` goes by the names that inputs were given, whatever was built before."""

import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError


def test_arguments_keep_their_names_when_a_cell_is_run_again() -> None:
    for _ in range(3):
        a, b = tf.Variable("A"), tf.placeholder(tf.float32, None, "B")
        f = tf.compile(a * 2.0 + b)
        assert f(A=1.0, B=2.0) == 4.0
        assert f(**{a.name: 1.0, b.name: 2.0}) == 4.0


def test_names_that_look_like_numbered_ones_are_kept_apart() -> None:
    for _ in range(2):
        f = tf.compile(tf.Variable("W") - tf.Variable("W_1"))
        assert f(W=5.0, W_1=3.0) == 2.0


def test_two_inputs_of_one_name_are_told_apart_by_number() -> None:
    first, second = tf.Variable("A"), tf.Variable("A")
    f = tf.compile(first - second)
    assert f(**{first.name: 5.0, second.name: 3.0}) == 2.0
    with pytest.raises(GraphError, match=f"missing {second.name}"):
        f(**{first.name: 5.0})


def test_nodes_of_any_graph_can_be_compiled() -> None:
    with tf.Graph().as_default():
        doubled = tf.Variable("A") * 2.0
    assert tf.compile(doubled)(A=3.0) == 6.0


def test_messages_use_the_names_that_were_given() -> None:
    tf.Variable("A")
    f = tf.compile(tf.Variable("A") * 2.0)
    with pytest.raises(GraphError, match=r"missing A; the inputs are A\."):
        f()
    with pytest.raises(GraphError, match=r"unknown Z; the inputs are A\."):
        f(A=1.0, Z=1.0)
