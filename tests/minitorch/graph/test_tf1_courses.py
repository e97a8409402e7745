"""Programs as courses on TensorFlow 1 had them, each up to a figure that is known."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits, load_iris

import minitorch.graph as tf

DIGITS = load_digits()
PIXELS = (DIGITS.images / 16).astype(np.float32)


def test_the_nearest_neighbour_is_found_among_as_many_as_are_fed() -> None:
    known = tf.placeholder("float", [None, 64])
    asked = tf.placeholder("float", [64])
    distance = tf.reduce_sum(tf.abs(tf.add(known, tf.negative(asked))), reduction_indices=1)
    nearest = tf.arg_min(distance, 0)
    two = tf.nn.top_k(-distance, 2).indices
    rows = PIXELS[:300].reshape(300, 64)
    with tf.Session() as session:
        right = 0
        for i in range(300, 360):
            feed = {known: rows, asked: PIXELS[i].ravel()}
            place, pair = session.run([nearest, two], feed)
            assert place == np.abs(rows - PIXELS[i].ravel()).sum(1).argmin() == pair[0]
            right += DIGITS.target[place] == DIGITS.target[i]
    assert right >= 50


def test_principal_axes_come_from_the_singular_vectors() -> None:
    rows = load_iris(return_X_y=True)[0]
    centred = tf.constant(rows - rows.mean(0))
    s, _, v = tf.svd(centred)
    on_two = tf.matmul(centred, v[:, :2])
    values, _ = tf.self_adjoint_eig(tf.matmul(centred, centred, transpose_a=True))
    with tf.Session() as session:
        sizes, plane, squares = session.run([s, on_two, values])
    np.testing.assert_allclose(np.linalg.norm(plane, axis=0), sizes[:2])
    np.testing.assert_allclose(squares[::-1], sizes**2)
    assert (plane.var(0).sum() / rows.var(0).sum()).round(4) == 0.9777  # as everybody finds


def test_a_gaussian_process_learns_its_noise_and_its_curve() -> None:
    x = np.sort(np.random.uniform(-3, 3, 30))[:, None]
    y = np.sin(x) + 0.1 * np.random.randn(30, 1)
    length, scale, noise = (tf.Variable(v, dtype=tf.float64) for v in (0.0, 0.0, -1.0))

    def kernel(a: Any, b: Any) -> Any:
        away = tf.squared_difference(a, tf.transpose(b))
        return tf.exp(2 * scale) * tf.exp(-away / (2 * tf.exp(2 * length)))

    where = tf.placeholder(tf.float64, [None, 1])
    cov = kernel(tf.constant(x), tf.constant(x)) + tf.exp(2 * noise) * tf.eye(30, dtype=tf.float64)
    lower = tf.cholesky(cov)
    alpha = tf.cholesky_solve(lower, tf.constant(y))
    loss = 0.5 * tf.reduce_sum(y * alpha) + tf.reduce_sum(tf.log(tf.diag_part(lower)))
    step = tf.train.AdamOptimizer(0.05).minimize(loss)
    mean = tf.matmul(kernel(where, tf.constant(x)), alpha)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        inverse = np.linalg.inv(session.run(cov))
        want = 0.5 * (y.T @ inverse @ y).item() - 0.5 * np.linalg.slogdet(inverse)[1]
        np.testing.assert_allclose(session.run(loss), want)
        for _ in range(120):
            session.run(step)
        grid = np.linspace(-2, 2, 9)[:, None]
        np.testing.assert_allclose(session.run(mean, {where: grid}), np.sin(grid), atol=0.2)
        assert 0.05 < np.exp(session.run(noise)) < 0.2  # 0.1 was put in


def _net(x: Any, weights: Any) -> Any:
    tanh = torch.tanh if isinstance(x, torch.Tensor) else tf.nn.tanh
    return tanh(x @ weights["w1"] + weights["b1"]) @ weights["w2"] + weights["b2"]


def test_the_gradient_through_inner_steps_over_tasks_is_torchs() -> None:
    """MAML: Finn, Abbeel & Levine, ICML 2017, with the tasks of a batch side by side in map_fn."""
    start = {
        "w1": np.random.randn(1, 8),
        "b1": np.zeros(8),
        "w2": np.random.randn(8, 1),
        "b2": np.zeros(1),
    }
    tasks = [np.random.uniform(-2, 2, (3, 5, 1)) for _ in range(4)]
    weights = {name: tf.Variable(value, name=name) for name, value in start.items()}

    def of_task(given: Any) -> Any:
        xa, ya, xb, yb = given
        before = tf.reduce_mean(tf.square(_net(xa, weights) - ya))
        slopes = dict(zip(weights, tf.gradients(before, list(weights.values())), strict=True))
        fast = {name: weights[name] - 0.1 * slopes[name] for name in weights}
        return before, tf.reduce_mean(tf.square(_net(xb, fast) - yb))

    fed = tuple(tf.placeholder(tf.float64, [None, 5, 1]) for _ in tasks)
    _, after = tf.map_fn(of_task, fed, dtype=(tf.float64, tf.float64), parallel_iterations=2)
    loss = tf.reduce_mean(after)
    pairs = tf.train.AdamOptimizer(1e-2).compute_gradients(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        feed = dict(zip(fed, tasks, strict=True))
        got = session.run([loss, *[slope for slope, _ in pairs]], feed)
    theirs = {name: torch.tensor(value, requires_grad=True) for name, value in start.items()}
    total: Any = 0
    for i in range(3):
        xa, ya, xb, yb = (torch.tensor(part[i]) for part in tasks)
        before = ((_net(xa, theirs) - ya) ** 2).mean()
        slopes = torch.autograd.grad(before, list(theirs.values()), create_graph=True)
        fast = {n: theirs[n] - 0.1 * s for n, s in zip(theirs, slopes, strict=True)}
        total = total + ((_net(xb, fast) - yb) ** 2).mean() / 3
    want = [total, *torch.autograd.grad(total, list(theirs.values()))]
    for mine, other in zip(got, want, strict=True):
        np.testing.assert_allclose(mine, other.detach().numpy(), rtol=1e-9, atol=1e-12)


def test_a_mixture_of_densities_is_its_formula_and_learns() -> None:
    y_data = np.random.uniform(-10.5, 10.5, (500, 1)).astype(np.float32)
    x_data = (np.sin(0.75 * y_data) * 7 + y_data * 0.5).astype(np.float32)
    x, y = (tf.placeholder(dtype=tf.float32, shape=[None, 1], name=n) for n in "xy")
    hidden = tf.layers.dense(x, 20, tf.nn.tanh)
    pi, log_sigma, mu = tf.split(tf.layers.dense(hidden, 15), 3, 1)
    pi = tf.exp(tf.subtract(pi, tf.reduce_max(pi, 1, keep_dims=True)))
    pi = tf.multiply(tf.reciprocal(tf.reduce_sum(pi, 1, keep_dims=True)), pi)
    sigma = tf.exp(log_sigma)
    bell = tf.exp(-tf.square((y - mu) / sigma) / 2) / sigma / np.sqrt(2 * np.pi)
    loss = tf.reduce_mean(-tf.log(tf.reduce_sum(bell * pi, 1, keep_dims=True) + 1e-8))
    step = tf.train.AdamOptimizer(0.02).minimize(loss)
    feed = {x: x_data, y: y_data}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        share, spread, centre, first = session.run([pi, sigma, mu, loss], feed)
        mixture = torch.distributions.MixtureSameFamily(
            torch.distributions.Categorical(torch.tensor(share)),
            torch.distributions.Normal(torch.tensor(centre), torch.tensor(spread)),
        )
        want = -(mixture.log_prob(torch.tensor(y_data[:, 0])).exp() + 1e-8).log().mean()
        np.testing.assert_allclose(first, want.item(), rtol=1e-4)
        for _ in range(200):
            session.run(step, feed)
        assert session.run(loss, feed) < np.log(21) < first  # better than to say "even"


def test_a_policy_is_trained_by_gradients_that_are_gathered_and_fed() -> None:
    state = tf.placeholder(shape=[None, 3], dtype=tf.float32)
    dense = tf.contrib.layers.fully_connected
    hidden = dense(state, 8, biases_initializer=None, activation_fn=tf.nn.relu)
    output = dense(hidden, 4, activation_fn=tf.nn.softmax, biases_initializer=None)
    reward, action = tf.placeholder(tf.float32, [None]), tf.placeholder(tf.int32, [None])
    index = tf.range(0, tf.shape(output)[0]) * tf.shape(output)[1] + action
    chosen = tf.gather(tf.reshape(output, [-1]), index)
    loss = -tf.reduce_mean(tf.log(chosen) * reward)
    variables = tf.trainable_variables()
    holders = [tf.placeholder(tf.float32, name=f"{i}_holder") for i in range(len(variables))]
    slopes = tf.gradients(loss, variables)
    update = tf.train.AdamOptimizer(2e-2).apply_gradients(zip(holders, variables, strict=True))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        kept = [value * 0 for value in session.run(variables)]
        for episode in range(400):
            at = np.random.randint(3, size=8)
            p = session.run(output, {state: np.eye(3)[at]}).astype(float)
            done = [np.random.choice(4, p=row / row.sum()) for row in p]
            won = (np.array(done) == at + 1) - 0.25
            feed = {state: np.eye(3)[at], action: done, reward: won}
            kept = [a + b for a, b in zip(kept, session.run(slopes, feed), strict=True)]
            if episode % 2:
                session.run(update, dict(zip(holders, kept, strict=True)))
                kept = [value * 0 for value in kept]
        best = session.run(tf.argmax(output, 1), {state: np.eye(3)})
    assert best.tolist() == [1, 2, 3]


def test_the_last_output_of_each_length_is_the_state_and_is_enough_to_classify() -> None:
    lengths = np.random.randint(3, 9, 300)
    steps = np.random.randn(300, 8, 1) * (np.arange(8)[None, :, None] < lengths[:, None, None])
    signs = (steps.sum((1, 2)) > 0).astype(int)
    x, n, y = (tf.placeholder(t, s) for t, s in (("float", [None, 8, 1]), *[("int32", [None])] * 2))
    cell = tf.nn.rnn_cell.GRUCell(16, kernel_initializer=tf.orthogonal_initializer())
    outputs, state = tf.nn.dynamic_rnn(cell, x, dtype=tf.float32, sequence_length=n)
    index = tf.range(0, tf.shape(outputs)[0]) * 8 + (n - 1)
    last = tf.gather(tf.reshape(outputs, [-1, 16]), index)
    logits = tf.layers.dense(last, 2)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=y, logits=logits)
    step = tf.train.AdamOptimizer(0.02).minimize(loss)
    feed = {x: steps, n: lengths, y: signs}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(*session.run([last, state], feed))
        for _ in range(60):
            session.run(step, feed)
        assert (session.run(logits, feed).argmax(1) == signs).mean() > 0.95


class BatchNorm:
    """Batch normalization as DCGAN's code has it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, x: Any, train: bool = True) -> Any:
        return tf.contrib.layers.batch_norm(
            x, decay=0.9, updates_collections=None, epsilon=1e-5, scale=True, is_training=train,
            scope=self.name,
        )  # fmt: skip


