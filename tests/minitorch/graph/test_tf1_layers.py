"""Layers and tables that do what their arguments say: penalties, constraints, parts."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError, MinitorchError
from minitorch.graph.spaces.absent import ABSENT


def _positive(v: Any) -> Any:
    return tf.maximum(v, 0.0)


def _unit(v: Any) -> Any:
    return v / tf.sqrt(tf.reduce_sum(tf.square(v), 0, keepdims=True))


X = np.random.RandomState(0).randn(6, 4).astype(np.float32)


def _penalties() -> list[Any]:
    return tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)


@pytest.mark.parametrize(
    ("build", "shape"),
    [
        (lambda x, r: tf.layers.dense(x, 3, tf.nn.relu, activity_regularizer=r), (6, 4)),
        (lambda x, r: tf.layers.conv1d(x, 3, 2, activity_regularizer=r), (2, 5, 3)),
        (lambda x, r: tf.layers.conv2d(x, 3, 2, activity_regularizer=r), (2, 5, 5, 3)),
        (lambda x, r: tf.layers.conv2d_transpose(x, 3, 2, activity_regularizer=r), (2, 5, 5, 3)),
        (lambda x, r: tf.layers.separable_conv2d(x, 3, 2, activity_regularizer=r), (2, 5, 5, 3)),
    ],
)
def test_a_penalty_of_a_layers_outputs_is_among_the_losses(build: Any, shape: Any) -> None:
    x = tf.constant(np.random.RandomState(1).randn(*shape).astype(np.float32))
    y = build(x, lambda t: 0.5 * tf.reduce_sum(tf.square(t)))
    (penalty,) = _penalties()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        out, loss, total = session.run([y, penalty, tf.losses.get_regularization_loss()])
    assert loss == pytest.approx(0.5 * np.square(out).sum(), rel=1e-5)
    assert total == loss


def test_a_penalty_of_outputs_pulls_the_weights_as_torch_says() -> None:
    x = tf.constant(X)
    y = tf.layers.dense(x, 2, use_bias=False, activity_regularizer=lambda t: tf.nn.l2_loss(t))
    kernel = tf.trainable_variables()[0]
    loss = tf.losses.mean_squared_error(tf.zeros([6, 2]), y) + tf.losses.get_regularization_loss()
    slope = tf.gradients(loss, kernel)[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        start, got = session.run([kernel.read_value(), slope])
    w = torch.tensor(start, requires_grad=True)
    out = torch.tensor(X) @ w
    (out.square().mean() + out.square().sum() / 2).backward()
    assert w.grad is not None
    np.testing.assert_allclose(got, w.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda: tf.train.GradientDescentOptimizer(0.5),
        lambda: tf.train.MomentumOptimizer(0.5, 0.9),
        lambda: tf.train.AdamOptimizer(0.5),
    ],
)
@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
def test_a_constraint_holds_after_every_update(optimizer: Any, executor: str) -> None:
    y = tf.layers.dense(
        tf.constant(X), 3, kernel_constraint=_positive, bias_constraint=lambda b: tf.minimum(b, 0.1)
    )
    step = optimizer().minimize(tf.reduce_mean(tf.square(y - 1.0)))
    kernel, bias = tf.trainable_variables()
    with tf.Session(executor=executor) as session:
        session.run(tf.global_variables_initializer())
        assert session.run(kernel).min() < 0  # nothing holds before the first update
        for _ in range(5):
            session.run(step)
            assert session.run(kernel).min() >= 0
            assert session.run(bias).max() <= np.float32(0.1)


def test_a_constrained_step_is_the_step_and_then_the_projection() -> None:
    start = np.random.RandomState(2).randn(4, 3).astype(np.float32)
    w = tf.Variable(start, constraint=_unit)
    loss = tf.reduce_sum(tf.matmul(tf.constant(X), w))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        got = session.run(w)
    want = start - 0.1 * X.sum(0)[:, None]
    np.testing.assert_allclose(got, want / np.linalg.norm(want, axis=0), rtol=1e-5)


def test_a_scopes_constraint_and_getter_are_its_variables() -> None:
    asked = []

    def getter(get: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        asked.append(name)
        return get(name, *args, **kwargs) * 2.0

    with tf.variable_scope("a", constraint=_positive, custom_getter=getter):
        twice = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        again = tf.layers.dense(tf.constant(X), 2, use_bias=False, name="d")
    assert asked == ["a/w", "a/d/kernel"]
    assert [v.constraint for v in tf.global_variables()] == [_positive, _positive]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(twice).tolist() == [2, 2]
        kernel = session.run(tf.global_variables()[1])
        np.testing.assert_allclose(session.run(again), X @ kernel * 2, rtol=1e-5, atol=1e-6)


def test_normalized_scales_stay_where_their_constraint_puts_them() -> None:
    y = tf.layers.batch_normalization(
        tf.constant(X), training=True, gamma_constraint=lambda g: tf.minimum(g, 1.0)
    )
    step = tf.train.GradientDescentOptimizer(1.0).minimize(-tf.reduce_sum(tf.square(y)))
    gamma = next(v for v in tf.trainable_variables() if "gamma" in v.name)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run(gamma).tolist() == [1] * 4


@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("apart", [1, 2])
def test_a_convolution_of_sequences_is_torchs_in_both_layouts(padding: str, apart: int) -> None:
    x = np.random.RandomState(3).randn(2, 7, 3).astype(np.float32)
    y = tf.layers.conv1d(tf.constant(x), 4, 3, padding=padding, dilation_rate=apart, name="c")
    z = tf.layers.conv1d(
        tf.constant(x.transpose(0, 2, 1)), 4, 3, 1, padding, "channels_first", apart,
        name="c", reuse=True,
    )  # fmt: skip
    kernel = tf.trainable_variables()[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        last, first, k = session.run([y, z, kernel.read_value()])
    want = torch.nn.functional.conv1d(
        torch.tensor(x.transpose(0, 2, 1)),
        torch.tensor(k.transpose(2, 1, 0)),
        dilation=apart,
        padding=padding,
    ).numpy()
    np.testing.assert_allclose(first, want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(last, want.transpose(0, 2, 1), rtol=1e-4, atol=1e-5)


def test_pools_of_sequences_are_torchs() -> None:
    x = np.random.RandomState(4).randn(2, 6, 3).astype(np.float32)
    most = tf.layers.max_pooling1d(tf.constant(x), 2, 2)
    mean = tf.layers.average_pooling1d(tf.constant(x), 3, 1)
    turned = torch.tensor(x.transpose(0, 2, 1))
    with tf.Session() as session:
        got = session.run([most, mean])
    wants = (torch.max_pool1d(turned, 2), torch.nn.functional.avg_pool1d(turned, 3, 1))
    for value, want in zip(got, wants, strict=True):
        np.testing.assert_allclose(value, want.numpy().transpose(0, 2, 1), rtol=1e-6)


# ── tables in parts ─────────────────────────────────────────────────────────────────────────────

TABLE = np.random.RandomState(5).randn(7, 4).astype(np.float32)
DEALT = {
    "mod": [TABLE[0::3], TABLE[1::3], TABLE[2::3]],
    "div": [TABLE[:3], TABLE[3:5], TABLE[5:]],
}


@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_rows_are_found_in_parts_as_in_the_whole_table(strategy: str) -> None:
    ids = np.array([[6, 0], [3, 4]])
    found = tf.nn.embedding_lookup(DEALT[strategy], ids, partition_strategy=strategy)
    with tf.Session() as session:
        assert np.array_equal(session.run(found), TABLE[ids])


@pytest.mark.parametrize("loss", ["nce_loss", "sampled_softmax_loss"])
@pytest.mark.parametrize("strategy", ["mod", "div"])
def test_a_sampled_loss_reads_its_table_in_parts(loss: str, strategy: str) -> None:
    biases = TABLE[:, 0]
    inputs, labels = TABLE[:2] * 0.5, np.array([[1], [5]])
    drawn = (np.array([2, 6, 0]), np.full((2, 1), 0.3, np.float32), np.full(3, 0.4, np.float32))
    cuts = {"mod": [biases[0::3], biases[1::3], biases[2::3]],
            "div": [biases[:3], biases[3:5], biases[5:]]}  # fmt: skip
    function = getattr(tf.nn, loss)
    more = (labels, inputs, 3, 7, 1, drawn)
    whole = function(TABLE, biases, *more)
    parts = function(DEALT[strategy], cuts[strategy], *more, partition_strategy=strategy)
    with tf.Session() as session:
        want, got = session.run([whole, parts])
    np.testing.assert_array_equal(got, want)
    logits = TABLE @ inputs.T + biases[:, None]
    true = np.array([logits[1, 0], logits[5, 1]]) - np.log(0.3)
    others = logits[[2, 6, 0]].T - np.log(0.4)
    if loss == "nce_loss":
        oracle = np.log1p(np.exp(-true)) + np.log1p(np.exp(others)).sum(1)
    else:
        oracle = np.log(np.exp(true) + np.exp(others).sum(1)) - true
    np.testing.assert_allclose(got, oracle, rtol=1e-4)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: tf.nn.embedding_lookup(DEALT["mod"], [1], "hash"), "'hash'"),
        (lambda: tf.nn.embedding_lookup([TABLE[:2], TABLE[2:]], [1]), r"parts of \[2, 5\] rows"),
        (lambda: tf.get_variable("w", [2], partitioner=lambda **_: 2), "partitioner"),
        (lambda: tf.layers.batch_normalization(tf.constant(X), renorm=True), "renorm"),
        (lambda: tf.layers.conv2d(tf.zeros([1, 4, 4, 1]), 2, 2, data_format="NHWC"), "NHWC"),
        (lambda: tf.constant([1, 2], shape=[4], verify_shape=True), "verify_shape"),
        (lambda: tf.nn.log_uniform_candidate_sampler([[1, 2]], 1, 2, True, 7), "num_true"),
        (lambda: tf.nn.rnn_cell.MultiRNNCell([None], state_is_tuple=False), "state_is_tuple"),
    ],
)
def test_what_is_not_there_is_refused_by_name(build: Any, says: str) -> None:
    with pytest.raises(MinitorchError, match=says):
        build()


@pytest.mark.parametrize(
    ("where", "name", "says"),
    [
        (tf, "string_split", "py_func"),
        (tf.nn, "learned_unigram_candidate_sampler", "log_uniform"),
        (tf.train, "SyncReplicasOptimizer", "ddp_lab"),
        (tf, "RegisterGradient", "minitorch.Op"),
        (tf, "op_scope", "AUTO_REUSE"),
        (tf.linalg, "square_root", "py_func"),
        (tf.contrib, "slim", "layers"),
        (tf.contrib.layers, "conv2d", "batch_normalization"),
        (tf.contrib.rnn, "LSTMBlockCell", "BasicLSTMCell"),
        (tf.metrics, "recall_at_k", "NumPy"),
        (tf.summary, "text", "scalar"),
    ],
)
def test_a_name_that_is_absent_says_what_to_use(where: Any, name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=f"{name}.*{says}"):
        getattr(where, name)


def test_no_name_that_is_said_to_be_absent_is_there() -> None:
    for module, names in ABSENT.items():
        where: Any = tf
        for part in module.removeprefix("minitorch.graph").replace(".spaces", "").split(".")[1:]:
            where = getattr(where, part)
        for name in names:
            with pytest.raises(AttributeError, match=f"{name}.*not supported here"):
                getattr(where, name)


def test_older_names_mean_the_newer_ones() -> None:
    x = tf.constant([2.0, 4.0])
    both = tf.merge_summary([tf.scalar_summary("a", 1.0), tf.scalar_summary("b", 2.0)])
    (slope,) = tf.gradients(
        tf.scalar_mul(3.0, tf.inv(x)), [x], aggregation_method=tf.AggregationMethod.ADD_N
    )
    with tf.Session() as session:
        assert session.run(both) == {"a": 1.0, "b": 2.0}
        np.testing.assert_allclose(session.run(slope), [-0.75, -0.1875])


def test_a_metric_goes_into_the_collections_it_is_told() -> None:
    value, update = tf.metrics.mean(tf.constant([1.0, 3.0]), None, "values", ["updates"])
    assert tf.get_collection("values") == [value]
    assert tf.get_collection("updates") == [update]


def test_pieces_of_one_function_are_found_by_their_numbers() -> None:
    first, second = tf.split(tf.constant([1.0, 2.0]), 2, name="halves")
    graph = tf.get_default_graph()
    assert graph.get_tensor_by_name("halves:0") is first
    assert graph.get_tensor_by_name("halves:1") is second


def test_parts_of_sizes_that_the_run_computes_are_numpys() -> None:
    sizes = tf.placeholder(tf.int32, [2])
    a, b = tf.split(tf.constant(np.arange(5)), sizes)
    with tf.Session() as session:
        got = session.run([a, b], {sizes: [2, 3]})
    assert [piece.tolist() for piece in got] == [[0, 1], [2, 3, 4]]
    with pytest.raises(GraphError, match="Give num"):
        tf.split(tf.constant(np.arange(5)), tf.placeholder(tf.int32, [None]))


def test_a_layer_as_an_object_has_its_variables_once() -> None:
    layer = tf.layers.Dense(3, activation=tf.nn.relu, name="shared")
    assert layer.variables == []
    with pytest.raises(AttributeError, match="no 'kernel'"):
        layer.kernel  # noqa: B018
    a, b = layer(tf.constant(X)), layer.apply(tf.constant(X * 2))
    assert [v.name for v in layer.trainable_variables] == ["shared/kernel", "shared/bias"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        first, second, kernel = session.run([a, b, layer.kernel])
    np.testing.assert_allclose(first, np.maximum(X @ kernel, 0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(second, 2 * first, rtol=1e-5, atol=1e-6)


def test_layers_as_objects_are_named_by_their_kind_and_flags_may_come_with_the_call() -> None:
    x = tf.constant(np.ones((2, 4, 4, 3), np.float32))
    conv, norm = tf.layers.Conv2D(2, 3), tf.layers.BatchNormalization()
    y = tf.layers.Flatten()(tf.layers.Dropout(0.5)(norm(conv(x), training=True)))
    other = tf.layers.Conv2D(2, 3)(x)
    assert y.shape == (2, 8)
    assert other.shape == (2, 2, 2, 2)
    assert conv.kernel.name == "conv2d/kernel"
    assert [v.name for v in tf.trainable_variables()][-2:] == ["conv2d_1/kernel", "conv2d_1/bias"]
    assert len(norm.variables) == 4
    with pytest.raises(AttributeError, match="'Conv3D'"):
        tf.layers.Conv3D  # noqa: B018
