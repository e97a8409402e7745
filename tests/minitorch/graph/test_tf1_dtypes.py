"""Dtypes that do not mix by themselves, wherever several values must be of one."""

from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import DTypeError

MIXES = {
    "matmul": lambda a, b: tf.matmul(a, b),
    "matmul_sign": lambda a, b: a @ b,
    "concat": lambda a, b: tf.concat([a, b], 0),
    "stack": lambda a, b: tf.stack([a, b]),
    "list": lambda a, b: tf.convert_to_tensor([a, b]),
    "where": lambda a, b: tf.where(tf.ones_like(a) > 0, a, b),
    "add_n": lambda a, b: tf.add_n([a, b]),
    "div": lambda a, b: tf.div(a, b),
    "maximum": lambda a, b: tf.maximum(a, b),
    "clip_by_value": lambda a, b: tf.clip_by_value(a, b, b),
    "squared_difference": lambda a, b: tf.squared_difference(a, b),
    "equal": lambda a, b: tf.equal(a, b),
    "less": lambda a, b: tf.less(a, b),
    "einsum": lambda a, b: tf.einsum("ij,jk->ik", a, b),
    "tensordot": lambda a, b: tf.tensordot(a, b, 1),
    "bias_add": lambda a, b: tf.nn.bias_add(a, b[0]),
    "xw_plus_b": lambda a, b: tf.nn.xw_plus_b(a, a, b[0]),
    "conv2d": lambda a, b: tf.nn.conv2d(a[None, :, :, None], b[:, :, None, None], 1, "SAME"),
    "sigmoid": lambda a, b: tf.nn.sigmoid_cross_entropy_with_logits(labels=b, logits=a),
    "batch_norm": lambda a, b: tf.nn.batch_normalization(a, a, a, b, None, 1e-3),
    "lookup": lambda a, b: tf.nn.embedding_lookup([a, b], [0]),
    "cond": lambda a, b: tf.cond(tf.constant(True), lambda: a, lambda: b),
    "assign": lambda a, b: tf.assign(tf.Variable(tf.zeros([2, 2], a.dtype)), b),
}


@pytest.mark.parametrize("dtypes", [("float32", "float64"), ("float32", "int32"),
                                    ("int64", "int32")])  # fmt: skip
@pytest.mark.parametrize("what", MIXES)
def test_two_dtypes_are_refused_with_both_and_a_line(what: str, dtypes: tuple[str, str]) -> None:
    a, b = (tf.placeholder(t, [2, 2], name=n) for t, n in zip(dtypes, "ab", strict=True))
    with pytest.raises(tf.errors.OpError) as caught:
        MIXES[what](a, b)
    message = str(caught.value)
    assert all(t in message for t in dtypes), message
    assert "test_tf1_dtypes.py:" in message


@pytest.mark.parametrize("what", [w for w in MIXES if w not in ("matmul", "lookup")])
def test_one_dtype_is_not_refused(what: str) -> None:
    a, b = (tf.placeholder("float64", [2, 2], name=name) for name in "ab")
    assert MIXES[what](a, b) is not None


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (lambda f: tf.concat([f, [3.0]], 0), [1, 2, 3]),
        (lambda f: tf.concat([[0], f], 0), [0, 1, 2]),
        (lambda f: tf.stack([f, [3, 4]]), [[1, 2], [3, 4]]),
        (lambda f: tf.stack([f[0], 7, f[1]]), [1, 7, 2]),
        (lambda f: tf.where(f > 1, f, [5, 6]), [5, 2]),
        (lambda f: tf.where([True, False], 0.5, f), [0.5, 2]),
        (lambda f: tf.matmul(np.eye(2), f[:, None]), [[1], [2]]),
        (lambda f: tf.matmul(f[None], np.array([[1], [1]])), [[3]]),
        (lambda f: tf.add_n([f, np.ones(2), [1, 1]]), [3, 4]),
        (lambda f: tf.clip_by_value(f, 0, 1.5), [1, 1.5]),
        (lambda f: tf.div(f, 2), [0.5, 1]),
    ],
)
def test_numbers_lists_and_arrays_take_the_dtype_beside_them(build: Any, want: Any) -> None:
    f = tf.placeholder(tf.float32, [2])
    y = build(f)
    assert y.dtype == tf.float32
    with tf.Session() as session:
        assert session.run(y, {f: [1, 2]}).tolist() == want


@pytest.mark.parametrize(
    "build",
    [
        lambda i: tf.concat([i, [0.5]], 0),
        lambda i: tf.where(i > 0, i, 0.5),
        lambda i: tf.matmul(i[None], np.array([[0.5], [1.5]])),
    ],
)
def test_a_fraction_beside_integers_is_refused(build: Any) -> None:
    with pytest.raises(DTypeError, match=r"fraction.*Use cast"):
        build(tf.placeholder(tf.int32, [2], name="whole"))
