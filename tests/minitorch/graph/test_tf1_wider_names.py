"""TensorFlow 1's wider names: each against NumPy, PyTorch, Python's own or a closed form."""

import colorsys
import logging
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf

RNG = np.random.default_rng(17)
X = RNG.normal(size=(3, 4))
TALL = RNG.normal(size=(5, 3))
IMAGES = RNG.uniform(size=(2, 5, 6, 3)).astype(np.float32)
LINE = np.array([-2.5, -0.3, 0.1, 1.0, 3.7, 80.0])


def _run(fetches: Any, feed: Any = None) -> Any:
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session.run(fetches, feed)


def _torch(function: Callable[..., Any], *arrays: Any) -> Any:
    return function(*(torch.tensor(a) for a in arrays)).numpy()


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (lambda: tf.lgamma(LINE), _torch(torch.lgamma, LINE)),
        (lambda: tf.digamma(LINE), _torch(torch.digamma, LINE)),
        (lambda: tf.polygamma(np.array(2.0), LINE[2:]), _torch(lambda x: x.polygamma(2), LINE[2:])),
        (lambda: tf.zeta(2.0, np.array([1.0, 2.0])), [math.pi**2 / 6, math.pi**2 / 6 - 1]),
        (lambda: tf.lbeta(np.array([[1.0, 2.0, 3.0]])), [math.log(2 / 120)]),
        (lambda: tf.math.xlogy([0.0, 2.0], [0.0, 3.0]), [0, 2 * math.log(3)]),
        (lambda: tf.math.xlog1py([0.0, 2.0], [-1.0, 3.0]), [0, 2 * math.log(4)]),
        (lambda: tf.math.xdivy([0.0, 2.0], [0.0, 4.0]), [0, 0.5]),
        (lambda: tf.div_no_nan([1.0, 3.0], [0.0, 2.0]), [0, 1.5]),
        (lambda: tf.math.multiply_no_nan([math.nan, 3.0], [0.0, 2.0]), [0, 6]),
        (lambda: tf.math.reciprocal_no_nan([0.0, 4.0]), [0, 0.25]),
        (lambda: tf.math.polyval([2.0, 0.0, -1.0], [1.0, 3.0]), [1, 17]),
        (lambda: tf.math.reduce_variance(X, 1), X.var(1)),
        (lambda: tf.math.reduce_std(X, 0, True), X.std(0, keepdims=True)),
        (lambda: tf.math.reduce_euclidean_norm(X, 1), np.linalg.norm(X, axis=1)),
        (lambda: tf.math.cumulative_logsumexp(X, 1), np.logaddexp.accumulate(X, 1)),
        (lambda: tf.math.softplus(X), np.log1p(np.exp(X))),
        (lambda: tf.math.l2_normalize(X, 1), X / np.linalg.norm(X, axis=1, keepdims=True)),
        (lambda: tf.clip_by_average_norm([3.0, 4.0], 1.0), [1.2, 1.6]),
        (lambda: tf.roll(X, [1, -2], [0, 1]), np.roll(X, [1, -2], [0, 1])),
        (lambda: tf.searchsorted([[1.0, 3.0, 3.0]], [[3.0, 0.0, 9.0]]), [[1, 0, 3]]),
        (lambda: tf.searchsorted([[1, 3, 3]], [[3]], side="right"), [[3]]),
        (lambda: tf.unravel_index([22, 5], [3, 4, 2]), np.unravel_index([22, 5], (3, 4, 2))),
        (
            lambda: tf.histogram_fixed_width([-1.0, 0.0, 1.5, 2.0, 5.0, 15.0], [0.0, 5.0], 5),
            [2, 1, 1, 0, 2],
        ),
        (lambda: tf.linalg.matvec(X, np.arange(4.0)), X @ np.arange(4.0)),
        (lambda: tf.linalg.adjoint(X), X.T),
        (lambda: tf.linalg.pinv(TALL), np.linalg.pinv(TALL)),
        (lambda: tf.linalg.matrix_rank(TALL @ TALL.T), 3),
        (lambda: list(tf.linalg.slogdet(-TALL.T @ TALL)), list(np.linalg.slogdet(-TALL.T @ TALL))),
        (
            lambda: tf.matrix_solve_ls(TALL, np.ones((5, 1))),
            np.linalg.lstsq(TALL, np.ones((5, 1)))[0],
        ),
        (
            lambda: tf.linalg.lstsq(TALL.T, np.ones((3, 1))),
            np.linalg.lstsq(TALL.T, np.ones((3, 1)))[0],
        ),
        (
            lambda: tf.matrix_solve_ls(TALL, np.ones((5, 1)), l2_regularizer=2.0),
            np.linalg.solve(TALL.T @ TALL + 2 * np.eye(3), TALL.T @ np.ones((5, 1))),
        ),
        (lambda: tf.svd(X, compute_uv=False), np.linalg.svd(X)[1]),
        (lambda: tf.self_adjoint_eigvals(X.T @ X), np.linalg.eigvalsh(X.T @ X)),
        (
            lambda: tf.batch_gather(np.arange(12).reshape(3, 4), [[0, 1], [3, 2], [1, 1]]),
            [[0, 1], [7, 6], [9, 9]],
        ),
        (
            lambda: tf.tensor_scatter_update(X, [[0, 1], [2, 3]], [7.0, 8.0]),
            X + np.array([[0, 7 - X[0, 1], 0, 0], [0] * 4, [0, 0, 0, 8 - X[2, 3]]]),
        ),
        (lambda: tf.tensor_scatter_add([1.0, 2.0], [[1], [1]], [1.0, 4.0]), [1, 7]),
        (lambda: tf.tensor_scatter_nd_sub([1.0, 2.0], [[1], [1]], [1.0, 4.0]), [1, -3]),
        (lambda: tf.nn.swish(X), X / (1 + np.exp(-X))),
        (lambda: tf.nn.normalize(X, axis=1)[1], np.linalg.norm(X, axis=1, keepdims=True)),
        (lambda: tf.nn.log_poisson_loss([2.0], [0.5]), [math.exp(0.5) - 1.0]),
        (
            lambda: tf.nn.log_poisson_loss([5.0], [0.0], compute_full_loss=True),
            [1 + 5 * math.log(5) - 5 + 0.5 * math.log(10 * math.pi)],
        ),
        (
            lambda: tf.nn.max_pool1d(IMAGES[0], 2, 2, "VALID"),
            IMAGES[0].reshape(5, 3, 2, 3).max(2),
        ),
        (lambda: tf.image.rot90(IMAGES, 3), np.rot90(IMAGES, 3, (1, 2))),
        (lambda: tf.image.rot90(IMAGES[0]), np.rot90(IMAGES[0])),
        (
            lambda: tf.image.rgb_to_hsv(IMAGES),
            np.array([colorsys.rgb_to_hsv(*p) for p in IMAGES.reshape(-1, 3)]).reshape(
                IMAGES.shape
            ),
        ),
        (lambda: tf.image.hsv_to_rgb(tf.image.rgb_to_hsv(IMAGES)), IMAGES),
        (lambda: tf.image.adjust_hue(tf.image.adjust_hue(IMAGES, 0.3), 0.7), IMAGES),
        (
            lambda: tf.image.adjust_saturation(IMAGES, 0.0),
            np.repeat(IMAGES.max(-1, keepdims=True), 3, -1),
        ),
        (lambda: tf.image.yuv_to_rgb(tf.image.rgb_to_yuv(IMAGES)), IMAGES),
        (lambda: tf.image.rgb_to_yiq(IMAGES)[..., 0], IMAGES @ [0.299, 0.587, 0.114]),
        (lambda: tf.image.yiq_to_rgb(tf.image.rgb_to_yiq(IMAGES)), IMAGES),
        (lambda: tf.image.adjust_gamma(IMAGES, 2.0, 3.0), 3 * IMAGES**2),
        (
            lambda: tf.image.total_variation(IMAGES[0]),
            np.abs(np.diff(IMAGES[0], axis=0)).sum() + np.abs(np.diff(IMAGES[0], axis=1)).sum(),
        ),
        (lambda: tf.image.psnr(IMAGES, IMAGES + 0.1, 1.0), [20, 20]),
        (
            lambda: tf.image.ssim(
                np.tile(IMAGES, (1, 3, 3, 1)), np.tile(IMAGES, (1, 3, 3, 1)), 1.0
            ),
            [1, 1],
        ),
        (lambda: tf.image.image_gradients(IMAGES)[0][:, :-1], np.diff(IMAGES, axis=1)),
        (lambda: tf.confusion_matrix([0, 2, 2], [0, 1, 2]), [[1, 0, 0], [0, 0, 0], [0, 1, 1]]),
        (lambda: tf.confusion_matrix([0, 1], [1, 1], 2, weights=[2, 5]), [[0, 2], [0, 5]]),
        (
            lambda: tf.losses.mean_pairwise_squared_error(
                [[1.0, 9, 2], [-5, -5, 7]], [[4.0, 8, 12], [8, 1, 3]]
            ),
            sum(
                (d[i] - d[j]) ** 2 / 3
                for d in ([3, -1, 10], [13, 6, -4])
                for i in range(3)
                for j in range(i)
            ),
        ),
        (lambda: tf.switch_case(1, [lambda: tf.constant(5), lambda: tf.constant(6)]), 6),
        (lambda: tf.switch_case(9, {3: lambda: tf.constant(5)}, lambda: tf.constant(7)), 7),
        (lambda: tf.is_strictly_increasing([1, 2, 2]), False),
        (lambda: tf.is_non_decreasing([1, 2, 2]), True),
        (lambda: tf.identity_n([1.0, 2.0]), [1, 2]),
        (lambda: tf.shape_n([X, [1, 2]])[0], [3, 4]),
        (lambda: tf.initializers.identity(2.0)([2, 3]), [[2, 0, 0], [0, 2, 0]]),
        (lambda: tf.random_normal([2], tf.constant([1.0, 5.0]), 0.0), [1, 5]),
        (lambda: tf.random.categorical([[0.0, -1e9]], 2, tf.int32), [[0, 0]]),
    ],
)
def test_a_name_means_what_it_does_elsewhere(build: Callable[[], Any], want: Any) -> None:
    got = _run(build())
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    assert np.shape(got) == np.shape(want)


