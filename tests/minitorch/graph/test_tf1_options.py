"""Further arguments of TensorFlow 1's functions: each against NumPy, PyTorch or a closed form."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import minitorch.graph as tf

RNG = np.random.default_rng(11)


def _run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)


def test_a_gru_starts_as_it_is_told_and_steps_as_its_formula_says() -> None:
    x, h = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 4))
    start = tf.constant_initializer(0.1)
    cell = tf.nn.rnn_cell.GRUCell(4, kernel_initializer=start, bias_initializer=start)
    found, _ = cell(tf.constant(x), tf.constant(h))
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    gate = sigmoid(0.1 * (x.sum(1) + h.sum(1)) + 0.1)[:, None]  # r and u have equal weights
    candidate = np.tanh(0.1 * (x.sum(1) + (gate * h).sum(1)) + 0.1)[:, None]
    np.testing.assert_allclose(_run(found), gate * h + (1 - gate) * candidate, rtol=1e-6)


def test_a_range_of_elements_ends_where_the_run_says() -> None:
    end = tf.placeholder(tf.int64, [])
    iterator = tf.data.Dataset.range(2, end, 3).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        for stop in (9, 3):
            session.run(iterator.initializer, {end: stop})
            assert [session.run(element) for _ in range(2, stop, 3)] == list(range(2, stop, 3))
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(element)


def test_a_saver_keeps_one_file_of_each_span_and_pads_its_steps(tmp_path: Path) -> None:
    v = tf.get_variable("v", [])
    write = tf.train.SaverDef.V1
    usual = tf.train.Saver(max_to_keep=1, pad_step_number=True, write_version=write)
    every = tf.train.Saver(max_to_keep=1, keep_checkpoint_every_n_hours=-1.0)
    with tf.Session() as session:
        session.run(v.initializer)
        for step in range(3):
            usual.save(session, tmp_path / "usual", global_step=step)
            every.save(session, tmp_path / "every", global_step=step)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert [n for n in names if n.startswith("usual")] == ["usual-00000002.safetensors"]
    assert len([n for n in names if n.startswith("every")]) == 3
    assert [Path(p).name for p in usual.last_checkpoints] == ["usual-00000002.safetensors"]


def test_a_saver_finds_its_variables_late_and_counts_files_it_is_told_of(
    tmp_path: Path,
) -> None:
    saver = tf.train.Saver(defer_build=True, max_to_keep=2)
    v = tf.get_variable("v", [], initializer=tf.constant_initializer(3.0))
    with tf.Session() as session:
        session.run(v.initializer)
        first = saver.save(session, tmp_path / "m", global_step=1)
        again = tf.train.Saver(max_to_keep=2)
        again.recover_last_checkpoints([first, str(tmp_path / "gone")])
        for step in (2, 3):
            again.save(session, tmp_path / "m", global_step=np.int64(step))
        assert not Path(first).exists()
        assert [Path(p).stem for p in again.last_checkpoints] == ["m-2", "m-3"]
        session.run(v.assign(0.0))
        saver.restore(session, again.last_checkpoints[0])
        assert session.run(v) == 3.0


@pytest.mark.parametrize("step", ["abc", 1.5, [1, 2]])
def test_a_step_that_is_no_whole_number_is_refused(step: Any, tmp_path: Path) -> None:
    v = tf.get_variable("v", [])
    with tf.Session() as session:
        session.run(v.initializer)
        with pytest.raises(tf.GraphError, match=r"global_step .*whole number"):
            tf.train.Saver().save(session, tmp_path / "m", global_step=step)


@pytest.mark.parametrize(
    "build",
    [
        lambda: tf.train.Saver([tf.get_variable("v", [])], saver_def=object()),
        lambda: tf.train.Saver([tf.get_variable("v", [])], filename="model"),
        lambda: tf.nn.rnn_cell.LSTMCell(3, num_proj_shards=2),
        lambda: tf.contrib.layers.batch_norm(tf.zeros([2, 3]), batch_weights=tf.ones([2])),
        lambda: tf.matmul(tf.eye(2), tf.eye(2), transpose_a=True, adjoint_a=True),
        lambda: tf.nn.softmax_cross_entropy_with_logits_v2(tf.eye(2), tf.eye(2), 0, dim=1),
        lambda: tf.data.Dataset.range(1.5),
        lambda: tf.data.Dataset.range(),
    ],
)
def test_what_cannot_be_had_is_refused_by_name(build: Callable[[], Any]) -> None:
    with pytest.raises(tf.GraphError, match="got"):
        build()


def test_a_normalizer_stands_in_for_the_biases_and_runs_its_updates() -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    training = tf.placeholder(tf.bool, [])
    params = {"is_training": training, "decay": 0.9, "updates_collections": None}
    y = tf.contrib.layers.fully_connected(
        x, 3, normalizer_fn=tf.contrib.layers.batch_norm, normalizer_params=params, scope="fc"
    )
    assert [v.name for v in tf.trainable_variables()] == ["fc/weights", "fc/BatchNorm/beta"]
    assert not tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    data = RNG.normal(size=(50, 4)).astype(np.float32)
    weights, _, mean, variance = tf.global_variables()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run(y, {x: data, training: True})
        product = data @ session.run(weights)
        want = F.relu(F.batch_norm(torch.tensor(product), None, None, training=True, eps=1e-3))
        np.testing.assert_allclose(got, want.numpy(), rtol=1e-4, atol=1e-5)
        means, variances = session.run([mean, variance])
        np.testing.assert_allclose(means, 0.1 * product.mean(0), rtol=1e-4)
        np.testing.assert_allclose(variances, 0.9 + 0.1 * product.var(0), rtol=1e-4)
        got = session.run(y, {x: data, training: False})
        want = np.maximum((product - means) / np.sqrt(variances + 1e-3), 0)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-5)


def test_a_dense_layer_without_biases_and_its_collections() -> None:
    x = RNG.normal(size=(2, 5, 4)).astype(np.float32)
    y = tf.contrib.layers.fully_connected(
        x,
        3,
        None,
        biases_initializer=None,
        variables_collections={"weights": ["mine"]},
        outputs_collections=["ends"],
    )
    (weights,) = tf.get_collection("mine")
    assert tf.global_variables() == [weights] and tf.get_collection("ends") == [y]
    got, kernel = _run([y, weights])
    np.testing.assert_allclose(got, x @ kernel, rtol=1e-5)


@pytest.mark.parametrize("axis", [0, 1, 2, -2])
def test_a_cross_entropy_goes_along_any_axis(axis: int) -> None:
    logits = RNG.normal(size=(2, 3, 4))
    labels = RNG.uniform(size=(2, 3, 4))
    x = tf.constant(logits)
    loss = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels, logits=x, axis=axis)
    given = torch.tensor(logits, requires_grad=True)
    want = -(torch.tensor(labels) * torch.log_softmax(given, axis)).sum(axis)
    want.sum().backward()
    got, slope = _run([loss, tf.gradients(loss, x)[0]])
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-10)
    assert given.grad is not None
    np.testing.assert_allclose(slope, given.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_products_identities_and_axes_take_tensorflows_options() -> None:
    a = RNG.normal(size=(3, 2)).astype(np.float32)
    rows = tf.placeholder(tf.int32, [])
    found = [
        tf.matmul(a, a, adjoint_a=True, a_is_sparse=True, b_is_sparse=True),
        tf.eye(2, 3, batch_shape=[4, 1]),
        tf.eye(rows, batch_shape=tf.stack([rows, 2]), dtype=tf.int32),
        tf.transpose(a, conjugate=True),
    ]
    want = [
        a.T @ a,
        np.broadcast_to(np.eye(2, 3), (4, 1, 2, 3)),
        np.broadcast_to(np.eye(3), (3, 2, 3, 3)),
        a.T,
    ]
    for got, right in zip(_run(found, {rows: 3}), want, strict=True):
        assert got.shape == right.shape
        np.testing.assert_allclose(got, right, rtol=1e-6)


def test_a_family_stands_before_the_scopes_of_a_tag() -> None:
    with tf.name_scope("outer"):
        made = [tf.summary.scalar("inner", 7, family="family") for _ in range(2)]
    assert _run(made) == [{"family/outer/family/inner": 7}, {"family/outer/family/inner_1": 7}]


def test_a_dtype_answers_what_tensorflows_does() -> None:
    x = tf.placeholder(tf.float32, [2])
    assert x.dtype == tf.float32 == np.float32 != tf.float64
    assert x.dtype.base_dtype is x.dtype and isinstance(x.dtype, tf.DType)
    assert x.dtype.as_numpy_dtype is np.float32 and x.dtype.name == "float32"
    assert x.dtype.is_floating and not x.dtype.is_integer and x.dtype.size == 4
    assert (tf.uint8.min, tf.uint8.max, tf.uint8.limits) == (0, 255, (0, 255))
    assert tf.int32.is_integer and not tf.int32.is_unsigned and tf.bool.is_bool
    assert {tf.int64: 1}[np.dtype("int64")] == 1 and tf.float32 in (np.dtype("float32"),)
    assert tf.as_dtype(np.float16) is tf.float16 is tf.half is tf.dtypes.float16
    assert np.zeros(2, tf.int8).dtype == tf.int8 and np.promote_types(tf.int8, np.int16) == tf.int16
    assert tf.float32 != "no dtype" and tf.float32 is not None and repr(tf.int8) == "tf.int8"
    assert _run(tf.dtypes.cast(2.7, tf.dtypes.int32)) == 2
