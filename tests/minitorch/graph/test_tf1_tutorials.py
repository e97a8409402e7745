"""Whole programs in the manner of TensorFlow 1's tutorials, against NumPy and PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf

RNG = np.random.RandomState


def _steps(session: tf.Session, step: Any, count: int, feeds: Any = None) -> None:
    for _ in range(count):
        session.run(step, feeds)


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


def test_drops_on_a_pond_spread_as_the_stencil_says() -> None:
    stencil = np.array([[0.5, 1, 0.5], [1, -6, 1], [0.5, 1, 0.5]], np.float32)
    start = np.zeros((20, 20), np.float32)
    start[RNG(0).randint(0, 20, 9), RNG(1).randint(0, 20, 9)] = RNG(2).rand(9)
    eps, damping = tf.placeholder(tf.float32, shape=()), tf.placeholder(tf.float32, shape=())
    u, ut = tf.Variable(start), tf.Variable(np.zeros_like(start))
    kernel = tf.constant(stencil.reshape(3, 3, 1, 1))
    image = tf.expand_dims(tf.expand_dims(u, 0), -1)
    laplace = tf.nn.depthwise_conv2d(image, kernel, [1, 1, 1, 1], padding="SAME")[0, :, :, 0]
    step = tf.group(u.assign(u + eps * ut), ut.assign(ut + eps * (laplace - damping * ut)))
    session = tf.InteractiveSession()
    tf.global_variables_initializer().run()
    for _ in range(50):
        step.run({eps: 0.03, damping: 0.04})
    got = u.eval()
    session.close()
    a, b = start.astype(np.float64), np.zeros((20, 20))
    for _ in range(50):
        wide = np.pad(a, 1)
        force = sum(
            stencil[i, j] * wide[i : i + 20, j : j + 20] for i in range(3) for j in range(3)
        )
        a, b = a + 0.03 * b, b + 0.03 * (force - 0.04 * b)
    np.testing.assert_allclose(got, a, atol=1e-4)


def test_life_goes_on_as_its_rules_say() -> None:
    board = RNG(0).randint(0, 2, (12, 12)).astype(np.int32)
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
    x, y = RNG(0).randn(8, 3).astype(np.float32), RNG(1).randn(8, 1).astype(np.float32)
    optimizer = tf.train.GradientDescentOptimizer(0.1)
    towers = []
    with tf.variable_scope(tf.get_variable_scope()):
        for i in range(2):
            with tf.device(f"/gpu:{i}"), tf.name_scope(f"tower_{i}"):
                part = slice(4 * i, 4 * i + 4)
                out = tf.layers.dense(tf.constant(x[part]), 1, name="out")
                loss = tf.reduce_mean(tf.square(out - y[part]))
                tf.get_variable_scope().reuse_variables()
                towers.append(optimizer.compute_gradients(loss))
    average = []
    for pairs in zip(*towers, strict=True):
        grads = [tf.expand_dims(grad, 0) for grad, _ in pairs]
        average.append((tf.reduce_mean(tf.concat(grads, axis=0), 0), pairs[0][1]))
    step = optimizer.apply_gradients(average)
    assert [v.op.name for v in tf.trainable_variables()] == ["out/kernel", "out/bias"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kernel, bias = session.run(tf.trainable_variables())
        session.run(step)
        got = session.run(tf.trainable_variables())
    error = 2 * (x @ kernel + bias - y) / 8
    np.testing.assert_allclose(got[0], kernel - 0.1 * x.T @ error, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(got[1], bias - 0.1 * error.sum(0), rtol=1e-4, atol=1e-6)


def test_lloyds_means_are_numpys() -> None:
    points = np.concatenate([RNG(i).randn(30, 2) * 0.3 + [3 * i, -i] for i in range(3)])
    start = points[[0, 35, 70]]
    data, centers = tf.constant(points), tf.Variable(start)
    apart = tf.expand_dims(data, 0) - tf.expand_dims(centers, 1)
    nearest = tf.argmin(tf.reduce_sum(tf.square(apart), 2), 0)
    means = [
        tf.reduce_mean(tf.gather(data, tf.reshape(tf.where(tf.equal(nearest, c)), [-1])), 0)
        for c in range(3)
    ]
    update = tf.assign(centers, tf.stack(means))
    sums = tf.unsorted_segment_sum(data, nearest, 3) / tf.unsorted_segment_sum(
        tf.ones_like(data), nearest, 3
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        want = start
        for _ in range(4):
            by_segments = session.run(sums)
            got = session.run(update)
            group = np.square(points[None] - want[:, None]).sum(2).argmin(0)
            want = np.stack([points[group == c].mean(0) for c in range(3)])
            np.testing.assert_allclose(got, want)
            np.testing.assert_allclose(by_segments, want)


@pytest.mark.parametrize("executor", ["compiled", "tokens"])
def test_page_ranks_are_the_leading_eigenvector(executor: str) -> None:
    links = (RNG(0).rand(6, 6) < 0.4).astype(np.float64)
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


def test_newtons_steps_with_hessians_find_the_logistic_optimum() -> None:
    x = RNG(0).randn(60, 3)
    y = (RNG(1).rand(60) < 1 / (1 + np.exp(-x @ [1.0, -1.0, 0.5]))).astype(np.float64)
    w = tf.Variable(np.zeros(3))
    logits = tf.reduce_sum(tf.constant(x) * w, 1)
    fit = tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.constant(y), logits=logits)
    loss = tf.reduce_sum(fit) + 0.5 * tf.reduce_sum(tf.square(w))
    (slope,), (bend,) = tf.gradients(loss, w), tf.hessians(loss, w)
    step = w.assign_sub(tf.reshape(tf.matrix_solve(bend, tf.expand_dims(slope, 1)), [3]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        _steps(session, step, 8)
        got, last = session.run([w, slope])
    p = 1 / (1 + np.exp(-x @ got))
    np.testing.assert_allclose(x.T @ (p - y) + got, 0, atol=1e-9)
    np.testing.assert_allclose(last, 0, atol=1e-9)


def test_conjugate_gradients_over_products_with_the_hessian_solve_a_system() -> None:
    root = RNG(0).randn(5, 5)
    matrix, b = root @ root.T + np.eye(5), RNG(1).randn(5)
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
    x, w1, w2 = RNG(0).randn(6, 3), RNG(1).randn(3, 4), RNG(2).randn(4, 1)
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


def test_a_siamese_network_shares_its_weights_and_has_torchs_gradient() -> None:
    left, right = (RNG(i).randn(5, 4).astype(np.float32) for i in (0, 1))
    same = np.array([1, 0, 1, 0, 0], np.float32)

    def side(x: Any, reuse: bool) -> Any:
        with tf.variable_scope("side", reuse=reuse):
            w = tf.get_variable("w", [4, 3], initializer=tf.random_normal_initializer(seed=1))
            return tf.nn.relu(tf.matmul(x, w))

    a, b = side(tf.constant(left), False), side(tf.constant(right), True)
    far = tf.sqrt(tf.reduce_sum(tf.square(a - b), 1) + 1e-6)
    loss = tf.reduce_mean(same * tf.square(far) + (1 - same) * tf.square(tf.maximum(2.0 - far, 0)))
    (kernel,) = tf.trainable_variables()
    slope = tf.gradients(loss, kernel)[0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        start, value, got = session.run([kernel, loss, slope])
    w = torch.tensor(start, requires_grad=True)
    gap = torch.relu(torch.tensor(left) @ w) - torch.relu(torch.tensor(right) @ w)
    apart = (gap.square().sum(1) + 1e-6).sqrt()
    t = torch.tensor(same)
    want = (t * apart**2 + (1 - t) * torch.relu(2 - apart) ** 2).mean()
    want.backward()
    assert value == pytest.approx(want.item(), rel=1e-5)
    assert w.grad is not None
    np.testing.assert_allclose(got, w.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_a_factorised_table_of_ratings_is_learned_by_lookups() -> None:
    users, items = RNG(0).randn(8, 2), RNG(1).randn(6, 2)
    ratings = (users @ items.T).astype(np.float32)
    who, what = (part.ravel() for part in np.indices(ratings.shape))
    init = tf.random_normal_initializer(stddev=0.5, seed=3)
    with tf.variable_scope("factors", initializer=init):
        parts = [tf.get_variable(f"users_{i}", [4, 2]) for i in range(2)]
        table = tf.get_variable("items", [6, 2])
    u = tf.nn.embedding_lookup(parts, tf.constant(who), partition_strategy="mod")
    v = tf.nn.embedding_lookup(table, tf.constant(what))
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(u * v, 1) - ratings.ravel()))
    step = tf.train.AdamOptimizer(0.05).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        _steps(session, step, 800)
        assert session.run(loss) < 1e-3
        first, second, columns = session.run([*parts, table])
    whole = np.empty((8, 2), np.float32)
    whole[0::2], whole[1::2] = first, second
    np.testing.assert_allclose(whole @ columns.T, ratings, atol=0.2)


def test_words_of_one_kind_come_near_each_other_by_noise_contrast() -> None:
    words, width = 10, 6  # words of one half appear among words of that half
    rng = RNG(0)
    center = rng.randint(0, words, 600)
    context = (center // 5) * 5 + rng.randint(0, 5, 600)
    inputs, labels = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None, 1])
    tf.set_random_seed(1)
    table = tf.Variable(tf.random_uniform([words, width], -1.0, 1.0))
    weights = [tf.Variable(tf.zeros([5, width])) for _ in range(2)]
    biases = [tf.Variable(tf.zeros([5])) for _ in range(2)]
    near = tf.nn.embedding_lookup(table, inputs)
    loss = tf.reduce_mean(
        tf.nn.nce_loss(weights, biases, labels, near, 4, words, partition_strategy="div")
    )
    step = tf.train.AdagradOptimizer(0.5).minimize(loss)
    unit = table / tf.sqrt(tf.reduce_sum(tf.square(table), 1, keep_dims=True))
    alike = tf.matmul(unit, unit, transpose_b=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for i in range(300):
            part = np.arange(100) + 100 * (i % 6)
            session.run(step, {inputs: center[part], labels: context[part][:, None]})
        found = session.run(alike)
    inside = np.mean([found[:5, :5].mean(), found[5:, 5:].mean()])
    assert inside > found[:5, 5:].mean() + 0.5


def test_a_language_model_carries_its_state_from_piece_to_piece() -> None:
    text = np.array([0, 1, 2, 3, 2, 1] * 40)  # after 1 or 2 the way depends on what was before
    batch, time, units = 4, 5, 12
    rows = text[: batch * 55].reshape(batch, 55)
    x, y = (tf.placeholder(tf.int32, [batch, time]) for _ in range(2))
    with tf.variable_scope("model", initializer=tf.random_uniform_initializer(-0.3, 0.3, seed=2)):
        cell = tf.nn.rnn_cell.MultiRNNCell(
            [tf.nn.rnn_cell.BasicLSTMCell(units) for _ in range(2)], state_is_tuple=True
        )
        start = cell.zero_state(batch, tf.float32)
        embedded = tf.nn.embedding_lookup(tf.get_variable("embedding", [4, 6]), x)
        outputs, end = tf.nn.dynamic_rnn(cell, embedded, initial_state=start)
        logits = tf.layers.dense(tf.reshape(outputs, [-1, units]), 4)
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


def test_averaged_weights_are_used_for_evaluation_through_a_getter() -> None:
    x, target = tf.constant([[1.0, 2.0]]), tf.constant([[3.0]])
    average = tf.train.ExponentialMovingAverage(0.5)

    def averaged(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        found = getter(name, *args, **kwargs)
        return average.average(found) if found in average._shadows else found

    def model(getter: Any = None, reuse: Any = None) -> Any:
        with tf.variable_scope("m", custom_getter=getter, reuse=reuse):
            return tf.layers.dense(x, 1, use_bias=False, kernel_initializer=tf.zeros_initializer())

    loss = tf.reduce_sum(tf.square(model() - target))
    (w,) = tf.trainable_variables()
    step = tf.train.GradientDescentOptimizer(0.05).minimize(loss)
    with tf.control_dependencies([step]):
        follow = average.apply([w])
    evaluated = model(averaged, reuse=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        want, mean = np.zeros(2), np.zeros(2)
        for _ in range(4):
            session.run(follow)
            want = want - 0.05 * 2 * (want @ [1, 2] - 3) * np.array([1, 2])
            mean = 0.5 * mean + 0.5 * want
            assert session.run(evaluated)[0, 0] == pytest.approx(mean @ [1, 2], rel=1e-5)


def test_a_table_of_values_reaches_the_fixed_point_of_its_equation() -> None:
    # a corridor of 5 cells: left or right, a reward of 1 for stepping into the last one
    q = tf.Variable(tf.zeros([5, 2], tf.float64))
    at, act = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [])
    there = tf.clip_by_value(at + 2 * act - 1, 0, 4)
    reward = tf.where(tf.equal(there, 4), tf.constant(1.0, tf.float64), 0.0)
    goes_on = tf.where(tf.equal(there, 4), tf.constant(0.0, tf.float64), 1.0)
    goal = reward + 0.9 * goes_on * tf.reduce_max(tf.gather(q, there))
    error = goal - tf.gather_nd(q, tf.stack([at, act]))
    change = tf.expand_dims(error * tf.one_hot(act, 2, dtype=tf.float64), 0)
    update = tf.scatter_add(q, tf.expand_dims(at, 0), change)
    rng = RNG(0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(400):
            session.run(update, {at: rng.randint(0, 4), act: rng.randint(0, 2)})
        got = session.run(q)
    best = [0.9**3, 0.9**2, 0.9, 1.0]
    np.testing.assert_allclose(got[:4, 1], best, rtol=1e-9)
    np.testing.assert_allclose(got[:4, 0], [0.9 * best[max(i - 1, 0)] for i in range(4)], rtol=1e-9)


def test_momentum_with_a_rate_in_steps_is_numpys_recurrence() -> None:
    v = tf.Variable([4.0, -2.0])
    step = tf.Variable(0, trainable=False)
    rate = tf.train.piecewise_constant(step, [4, 8], [0.1, 0.05, 0.01])
    scale = tf.constant([1.0, 3.0])
    train = tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True).minimize(
        0.5 * tf.reduce_sum(scale * v * v), global_step=step
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        w, a = np.array([4.0, -2.0]), np.zeros(2)
        for i in range(12):
            session.run(train)
            lr = 0.1 if i <= 4 else 0.05 if i <= 8 else 0.01
            grad = np.array([1.0, 3.0]) * w
            a = 0.9 * a + grad
            w = w - lr * (grad + 0.9 * a)
            np.testing.assert_allclose(session.run(v), w, rtol=1e-5)


def test_a_penalty_of_size_leaves_only_the_inputs_that_matter() -> None:
    x = RNG(0).randn(200, 6)
    y = (x[:, 0] * 2 - x[:, 3] > 0).astype(np.float64)[:, None]
    w = tf.Variable(np.zeros((6, 1)))
    logits = tf.matmul(tf.constant(x), w)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits))
    step = tf.train.FtrlOptimizer(0.5, l1_regularization_strength=2.0).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        _steps(session, step, 60)
        found = session.run(w)
    weights, squares, z = np.zeros((6, 1)), np.full((6, 1), 0.1), np.zeros((6, 1))
    for _ in range(60):  # follow the regularized leader, McMahan et al. 2013
        grad = x.T @ (1 / (1 + np.exp(-x @ weights)) - y) / 200
        sigma = (np.sqrt(squares + grad**2) - np.sqrt(squares)) / 0.5
        z, squares = z + grad - sigma * weights, squares + grad**2
        weights = np.where(np.abs(z) > 2.0, (np.sign(z) * 2.0 - z) / (np.sqrt(squares) / 0.5), 0)
    np.testing.assert_allclose(found, weights, rtol=1e-6, atol=1e-12)
    assert np.flatnonzero(found).tolist() == [0, 3]


def test_the_slope_of_a_loss_is_right_where_all_weights_are_zero() -> None:
    x, z = tf.placeholder(tf.float64, [None]), tf.placeholder(tf.float64, [None])
    loss = tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x)
    twice = tf.nn.weighted_cross_entropy_with_logits(z, x, 2.0)
    (slope,) = tf.gradients(loss, x)
    fetches = [loss, slope, tf.gradients(slope, x)[0], tf.gradients(twice, x)[0]]
    at, label = np.array([-100.0, -1, 0, 0, 0, 1, 1e4]), np.array([0, 1, 0, 0.3, 1, 1, 1])
    with tf.Session() as session:
        value, got, bend, weighted = session.run(fetches, {x: at, z: label})
    p = 1 / (1 + np.exp(-at))
    t = torch.tensor(at)
    oracle = torch.nn.functional.binary_cross_entropy_with_logits
    want = oracle(t, torch.tensor(label), reduction="none").numpy()
    np.testing.assert_allclose(value, want, rtol=1e-12)
    np.testing.assert_allclose(got, p - label, atol=1e-15)
    np.testing.assert_allclose(bend, p * (1 - p), atol=1e-15)
    np.testing.assert_allclose(weighted, p - label - label * (1 - p), atol=1e-15)