def test_the_largest_of_an_axis_that_only_the_run_knows_have_a_gradient() -> None:
    x, y = tf.placeholder(tf.float32, [None, None]), tf.placeholder(tf.int32, [None])
    top = tf.nn.top_k(x, 2)
    (slope,) = tf.gradients(top.values, x)
    pairs = tf.stack([tf.range(2), y], 1)
    feed = {x: [[1, 5, 3], [7, 2, 9]], y: [7, 8]}
    values, places, by_x, stacked, least = _run([*top, slope, pairs, tf.argmin(x, 1)], feed)
    np.testing.assert_array_equal(values, [[5, 3], [9, 7]])
    np.testing.assert_array_equal(places, [[1, 2], [2, 0]])
    np.testing.assert_array_equal(by_x, [[0, 1, 1], [1, 0, 1]])
    np.testing.assert_array_equal(stacked, [[0, 7], [1, 8]])
    np.testing.assert_array_equal(least, [0, 1])
    with pytest.raises(tf.GraphError, match="top_k: k = 2"):
        _run(top.values, {x: [[1.0]]})


@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4), (2, 4, 3)])
def test_the_gradient_through_singular_values_and_vectors_is_torchs(shape: Any) -> None:
    a = RNG.normal(size=shape)
    x = tf.constant(a)
    s, u, v = tf.svd(x)
    weights = [RNG.normal(size=tuple(part.shape)) for part in (s, u, v)]
    parts = (s * weights[0], tf.square(u) * weights[1], tf.square(v) * weights[2])
    (slope,) = tf.gradients([tf.reduce_sum(part) for part in parts], x)
    t = torch.tensor(a, requires_grad=True)
    left, sizes, right = torch.linalg.svd(t, full_matrices=False)
    loss: Any = sum(
        (part * torch.tensor(w)).sum()
        for part, w in zip((sizes, left**2, right.mT**2), weights, strict=True)
    )
    loss.backward()
    assert t.grad is not None
    np.testing.assert_allclose(_run(slope), t.grad.numpy(), rtol=1e-8, atol=1e-10)


