"""Programs as they were written for TensorFlow 1, against NumPy, PyTorch and closed forms."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError, MinitorchError

# ── placeholders without any shape ──────────────────────────────────────────────────────────────


def test_a_predicate_may_be_a_placeholder_without_a_shape() -> None:
    training = tf.placeholder(tf.bool)
    x = tf.placeholder(tf.float32)
    y = tf.cond(training, lambda: x * 2, lambda: x * 3)
    with tf.Session() as session:
        assert list(session.run(y, {training: True, x: [1, 2]})) == [2, 4]
        assert session.run(y, {training: False, x: 2}) == 6


def test_a_branch_on_a_comparison_without_a_shape_has_its_gradient() -> None:
    x = tf.placeholder(tf.float32)
    y = tf.cond(x > 0, lambda: x * x, lambda: -x)
    slope = tf.gradients(y, x)[0]
    with tf.Session() as session:
        assert session.run([y, slope], {x: 3}) == [9, 6]
        assert session.run([y, slope], {x: -3}) == [3, -1]


def test_a_predicate_with_axes_is_refused_by_name_when_it_is_fed() -> None:
    flag = tf.placeholder(tf.bool, name="flag")
    y = tf.cond(flag, lambda: tf.constant(1), lambda: tf.constant(2))
    with tf.Session() as session, pytest.raises(GraphError, match=r"'flag' has axes: got .*\(2,\)"):
        session.run(y, {flag: [True, False]})


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens", "parallel"])
def test_a_trip_count_may_be_a_placeholder_without_a_shape(executor: str) -> None:
    n, x = tf.placeholder(tf.int32), tf.placeholder(tf.float32, [])
    start = (tf.constant(0), tf.constant(1.0))
    _, y = tf.while_loop(lambda i, _: i < n, lambda i, a: (i + 1, a * x), start)
    slope = tf.gradients(y, x)[0]
    with tf.Session(executor=executor) as session:
        assert session.run([y, slope], {x: 2.0, n: 3}) == [8, 12]
        assert session.run([y, slope], {x: 2.0, n: 0}) == [1, 0]


def test_the_deep_mnist_tutorial_learns_its_batch() -> None:
    def weights(shape: list[int]) -> tf.Variable:
        return tf.Variable(tf.truncated_normal(shape, stddev=0.1, seed=len(shape)))

    def biases(shape: list[int]) -> tf.Variable:
        return tf.Variable(tf.constant(0.1, shape=shape))

    x = tf.placeholder(tf.float32, [None, 64])
    y_ = tf.placeholder(tf.float32, [None, 10])
    keep_prob = tf.placeholder(tf.float32)
    image = tf.reshape(x, [-1, 8, 8, 1])
    conv = tf.nn.conv2d(image, weights([3, 3, 1, 4]), strides=[1, 1, 1, 1], padding="SAME")
    pool = tf.nn.max_pool(tf.nn.relu(conv + biases([4])), [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
    flat = tf.reshape(pool, [-1, 64])
    hidden = tf.nn.relu(tf.matmul(flat, weights([64, 32])) + biases([32]))
    dropped = tf.nn.dropout(hidden, keep_prob, seed=1)
    assert dropped.get_shape().as_list() == [None, 32]
    y = tf.matmul(dropped, weights([32, 10])) + biases([10])
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y))
    step = tf.train.AdamOptimizer(1e-2).minimize(loss)
    right = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    numbers = np.random.RandomState(0)
    batch = {x: numbers.randn(50, 64), y_: np.eye(10)[numbers.randint(0, 10, 50)]}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            step.run(feed_dict={**batch, keep_prob: 0.9})
        assert accuracy.eval(feed_dict={**batch, keep_prob: 1.0}) > 0.9
        assert session.run(accuracy, {**batch, keep_prob: 1.0}) == accuracy.eval(
            {**batch, keep_prob: 1.0}
        )


# ── shapes that are computed in the run ─────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"executor": "tokens"}])
def test_noise_takes_the_shape_of_a_batch(options: dict[str, Any]) -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    weight = tf.Variable(tf.ones([4, 2]))
    mean = tf.matmul(x, weight)
    drawn = mean + tf.random_normal(tf.shape(mean), seed=3) * tf.exp(0 * mean)
    assert drawn.get_shape().as_list() == [None, 2]
    slope = tf.gradients(tf.reduce_sum(drawn), weight)[0]
    with tf.Session(**options) as session:
        session.run(tf.initialize_all_variables())
        for rows in (3, 0, 5):
            value, grad = session.run([drawn, slope], {x: np.ones((rows, 4))})
            assert value.shape == (rows, 2)
            assert np.array_equal(grad, np.full((4, 2), rows))


@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"executor": "tokens"}])
def test_zeros_fill_tile_range_and_reshape_take_a_computed_batch_size(
    options: dict[str, Any],
) -> None:
    x = tf.placeholder(tf.float64, [None, 4])
    batch = tf.shape(x)[0]
    state = tf.zeros([batch, 5], tf.float64)
    joined = tf.reshape(tf.concat([x, state], 1), [batch * 3, -1])
    tiled = tf.tile(x, [1, batch])
    counts = tf.range(1, batch + 1)
    slopes = tf.gradients([tf.reduce_sum(joined**2), tf.reduce_sum(tiled)], x)[0]
    shaped = tf.reshape(tf.transpose(x), tf.shape(x))
    assert state.get_shape().as_list() == [None, 5]
    fetches = [joined, tiled, counts, slopes, shaped, tf.fill(tf.shape(x), 7)]
    given = np.random.RandomState(0).randn(3, 4)
    with tf.Session(**options) as session:
        a, b, c, d, e, f = session.run(fetches, {x: given})
    assert np.array_equal(a, np.concatenate([given, np.zeros((3, 5))], 1).reshape(9, 3))
    assert np.array_equal(b, np.tile(given, [1, 3]))
    assert list(c) == [1, 2, 3]
    assert np.allclose(d, 2 * given + 3)
    assert np.array_equal(e, given.T.reshape(3, 4))
    assert np.array_equal(f, np.full((3, 4), 7))


def test_a_loop_starts_from_a_state_of_the_batchs_size() -> None:
    x = tf.placeholder(tf.float64, [None, 2])
    start = tf.zeros([tf.shape(x)[0], 2], tf.float64)
    _, y = tf.while_loop(lambda i, _: i < 3, lambda i, h: (i + 1, h * 2 + x), (0, start))
    slope = tf.gradients(y, x)[0]
    with tf.Session() as session:
        value, grad = session.run([y, slope], {x: [[1, 2], [3, 4], [5, 6]]})
    assert np.array_equal(value, 7 * np.array([[1, 2], [3, 4], [5, 6]]))
    assert np.array_equal(grad, np.full((3, 2), 7))


def test_sizes_that_do_not_fit_name_the_node_and_its_line() -> None:
    x, n = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [])
    bad = tf.reshape(x, [n, 2], name="bad")
    below = tf.zeros([n])
    with tf.Session() as session:
        with pytest.raises(MinitorchError, match=r"'bad' built at .*test_tf1_programs"):
            session.run(bad, {x: [1, 2, 3], n: 2})
        with pytest.raises(MinitorchError, match=r"got \(-1,\).*test_tf1_programs"):
            session.run(below, {n: -1})
    with pytest.raises(GraphError, match="float32, expected an integer"):
        tf.zeros([tf.constant(2.0)])
    with pytest.raises(GraphError, match="expected a vector of known length"):
        tf.zeros(n)


def test_values_without_a_shape_go_through_a_whole_classifier() -> None:
    x, y = tf.placeholder("float"), tf.placeholder("float")
    weight = tf.Variable(tf.zeros([4, 3]))
    logits = tf.matmul(tf.reshape(x, [-1, 4]), weight)
    guess = tf.nn.softmax(tf.matmul(x, weight))
    by_hand = tf.reduce_mean(-tf.reduce_sum(y * tf.log(guess), reduction_indices=[1]))
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=logits))
    right = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(guess, 1), tf.argmax(y, 1)), "float"))
    steps = [tf.train.GradientDescentOptimizer(0.5).minimize(v) for v in (loss, by_hand)]
    feeds = {x: np.eye(4)[:3], y: np.eye(3)}
    assert tf.reshape(x, [-1, 4]).get_shape().as_list() == [None, 4]
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert np.allclose(session.run([loss, by_hand], feeds), np.log(3))
        session.run(steps[0], feeds)
        once = session.run(weight)
        assert np.allclose(once[:3], (np.eye(3) - 1 / 3) / 6)
        session.run(tf.initialize_all_variables())
        session.run(steps[1], feeds)
        assert np.allclose(session.run(weight), once)
        assert session.run(right, feeds) == 1


# ── arguments and meanings of single functions ──────────────────────────────────────────────────


def test_where_takes_whole_rows_by_a_condition_of_one_axis() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    mask = tf.placeholder(tf.bool, [None])
    chosen = tf.where(mask, x, -x)
    slope = tf.gradients(chosen, x)[0]
    with tf.Session() as session:
        value, grad = session.run([chosen, slope], {mask: [True, False]})
    assert value.tolist() == [[1, 2], [-3, -4]]
    assert grad.tolist() == [[1, 1], [-1, -1]]


def test_a_reduction_over_no_axis_is_the_value_itself() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.Session() as session:
        assert session.run(tf.reduce_sum(x, [])).tolist() == [[1, 2], [3, 4]]
        assert session.run(tf.gradients(tf.reduce_mean(x, ()), x)[0]).tolist() == [[1, 1], [1, 1]]


def test_the_adjoint_of_a_real_matrix_is_its_transpose() -> None:
    a = np.random.RandomState(0).randn(2, 3, 4)
    with tf.Session() as session:
        product = session.run(tf.matmul(a, a, adjoint_b=True))
    assert np.allclose(product, a @ a.transpose(0, 2, 1))


def test_a_variable_is_evaluated_in_the_session_it_is_given() -> None:
    variable = tf.Variable([1.0, 2.0])
    with tf.Session() as first, tf.Session() as second:
        variable.initializer.run(session=first)
        variable.initializer.run()
        second.run(variable.assign_add([1.0, 1.0]))
        assert variable.eval(first).tolist() == [1, 2]
        assert variable.eval(session=first).tolist() == [1, 2]
        assert variable.eval().tolist() == [2, 3]


def test_where_of_a_condition_alone_gives_places() -> None:
    mask = tf.placeholder(tf.bool, [None, 2])
    with tf.Session() as session:
        found = session.run(tf.where(mask), {mask: [[True, False], [True, True]]})
        none = session.run(tf.where(mask), {mask: [[False, False]]})
    assert found.dtype == np.int64
    assert found.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert none.shape == (0, 2)
    with pytest.raises(GraphError, match="both or neither"):
        tf.where(mask, tf.ones([2, 2]))


def test_div_of_integers_is_whole_and_of_floats_is_not() -> None:
    with tf.Session() as session:
        whole = tf.div(tf.constant([7, -7]), 2)
        assert session.run(whole).tolist() == [3, -4]
        assert session.run(whole).dtype == np.int32
        assert session.run(tf.div(tf.constant([7.0]), 2)).tolist() == [3.5]
        assert session.run(tf.div(7, tf.constant([2.0]))).tolist() == [3.5]


def test_reverse_and_eye() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.Session() as session:
        assert session.run(tf.reverse(x, [0])).tolist() == [[3, 4], [1, 2]]
        assert session.run(tf.reverse(x, axis=[0, -1])).tolist() == [[4, 3], [2, 1]]
        assert session.run(tf.matmul(x, tf.eye(2))).tolist() == [[1, 2], [3, 4]]
        assert session.run(tf.eye(1, 2)).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    "build",
    [
        lambda x: tf.matmul(x, tf.ones([4, 2])),
        lambda x: tf.matmul(x, tf.constant(2.0)),
        lambda x: tf.reduce_sum(x, 2),
        lambda x: tf.argmax(x, 2),
        lambda x: tf.reshape(x, [4, -1]),
        lambda x: tf.transpose(x, [0, 2]),
        lambda x: tf.concat([x, tf.ones([2, 2])], 0),
        lambda x: tf.stack([]),
        lambda x: tf.nn.conv2d(x, tf.ones([3, 3, 3, 4]), [1, 1, 1, 1], "SAME"),
        lambda x: tf.nn.softmax_cross_entropy_with_logits(labels=x, logits=tf.ones([2, 2])),
        lambda x: tf.nn.dropout(x, 2.0),
        lambda x: x + tf.ones([4]),
    ],
)
def test_what_cannot_be_built_names_the_line_that_asked(build: Any) -> None:
    line = build.__code__.co_firstlineno
    with pytest.raises(MinitorchError, match=rf"built at .*test_tf1_programs.py:{line}\)"):
        build(tf.ones([2, 3]))


def test_what_does_not_fit_in_the_run_names_the_node_and_its_line_though_built_late() -> None:
    x = tf.placeholder(tf.float32)
    product = tf.matmul(x, tf.ones([4, 2]))
    with (
        tf.Session() as session,
        pytest.raises(MinitorchError, match=r"matmul.*built at .*test_tf1_programs.py") as got,
    ):
        session.run(product, {x: np.ones((2, 3))})
    assert str(got.value).endswith(f":{product.built_at[1]})")


# ── slices that are computed in the run ─────────────────────────────────────────────────────────

CUTS = {
    "stop": lambda x, n: x[:n],
    "start, from the end": lambda x, n: x[-n:],
    "both": lambda x, n: x[n - 1 : n + 1, 1:],
    "step": lambda x, n: x[:, ::n],
    "after an ellipsis": lambda x, n: x[..., :n],
    "beside an integer and a new axis": lambda x, n: x[0, None, :n],
    "beyond the end": lambda x, n: x[: n + 9],
    "none": lambda x, n: x[n:n],
    "back": lambda x, n: x[::-1],
    "back within": lambda x, n: x[:, 3:0:-2],
}


@pytest.mark.parametrize("build", CUTS.values(), ids=CUTS.keys())
def test_a_slice_with_nodes_for_bounds_is_numpys(build: Any) -> None:
    x, n = tf.placeholder(tf.float64, [None, 4]), tf.placeholder(tf.int32, [])
    y = build(x, n)
    slope = tf.gradients(tf.reduce_sum(y * y), x)[0]
    given = np.arange(12.0).reshape(3, 4)
    touched = np.zeros((3, 4), int)
    view = build(touched, 2)
    view += 1
    for options in ({}, {"optimize": True}, {"executor": "tokens"}):
        with tf.Session(**options) as session:
            value, grad = session.run([y, slope], {x: given, n: 2})
        assert np.array_equal(value, build(given, 2))
        assert np.array_equal(grad, 2 * given * touched)


def test_slice_takes_a_begin_and_a_size_computed_in_the_run() -> None:
    x, n = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int32)
    given = np.arange(12.0).reshape(3, 4)
    with tf.Session() as session:
        row = session.run(tf.slice(x, [n, 0], [1, -1]), {x: given, n: 1})
        block = session.run(tf.slice(x, [0, 1], [n, 2]), {x: given, n: 2})
    assert np.array_equal(row, given[1:2])
    assert np.array_equal(block, given[:2, 1:3])
    assert tf.constant([1, 2, 3])[::-1].get_shape().as_list() == [3]


def test_the_arena_refuses_sizes_that_are_computed_in_the_run() -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    joined = tf.concat([x, tf.zeros([tf.shape(x)[0], 1])], 1)
    with (
        tf.Session(executor="arena") as session,
        pytest.raises(GraphError, match=r"computed in the run: got node .*test_tf1_programs"),
    ):
        session.run(joined, {x: np.ones((2, 4))})
    with tf.Session(executor="arena") as session:
        assert session.run(x[::-1], {x: [[1] * 4, [2] * 4]}).tolist() == [[2] * 4, [1] * 4]


@pytest.mark.parametrize(
    ("build", "oracle"),
    [
        (lambda x: tf.expand_dims(x, 1), lambda x: x[:, None]),
        (lambda x: tf.expand_dims(x, -1), lambda x: x[..., None]),
        (lambda x: tf.concat([x, 2 * x], 1), lambda x: np.concatenate([x, 2 * x], 1)),
        (lambda x: tf.squeeze(tf.expand_dims(x, 0), [0]), lambda x: x),
        (lambda x: tf.stack([x, x * x]), lambda x: np.stack([x, x * x])),
        (lambda x: tf.transpose(x), lambda x: x.T),
        (lambda x: tf.log(tf.nn.softmax(x)), lambda x: x - np.log(np.exp(x).sum(1))[:, None]),
    ],
)
def test_a_value_without_a_shape_is_rearranged_once_it_has_one(build: Any, oracle: Any) -> None:
    x = tf.placeholder(tf.float64)
    y = build(x)
    slope = tf.gradients(tf.reduce_sum(y), x)[0]
    given = np.random.RandomState(0).randn(2, 3)
    move = np.random.RandomState(1).randn(2, 3)
    with tf.Session() as session:
        value, grad = session.run([y, slope], {x: given})
    ahead, behind = oracle(given + 1e-6 * move).sum(), oracle(given - 1e-6 * move).sum()
    assert np.allclose(value, oracle(given))
    assert np.isclose((grad * move).sum(), (ahead - behind) / 2e-6, atol=1e-6)
