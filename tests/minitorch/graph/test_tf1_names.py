"""TensorFlow 1's further operators, by their names, against NumPy, PyTorch and closed forms."""

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import minitorch.graph as tf

RNG = np.random.default_rng(3)
X = RNG.normal(size=(3, 4)).astype(np.float32)
SQUARE = (RNG.normal(size=(3, 3)) + 3 * np.eye(3)).astype(np.float32)
POSITIVE = (SQUARE @ SQUARE.T).astype(np.float32)
ROWS = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], np.float32)


def _run(build: Callable[[], Any], feed: Any = None, **options: Any) -> Any:
    fetches = build()
    with tf.Session(**options) as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        return session.run(fetches, feed)


def _close(got: Any, want: Any) -> None:
    if isinstance(want, list | tuple):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            _close(a, b)
    else:
        np.testing.assert_allclose(got, want, rtol=2e-5, atol=1e-6)
        assert np.shape(got) == np.shape(want)


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (lambda: tf.matrix_inverse(SQUARE), np.linalg.inv(SQUARE)),
        (lambda: tf.matrix_determinant(SQUARE), np.linalg.det(SQUARE)),
        (lambda: tf.cholesky(POSITIVE), np.linalg.cholesky(POSITIVE)),
        (lambda: tf.logdet(POSITIVE), np.linalg.slogdet(POSITIVE)[1]),
        (lambda: tf.matrix_solve(SQUARE, X), np.linalg.solve(SQUARE, X)),
        (
            lambda: tf.matrix_triangular_solve(SQUARE, X),
            np.linalg.solve(np.tril(SQUARE), X),
        ),
        (
            lambda: tf.cholesky_solve(np.linalg.cholesky(POSITIVE), X),
            np.linalg.solve(POSITIVE, X),
        ),
        (lambda: tf.diag([1.0, 2.0]), np.diag([1.0, 2.0])),
        (lambda: tf.matrix_diag_part(SQUARE), np.diag(SQUARE)),
        (lambda: tf.matrix_band_part(SQUARE, 1, 0), np.triu(np.tril(SQUARE), -1)),
        (lambda: tf.matrix_band_part(SQUARE, 0, -1), np.triu(SQUARE)),
        (
            lambda: tf.matrix_set_diag(SQUARE, [7.0, 8.0, 9.0]),
            SQUARE - np.diag(np.diag(SQUARE)) + np.diag([7.0, 8.0, 9.0]),
        ),
        (lambda: tf.einsum("ij,kj->ik", X, X), X @ X.T),
        (lambda: tf.tensordot(X, X, [[1], [1]]), X @ X.T),
        (lambda: tf.meshgrid([1, 2], [3, 4, 5]), np.meshgrid([1, 2], [3, 4, 5])),
        (lambda: tf.cross(SQUARE, POSITIVE), np.cross(SQUARE, POSITIVE)),
        (lambda: tf.cumsum(X, 1, exclusive=True), np.cumsum(X, 1) - X),
        (lambda: tf.cumsum(X, 0, reverse=True), np.cumsum(X[::-1], 0)[::-1]),
        (lambda: tf.cumprod([2.0, 3.0, 4.0], exclusive=True, reverse=True), np.array([12, 4, 1])),
        (lambda: tf.segment_sum(ROWS, [0, 0, 1]), np.array([[4, 6], [5, 6]])),
        (lambda: tf.segment_mean(ROWS, [0, 0, 1]), np.array([[2, 3], [5, 6]])),
        (lambda: tf.segment_max(ROWS, [0, 0, 1]), np.array([[3, 4], [5, 6]])),
        (lambda: tf.segment_min(ROWS, [0, 0, 1]), np.array([[1, 2], [5, 6]])),
        (
            lambda: tf.unsorted_segment_sum(ROWS, [2, 0, 2], tf.constant(4)),
            np.array([[3, 4], [0, 0], [6, 8], [0, 0]]),
        ),
        (lambda: tf.unsorted_segment_mean(ROWS, [1, 0, 1], 2), np.array([[3, 4], [3, 4]])),
        (
            lambda: tf.dynamic_partition(ROWS, [0, 1, 0], 2),
            [np.array([[1, 2], [5, 6]]), np.array([[3, 4]])],
        ),
        (
            lambda: tf.dynamic_stitch([[0, 2], [1]], [[1.0, 3.0], [2.0]]),
            np.array([1, 2, 3]),
        ),
        (lambda: list(tf.unique([3, 1, 3, 2])), [np.array([3, 1, 2]), np.array([0, 1, 0, 2])]),
        (lambda: tf.unique_with_counts([3, 1, 3]).count, np.array([2, 1])),
        (lambda: list(tf.setdiff1d([1, 2, 3, 4], [2, 4])), [np.array([1, 3]), np.array([0, 2])]),
        (lambda: tf.sequence_mask([1, 3, 0]), np.arange(3) < np.array([[1], [3], [0]])),
        (lambda: tf.sequence_mask([1], 2, tf.float32), np.array([[1, 0]])),
        (lambda: tf.gather_nd(ROWS, [[0, 1], [2, 0]]), np.array([2, 5])),
        (lambda: tf.gather_nd(ROWS, [[2]]), np.array([[5, 6]])),
        (lambda: tf.scatter_nd([[1], [3], [1]], [5.0, 6.0, 1.0], [5]), np.array([0, 6, 0, 6, 0])),
        (lambda: tf.boolean_mask(ROWS, [True, False, True]), ROWS[[0, 2]]),
        (lambda: tf.boolean_mask(ROWS, ROWS > 2), ROWS[ROWS > 2]),
        (lambda: list(tf.nn.top_k([1.0, 5.0, 3.0], 2)), [np.array([5, 3]), np.array([1, 2])]),
        (lambda: tf.nn.in_top_k(X, X.argsort(1)[:, -2], 2), np.array([True] * 3)),
        (lambda: tf.nn.in_top_k(X, X.argsort(1)[:, -2], 1), np.array([False] * 3)),
        (lambda: tf.bincount([1, 1, 3]), np.array([0, 2, 0, 1])),
        (lambda: tf.bincount([1], minlength=3), np.array([0, 1, 0])),
        (lambda: tf.invert_permutation([2, 0, 1]), np.array([1, 2, 0])),
        (lambda: tf.argsort([3.0, 1.0, 2.0], direction="DESCENDING"), np.array([0, 2, 1])),
        (lambda: tf.sort(X, 0), np.sort(X, 0)),
        (lambda: tf.reverse_sequence(ROWS, [1, 2, 2], 1, 0), np.array([[1, 2], [4, 3], [6, 5]])),
        (lambda: tf.nn.zero_fraction([0.0, 1.0, 0.0, 2.0]), 0.5),
        (lambda: tf.one_hot([1, 0], 3, axis=0), np.array([[0, 1], [1, 0], [0, 0]])),
        (lambda: tf.one_hot([1], 2, 5.0, -1.0), np.array([[-1, 5]])),
        (
            lambda: tf.nn.weighted_cross_entropy_with_logits([1.0, 0.0], [0.5, 0.5], 3.0),
            np.array([3 * math.log1p(math.exp(-0.5)), math.log1p(math.exp(0.5))]),
        ),
        (lambda: tf.convert_to_tensor([1, tf.constant(2)]), np.array([1, 2])),
        (lambda: tf.tuple([tf.constant(1), None, tf.constant(2)])[2], 2),
        (lambda: tf.truncatediv(tf.constant([-7.0]), 2.0), np.array([-3])),
        (lambda: tf.strided_slice(X, [0, 3], [3, 0], [2, -1]), X[0:3:2, 3:0:-1]),
        (lambda: tf.strided_slice(X, [1, 0], [2, 0], end_mask=2, shrink_axis_mask=1), X[1]),
        (lambda: tf.zeros(3) + tf.ones([3]), np.ones(3)),
        (lambda: tf.accumulate_n([tf.constant(1.0), tf.constant(2.0)]), 3),
        (
            lambda: tf.TensorArray(tf.float32, 3).scatter([2, 0, 1], [1.0, 2.0, 3.0]).stack(),
            np.array([2, 3, 1]),
        ),
        (lambda: tf.norm([[3.0, -4.0]], 1, axis=1), np.array([7])),
        (lambda: tf.norm([[3.0, -4.0]], np.inf), 4),
        (lambda: tf.norm([[3.0, -4.0]], axis=[1]), np.array([5])),
        (lambda: tf.count_nonzero([0, 1, 2]), 2),
        (lambda: tf.confusion_matrix([0, 1, 1], [0, 1, 0], 2), np.array([[1, 0], [1, 1]])),
        (lambda: tf.linalg.trace(SQUARE), np.trace(SQUARE)),
        (lambda: tf.linalg.inv(SQUARE), np.linalg.inv(SQUARE)),
        (lambda: tf.math.log(tf.math.exp(2.0)), 2),
        (lambda: tf.shape(tf.random.normal([2, 3])), np.array([2, 3])),
        (lambda: tf.initializers.ones()([2]), np.ones(2)),
        (lambda: tf.nn.log_sigmoid([0.0]), np.array([-math.log(2)])),
    ],
)
def test_an_operator_is_numpys(build: Any, want: Any) -> None:
    _close(_run(build), want)
    _close(_run(build, optimize=True), want)