def test_the_gradients_through_eigenvectors_and_qr_are_torchs() -> None:
    a = X @ X.T
    weights = RNG.normal(size=(3, 3))
    x, y = tf.constant(a), tf.constant(TALL)
    e, v = tf.self_adjoint_eig(x)
    q, r = tf.qr(y)
    (by_a,) = tf.gradients(tf.reduce_sum(e * e) + tf.reduce_sum(tf.square(v) * weights), x)
    (by_b,) = tf.gradients(tf.reduce_sum(r * weights) + tf.reduce_sum(q[:3] * weights), y)
    s, t = torch.tensor(a, requires_grad=True), torch.tensor(TALL, requires_grad=True)
    w = torch.tensor(weights)
    values, vectors = torch.linalg.eigh(s)
    ((values**2).sum() + (vectors**2 * w).sum()).backward()
    orthonormal, triangle = torch.linalg.qr(t)
    ((triangle * w).sum() + (orthonormal[:3] * w).sum()).backward()
    got_a, got_b = _run([by_a, by_b])
    assert s.grad is not None and t.grad is not None
    lower = np.tril(s.grad.numpy()) + np.tril(s.grad.numpy().T, -1)  # what is read is the lower one
    np.testing.assert_allclose(got_a, lower, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(got_b, t.grad.numpy(), rtol=1e-8, atol=1e-10)


def test_the_derivatives_of_lgamma_are_the_polygammas() -> None:
    x = tf.constant(LINE[2:])
    (first,) = tf.gradients(tf.lgamma(x), x)
    (second,) = tf.gradients(first, x)
    (third,) = tf.gradients(second, x)
    t = torch.tensor(LINE[2:])
    for got, order in zip(_run([first, second, third]), range(3), strict=True):
        np.testing.assert_allclose(got, torch.polygamma(order, t).numpy(), rtol=1e-8)


def test_integers_divide_into_float64_and_small_ones_into_float32() -> None:
    whole, small = tf.constant(7), tf.constant(7, tf.int8)
    made = [whole / 2, 2 / whole, tf.divide(7, 2), small / small, tf.constant(7.0) / 2, whole // 2]
    kinds = [tf.float64, tf.float64, tf.float64, tf.float32, tf.float32, tf.int32]
    assert [node.dtype for node in made] == kinds
    np.testing.assert_allclose(_run(made), [3.5, 2 / 7, 3.5, 1, 3.5, 3])


def test_a_function_brings_its_own_gradient() -> None:
    @tf.custom_gradient
    def log1pexp(x: Any) -> Any:
        e = tf.exp(x)
        return tf.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e))

    x, y = tf.constant([100.0, 0.0]), tf.constant([2.0, 3.0])
    reverse = tf.custom_gradient(lambda a, b: (a * b, lambda dy: (-dy * b, None)))
    slopes = [tf.gradients(log1pexp(x), x)[0], *tf.gradients(reverse(x, y), [x, y])]
    through = tf.gradients(tf.grad_pass_through(tf.floor)(y) * 3.0, y)[0]
    assert slopes[2] is None
    np.testing.assert_allclose(_run([*slopes[:2], through]), [[1, 0.5], [-2, -3], [3, 3]])
    hidden = tf.Variable(2.0)
    with pytest.raises(tf.GraphError, match="reads variable 'Variable'"):
        tf.custom_gradient(lambda a: (a * hidden, lambda dy: dy))(y)
    wrong = tf.custom_gradient(lambda a: (a + 1.0, lambda dy: (dy, dy)))(y)
    with pytest.raises(tf.GraphError, match="gives 2 values, expected 1"):
        tf.gradients(wrong, y)