def test_a_generator_with_its_own_statistics_samples_what_it_was_trained_to() -> None:
    z = tf.placeholder(tf.float32, [None, 6])
    g0, g1 = BatchNorm("g_bn0"), BatchNorm("g_bn1")

    def deconv(x: Any, shape: Any, name: str) -> Any:
        with tf.variable_scope(name):
            start = tf.random_normal_initializer(stddev=0.1)
            w = tf.get_variable("w", [3, 3, shape[-1], x.get_shape()[-1]], initializer=start)
            y = tf.nn.conv2d_transpose(x, w, output_shape=shape, strides=[1, 2, 2, 1])
            b = tf.get_variable("b", [shape[-1]], initializer=tf.constant_initializer(0.0))
            return tf.reshape(tf.nn.bias_add(y, b), y.get_shape())

    def generator(train: bool, reuse: Any = None) -> Any:
        with tf.variable_scope("generator", reuse=reuse):
            h = tf.reshape(tf.layers.dense(z, 2 * 2 * 8, name="g_h0"), [-1, 2, 2, 8])
            h = tf.nn.relu(g0(h, train))
            h = tf.nn.relu(g1(deconv(h, [8, 4, 4, 4], "g_h1"), train))
            return tf.nn.sigmoid(deconv(h, [8, 8, 8, 1], "g_h2"))

    made, sampled = generator(True), generator(False, reuse=True)
    assert tuple(made.shape) == (8, 8, 8, 1)
    mean = PIXELS[DIGITS.target == 0].mean(0)[None, :, :, None]
    loss = tf.reduce_mean(tf.square(made - mean))
    names = [v for v in tf.trainable_variables() if "g_" in v.name]
    step = tf.train.AdamOptimizer(0.02, beta1=0.5).minimize(loss, var_list=names)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(150):
            session.run(step, {z: np.random.randn(8, 6)})
        out = session.run(sampled, {z: np.random.randn(8, 6)})
    assert np.square(out - mean).mean() < 0.2 * mean.var()


