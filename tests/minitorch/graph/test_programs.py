"""Whole programs in the manner of TensorFlow's early tutorials, by their import line alone.

What they compute is NumPy's, PyTorch's or a closed form; models are built from placeholders,
variables and `nn`.
"""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError, MinitorchError

BATCH = 16
RNG = np.random.RandomState(0)
BEGIN = RNG.get_state()


@pytest.fixture(autouse=True)
def _rng_from_its_beginning() -> None:
    RNG.set_state(BEGIN)


def _weights(sizes: list[int], name: str) -> list[Any]:
    """A kernel and a bias from each size to the next."""
    made = []
    with tf.name_scope(name):
        for n, m in pairwise(sizes):
            limit = (6 / (n + m)) ** 0.5
            kernel = tf.Variable(tf.random_uniform([n, m], -limit, limit), name="kernel")
            made.append((kernel, tf.Variable(tf.zeros([m]), name="bias")))
    return made


def _dense(x: Any, layers: list[Any], activation: Any = None) -> Any:
    """The layers one after another, the activation between them."""
    for i, (w, b) in enumerate(layers):
        x = tf.nn.xw_plus_b(activation(x) if i else x, w, b)
    return x


# ── the paper ───────────────────────────────────────────────────────────────────────────────────


def test_the_listing_of_the_paper_trains_a_perceptron_of_two_layers() -> None:
    """Abadi et al., OSDI 2016, Figure 1, line by line; the numbers are PyTorch's."""
    x = tf.placeholder(tf.float32, [BATCH, 64])
    y = tf.placeholder(tf.float32, [BATCH, 10])
    w_1 = tf.Variable(tf.random_uniform([64, 100], seed=1))
    b_1 = tf.Variable(tf.zeros([100]))
    layer_1 = tf.nn.relu(tf.matmul(x, w_1) + b_1)
    w_2 = tf.Variable(tf.random_uniform([100, 10], seed=2))
    b_2 = tf.Variable(tf.zeros([10]))
    layer_2 = tf.matmul(layer_1, w_2) + b_2
    loss = tf.nn.softmax_cross_entropy_with_logits(layer_2, y)
    train_op = tf.train.AdagradOptimizer(0.01).minimize(loss)
    batches = [(RNG.rand(BATCH, 64), np.eye(10)[RNG.randint(0, 10, BATCH)]) for _ in range(5)]
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        start = session.run([w_1, b_1, w_2, b_2])
        for data, labels in batches:
            session.run(train_op, {x: data, y: labels})
        found = session.run([w_1, b_1, w_2, b_2])
    params = [torch.tensor(v, requires_grad=True) for v in start]
    optimizer = torch.optim.Adagrad(params, 0.01, initial_accumulator_value=0.1, eps=0)
    for data, labels in batches:
        hidden = torch.relu(torch.tensor(data).float() @ params[0] + params[1])
        logits = hidden @ params[2] + params[3]
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, torch.tensor(labels), reduction="sum").backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    for got, want in zip(found, params, strict=True):
        np.testing.assert_allclose(got, want.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "labels"),
    [
        (tf.nn.softmax_cross_entropy_with_logits, np.eye(3, dtype=np.float32)[[0, 2]]),
        (tf.nn.sparse_softmax_cross_entropy_with_logits, [0, 2]),
        (tf.nn.sigmoid_cross_entropy_with_logits, np.eye(3, dtype=np.float32)[[0, 2]]),
    ],
)
def test_a_loss_takes_logits_then_labels_or_both_by_name(function: Any, labels: Any) -> None:
    logits = tf.constant([[1.0, -2.0, 0.5], [0.1, 0.2, 3.0]])
    given = [function(logits, labels), function(labels=labels, logits=logits)]
    with tf.Session() as session:
        got = session.run(given)
    t = torch.tensor([[1.0, -2.0, 0.5], [0.1, 0.2, 3.0]])
    if "sigmoid" in function.__name__:
        oracle = torch.nn.functional.binary_cross_entropy_with_logits
        want = oracle(t, torch.tensor(labels), reduction="none")
    else:
        want = torch.nn.functional.cross_entropy(t, torch.tensor([0, 2]), reduction="none")
    for value in got:
        np.testing.assert_allclose(value, want.numpy(), rtol=1e-6)


def test_any_other_name_of_tensorflow_is_an_ordinary_attribute_error() -> None:
    for module, name in ((tf, "FIFOQueue"), (tf, "layers"), (tf.nn, "lrn"), (tf.train, "batch")):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            getattr(module, name)


# ── models ──────────────────────────────────────────────────────────────────────────────────────