def test_a_shape_is_checked_in_the_run() -> None:
    x = tf.placeholder(tf.float32)
    found = tf.ensure_shape(x, [None, 2])
    assert tuple(found.shape) == (None, 2)
    assert _run(found, {x: np.ones((3, 2))}).shape == (3, 2)
    for bad in (np.ones((2, 3)), np.ones(2)):
        with pytest.raises(tf.GraphError, match="ensure_shape"):
            _run(found, {x: bad})


@pytest.mark.parametrize(
    ("holds", "fails"),
    [
        (lambda: tf.assert_negative([-1.0]), lambda: tf.assert_negative([0.0])),
        (lambda: tf.assert_non_positive([0.0]), lambda: tf.assert_non_positive([1.0])),
        (
            lambda: tf.assert_none_equal([1, 2], [2, 1]),
            lambda: tf.assert_none_equal([1, 2], [2, 2]),
        ),
        (lambda: tf.assert_near([1.0], [1.0 + 1e-7]), lambda: tf.assert_near([1.0], [1.001])),
        (lambda: tf.assert_rank_at_least(X, 2), lambda: tf.assert_rank_at_least(X, 3)),
        (lambda: tf.assert_rank_in(X, [1, 2]), lambda: tf.assert_rank_in(X, [1, 3])),
        (lambda: tf.assert_scalar(1.0), lambda: tf.assert_scalar([1.0])),
        (lambda: tf.assert_integer([1]), lambda: tf.assert_integer([1.0])),
        (lambda: tf.assert_type([1], tf.int32), lambda: tf.assert_type([1], tf.int64)),
    ],
)
def test_a_check_passes_what_holds_and_stops_what_does_not(holds: Any, fails: Any) -> None:
    _run(holds())
    with pytest.raises(tf.GraphError):
        _run(fails())