def test_a_wrong_value_would_be_noticed() -> None:
    with pytest.raises(AssertionError):
        _close(_run(lambda: tf.matrix_inverse(SQUARE)), np.linalg.inv(SQUARE) * 1.0005)


@pytest.mark.parametrize("step", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_convolutions_are_torchs_in_both_layouts(step: int, padding: str, layout: str) -> None:
    images = RNG.normal(size=(2, 7, 6, 3)).astype(np.float32)
    filters = RNG.normal(size=(3, 2, 3, 4)).astype(np.float32)
    x, w = torch.tensor(images).permute(0, 3, 1, 2), torch.tensor(filters).permute(3, 2, 0, 1)
    border = []
    for size, width in ((6, 2), (7, 3)):
        total = max((-(-size // step) - 1) * step + width - size, 0) if padding == "SAME" else 0
        border += [total // 2, total - total // 2]
    padded = F.pad(x, border)
    each = torch.tensor(filters).permute(2, 3, 0, 1).reshape(12, 1, 3, 2)
    last = layout == "NHWC"
    given = images if last else images.transpose(0, 3, 1, 2)
    steps = [1, step, step, 1] if last else [1, 1, step, step]
    shape = [None, None, None, 3] if last else [None, 3, None, None]
    node = tf.placeholder(tf.float32, shape)
    how: dict[str, Any] = {"data_format": layout}
    with tf.Session() as session:
        for op, want in (
            (tf.nn.conv2d, F.conv2d(padded, w, stride=step)),
            (tf.nn.depthwise_conv2d, F.conv2d(padded, each, stride=step, groups=3)),
        ):
            got = session.run(op(node, filters, steps, padding, **how), {node: given})
            want_ = want.permute(0, 2, 3, 1) if last else want
            np.testing.assert_allclose(got, want_.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_a_transposed_convolution_is_the_gradient_of_the_convolution(
    step: int, padding: str
) -> None:
    x = tf.constant(RNG.normal(size=(2, 7, 6, 3)).astype(np.float32))
    w = tf.constant(RNG.normal(size=(3, 2, 3, 4)).astype(np.float32))
    y = tf.nn.conv2d(x, w, [1, step, step, 1], padding)
    g = tf.constant(RNG.normal(size=tuple(y.shape)).astype(np.float32))
    by_x = tf.gradients(y, x, g)[0]
    back = tf.nn.conv2d_transpose(g, w, [2, 7, 6, 3], [1, step, step, 1], padding)
    with tf.Session() as session:
        _close(*session.run([back, by_x]))


def test_values_without_a_shape_are_cut_repeated_and_measured() -> None:
    x = tf.placeholder(tf.float32)
    build = [
        *tf.split(x, 2, 1),
        *tf.unstack(x, 3),
        tf.tile(x, [2, 1]),
        tf.pad(x, [[1, 0], [0, 2]]),
        tf.cumsum(x, 1),
        tf.reverse(x, [0]),
        tf.rank(x),
        tf.shape(x),
        tf.size(x),
        tf.gather(x, [2, 0]),
        tf.slice(x, [0, 1], [2, -1]),
        tf.one_hot(tf.cast(x, tf.int32), 2),
        tf.matrix_transpose(x),
    ]
    want = [
        *np.split(X, 2, 1),
        *X,
        np.tile(X, (2, 1)),
        np.pad(X, ((1, 0), (0, 2))),
        np.cumsum(X, 1),
        X[::-1],
        2,
        [3, 4],
        12,
        X[[2, 0]],
        X[:2, 1:],
        (X.astype(int)[..., None] == np.arange(2)).astype(float),
        X.T,
    ]
    with tf.Session() as session:
        for got, expected in zip(session.run(build, {x: X}), want, strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_equal_parts_of_an_axis_that_only_the_run_knows_have_a_gradient() -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    first, second, third = tf.split(x, 3)
    by_x = tf.gradients(first * 1.0 + second * 2.0 + third * 3.0, x)[0]
    with tf.Session() as session:
        got = session.run([second, by_x, tf.reduce_prod(x, 0)], {x: X})
        np.testing.assert_allclose(got[0], X[1:2])
        np.testing.assert_allclose(got[1][:, 0], [1, 2, 3])
        np.testing.assert_allclose(got[2], X.prod(0), rtol=1e-5)
        slope = tf.gradients(tf.reduce_prod(x, 0), x)[0]
        zero = np.where(np.arange(12).reshape(3, 4) == 5, 0, X).astype(np.float32)
        others = np.stack([np.delete(zero, i, 0).prod(0) for i in range(3)])
        np.testing.assert_allclose(session.run(slope, {x: zero}), others, rtol=1e-5)


def test_a_tie_of_maximum_or_minimum_gives_its_gradient_to_the_first() -> None:
    x, y = tf.constant([1.0, 2.0, 0.0]), tf.constant([1.0, 1.0, 3.0])
    larger, smaller = tf.maximum(x, y), tf.minimum(x, y)
    with tf.Session() as session:
        got = session.run(tf.gradients(larger, [x, y]) + tf.gradients(smaller, [x, y]))
    assert [g.tolist() for g in got] == [[1, 1, 0], [0, 0, 1], [1, 0, 1], [0, 1, 0]]


def test_one_number_comes_back_as_a_numpy_scalar_from_every_executor() -> None:
    x = tf.Variable(2.5)
    for executor in ("compiled", "interpreter", "tokens", "parallel", "arena"):
        with tf.Session(executor=executor) as session:
            session.run(tf.global_variables_initializer())
            for value in session.run([x, x * 2, tf.reduce_sum([1.0, 2.0]), tf.constant(3.0)]):
                assert isinstance(value, np.float32)
                assert f"{value:.1f}" == operator.mod("%.1f", value)
            assert session.run(x) == 2.5


def test_a_hessian_is_the_matrix_of_a_quadratic_form() -> None:
    x = tf.Variable([1.0, -2.0, 0.5])
    form = tf.reduce_sum(x * tf.einsum("ij,j->i", SQUARE, x)) + tf.reduce_sum(x)
    (found,) = tf.hessians(form, x)
    _close(_run(lambda: found), SQUARE + SQUARE.T)
    with pytest.raises(tf.GraphError, match="hessians"):
        tf.hessians(form, tf.Variable(1.0))


def test_numbers_without_a_fraction_may_be_fed_as_integers() -> None:
    x = tf.placeholder(tf.int32, [None])
    with tf.Session() as session:
        assert session.run(x, {x: np.array([1.0, 2.0])}).tolist() == [1, 2]
        for value in ([1.5], [np.nan], [np.inf]):
            with pytest.raises(tf.GraphError, match="lose its fraction"):
                session.run(x, {x: np.array(value)})


def test_a_metric_counts_over_batches() -> None:
    y, p = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None])
    pairs = [tf.metrics.accuracy(y, p), tf.metrics.precision(y, p), tf.metrics.recall(y, p)]
    assert not tf.global_variables()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for truth, guess in (([1, 0, 1, 1], [1, 1, 0, 1]), ([0], [1])):
            session.run([update for _, update in pairs], {y: truth, p: guess})
        np.testing.assert_allclose(session.run([v for v, _ in pairs]), [2 / 5, 2 / 4, 2 / 3])


def test_losses_are_torchs_and_are_collected() -> None:
    logits, hot = tf.constant(X), tf.constant(np.eye(4, dtype=np.float32)[[1, 0, 3]])
    found = [
        tf.losses.softmax_cross_entropy(hot, logits),
        tf.losses.sparse_softmax_cross_entropy(tf.constant([1, 0, 3]), logits),
        tf.losses.mean_squared_error(hot, logits),
        tf.losses.huber_loss(hot, logits),
        tf.losses.absolute_difference(hot, logits),
        tf.losses.sigmoid_cross_entropy(hot, logits),
    ]
    x, y, t = torch.tensor(X), torch.tensor([1, 0, 3]), torch.eye(4)[[1, 0, 3]]
    want = [
        F.cross_entropy(x, y),
        F.cross_entropy(x, y),
        F.mse_loss(x, t),
        F.huber_loss(x, t),
        F.l1_loss(x, t),
        F.binary_cross_entropy_with_logits(x, t),
    ]
    assert tf.losses.get_losses() == found
    with tf.Session() as session:
        _close(session.run(found), [w.item() for w in want])
        _close(session.run(tf.losses.get_total_loss()), sum(w.item() for w in want))


def test_a_weighted_loss_counts_the_weights_that_are_not_zero() -> None:
    loss = tf.losses.mean_squared_error([1.0, 2.0, 4.0], [0.0, 0.0, 0.0], weights=[1.0, 0.0, 2.0])
    with tf.Session() as session:
        assert session.run(loss) == pytest.approx((1 + 2 * 16) / 2)


@pytest.mark.parametrize(
    ("build", "want"),
    [
        (lambda t: tf.train.exponential_decay(0.1, t, 10, 0.5), 0.1 * 0.5**2.5),
        (lambda t: tf.train.exponential_decay(0.1, t, 10, 0.5, staircase=True), 0.1 * 0.25),
        (lambda t: tf.train.natural_exp_decay(0.1, t, 10, 0.5), 0.1 * math.exp(-1.25)),
        (lambda t: tf.train.inverse_time_decay(0.1, t, 10, 0.5), 0.1 / 2.25),
        (lambda t: tf.train.polynomial_decay(0.1, t, 100, 0.01, 2.0), 0.09 * 0.75**2 + 0.01),
        (lambda t: tf.train.polynomial_decay(0.1, t, 10, 0.01), 0.01),
        (lambda t: tf.train.polynomial_decay(0.1, t, 10, 0.01, cycle=True), 0.09 / 6 + 0.01),
        (lambda t: tf.train.cosine_decay(0.1, t, 100), 0.05 * (1 + math.cos(math.pi / 4))),
        (lambda t: tf.train.piecewise_constant(t, [10, 25], [1.0, 0.5, 0.1]), 0.5),
        (lambda t: tf.train.piecewise_constant(t, [10, 24], [1.0, 0.5, 0.1]), 0.1),
    ],
)
def test_a_rate_that_decays_is_its_closed_form(build: Any, want: float) -> None:
    assert _run(lambda: build(tf.Variable(25, trainable=False))) == pytest.approx(want, rel=1e-5)


def _rmsprop(w: Any, g: Any, s: dict[str, Any]) -> Any:
    s["r"] = 0.9 * s.get("r", 1.0) + 0.1 * g * g
    s["m"] = 0.5 * s.get("m", 0.0) + 0.1 * g / np.sqrt(s["r"] + 1e-10)
    return w - s["m"]


def _centered(w: Any, g: Any, s: dict[str, Any]) -> Any:
    s["r"] = 0.9 * s.get("r", 1.0) + 0.1 * g * g
    s["g"] = 0.9 * s.get("g", 0.0) + 0.1 * g
    return w - 0.1 * g / np.sqrt(s["r"] - s["g"] ** 2 + 1e-10)


def _adadelta(w: Any, g: Any, s: dict[str, Any]) -> Any:
    s["a"] = 0.95 * s.get("a", 0.0) + 0.05 * g * g
    step = np.sqrt(s.get("u", 0.0) + 1e-8) / np.sqrt(s["a"] + 1e-8) * g
    s["u"] = 0.95 * s.get("u", 0.0) + 0.05 * step * step
    return w - 0.5 * step


def _ftrl(w: Any, g: Any, s: dict[str, Any]) -> Any:
    old = s.get("n", 0.1)
    s["n"] = old + g * g
    s["z"] = s.get("z", 0.0) + g - (np.sqrt(s["n"]) - np.sqrt(old)) / 0.1 * w
    width = np.sqrt(s["n"]) / 0.1
    return np.where(np.abs(s["z"]) > 0.05, (np.sign(s["z"]) * 0.05 - s["z"]) / width, 0.0)


@pytest.mark.parametrize(
    ("optimizer", "rule"),
    [
        (lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5), _rmsprop),
        (lambda: tf.train.RMSPropOptimizer(0.1, centered=True), _centered),
        (lambda: tf.train.AdadeltaOptimizer(0.5), _adadelta),
        (lambda: tf.train.FtrlOptimizer(0.1, l1_regularization_strength=0.05), _ftrl),
    ],
)
def test_an_optimizer_takes_the_steps_of_its_formula(optimizer: Any, rule: Any) -> None:
    start = np.array([1.0, -2.0, 0.5])
    w = tf.Variable(start)
    step = optimizer().minimize(tf.reduce_sum(tf.square(w - 0.3)))
    want, slots = start, {}  # type: ignore[var-annotated]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(5):
            session.run(step)
            want = rule(want, 2 * (want - 0.3), slots)
        np.testing.assert_allclose(session.run(w), want, rtol=1e-6)


def test_slots_are_made_once_and_can_be_asked_for() -> None:
    w = tf.Variable([1.0])
    momentum = tf.train.MomentumOptimizer(0.1, 0.9)
    for _ in range(2):
        momentum.minimize(tf.square(w))
    assert momentum.get_slot_names() == ["Momentum"]
    assert momentum.variables() == [momentum.get_slot(w, "Momentum")]
    adam = tf.train.AdamOptimizer()
    adam.minimize(tf.square(w))
    assert adam.get_slot(w, "m") is not adam.get_slot(w, "v")
    assert adam.get_slot(w, "nothing") is None


def test_a_moving_average_follows_its_variable() -> None:
    w = tf.Variable(1.0)
    value = tf.placeholder(tf.float32, [])
    average = tf.train.ExponentialMovingAverage(0.9)
    debiased = tf.train.ExponentialMovingAverage(0.9, zero_debias=True)
    step = tf.assign(w, w + 1.0)
    with tf.control_dependencies([step]):
        update = average.apply([w])
    beside = debiased.apply([value])
    shadow = average.average(w)
    assert shadow is not None and shadow.name == average.average_name(w)
    assert average.variables_to_restore()[average.average_name(w)] is w
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        want = 1.0
        for i in range(3):
            session.run(update)
            want = 0.9 * want + 0.1 * (2.0 + i)
        assert session.run(shadow) == pytest.approx(want, rel=1e-6)
        session.run(beside, {value: 5.0})
        assert session.run(debiased.average(value)) == pytest.approx(5.0, rel=1e-5)


def test_candidates_are_drawn_by_their_law() -> None:
    labels = tf.constant([[0]], tf.int64)
    drawn = tf.nn.log_uniform_candidate_sampler(labels, 1, 2000, False, 10, seed=1)
    unique = tf.nn.uniform_candidate_sampler(labels, 1, 10, True, 10, seed=1)
    with tf.Session() as session:
        classes, expected, _ = session.run(drawn)
        share = np.log((np.arange(10) + 2) / (np.arange(10) + 1)) / math.log(11)
        counts = np.bincount(classes, minlength=10) / 2000
        assert np.abs(counts - share).max() < 5 * math.sqrt(0.25 / 2000)
        np.testing.assert_allclose(expected, [[2000 * share[0]]], rtol=1e-4)
        assert sorted(session.run(unique.sampled_candidates)) == list(range(10))


def test_a_sampled_softmax_over_all_classes_is_the_softmax() -> None:
    table, x = RNG.normal(size=(6, 4)).astype(np.float32), X
    labels = np.array([[2], [0], [5]])
    others = tf.constant(np.arange(6), tf.int64)
    ones = (others, tf.ones([3, 1]), tf.ones([6]))
    loss = tf.nn.sampled_softmax_loss(table, np.zeros(6, np.float32), labels, x, 6, 6, 1, ones)
    want = F.cross_entropy(torch.tensor(x @ table.T), torch.tensor(labels[:, 0]), reduction="none")
    with tf.Session() as session:
        _close(session.run(loss), want.numpy())


@pytest.mark.parametrize(("batch", "count"), [(None, 2), (2, None), (None, None), (2, 2)])
def test_a_sequence_is_reversed_whoever_knows_how_many_there_are(batch: Any, count: Any) -> None:
    x, n = tf.placeholder(tf.float32, [batch, 3, 1]), tf.placeholder(tf.int64, [count])
    turned = tf.reverse_sequence(x, n, seq_axis=1, batch_axis=0)
    by_x = tf.gradients(turned[:, 0], x)[0]
    data = np.arange(6.0).reshape(2, 3, 1)
    with tf.Session() as session:
        got, grad = session.run([turned, by_x], {x: data, n: [2, 3]})
    assert got[..., 0].tolist() == [[1, 0, 2], [5, 4, 3]]
    assert grad[..., 0].tolist() == [[0, 1, 0], [0, 0, 1]]
