"""What computes with sizes that only a run knows: put off until they are known."""

import inspect
import sys
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import minitorch as mt
import minitorch.graph as tf
from minitorch.nn import functional as F

OF_SIZES: dict[str, Callable[[Any], Any]] = {
    "cat": lambda x: mt.cat([x, x * 2], 0),
    "tril": lambda x: x.tril(),
    "tril of columns": lambda x: x.t().tril(),
    "triu": lambda x: mt.triu(x, 1),
    "cumprod": lambda x: x.cumprod(0),
    "prod": lambda x: x.prod(),
    "prod of rows": lambda x: mt.prod(x, 0),
    "std": lambda x: x.std(0),
    "var": lambda x: x.var(),
    "median": lambda x: x.median(0)[0],
    "trace": lambda x: mt.trace(x),
    "diag": lambda x: x.diag(),
    "another diagonal": lambda x: x.diagonal(1),
    "repeat": lambda x: x.repeat(2, 2),
    "roll": lambda x: x.roll(1, 0),
    "topk": lambda x: x.topk(3, 0).values,
    "diff": lambda x: x.diff(dim=0),
    "expand": lambda x: x.expand(2, -1, -1),
    "chunk": lambda x: x.chunk(2, 0)[1],
    "unfold": lambda x: x.unfold(0, 3, 1),
    "einsum": lambda x: mt.einsum("ij,kj->ik", x, x),
    "cosine_similarity": lambda x: mt.cosine_similarity(x, x * x),
    "meshgrid": lambda x: mt.meshgrid(x[:, 0], x[1], indexing="xy")[1],
    "ones_like": lambda x: x * x * mt.ones_like(x) + mt.full_like(x, 2),
    "pad": lambda x: F.pad(x.T[None], (1, 1), mode="reflect"),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "group_norm": lambda x: F.group_norm(x, 3),
    "instance_norm": lambda x: F.instance_norm(x.T[None]),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "causal": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    "avg_pool1d": lambda x: F.avg_pool1d(x.T[None], 2),
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], 2),
    "adaptive": lambda x: F.adaptive_avg_pool1d(x.T[None], 2),
    "interpolate": lambda x: F.interpolate(x[None, None], scale_factor=2),
    "one after another": lambda x: (x.roll(1, 0).cumprod(0) * x).std(0),
}


@pytest.mark.parametrize("name", OF_SIZES)
def test_what_computes_with_sizes_waits_until_they_are_known(name: str) -> None:
    x = tf.placeholder(tf.float64, [None, 3])
    y = OF_SIZES[name](x * 1.0)
    (slope,) = tf.gradients(y * y, x)
    (second,) = tf.gradients(tf.reduce_sum(slope * slope), x)
    for executor in ("compiled", "interpreter", "tokens"):
        with tf.Session(executor=executor) as session:
            for rows in (4, 5):
                array = np.random.default_rng(rows).uniform(0.5, 2.0, (rows, 3))
                values = session.run([y, slope, second], {x: array})
                for value, want in zip(values, _eager(OF_SIZES[name], array), strict=True):
                    np.testing.assert_allclose(value, want, rtol=1e-10)


def _eager(function: Callable[[Any], Any], array: Any) -> list[Any]:
    x = mt.tensor(array, requires_grad=True)
    y = function(x * 1.0)
    (slope,) = mt.grad((y * y).sum(), [x], create_graph=True)
    (second,) = mt.grad((slope * slope).sum(), [x])
    return [y.detach().numpy(), slope.detach().numpy(), second.numpy()]


def test_sizes_that_do_not_vary_are_known_before_the_run() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    assert x.std(0).shape == (3,)
    assert x.roll(1, 0).shape == (None, 3)
    assert x.repeat(2, 2).shape == (None, 6)
    values, places = x.topk(2, 0)
    assert (values.shape, places.shape) == ((2, 3), (2, 3))
    assert (values.dtype, places.dtype) == (tf.float32, tf.int64)


def test_how_many_results_there_are_must_be_known() -> None:
    x = tf.placeholder(tf.float32, [None, 3])
    with pytest.raises(tf.GraphError, match=r"unbind: what it gives.*\(None, 3\).*Give the pl"):
        x.unbind(0)


def test_a_size_that_depends_on_values_is_refused_in_the_run() -> None:
    x = tf.placeholder(tf.float32, [None])
    y = tf.range(tf.cast(x[0], tf.int32)).roll(1, 0)
    with tf.Session() as session, pytest.raises(tf.GraphError, match="depends on values, or"):
        session.run(y, {x: [3.0]})