def test_places_of_a_variable_are_written() -> None:
    v = tf.Variable([1.0, 2.0, 3.0])
    with tf.Session() as session:
        session.run(v.initializer)
        for write, want in (
            (tf.scatter_mul(v, [1, 1], [2.0, 3.0]), [1, 12, 3]),
            (tf.scatter_div(v, [1], [4.0]), [1, 3, 3]),
            (tf.scatter_max(v, [0, 2], [5.0, 0.0]), [5, 3, 3]),
            (tf.scatter_min(v, [0], [4.0]), [4, 3, 3]),
            (tf.scatter_nd_update(v, [[2]], [9.0]), [4, 3, 9]),
            (tf.scatter_nd_add(v, [[2], [2]], [1.0, 1.0]), [4, 3, 11]),
            (tf.scatter_nd_sub(v, [[0]], [4.0]), [0, 3, 11]),
        ):
            np.testing.assert_allclose(session.run(write), want)


def test_a_written_place_takes_the_gradient_of_what_was_there() -> None:
    x, new = tf.constant(X), tf.constant([7.0, 8.0], tf.float64)
    y = tf.tensor_scatter_update(x, [[0, 1], [2, 3]], new)
    kept, written = _run(tf.gradients(y * y, [x, new]))
    want = 2 * X
    want[0, 1] = want[2, 3] = 0
    np.testing.assert_allclose(kept, want)
    np.testing.assert_allclose(written, [14, 16])


def test_orthogonal_starts_have_orthonormal_columns_or_rows() -> None:
    high, wide = _run(
        [tf.orthogonal_initializer(2.0)([3, 3, 4]), tf.initializers.orthogonal()([3, 5])]
    )
    high = high.reshape(9, 4)
    np.testing.assert_allclose(high.T @ high, 4 * np.eye(4), atol=1e-5)
    np.testing.assert_allclose(wide @ wide.T, np.eye(3), atol=1e-5)


@pytest.mark.parametrize(
    ("start", "variance"),
    [
        (tf.initializers.he_normal(1), 2 / 400),
        (tf.initializers.he_uniform(1), 2 / 400),
        (tf.initializers.lecun_normal(1), 1 / 400),
        (tf.initializers.lecun_uniform(1), 1 / 400),
        (tf.variance_scaling_initializer(distribution="untruncated_normal", seed=1), 1 / 400),
    ],
)
def test_a_start_has_the_variance_it_is_named_for(start: Any, variance: float) -> None:
    np.testing.assert_allclose(_run(start([400, 300])).var(), variance, rtol=0.02)


def test_prints_go_to_the_stream_that_is_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    count = tf.print("counts:", tf.range(10), "and", tf.constant(1.5), output_stream=sys.stdout)
    with tf.control_dependencies([count]):
        y = tf.constant(2.0) * 3.0
    _run(y)
    assert capsys.readouterr().out == "counts: [0 1 2 ... 7 8 9] and 1.5\n"


def test_a_templates_calls_share_what_its_first_made() -> None:
    def scale(x: Any, start: float) -> Any:
        return x * tf.get_variable("s", [], initializer=tf.constant_initializer(start))

    twice, thrice = (tf.make_template("scaled", scale, start=n) for n in (2.0, 3.0))
    found = [twice(1.0), twice(5.0), thrice(1.0)]
    assert [v.name for v in tf.global_variables()] == ["scaled/s", "scaled_1/s"]
    assert _run(found) == [2, 10, 3]


