"""Checks, crops, blocks and casts, and names from before version 1."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError

X = np.random.RandomState(0).rand(2, 4, 6, 8).astype(np.float32)


def _run(node: Any) -> Any:
    with tf.Session() as session:
        return session.run(node)


def test_a_value_that_is_not_finite_stops_the_run_with_the_message() -> None:
    x = tf.placeholder(tf.float32, [2])
    y = tf.check_numerics(tf.log(x), "the logarithm")
    (slope,) = tf.gradients(tf.verify_tensor_all_finite(x * x, "the square"), x)
    with tf.Session() as session:
        np.testing.assert_allclose(session.run(y, {x: [1, 1]}), 0)
        assert session.run(slope, {x: [1, 2]}).tolist() == [2, 4]
        with pytest.raises(GraphError, match="the logarithm"):
            session.run(y, {x: [1, 0]})


def test_blocks_become_channels_and_channels_blocks_again() -> None:
    deep = tf.space_to_depth(tf.constant(X), 2)
    flat = tf.depth_to_space(deep, 2)
    wide = tf.depth_to_space(tf.constant(X[..., [0, 4, 1, 5, 2, 6, 3, 7]]), 2)
    got, again, shuffled = _run([deep, flat, wide])
    assert got.shape == (2, 2, 3, 32)
    np.testing.assert_array_equal(got[0, 1, 2], X[0, 2:4, 4:6].reshape(-1))
    np.testing.assert_array_equal(again, X)
    # PyTorch has the channel outside and the block inside; TensorFlow the other way round
    want = torch.pixel_shuffle(torch.tensor(X.transpose(0, 3, 1, 2)), 2).numpy()
    np.testing.assert_array_equal(shuffled, want.transpose(0, 2, 3, 1))


def test_a_crop_is_a_block_of_its_value_from_everywhere() -> None:
    value = np.arange(20).reshape(4, 5)
    crop = tf.random_crop(tf.constant(value), [2, 5], seed=3)
    assert crop.shape == (2, 5)
    with tf.Session() as session:
        found = {tuple(session.run(crop).ravel()) for _ in range(60)}
    assert found == {tuple(value[i : i + 2].ravel()) for i in range(3)}


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        ([-3.0, 0.4, 255.9, 1e9], "uint8"),
        ([-1e12, 7.0, 1e12], "int32"),
        ([-1e300, 2.5, 1e300], "float32"),
    ],
)
def test_a_cast_stays_within_its_range(value: list[float], dtype: str) -> None:
    kind: Any = np.finfo if dtype == "float32" else np.iinfo
    for source in ("float32", "float64"):
        if source == dtype or np.isinf(np.array(value).astype(source)).any():
            continue
        given = np.array(value, source)
        got = _run(tf.saturate_cast(tf.constant(given), dtype))
        want = np.clip(given.astype(np.float64), kind(dtype).min, kind(dtype).max)
        np.testing.assert_allclose(got, np.trunc(want) if dtype != "float32" else want, rtol=1e-6)


def test_a_value_is_stretched_to_a_shape_and_its_gradient_adds_up() -> None:
    x = tf.constant([[1.0], [2.0]])
    y = tf.broadcast_to(x, [3, 2, 4])
    got, slope = _run([y, tf.gradients(y, x)[0]])
    np.testing.assert_array_equal(got, np.broadcast_to([[1.0], [2.0]], (3, 2, 4)))
    assert slope.tolist() == [[12], [12]]


def test_a_program_from_before_version_one_writes_its_summaries(tmp_path: Path) -> None:
    v = tf.Variable(2.0, name="v")
    tf.scalar_summary("v_now", v)
    tf.histogram_summary("v_all", v)
    merged, writer = tf.merge_all_summaries(), tf.train.SummaryWriter(tmp_path)
    with tf.Session() as session:
        session.run([tf.initialize_all_variables(), tf.initialize_local_variables()])
        writer.add_summary(session.run(merged), 1)
    writer.close()
    assert '"v_now": 2.0' in (tmp_path / "summaries.jsonl").read_text()


def test_dtypes_are_found_by_their_names() -> None:
    assert tf.as_dtype("float32") == tf.float32
    assert isinstance(tf.int64, tf.DType)


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: tf.space_to_depth(tf.constant(X[:, :3]), 2), "multiples of 2"),
        (lambda: tf.depth_to_space(tf.constant(X[..., :3]), 2), "3 channels"),
        (lambda: tf.random_crop(tf.constant(X), [9, 1, 1, 1]), r"size \[9"),
        (lambda: tf.random_crop(tf.placeholder(tf.float32, [None]), [1]), "known sizes"),
        (lambda: tf.space_to_depth(tf.constant([1.0]), 2), "expected"),
    ],
)
def test_what_does_not_fit_is_refused(build: Any, says: str) -> None:
    with pytest.raises(GraphError, match=says):
        build()
