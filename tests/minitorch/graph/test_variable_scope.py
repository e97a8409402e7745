"""Variables by name: made, shared and refused as TensorFlow 1 does; what they start from."""

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError


def test_a_variable_is_named_after_its_scopes_and_itself() -> None:
    with tf.variable_scope("net"), tf.variable_scope("layer1") as scope:
        w = tf.get_variable("w", (2, 3))
    assert w.name == "net/layer1/w"
    assert scope.name == "net/layer1"
    assert tf.get_variable_scope().name == ""
    with tf.name_scope("ignored"):
        assert tf.get_variable("v", ()).name == "v"


def test_a_second_variable_of_a_name_is_refused_unless_it_is_to_be_shared() -> None:
    with tf.variable_scope("net"):
        w = tf.get_variable("w", (2,))
    with (
        tf.variable_scope("net"),
        pytest.raises(GraphError, match=r"'net/w' exists already.*reuse"),
    ):
        tf.get_variable("w", (2,))
    with tf.variable_scope("net", reuse=True):
        assert tf.get_variable("w") is w
        assert tf.get_variable("w", (2,)) is w
    with tf.variable_scope("net") as scope:
        scope.reuse_variables()
        assert tf.get_variable("w") is w


def test_a_scope_that_shares_does_not_make() -> None:
    with (
        tf.variable_scope("net", reuse=True),
        pytest.raises(GraphError, match=r"'net/w' does not exist.*AUTO_REUSE"),
    ):
        tf.get_variable("w", (2,))


def test_auto_reuse_makes_once_and_shares_afterwards() -> None:
    found = []
    for _ in range(3):
        with tf.variable_scope("net", reuse=tf.AUTO_REUSE):
            found.append(tf.get_variable("w", (2,)))
    assert found[0] is found[1] is found[2]
    assert len(tf.global_variables()) == 1


def test_sharing_is_handed_on_to_the_scopes_inside() -> None:
    with tf.variable_scope("a"), tf.variable_scope("b"):
        w = tf.get_variable("w", ())
    with tf.variable_scope("a", reuse=True), tf.variable_scope("b") as inner:
        assert inner.reuse is True
        assert tf.get_variable("w") is w


def test_a_scope_can_be_entered_again_from_anywhere() -> None:
    with tf.variable_scope("a") as scope:
        w = tf.get_variable("w", ())
    with tf.variable_scope("elsewhere"), tf.variable_scope(scope, reuse=True):
        assert tf.get_variable("w") is w
        assert tf.constant(1.0, name="c").name == "a/c"
    with tf.variable_scope("elsewhere"), tf.variable_scope(scope):
        assert tf.get_variable("v", ()).name == "a/v"


def test_what_is_shared_keeps_its_shape_and_dtype() -> None:
    tf.get_variable("w", (2, 3))
    with tf.variable_scope("", reuse=True):
        with pytest.raises(GraphError, match=r"'w' is shared with shape \(2, 3\).*\(3, 2\)"):
            tf.get_variable("w", (3, 2))
        with pytest.raises(GraphError, match="dtype float32, but got float64"):
            tf.get_variable("w", (2, 3), tf.float64)


def test_a_new_variable_needs_a_whole_shape_or_a_value() -> None:
    with pytest.raises(GraphError, match="'w' is new and has no shape"):
        tf.get_variable("w")
    with pytest.raises(GraphError, match="expected every size"):
        tf.get_variable("w", (None, 2))
    with pytest.raises(GraphError, match="name 3, expected a string"):
        tf.get_variable(3, (2,))  # type: ignore[arg-type]
    with pytest.raises(GraphError, match="Leave the shape out"):
        tf.get_variable("w", (3,), initializer=[1.0, 2.0])
    v = tf.get_variable("v", initializer=np.array([1.0, 2.0], np.float32))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(v).tolist() == [1.0, 2.0]


def test_initializers_and_defaults_of_scopes() -> None:
    with tf.variable_scope("a", initializer=tf.constant_initializer(3.0), dtype=tf.float64):
        w = tf.get_variable("w", (2,))
        b = tf.get_variable("b", (2,), initializer=tf.zeros_initializer)
        n = tf.get_variable("n", (2,), tf.int32, initializer=tf.ones_initializer())
    k = tf.get_variable("k", (2,), tf.int64)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run([w, b, n, k])
    assert [v.tolist() for v in found] == [[3.0, 3.0], [0.0, 0.0], [1, 1], [0, 0]]
    assert [v.dtype for v in found] == [np.float64, np.float64, np.int32, np.int64]


@pytest.mark.parametrize(
    ("initializer", "mean", "variance", "limit"),
    [
        (tf.glorot_uniform_initializer(1), 0.0, 2 / 500, (6 / 500) ** 0.5),
        (tf.glorot_normal_initializer(1), 0.0, 2 / 500, 2 * (2 / 500 / 0.7737) ** 0.5),
        (tf.random_uniform_initializer(-1.0, 3.0, 1), 1.0, 16 / 12, 3.0),
        (tf.random_normal_initializer(2.0, 0.5, 1), 2.0, 0.25, np.inf),
        (tf.truncated_normal_initializer(0.0, 1.0, 1), 0.0, 0.7737, 2.0),
        (tf.variance_scaling_initializer(2.0, "fan_out", seed=1), 0.0, 2 / 300, np.inf),
    ],
)
def test_random_initializers_have_their_moments(
    initializer: tf.Initializer, mean: float, variance: float, limit: float
) -> None:
    """A normal cut at two deviations keeps 0.7737 of its variance, which scaling makes good."""
    w = tf.get_variable("w", (200, 300), initializer=initializer)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(w).astype(np.float64)
    assert abs(found.mean() - mean) < 5 * (variance / found.size) ** 0.5
    assert abs(found.var() / variance - 1) < 0.03
    assert np.abs(found).max() <= limit * (1 + 1e-6)


def test_initializers_refuse_what_means_nothing() -> None:
    with pytest.raises(GraphError, match="got 'fan'"):
        tf.variance_scaling_initializer(1.0, "fan")


def test_two_graphs_share_no_names() -> None:
    a = tf.get_variable("w", ())
    with tf.Graph().as_default():
        assert tf.get_variable("w", ()) is not a