def test_linear_regression_finds_the_least_squares() -> None:
    x = RNG.normal(size=(50, 2)).astype(np.float32)
    y = x @ [[2.0], [-1.0]] + 0.5 + RNG.normal(size=(50, 1)) * 0.01
    inputs, labels = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 1])
    w, b = tf.Variable(tf.zeros([2, 1]), name="w"), tf.Variable(tf.zeros([1]), name="b")
    cost = tf.reduce_mean(tf.pow(tf.matmul(inputs, w) + b - labels, 2)) / 2
    step = tf.train.GradientDescentOptimizer(learning_rate=0.5).minimize(cost)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(100):
            _, c = session.run([step, cost], feed_dict={inputs: x, labels: y})
        found = np.concatenate([w.eval().ravel(), b.eval()])
    want = np.linalg.lstsq(np.c_[x, np.ones(50)], y, rcond=None)[0].ravel()
    np.testing.assert_allclose(found, want, atol=1e-3)
    assert "cost=%.4f" % c == f"cost={c:.4f}"  # noqa: UP031  (as programs of the time print)


def test_a_gan_trains_each_side_alone() -> None:
    generator, discriminator = (
        _weights([3, 8, 2], "generator"),
        _weights([2, 8, 1], "discriminator"),
    )
    real, z = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 3])
    fake = _dense(z, generator, tf.nn.relu)
    on_real, on_fake = (_dense(x, discriminator, tf.nn.leaky_relu) for x in (real, fake))
    of_d, of_g = (
        [v for v in tf.trainable_variables() if v.name.startswith(name)]
        for name in ("discriminator", "generator")
    )
    assert (len(of_d), len(of_g)) == (4, 4)
    cross = tf.nn.sigmoid_cross_entropy_with_logits
    d_loss = tf.reduce_mean(cross(logits=on_real, labels=tf.ones_like(on_real)))
    d_loss += tf.reduce_mean(cross(logits=on_fake, labels=tf.zeros_like(on_fake)))
    g_loss = tf.reduce_mean(cross(logits=on_fake, labels=tf.ones_like(on_fake)))
    d_step = tf.train.AdamOptimizer(0.02).minimize(d_loss, var_list=of_d)
    g_step = tf.train.AdamOptimizer(0.02).minimize(g_loss, var_list=of_g)
    feed = {real: RNG.normal(3.0, 0.1, size=(16, 2)), z: RNG.normal(size=(16, 3))}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        held = session.run(of_g)
        first = session.run(d_loss, feed)
        for _ in range(60):
            session.run(d_step, feed)
        assert session.run(d_loss, feed) < first / 2
        for a, b in zip(held, session.run(of_g), strict=True):
            np.testing.assert_array_equal(a, b)
        before = session.run(g_loss, feed)
        for _ in range(60):
            session.run(g_step, feed)
        assert session.run(g_loss, feed) < before


def test_an_autoencoder_with_shared_weights_and_a_penalty() -> None:
    x = tf.placeholder(tf.float32, [None, 8], name="input")
    w, b = tf.Variable(tf.random_uniform([8, 3], -0.7, 0.7, seed=1)), tf.Variable(tf.zeros([3]))
    code = tf.nn.tanh(tf.nn.xw_plus_b(x, w, b), name="code")
    loss = tf.reduce_mean(tf.squared_difference(x, tf.matmul(code, w, transpose_b=True)))
    penalty = 1e-3 * tf.nn.l2_loss(w)
    total = tf.add_n([loss, penalty], name="total")
    step = tf.train.AdagradOptimizer(0.3).minimize(total)
    data = RNG.normal(size=(32, 3)) @ RNG.normal(size=(3, 8)) * 0.2
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        weights = session.run(w)
        assert session.run(penalty) == pytest.approx(1e-3 * (weights**2).sum() / 2, rel=1e-5)
        first = session.run("total:0", {"input:0": data})
        for _ in range(100):
            session.run(step, {x: data})
        assert session.run("total", {"input": data}) < first / 2