def test_measures_count_over_batches() -> None:
    labels, scores = RNG.integers(0, 2, 200), RNG.uniform(size=200)
    scores = np.clip(scores + 0.3 * labels, 0, 1)
    y, p = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.float32, [None])
    guess = tf.cast(p > 0.5, tf.int32)
    measures = {
        "auc": tf.metrics.auc(y, p, num_thresholds=2000),
        "tp": tf.metrics.true_positives(y, guess),
        "tn": tf.metrics.true_negatives(y, guess),
        "fn": tf.metrics.false_negatives(y, guess),
        "iou": tf.metrics.mean_iou(y, guess, 2),
        "class": tf.metrics.mean_per_class_accuracy(y, guess, 2),
        "below": tf.metrics.percentage_below(p, 0.5),
    }
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for part in range(0, 200, 50):
            feed = {y: labels[part : part + 50], p: scores[part : part + 50]}
            session.run([update for _, update in measures.values()], feed)
        got = session.run({name: value for name, (value, _) in measures.items()})
    said = scores > 0.5
    above = scores[labels == 1][:, None] - scores[labels == 0][None]
    tp, tn = (said & (labels == 1)).sum(), (~said & (labels == 0)).sum()
    fp, fn = (said & (labels == 0)).sum(), (~said & (labels == 1)).sum()
    want = {
        "auc": (above > 0).mean() + 0.5 * (above == 0).mean(),
        "tp": tp,
        "tn": tn,
        "fn": fn,
        "iou": (tp / (tp + fp + fn) + tn / (tn + fp + fn)) / 2,
        "class": (tp / (tp + fn) + tn / (tn + fp)) / 2,
        "below": (~said).mean(),
    }
    for name, value in want.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-3, err_msg=name)


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (
            lambda s: tf.train.cosine_decay_restarts(1.0, s, 10, 2.0, 0.5),
            lambda n: (
                0.5 * (1 + math.cos(math.pi * n / 10))
                if n < 10
                else 0.25 * (1 + math.cos(math.pi * (n - 10) / 20))
            ),
        ),
        (
            lambda s: tf.train.cosine_decay_restarts(1.0, s, 10, t_mul=1.0),
            lambda n: 0.5 * (1 + math.cos(math.pi * (n % 10) / 10)),
        ),
        (
            lambda s: tf.train.linear_cosine_decay(1.0, s, 40, 0.5, 0.1, 0.2),
            lambda n: (1 - n / 40 + 0.1) * 0.5 * (1 + math.cos(math.pi * n / 40)) + 0.2,
        ),
    ],
)
def test_a_rate_is_its_closed_form(build: Any, want: Callable[[int], float]) -> None:
    step = tf.placeholder(tf.int32, [])
    rate = build(step)
    with tf.Session() as session:
        for n in (0, 3, 9, 12, 25):
            np.testing.assert_allclose(session.run(rate, {step: n}), want(n), rtol=1e-5)


def test_a_file_is_read_and_starts_another_graph(tmp_path: Path) -> None:
    with tf.variable_scope("old"):
        w = tf.get_variable("w", [2], initializer=tf.constant_initializer(4.0))
        b = tf.get_variable("b", [])
    with tf.Session() as session:
        session.run([w.initializer, b.initializer])
        tf.train.Saver().save(session, tmp_path / "m")
    assert tf.train.list_variables(tmp_path) == [("old/b", []), ("old/w", [2])]
    assert tf.train.load_variable(tmp_path / "m", "old/w:0").tolist() == [4, 4]
    reader = tf.train.NewCheckpointReader(tmp_path / "m")
    assert reader.has_tensor("old/b") and not reader.has_tensor("b")
    assert reader.get_variable_to_dtype_map()["old/w"] == tf.float32
    tf.reset_default_graph()
    with tf.variable_scope("new"):
        w = tf.get_variable("w", [2])
        tf.get_variable("b", [])
    tf.train.init_from_checkpoint(tmp_path, {"old/": "new/"})
    assert _run(w).tolist() == [4, 4]
    with pytest.raises(tf.GraphError, match=r"has no 'old/c'.*old/b, old/w"):
        tf.train.load_variable(tmp_path, "old/c")
    with pytest.raises(tf.GraphError, match=r"expected float32 \(2,\)"):
        tf.train.init_from_checkpoint(tmp_path, {"old/b": w})