def test_features_in_a_dict_go_from_a_pipeline_to_an_accuracy() -> None:
    rows, kinds = load_iris(return_X_y=True)
    features = {"sepal": rows[:, :2].astype(np.float32), "petal": rows[:, 2:].astype(np.float32)}

    def scaled(f: Any, label: Any) -> Any:
        f["sepal"] = (f["sepal"] - 5.0) / 2.0
        return f, label

    both = tf.data.Dataset.from_tensor_slices((features, kinds))
    train = both.shuffle(150, seed=1).repeat().batch(30).map(scaled).prefetch(1)
    test = both.batch(40).map(scaled)
    iterator = tf.data.Iterator.from_structure(train.output_types, train.output_shapes)
    f, label = iterator.get_next()
    net = tf.layers.dense(tf.concat([f["sepal"], f["petal"]], axis=1), 10, activation="relu")
    logits = tf.layers.dense(net, 3)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=label, logits=logits)
    step = tf.train.AdamOptimizer(0.03).minimize(loss)
    measured, update = tf.metrics.accuracy(labels=label, predictions=tf.argmax(logits, 1))
    starts = [iterator.make_initializer(data) for data in (train, test)]
    with tf.Session() as session:
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        session.run(starts[0])
        for _ in range(150):
            session.run(step)
        session.run(starts[1])
        while True:
            try:
                session.run(update)
            except tf.errors.OutOfRangeError:
                break
        assert session.run(measured) > 0.94