def test_the_rnn_tutorial_cuts_its_sequences_and_reads_them_step_by_step() -> None:
    x = tf.placeholder("float", [None, 8, 4])
    y = tf.placeholder("float", [None, 3])
    steps = tf.split(0, 8, tf.reshape(tf.transpose(x, [1, 0, 2]), [-1, 4]))
    cell = tf.nn.rnn_cell.BasicLSTMCell(6, forget_bias=1.0)
    outputs, _ = tf.nn.static_rnn(cell, steps, dtype=tf.float32)
    whole, _ = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32)
    out = tf.Variable(tf.random_normal([6, 3], seed=1))
    logits = tf.matmul(outputs[-1], out) + tf.Variable(tf.zeros([3]))
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(logits, y))
    step = tf.train.AdamOptimizer(learning_rate=0.05).minimize(loss)
    right = tf.equal(tf.argmax(logits, 1), tf.argmax(y, 1))
    accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
    feed = {x: RNG.randn(20, 8, 4), y: np.eye(3)[RNG.randint(0, 3, 20)]}
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        one_by_one, at_once = session.run([tf.stack(outputs, 1), whole], feed)
        np.testing.assert_allclose(one_by_one, at_once, rtol=1e-5, atol=1e-6)
        for _ in range(120):
            session.run(step, feed)
        assert session.run(accuracy, feed) > 0.9


def test_the_regression_tutorial_has_no_shape_anywhere() -> None:
    xs = RNG.rand(17) * 10
    ys = 0.3 * xs + 0.8
    x, y = tf.placeholder("float"), tf.placeholder("float")
    w, b = tf.Variable(RNG.randn(), name="weight"), tf.Variable(RNG.randn(), name="bias")
    cost = tf.reduce_sum(tf.pow(tf.add(tf.mul(x, w), b) - y, 2)) / (2 * len(xs))
    step = tf.train.GradientDescentOptimizer(0.01).minimize(cost)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        first = session.run(cost, {x: xs, y: ys})
        for _ in range(40):
            for one, target in zip(xs, ys, strict=True):
                session.run(step, feed_dict={x: one, y: target})
        assert session.run(cost, feed_dict={x: xs, y: ys}) < first / 5


def test_the_mandelbrot_set_counts_as_numpy_does() -> None:
    y, x = np.mgrid[-1.3:1.3:0.1, -2:1:0.1]
    parts = [tf.constant(part.astype(np.float64)) for part in (x, y)]
    re, im = (tf.Variable(part) for part in parts)
    counts = tf.Variable(tf.zeros(x.shape, tf.float64))
    new_re = re * re - im * im + parts[0]
    new_im = 2.0 * re * im + parts[1]
    stays = new_re * new_re + new_im * new_im < 4.0
    step = tf.group(
        re.assign(tf.where(stays, new_re, re)),
        im.assign(tf.where(stays, new_im, im)),
        counts.assign_add(tf.cast(stays, tf.float64)),
    )
    with tf.Session():
        tf.global_variables_initializer().run()
        for _ in range(30):
            step.run()
        got = counts.eval()
    z = c = x + 1j * y
    want = np.zeros(x.shape)
    for _ in range(30):
        new = z * z + c
        inside = np.abs(new) ** 2 < 4.0
        z, want = np.where(inside, new, z), want + inside
    assert (got == want).mean() > 0.999  # a point on the border may round to the other side


def test_life_goes_on_as_its_rules_say() -> None:
    board = RNG.randint(0, 2, (12, 12)).astype(np.int32)
    cells = tf.placeholder(tf.int32, [12, 12])
    padded = tf.pad(tf.cast(cells, tf.float32), [[1, 1], [1, 1]])[None, :, :, None]
    around = np.ones((3, 3, 1, 1), np.float32)
    around[1, 1] = 0
    count = tf.cast(tf.squeeze(tf.nn.conv2d(padded, around, [1, 1, 1, 1], "VALID")), tf.int32)
    lives = tf.logical_or(
        tf.equal(count, 3), tf.logical_and(tf.equal(cells, 1), tf.equal(count, 2))
    )
    after = tf.where(lives, tf.ones_like(cells), tf.zeros_like(cells))
    with tf.Session() as session:
        for _ in range(5):
            got = session.run(after, feed_dict={cells: board})
            wide = np.pad(board, 1)
            near = sum(
                wide[1 + i : 13 + i, 1 + j : 13 + j]
                for i in (-1, 0, 1)
                for j in (-1, 0, 1)
                if (i, j) != (0, 0)
            )
            want = (near == 3) | ((board == 1) & (near == 2))
            np.testing.assert_array_equal(got, want)
            board = got