def test_elements_are_interleaved_numbered_and_taken_apart() -> None:
    def elements(dataset: Any, count: int) -> list[Any]:
        node = dataset.make_one_shot_iterator().get_next()
        with tf.Session() as session:
            found = [session.run(node) for _ in range(count)]
            with pytest.raises(tf.errors.OutOfRangeError):
                session.run(node)
        return found

    data = tf.data.Dataset
    tens = data.range(1, 4).interleave(
        lambda n: data.from_tensors(n * 10).repeat(n), cycle_length=2, block_length=1
    )
    assert elements(tens, 6) == [10, 20, 20, 30, 30, 30]
    assert elements(data.from_tensor_slices([7, 8]).enumerate(5), 2) == [(5, 7), (6, 8)]
    assert elements(data.from_tensor_slices([[1, 2], [3, 4]]).unbatch(), 4) == [1, 2, 3, 4]
    size, most = tf.placeholder(tf.int64, []), tf.constant(3)
    fed = data.range(9).take(most).repeat(most).batch(size).make_initializable_iterator()
    node = fed.get_next()
    with tf.Session() as session:
        session.run(fed.initializer, {size: 4})
        assert [session.run(node).tolist() for _ in range(3)] == [[0, 1, 2, 0], [1, 2, 0, 1], [2]]
        with pytest.raises(tf.GraphError, match="whole number of 1 or more"):
            session.run(fed.initializer, {size: 0})
            session.run(node)
    both = data.range(4).apply(
        tf.data.experimental.map_and_batch(lambda n: n * n, 2, num_parallel_calls=3)
    )
    assert [e.tolist() for e in elements(both, 2)] == [[0, 1], [4, 9]]


def test_messages_are_logged_the_first_times_and_every_so_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="minitorch.graph"):
        for i in range(5):
            tf.logging.log_first_n(tf.logging.INFO, "first %d", 2, i)
            tf.logging.log_every_n(tf.logging.INFO, "every %d", 3, i)
            tf.logging.log_if(tf.logging.INFO, "if %d", i == 4, i)
    assert [r.getMessage() for r in caplog.records] == [
        *("first 0", "every 0", "first 1", "every 3", "if 4")
    ]


def test_a_scope_gives_its_variables_and_a_node_its_consumers() -> None:
    with tf.variable_scope("a") as scope:
        v = tf.get_variable("v", [], trainable=False)
    w = scope.get_variable("w", [2])
    assert w.name == "a/w" and scope.trainable_variables() == [w]
    assert scope.global_variables() == [v, w] and not scope.local_variables()
    x = tf.placeholder(tf.float32)
    y, z = tf.exp(x), tf.sin(x)
    assert x.consumers() == [y, z] and not y.consumers()


@pytest.mark.parametrize(
    "build",
    [
        lambda: tf.svd(tf.placeholder(tf.float32, [None, None])),
        lambda: tf.svd(X, full_matrices=True),
        lambda: tf.self_adjoint_eig(X),
        lambda: tf.gradients(tf.qr(tf.constant(X)).r, tf.constant(X)) and tf.qr([1.0]),
        lambda: tf.matrix_solve_ls(X, X, fast=False),
        lambda: tf.math.cumulative_logsumexp(X, exclusive=True),
        lambda: tf.searchsorted([[1, 2]], [[1]], side="middle"),
        lambda: tf.image.rgb_to_hsv(np.zeros((2, 2, 3), np.uint8)),
        lambda: tf.image.random_hue(IMAGES, 0.7),
        lambda: tf.metrics.auc([1], [0.5], curve="PR"),
        lambda: tf.orthogonal_initializer()([3]),
        lambda: tf.print("x", output_stream=3),
        lambda: tf.layers.dense(X, 2, activation="no such"),
        lambda: tf.train.load_checkpoint("/no/such/folder"),
        lambda: tf.batch_gather(X, 1),
        lambda: tf.scatter_nd_add(X, [[0]], [1.0]),
        lambda: tf.custom_gradient(lambda x: x)(1.0),
    ],
)
def test_what_cannot_be_is_refused_by_name(build: Callable[[], Any]) -> None:
    with pytest.raises(tf.GraphError, match=r"got|gives|no checkpoint"):
        build()
