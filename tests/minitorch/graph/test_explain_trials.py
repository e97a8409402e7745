"""What `explain` predicts: formulas where there are some, else the time of a trial."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.costs.op_timing import trial
from minitorch.graph.costs.prediction import predicted_s


class Tried(Fixed):
    """A machine on which each trial takes a second."""

    def trial_s(self, key: Any, work: Callable[[], Any]) -> float | None:
        """Return one second."""
        return 1.0


def test_only_what_no_formula_describes_is_tried() -> None:
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, (8, 8))
    y = tf.nn.softmax(tf.matmul(tf.tanh(x), x))
    with use(Tried()):
        assert predicted_s([y], set(), trials=True) == pytest.approx(1.0, abs=0.01)
        assert predicted_s([y], set()) < 0.01
    with use(Fixed()):
        assert predicted_s([y], set(), trials=True) < 0.01


def test_equal_operators_on_equal_sizes_share_a_trial() -> None:
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, (8, 8))
    found = [tf.nn.softmax(x), tf.nn.softmax(x + 1.0), tf.nn.softmax(x[:4])]
    keys = []
    for node in found:
        tried = trial(node.op, [(tuple(s.shape), s.dtype) for s in node.inputs])
        assert tried is not None
        keys.append(tried[0])
    assert keys[0] == keys[1] != keys[2]


def test_an_update_is_tried_on_numbers_of_its_own() -> None:
    tf.reset_default_graph()
    w = tf.Variable(np.ones((3, 2), np.float32))
    step = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(w * w))
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        with use(Tried()):
            assert predicted_s([step], set(), trials=True) >= 1.0
        np.testing.assert_array_equal(session.run(w), np.ones((3, 2)))


def test_what_takes_no_such_numbers_or_has_effects_has_no_trial() -> None:
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, (2, 2))
    drawn, product = tf.random_uniform((2,)), tf.matmul(x, x)
    assert trial(drawn.op, []) is None
    assert trial(product.op, [((2, 3), x.dtype), ((2, 3), x.dtype)]) is None
    assert trial(tf.exp(x).op, [((2**15, 2**15), x.dtype)]) is None


def test_the_table_can_be_of_some_passes_and_of_those_on_request() -> None:
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, (16, 16))
    table = tf.explain(tf.matmul(x, x) * 1.0, passes=["cse", "algebra"]).splitlines()
    assert [line.split()[0] for line in table] == ["pass", "as", "cse", "algebra"]
    nodes = [int(line[16:23]) for line in table[1:]]
    assert nodes[0] == nodes[1] > nodes[2]
    with pytest.raises(GraphError, match="got pass 'nothing', expected one of dead_code"):
        tf.explain(x, passes=["nothing"])
    with pytest.raises(GraphError, match="expected a list"):
        tf.explain(x, passes="fuse")