def test_towers_with_averaged_gradients_take_the_step_of_the_whole_batch() -> None:
    x, y = RNG.randn(8, 3).astype(np.float32), RNG.randn(8, 1).astype(np.float32)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    towers, layers = [], _weights([3, 1], "out")
    for i in range(2):
        with tf.device(f"/gpu:{i}"), tf.name_scope(f"tower_{i}"):
            part = slice(4 * i, 4 * i + 4)
            out = _dense(tf.constant(x[part]), layers)
            loss = tf.reduce_mean(tf.square(out - y[part]))
            towers.append(optimizer.compute_gradients(loss))
    average = []
    for pairs in zip(*towers, strict=True):
        grads = [tf.expand_dims(grad, 0) for grad, _ in pairs]
        average.append((tf.reduce_mean(tf.concat(grads, axis=0), 0), pairs[0][1]))
    step = optimizer.apply_gradients(average)
    assert [v.name for v in tf.trainable_variables()] == ["out/kernel", "out/bias"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel, bias = session.run(tf.trainable_variables())
        session.run(step)
        got = session.run(tf.trainable_variables())
    error = 2 * (x @ kernel + bias - y) / 8
    np.testing.assert_allclose(got[0], kernel - 0.1 * x.T @ error, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[1], bias - 0.1 * error.sum(0), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("executor", ["compiled", "tokens"])
def test_page_ranks_are_the_leading_eigenvector(executor: str) -> None:
    links = (RNG.rand(6, 6) < 0.4).astype(np.float64)
    np.fill_diagonal(links, 0)
    links[links.sum(1) == 0] = 1
    moves = 0.85 * (links / links.sum(1, keepdims=True)).T + 0.15 / 6

    def again(rank: Any, change: Any, rounds: Any) -> Any:
        new = tf.matmul(tf.constant(moves), rank)
        return new, tf.reduce_max(tf.abs(new - rank)), rounds + 1

    start = (tf.fill([6, 1], tf.constant(1 / 6, tf.float64)), tf.constant(1.0, tf.float64), 0)
    rank, _, rounds = tf.while_loop(lambda r, c, n: c > 1e-12, again, start)
    with tf.Session(executor=executor) as session:
        got, count = session.run([rank, rounds])
    values, vectors = np.linalg.eig(moves)
    lead = np.real(vectors[:, np.argmax(values.real)])
    np.testing.assert_allclose(got[:, 0], lead / lead.sum(), rtol=1e-9)
    assert 10 < count < 200


def test_conjugate_gradients_over_products_with_the_hessian_solve_a_system() -> None:
    root = RNG.randn(5, 5)
    matrix, b = root @ root.T + np.eye(5), RNG.randn(5)
    w = tf.Variable(np.zeros(5))
    energy = 0.5 * tf.reduce_sum(w * tf.reduce_sum(tf.constant(matrix) * w, 1))
    (slope,) = tf.gradients(energy, w)

    def product(v: Any) -> Any:
        return tf.gradients(tf.reduce_sum(slope * tf.stop_gradient(v)), w)[0]

    x, r = tf.zeros([5], tf.float64), tf.constant(b)
    p, old = r, tf.reduce_sum(r * r)
    for _ in range(5):
        bent = product(p)
        share = old / tf.reduce_sum(p * bent)
        x, r = x + share * p, r - share * bent
        new = tf.reduce_sum(r * r)
        p, old = r + (new / old) * p, new
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run(x)
    np.testing.assert_allclose(got, np.linalg.solve(matrix, b), rtol=1e-6)


def test_a_gradient_penalty_is_torchs() -> None:
    x, w1, w2 = RNG.randn(6, 3), RNG.randn(3, 4), RNG.randn(4, 1)
    a, b = tf.Variable(w1), tf.Variable(w2)
    given = tf.placeholder(tf.float64, [None, 3])
    score = tf.matmul(tf.tanh(tf.matmul(given, a)), b)
    (by_x,) = tf.gradients(score, given)
    length = tf.sqrt(tf.reduce_sum(tf.square(by_x), axis=1))
    penalty = tf.reduce_mean(tf.square(length - 1.0))
    slopes = tf.gradients(penalty, [a, b])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got = session.run([penalty, *slopes], {given: x})
    t, ta, tb = (torch.tensor(v, requires_grad=True) for v in (x, w1, w2))
    (inner,) = torch.autograd.grad((torch.tanh(t @ ta) @ tb).sum(), t, create_graph=True)
    loss = ((inner.norm(dim=1) - 1) ** 2).mean()
    wants = [loss, *torch.autograd.grad(loss, [ta, tb])]
    for value, want in zip(got, wants, strict=True):
        np.testing.assert_allclose(value, want.detach().numpy(), rtol=1e-8, atol=1e-12)


def test_a_language_model_carries_its_state_from_piece_to_piece() -> None:
    text = np.array([0, 1, 2, 3, 2, 1] * 40)  # after 1 or 2 the way depends on what was before
    batch, time, units = 4, 5, 12
    rows = text[: batch * 55].reshape(batch, 55)
    x, y = (tf.placeholder(tf.int32, [batch, time]) for _ in range(2))
    tf.set_random_seed(2)
    cell = tf.nn.rnn_cell.MultiRNNCell(
        [tf.nn.rnn_cell.BasicLSTMCell(units) for _ in range(2)], state_is_tuple=True
    )
    start = cell.zero_state(batch, tf.float32)
    embedded = tf.nn.embedding_lookup(tf.Variable(tf.random_uniform([4, 6], -0.3, 0.3)), x)
    outputs, end = tf.nn.dynamic_rnn(cell, embedded, initial_state=start)
    logits = _dense(tf.reshape(outputs, [-1, units]), _weights([units, 4], "out"))
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.reshape(y, [-1]), logits=logits)
    )
    rate = tf.Variable(0.0, trainable=False)
    variables = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), 5.0)
    step = tf.train.AdamOptimizer(rate).apply_gradients(zip(grads, variables, strict=True))
    new_rate = tf.placeholder(tf.float32, [])
    set_rate = tf.assign(rate, new_rate)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for epoch in range(12):
            session.run(set_rate, {new_rate: 0.02 * 0.9 ** max(epoch - 6, 0)})
            state, losses = session.run(start), []
            for i in range(0, 50, time):
                feeds: dict[Any, Any] = {x: rows[:, i : i + time], y: rows[:, i + 1 : i + time + 1]}
                for (c, h), (c0, h0) in zip(start, state, strict=True):
                    feeds[c], feeds[h] = c0, h0
                value, state, _ = session.run([loss, end, step], feeds)
                losses.append(value)
    assert np.exp(np.mean(losses[2:])) < 1.1  # perplexity: every next symbol is certain