def test_an_error_of_a_learners_gradient_is_not_taken_for_a_size() -> None:
    class Twice(mt.Op):
        def compute(self, xp: Any, *arrays: Any) -> Any:
            return arrays[0] * 2

        def gradient(self, out_grad: Any, node: Any) -> Any:
            return out_grad * len(3)  # type: ignore[arg-type]

    x = tf.placeholder(tf.float32, [None, 3])
    with pytest.raises(TypeError, match="len"):
        tf.gradients(Twice()(x), x)


FILTER = np.random.default_rng(1).normal(size=(3, 3, 2, 1))
IMAGES: dict[str, Callable[[Any, Any], Any]] = {
    "max_pool": lambda x, _: tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME"),
    "max_pool VALID": lambda x, _: tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "VALID"),
    "avg_pool": lambda x, _: tf.nn.avg_pool(x, [1, 3, 3, 1], [1, 1, 1, 1], "SAME"),
    "conv2d": lambda x, w: tf.nn.conv2d(x, w, [1, 2, 2, 1], "SAME"),
    "conv2d by 1": lambda x, w: tf.nn.conv2d(x, w, [1, 1, 1, 1], "SAME"),
}


@pytest.mark.parametrize("name", IMAGES)
def test_images_of_any_size_are_convolved_and_pooled_with_gradients(name: str) -> None:
    images = np.random.default_rng(0).normal(size=(1, 5, 6, 2))
    runs = []
    for shape in ([1, 5, 6, 2], [None, None, None, 2], None):
        x, w = tf.placeholder(tf.float64, shape), tf.Variable(FILTER)
        y = IMAGES[name](x, w)
        slopes = [slope for slope in tf.gradients(y * y, [x, w]) if slope is not None]
        with tf.Session() as session:
            session.run(w.initializer)
            runs.append(session.run([y, *slopes], {x: images}))
    for run in runs[1:]:
        assert len(run) == len(runs[0])
        for value, want in zip(run, runs[0], strict=True):
            np.testing.assert_allclose(value, want, rtol=1e-12, atol=1e-12)


def test_pieces_of_an_axis_of_unknown_size_have_the_sizes_asked_for() -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    first, rest = tf.split(x, [1, 3], 0)
    assert (first.shape, rest.shape) == ((1, 2), (3, 2))
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(rest, {x: np.eye(4, 2)}), np.eye(4, 2)[1:])
        with pytest.raises(mt.errors.ShapeError, match=r"got \[1, 3\] for axis 0 of size 5"):
            session.run(rest, {x: np.eye(5, 2)})


def test_what_waits_for_its_shape_runs_after_its_control_dependencies() -> None:
    count = tf.Variable(0.0)
    x = tf.placeholder(tf.float32)
    with tf.control_dependencies([tf.assign_add(count, 1.0)]):
        y = tf.transpose(x)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        np.testing.assert_array_equal(session.run(y, {x: [[1.0, 2.0]]}), [[1.0], [2.0]])
        assert session.run(count) == 1.0


def test_a_loop_whose_rows_grow_has_what_waits_for_sizes_beside_it() -> None:
    x = tf.placeholder(tf.float64, [None, 2])

    def body(i: Any, rows: Any, last: Any) -> Any:
        return i + 1, tf.concat([rows, last], 0), last.roll(1, 0) * 2.0

    shapes = [[], [None, 2], [None, 2]]
    _, rows, last = tf.while_loop(lambda i, *_: i < 3, body, [0, x, x], shapes)
    (slope,) = tf.gradients(tf.reduce_sum(rows * rows) + tf.reduce_sum(last.cumprod(0)), x)
    array = np.random.default_rng(0).uniform(0.5, 1.5, (3, 2))
    t = mt.tensor(array, requires_grad=True)
    want_rows = want_last = t
    for _ in range(3):
        want_rows, want_last = mt.cat([want_rows, want_last]), want_last.roll(1, 0) * 2.0
    total = (want_rows * want_rows).sum() + want_last.cumprod(0).sum()
    for executor in ("compiled", "interpreter", "tokens"):
        with tf.Session(executor=executor) as session:
            got_rows, got_slope = session.run([rows, slope], {x: array})
        np.testing.assert_allclose(got_rows, want_rows.detach().numpy())
        np.testing.assert_allclose(got_slope, mt.grad(total, [t], retain_graph=True)[0].numpy())