def test_a_pipeline_through_python_starts_with_the_monitored_session(tmp_path: Path) -> None:
    def parsed(i: Any) -> Any:
        def made(n: Any) -> Any:
            return np.array([n % 3, n % 5], np.float32), np.float32(2 * (n % 3) - n % 5)

        row, label = tf.py_func(made, [i], [tf.float32, tf.float32])
        row.set_shape([2])
        label.set_shape([])
        return row, label

    size = tf.placeholder_with_default(tf.constant(16, tf.int64), [])
    data = tf.data.Dataset.range(300).map(parsed, num_parallel_calls=4).shuffle(100).repeat()
    iterator = data.batch(size).prefetch(tf.data.experimental.AUTOTUNE)
    iterator = iterator.make_initializable_iterator()
    rows, labels = iterator.get_next()
    w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer)
    loss = tf.losses.mean_squared_error(labels, tf.squeeze(tf.matmul(rows, w), -1))
    count = tf.train.get_or_create_global_step()
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss, count)
    begin = tf.group(tf.local_variables_initializer(), iterator.initializer)
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=str(tmp_path),
        scaffold=tf.train.Scaffold(local_init_op=begin),
        hooks=[tf.train.StopAtStepHook(num_steps=60)],
    ) as session:
        while not session.should_stop():
            _, found = session.run([step, w])
    np.testing.assert_allclose(found.ravel(), [2, -1], atol=0.1)
    np.testing.assert_allclose(tf.train.load_variable(tmp_path, "w"), found, atol=0.1)