# ── shapes that only the run knows ──────────────────────────────────────────────────────────────


def test_a_predicate_may_be_a_placeholder_without_a_shape() -> None:
    training = tf.placeholder(tf.bool)
    x = tf.placeholder(tf.float32)
    y = tf.cond(training, lambda: x * 2, lambda: x * 3)
    with tf.Session() as session:
        assert list(session.run(y, {training: True, x: [1, 2]})) == [2, 4]
        assert session.run(y, {training: False, x: 2}) == 6


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
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
    batch: dict[Any, Any] = {x: numbers.randn(50, 64), y_: np.eye(10)[numbers.randint(0, 10, 50)]}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            step.run(feed_dict={**batch, keep_prob: 0.9})
        assert accuracy.eval(feed_dict={**batch, keep_prob: 1.0}) > 0.9
        assert session.run(accuracy, {**batch, keep_prob: 1.0}) == accuracy.eval(
            {**batch, keep_prob: 1.0}
        )


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
        with pytest.raises(MinitorchError, match=r"'bad' built at .*test_programs"):
            session.run(bad, {x: [1, 2, 3], n: 2})
        with pytest.raises(MinitorchError, match=r"got \(-1,\).*test_programs"):
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


def test_where_takes_whole_rows_by_a_condition_of_one_axis() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    mask = tf.placeholder(tf.bool, [None])
    chosen = tf.where(mask, x, -x)
    slope = tf.gradients(chosen, x)[0]
    with tf.Session() as session:
        value, grad = session.run([chosen, slope], {mask: [True, False]})
    assert value.tolist() == [[1, 2], [-3, -4]]
    assert grad.tolist() == [[1, 1], [-1, -1]]


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
    with pytest.raises(MinitorchError, match=rf"built at .*test_programs.py:{line}\)"):
        build(tf.ones([2, 3]))


def test_what_does_not_fit_in_the_run_names_the_node_and_its_line_though_built_late() -> None:
    x = tf.placeholder(tf.float32)
    product = tf.matmul(x, tf.ones([4, 2]))
    with (
        tf.Session() as session,
        pytest.raises(MinitorchError, match=r"matmul.*built at .*test_programs.py") as got,
    ):
        session.run(product, {x: np.ones((2, 3))})
    assert str(got.value).endswith(f":{product.built_at[1]})")


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


def test_the_arena_refuses_sizes_that_are_computed_in_the_run() -> None:
    x = tf.placeholder(tf.float32, [None, 4])
    joined = tf.concat([x, tf.zeros([tf.shape(x)[0], 1])], 1)
    with (
        tf.Session(executor="arena") as session,
        pytest.raises(GraphError, match=r"computed in the run: got node .*test_programs"),
    ):
        session.run(joined, {x: np.ones((2, 4))})
    with tf.Session(executor="arena") as session:
        assert session.run(x[::-1], {x: [[1] * 4, [2] * 4]}).tolist() == [[2] * 4, [1] * 4]