def test_what_is_built_in_the_run_says_what_is_wrong_with_its_inputs() -> None:
    x = tf.placeholder(tf.float32, [None, 3], name="x")
    rolled, largest = x.roll(1, 0), x.topk(5, 0).values
    with tf.Session() as session:
        with pytest.raises(tf.GraphError, match="placeholder 'x' was not fed"):
            session.run(rolled)
        with pytest.raises(mt.errors.ArgumentError, match=r"expected 0 to 2, .*test_sizes.py:\d+"):
            session.run(largest, {x: np.ones((2, 3))})


def test_the_sizes_of_a_default_are_known_in_the_run() -> None:
    x = tf.placeholder_with_default(np.full((2, 3), 2.0), [None, 3])
    (slope,) = tf.gradients(x.cumprod(0), x)
    with tf.Session() as session:
        np.testing.assert_array_equal(session.run(slope), [[3.0] * 3, [2.0] * 3])
        np.testing.assert_array_equal(session.run(slope, {x: np.ones((1, 3))}), np.ones((1, 3)))


def test_a_loop_of_rows_and_its_gradient_stand_beside_what_waits_for_sizes() -> None:
    x, w = tf.placeholder(tf.float64, [None, 3]), tf.constant(np.eye(3) * 0.5)
    body = lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + x))  # noqa: E731
    _, state = tf.while_loop(lambda i, _: i < 3, body, [0, x])
    (slope,) = tf.gradients(tf.reduce_sum(state * state), x)
    (second,) = tf.gradients(tf.reduce_sum(slope.cumprod(0)), x)
    array = np.random.default_rng(0).normal(size=(4, 3))
    t = h = mt.tensor(array, requires_grad=True)
    for _ in range(3):
        h = mt.tanh(h @ mt.tensor(np.eye(3) * 0.5) + t)
    (want,) = mt.grad((h * h).sum(), [t], create_graph=True)
    (want_second,) = mt.grad(want.cumprod(0).sum(), [t])
    for executor in ("compiled", "interpreter", "tokens"):
        with tf.Session(executor=executor) as session:
            values = session.run([state.roll(1, 0), slope, second], {x: array})
        for value, tensor in zip(values, [h.roll(1, 0), want, want_second], strict=True):
            np.testing.assert_allclose(value, tensor.detach().numpy(), rtol=1e-10)


def test_sizes_computed_from_sizes_are_known_in_the_run() -> None:
    x = tf.placeholder(tf.float64, [None, 4, 3])
    rows = tf.shape(x)[0]
    outputs, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.GRUCell(5), x, dtype=tf.float64)
    start = tf.reshape(outputs, [rows, 20]).std(0) * tf.ones([rows * 2, 20], tf.float64).cumsum(0)
    (slope,) = tf.gradients(tf.reshape(x, [rows, -1]).prod(0), x)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        spread, values, slopes = session.run([start, outputs, slope], {x: np.full((2, 4, 3), 3.0)})
        assert spread.shape == (4, 20)
        np.testing.assert_allclose(spread[3], values.reshape(2, 20).std(0, ddof=1) * 4, atol=1e-12)
        np.testing.assert_array_equal(slopes, np.full((2, 4, 3), 3.0))
        with pytest.raises(tf.GraphError, match=r"loop's lists. Say it by tf.reshape"):
            session.run(outputs.roll(1, 0), {x: np.ones((2, 4, 3))})


def test_gradients_that_wait_for_sizes_are_built_together() -> None:
    class Counted(mt.Op):
        built = 0

        def compute(self, xp: Any, *arrays: Any) -> Any:
            return arrays[0] * 1.0

        def gradient(self, out_grad: Any, node: Any) -> Any:
            Counted.built += 1
            return out_grad

    x = tf.placeholder(tf.float64, [None, 3])
    weights = [tf.Variable(np.ones(3)) for _ in range(4)]
    y = Counted()(x * weights[0] * weights[1] * weights[2] * weights[3]).std(0)
    slopes = tf.gradients(y, weights)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        session.run(slopes, {x: np.eye(3)})
        assert Counted.built == 1


def list_classes_of_the_package() -> Iterator[type]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "minitorch":
            yield from (value for value in vars(module).values() if inspect.isclass(value))


def test_no_class_has_a_bare_partial_which_takes_self_on_some_pythons() -> None:
    kept = [
        (kind, name, v) for kind in list_classes_of_the_package() for name, v in vars(kind).items()
    ]
    assert len(kept) > 1000
    assert not [(kind, name) for kind, name, value in kept if isinstance(value, partial)]