def test_a_restored_base_stays_as_it_was_under_a_new_head(tmp_path: Path) -> None:
    def base(x: Any) -> Any:
        with tf.variable_scope("base"):
            return tf.layers.dense(x, 8, tf.nn.relu, name="fc1")

    rows = np.random.randn(200, 4).astype(np.float32)
    sums = rows.sum(1, keepdims=True)
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None, 1])
    loss = tf.losses.mean_squared_error(y, tf.layers.dense(base(x), 1, name="head"))
    count = tf.Variable(0, trainable=False)
    step = tf.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True).minimize(loss, count)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for i in range(150):
            session.run(step, {x: rows, y: sums})
            if i % 50 == 49:
                saver.save(session, tmp_path / "m.ckpt", global_step=count)
        assert session.run(loss, {x: rows, y: sums}) < 0.05
        weights = session.run("base/fc1/kernel:0")
    tf.reset_default_graph()
    x, y = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.int64, [None])
    logits = tf.layers.dense(tf.stop_gradient(base(x)), 2, name="new_head")
    loss = tf.losses.sparse_softmax_cross_entropy(y, logits)
    own = tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope="new_head")
    step = tf.train.AdamOptimizer(0.05).minimize(loss, var_list=own)
    restorer = tf.train.Saver(tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="base"))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        restorer.restore(session, tf.train.latest_checkpoint(tmp_path))
        feed = {x: rows, y: (sums[:, 0] > 0).astype(int)}
        for _ in range(100):
            session.run(step, feed)
        np.testing.assert_array_equal(session.run("base/fc1/kernel:0"), weights)
        assert (session.run(logits, feed).argmax(1) == feed[y]).mean() > 0.95


def test_a_residual_network_reads_digits() -> None:
    x, y = tf.placeholder(tf.float32, [None, 8, 8, 1]), tf.placeholder(tf.int64, [None])
    training = tf.placeholder_with_default(False, [], name="training")
    start = tf.contrib.layers.variance_scaling_initializer()
    how = {"padding": "same", "use_bias": False, "kernel_initializer": start}

    def block(x: Any, n: int, name: str, stride: int = 1) -> Any:
        with tf.variable_scope(name):
            same = x.shape[-1].value == n
            short = x if same else tf.layers.conv2d(x, n, 1, stride, name="short", **how)
            for i, step in enumerate((stride, 1)):
                x = tf.layers.conv2d(x, n, 3, step, kernel_regularizer=penalty, **how)
                x = tf.layers.batch_normalization(x, training=training, momentum=0.9)
                x = x if i else tf.nn.relu(x)
            return tf.nn.relu(x + short)

    penalty = tf.contrib.layers.l2_regularizer(1e-4)
    h = tf.layers.conv2d(x, 8, 3, padding="same", activation=tf.nn.relu)
    h = block(block(h, 8, "b1"), 16, "b2", 2)
    logits = tf.layers.dense(tf.reduce_mean(h, [1, 2]), 10)
    tf.losses.sparse_softmax_cross_entropy(y, logits)
    assert len(tf.losses.get_regularization_losses()) == 4
    count = tf.train.create_global_step()
    rate = tf.train.piecewise_constant_decay(count, [60], [0.05, 0.01])
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        step = tf.train.MomentumOptimizer(rate, 0.9).minimize(tf.losses.get_total_loss(), count)
    images, kinds = PIXELS[..., None], DIGITS.target
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(80):
            k = np.random.choice(1500, 64)
            session.run(step, {x: images[k], y: kinds[k], training: True})
        found = session.run(logits, {x: images[1500:]}).argmax(1)
        assert (found == kinds[1500:]).mean() > 0.8
        assert session.run(rate) == np.float32(0.01)


def test_features_forget_their_domain_by_a_reversed_gradient() -> None:
    """Ganin & Lempitsky, ICML 2015: one feature tells the class, the other the domain."""

    @tf.custom_gradient
    def reversed_gradient(x: Any) -> Any:
        return tf.identity(x), lambda dy: -dy

    rows = np.random.randn(400, 2).astype(np.float32)
    kind, domain = (rows[:, 0] > 0).astype(int), (rows[:, 1] > 0).astype(int)
    x, y, d = (tf.placeholder(t, s) for t, s in (("float", [None, 2]), *[("int32", [None])] * 2))
    w = tf.get_variable("w", [2, 1], initializer=tf.constant_initializer([[0.5], [0.5]]))
    feature = tf.matmul(x, w)
    told = tf.layers.dense(feature, 2)
    spied = tf.layers.dense(reversed_gradient(feature), 2)
    loss = tf.losses.sparse_softmax_cross_entropy(y, told)
    loss += tf.losses.sparse_softmax_cross_entropy(d, spied)
    step = tf.train.GradientDescentOptimizer(0.3).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(200):
            session.run(step, {x: rows, y: kind, d: domain})
        by_kind, by_domain = np.abs(session.run(w)).ravel()
    assert by_kind > 5 * by_domain
