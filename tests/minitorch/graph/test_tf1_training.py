"""Whole programs in the manner of TensorFlow 1's tutorials: they must train, with right numbers."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf

RNG = np.random.default_rng(11)
BEGIN = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def _rng_from_its_beginning() -> None:
    RNG.bit_generator.state = BEGIN


def _trained(step: Any, loss: Any, feed: Any, times: int, setup: Any = None) -> tuple[Any, Any]:
    """Return the loss before and after so many steps."""
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(loss, feed)
        for _ in range(times):
            session.run(step, feed)
        return before, session.run(loss, feed)


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


@pytest.mark.parametrize("mode", ["layers", "layers first", "plain"])
def test_an_image_classifier_learns_its_batch(mode: str) -> None:
    x = tf.placeholder(tf.float32, shape=[None, 64], name="x")
    y = tf.placeholder(tf.int64, shape=[None])
    training = tf.placeholder_with_default(False, [])
    image = tf.reshape(x, [-1, 8, 8, 1])
    if mode == "plain":
        w = tf.get_variable("w", [3, 3, 1, 8], initializer=tf.truncated_normal_initializer(0, 0.1))
        h = tf.nn.conv2d(image, w, strides=[1, 1, 1, 1], padding="SAME")
        h = tf.nn.relu(tf.nn.bias_add(h, tf.get_variable("b", [8])))
        h = tf.nn.lrn(h, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75)
        h = tf.nn.max_pool(h, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")
    else:
        layout = "channels_first" if mode == "layers first" else "channels_last"
        image = tf.transpose(image, [0, 3, 1, 2]) if mode == "layers first" else image
        h = tf.layers.conv2d(
            image, 8, [3, 3], padding="same", activation=tf.nn.relu, data_format=layout
        )
        h = tf.layers.max_pooling2d(h, pool_size=2, strides=2, data_format=layout)
        h = tf.layers.dropout(h, rate=0.2, training=training, seed=1)
    h = tf.layers.flatten(h)
    assert h.get_shape().as_list() == [None, 128]
    logits = tf.layers.dense(h, 4, kernel_initializer=tf.glorot_uniform_initializer(seed=2))
    loss = tf.losses.sparse_softmax_cross_entropy(labels=y, logits=logits)
    accuracy = tf.reduce_mean(tf.cast(tf.equal(tf.argmax(logits, 1), y), tf.float32))
    step = tf.train.AdamOptimizer(0.02).minimize(loss)
    feed = {x: RNG.normal(size=(16, 64)), y: RNG.integers(0, 4, 16)}
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        session.run(tf.global_variables_initializer())
        for _ in range(40):
            session.run(step, {**feed, training: True})
        assert accuracy.eval(feed) == 1.0


def test_batch_normalization_is_torchs_training_and_evaluating() -> None:
    data = RNG.normal(2.0, 3.0, size=(4, 5, 5, 3)).astype(np.float32)
    x, training = tf.placeholder(tf.float32, [None, 5, 5, 3]), tf.placeholder(tf.bool, [])
    y = tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    assert len(updates) == 2
    layer = torch.nn.BatchNorm2d(3, momentum=0.1)
    images = torch.tensor(data).permute(0, 3, 1, 2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            got = session.run([y, *updates], {x: data, training: True})[0]
            want = layer(images).permute(0, 2, 3, 1).detach().numpy()
            np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4)
        moving = {v.name: v for v in tf.global_variables() if "moving" in v.name}
        mean = session.run(moving["batch_normalization/moving_mean"])
        np.testing.assert_allclose(mean, layer.running_mean.numpy(), rtol=1e-4)
        got = session.run(y, {x: data, training: False})
    n = data.size / 3  # torch keeps the unbiased variance
    share = 1 - 0.9**3
    layer.running_var = (layer.running_var - (1 - share)) * (n - 1) / n + (1 - share)
    want = layer.eval()(images).permute(0, 2, 3, 1).detach().numpy()
    np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-3)
    assert not tf.get_collection(tf.GraphKeys.TRAINABLE_VARIABLES, scope=".*moving")


def test_a_character_model_learns_its_text() -> None:
    text = "hello graph, hello loop. "
    letters = sorted(set(text))
    codes = np.array([letters.index(c) for c in text])
    x, y = tf.placeholder(tf.int32, [None, None]), tf.placeholder(tf.int32, [None, None])
    keep = tf.placeholder_with_default(1.0, [])
    cells = [tf.contrib.rnn.BasicLSTMCell(24) for _ in range(2)]
    cell = tf.contrib.rnn.MultiRNNCell([tf.contrib.rnn.DropoutWrapper(c, keep) for c in cells])
    start = cell.zero_state(tf.shape(x)[0], tf.float32)
    outputs, last = tf.nn.dynamic_rnn(cell, tf.one_hot(x, len(letters)), initial_state=start)
    logits = tf.layers.dense(outputs, len(letters))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits))
    weights = tf.trainable_variables()
    grads, _ = tf.clip_by_global_norm(tf.gradients(loss, weights), 1.0)
    step = tf.train.AdamOptimizer(0.03).apply_gradients(zip(grads, weights, strict=True))
    feed = {x: codes[None, :-1], y: codes[None, 1:]}
    before, after = _trained(step, loss, feed, 70)
    assert before > 2.0
    assert after < 0.1
    assert isinstance(last[0], tf.nn.rnn_cell.LSTMStateTuple)


def test_embeddings_train_with_noise_contrast_and_with_a_sampled_softmax() -> None:
    for loss_of in (tf.nn.nce_loss, tf.nn.sampled_softmax_loss):
        tf.reset_default_graph()
        tf.set_random_seed(5)
        table = tf.Variable(tf.random_uniform([30, 8], -1.0, 1.0))
        weights = tf.Variable(tf.truncated_normal([30, 8], stddev=0.3))
        biases = tf.Variable(tf.zeros([30]))
        words, labels = tf.placeholder(tf.int32, [None]), tf.placeholder(tf.int32, [None, 1])
        embedded = tf.nn.embedding_lookup(table, words)
        loss = tf.reduce_mean(
            loss_of(
                weights=weights,
                biases=biases,
                labels=labels,
                inputs=embedded,
                num_sampled=8,
                num_classes=30,
            )
        )
        step = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        norm = tf.sqrt(tf.reduce_sum(tf.square(table), 1, keep_dims=True))
        similar = tf.matmul(table / norm, table / norm, transpose_b=True)
        feed = {words: [1, 2, 3], labels: [[4], [5], [6]]}
        before, after = _trained(step, loss, feed, 60)
        assert after < before / 2
        assert similar.shape == [30, 30]


def test_a_gan_trains_each_side_alone() -> None:
    def generator(z: Any) -> Any:
        with tf.variable_scope("generator"):
            return tf.layers.dense(tf.layers.dense(z, 8, tf.nn.relu), 2)

    def discriminator(x: Any, reuse: bool = False) -> Any:
        with tf.variable_scope("discriminator", reuse=reuse):
            return tf.layers.dense(tf.layers.dense(x, 8, tf.nn.leaky_relu, name="h"), 1)

    real, z = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None, 3])
    fake = generator(z)
    on_real, on_fake = discriminator(real), discriminator(fake, reuse=True)
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


def test_a_variational_autoencoder_lowers_its_bound() -> None:
    x = tf.placeholder(tf.float32, [None, 6])
    hidden = tf.contrib.layers.fully_connected(x, 12, scope="encoder")
    mu, log_sigma2 = tf.layers.dense(hidden, 2), tf.layers.dense(hidden, 2)
    eps = tf.random_normal(tf.shape(mu), 0, 1, dtype=tf.float32, seed=4)
    z = mu + tf.exp(log_sigma2 / 2) * eps
    logits = tf.layers.dense(tf.layers.dense(z, 12, tf.nn.softplus), 6)
    rebuilt = tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=logits), 1)
    kl = -0.5 * tf.reduce_sum(1 + log_sigma2 - tf.square(mu) - tf.exp(log_sigma2), 1)
    loss = tf.reduce_mean(rebuilt + kl)
    step = tf.train.RMSPropOptimizer(0.01).minimize(loss)
    pattern = np.repeat(np.eye(2), 3, axis=1)[[0, 1] * 8]
    before, after = _trained(step, loss, {x: pattern}, 150)
    assert after < before * 0.7


def test_q_learning_copies_its_target_and_moves_by_one_action() -> None:
    def network(states: Any, scope: str) -> Any:
        with tf.variable_scope(scope):
            return tf.layers.dense(tf.layers.dense(states, 8, tf.nn.relu), 3)

    states, rewards = tf.placeholder(tf.float32, [None, 4]), tf.placeholder(tf.float32, [None])
    actions = tf.placeholder(tf.int32, [None])
    q, target = network(states, "q"), network(states, "target")
    sources = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="q")
    goals = tf.get_collection(tf.GraphKeys.GLOBAL_VARIABLES, scope="target")
    copy = tf.group(*[tf.assign(t, s) for t, s in zip(goals, sources, strict=True)])
    wanted = tf.stop_gradient(rewards + 0.9 * tf.reduce_max(target, axis=1))
    taken = tf.reduce_sum(q * tf.one_hot(actions, 3), axis=1)
    loss = tf.losses.huber_loss(wanted, taken)
    optimizer = tf.train.AdamOptimizer(0.01)
    pairs = [
        (tf.clip_by_norm(g, 10.0), v) for g, v in optimizer.compute_gradients(loss) if g is not None
    ]
    assert [v for _, v in pairs] == sources
    step = optimizer.apply_gradients(pairs)
    feed = {states: RNG.normal(size=(8, 4)), actions: [0, 1, 2, 0, 1, 2, 0, 1], rewards: np.ones(8)}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(copy)
        np.testing.assert_array_equal(*session.run([q, target], feed))
        first = session.run(loss, feed)
        for _ in range(80):
            session.run(step, feed)
        assert session.run(loss, feed) < first / 10
        assert np.abs(np.subtract(*session.run([q, target], feed))).max() > 1e-3


def test_a_policy_gradient_is_the_score_times_the_advantage() -> None:
    states, advantages = tf.placeholder(tf.float32, [None, 2]), tf.placeholder(tf.float32, [None])
    actions = tf.placeholder(tf.int32, [None])
    w = tf.get_variable("w", [2, 3], initializer=tf.zeros_initializer())
    logits = tf.matmul(states, w)
    chosen = tf.squeeze(tf.multinomial(logits, 1, seed=1), axis=[1])
    log_p = tf.gather_nd(
        tf.nn.log_softmax(logits), tf.stack([tf.range(tf.shape(actions)[0]), actions], 1)
    )
    grad = tf.gradients(-tf.reduce_mean(log_p * tf.stop_gradient(advantages)), w)[0]
    s = RNG.normal(size=(5, 2)).astype(np.float32)
    feed = {states: s, actions: [0, 1, 2, 1, 0], advantages: np.arange(5)}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        got, drawn = session.run([grad, chosen], feed)
    hot = np.eye(3)[[0, 1, 2, 1, 0]]
    np.testing.assert_allclose(got, s.T @ ((1 / 3 - hot) * np.arange(5)[:, None]) / 5, atol=1e-6)
    assert drawn.shape == (5,) and set(drawn) <= {0, 1, 2}


def test_masked_attention_is_torchs() -> None:
    q, k, v = (RNG.normal(size=(2, 2, 4, 3)).astype(np.float32) for _ in range(3))
    lengths = np.array([4, 2])
    nodes = [tf.constant(a) for a in (q, k, v)]
    mask = tf.sequence_mask(lengths, 4)[:, None, None, :]
    scores = tf.matmul(nodes[0], nodes[1], transpose_b=True) / np.sqrt(3.0)
    scores = tf.where(tf.logical_and(mask, tf.ones_like(scores) > 0), scores, scores * 0 - 1e9)
    out = tf.einsum("bhqk,bhkd->bhqd", tf.nn.softmax(scores), nodes[2])
    merged = tf.reshape(tf.transpose(out, [0, 2, 1, 3]), [2, 4, 6])
    keep = torch.arange(4)[None, :] < torch.tensor(lengths)[:, None]
    want = torch.nn.functional.scaled_dot_product_attention(
        torch.tensor(q), torch.tensor(k), torch.tensor(v), keep[:, None, None, :]
    )
    with tf.Session() as session:
        np.testing.assert_allclose(
            session.run(merged), want.transpose(1, 2).reshape(2, 4, 6).numpy(), rtol=1e-4, atol=1e-5
        )


def test_a_greedy_decoder_writes_its_steps_into_an_array() -> None:
    cell = tf.nn.rnn_cell.GRUCell(5)
    start = cell.zero_state(2, tf.float32)
    weights = tf.get_variable("out", [5, 3])
    cell(tf.zeros([2, 3]), start)

    def body(t: Any, x: Any, state: Any, out: Any) -> Any:
        h, new = cell(x, state)
        logits = tf.matmul(h, weights)
        return t + 1, tf.one_hot(tf.argmax(logits, 1), 3), new, out.write(t, logits)

    array = tf.TensorArray(tf.float32, size=0, dynamic_size=True, element_shape=[2, 3])
    _, _, last, out = tf.while_loop(
        lambda t, *_: t < 4, body, (tf.constant(0), tf.zeros([2, 3]), start, array)
    )
    outputs = tf.transpose(out.stack(), [1, 0, 2])
    step = tf.train.AdamOptimizer(0.05).minimize(tf.reduce_mean(tf.square(outputs - 1.0)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(outputs).shape == (2, 4, 3)
        before = session.run(tf.reduce_mean(tf.square(outputs - 1.0)))
        for _ in range(30):
            session.run(step)
        assert session.run(tf.reduce_mean(tf.square(outputs - 1.0))) < before / 2
        assert session.run(last).shape == (2, 5)


def test_a_rate_decays_with_the_global_step_and_a_saver_keeps_the_newest(tmp_path: Path) -> None:
    global_step = tf.train.get_or_create_global_step()
    assert tf.train.get_global_step() is global_step
    rate = tf.train.exponential_decay(0.5, global_step, 2, 0.5, staircase=True)
    w = tf.Variable(4.0, name="w")
    step = tf.train.GradientDescentOptimizer(rate).minimize(w * w / 2, global_step=global_step)
    saver = tf.train.Saver(max_to_keep=2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(4):
            session.run(step)
            saver.save(session, os.fspath(tmp_path / "model.ckpt"), global_step=global_step)
        value, rate_now = session.run([w, rate])
    assert (value, rate_now) == (4.0 * 0.5 * 0.5 * 0.75 * 0.75, 0.125)
    state = tf.train.get_checkpoint_state(tmp_path)
    assert state is not None and len(state.all_model_checkpoint_paths) == 2
    with tf.Session() as session:
        saver.restore(session, tf.train.latest_checkpoint(tmp_path))
        assert session.run([w, global_step]) == [value, 4]
        assert tf.train.global_step(session, global_step) == 4
        assert session.run(tf.report_uninitialized_variables()).size == 0


def test_an_autoencoder_with_shared_weights_and_a_penalty() -> None:
    x = tf.placeholder(tf.float32, [None, 8], name="input")
    with tf.variable_scope("ae", regularizer=tf.contrib.layers.l2_regularizer(1e-3)):
        w = tf.get_variable("w", [8, 3], initializer=tf.contrib.layers.xavier_initializer(seed=1))
        b = tf.get_variable("b", [3], regularizer=lambda v: None)
    code = tf.nn.tanh(tf.nn.xw_plus_b(x, w, b), name="code")
    loss = tf.losses.mean_squared_error(x, tf.matmul(code, w, transpose_b=True))
    (penalty,) = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
    total = tf.add_n([loss, *tf.losses.get_regularization_losses()], name="total")
    step = tf.train.AdagradOptimizer(0.3).minimize(total)
    data = RNG.normal(size=(32, 3)) @ RNG.normal(size=(3, 8)) * 0.2
    graph = tf.get_default_graph()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        weights = session.run(w)
        assert session.run(penalty) == pytest.approx(1e-3 * (weights**2).sum() / 2, rel=1e-5)
        found = graph.get_tensor_by_name("total:0")
        first = session.run(found, {"input:0": data})
        for _ in range(100):
            session.run(step, {graph.get_operation_by_name("input"): data})
        assert session.run("total", {"input": data}) < first / 2


def test_python_in_the_middle_prints_and_asserts(capfd: pytest.CaptureFixture[str]) -> None:
    x = tf.placeholder(tf.float32, [None])
    doubled = tf.py_func(lambda a: (a * 2).astype(np.float32), [x], tf.float32)
    doubled.set_shape([None])
    shown = tf.Print(doubled + 1.0, [doubled, tf.shape(x)], "doubled: ", first_n=1)
    with tf.control_dependencies([tf.assert_positive(x, message="x must be above 0")]):
        out = tf.identity(shown)
    with tf.Session() as session:
        for _ in range(2):
            assert session.run(out, {x: [1.0, 2.0]}).tolist() == [3, 5]
        assert capfd.readouterr().err == "doubled: [2.0 4.0][2]\n"
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"x must be above 0.*Assert.*built at"
        ):
            session.run(out, {x: [-1.0]})


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
def test_case_takes_the_first_that_holds(executor: str) -> None:
    x = tf.placeholder(tf.float32, [])
    pairs = [(x < 1, lambda: x * 1), (x < 2, lambda: x * 10)]
    y = tf.case(pairs, default=lambda: x * 100)
    strict = tf.case(pairs, exclusive=True)
    with tf.Session(executor=executor) as session:
        assert [session.run(y, {x: v}) for v in (0.5, 1.5, 3.0)] == [0.5, 15, 300]
        assert session.run(strict, {x: 1.5}) == 15
        with pytest.raises(tf.GraphError, match="more than one predicate holds"):
            session.run(strict, {x: 0.5})
        with pytest.raises(tf.GraphError, match="no predicate holds"):
            session.run(strict, {x: 5.0})


def test_a_run_in_several_calls_computes_nothing_twice() -> None:
    a, b, c = (tf.placeholder(tf.float32, [], name=n) for n in "abc")
    calls: list[float] = []

    def seen(value: Any) -> Any:
        calls.append(float(value))
        return value

    middle = tf.py_func(seen, [a + b], tf.float32)
    last = middle * c
    with tf.Session() as session:
        handle = session.partial_run_setup([middle, last], [a, b, c])
        first = session.partial_run(handle, middle, {a: 1, b: 2})
        assert session.partial_run(handle, last, {c: first}) == 9
        assert calls == [3.0]
        with pytest.raises(tf.GraphError, match=r"cannot fetch .* twice"):
            session.partial_run(handle, last)
        again = session.partial_run_setup([last], [a, b])
        with pytest.raises(tf.GraphError, match=r"'c' .*built at|cannot feed 'c'"):
            session.partial_run(again, last, {a: 1, b: 2, c: 3})
        with pytest.raises(tf.GraphError, match="placeholder 'c' was not fed"):
            session.partial_run(again, last, {a: 1, b: 2})


def test_rows_of_a_variable_are_written_alone() -> None:
    table = tf.Variable(tf.zeros([4, 2]), name="table")
    add = tf.scatter_add(table, [1, 1, 3], tf.ones([3, 2]))
    put = tf.scatter_update(table, [0], [[9.0, 9.0]])
    take = tf.scatter_sub(table, tf.constant([3]), tf.ones([1, 2]))
    wrong = tf.scatter_update(table, [4], [[1.0, 1.0]])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(add)[:, 0].tolist() == [0, 2, 0, 1]
        session.run([put, take])
        assert session.run(table)[:, 0].tolist() == [9, 2, 0, 0]
        with pytest.raises(tf.GraphError, match=r"index 4, expected 0 to 3.*'table'.*built at"):
            session.run(wrong)


def test_two_ways_read_a_sequence_as_torch_does() -> None:
    data = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    x, lengths = tf.placeholder(tf.float32, [None, 4, 3]), tf.placeholder(tf.int32, [None])
    forward, backward = (tf.nn.rnn_cell.BasicRNNCell(5) for _ in range(2))
    (by_fw, by_bw), (last_fw, last_bw) = tf.nn.bidirectional_dynamic_rnn(
        forward, backward, x, sequence_length=lengths, dtype=tf.float32
    )
    layer = torch.nn.RNN(3, 5, bidirectional=True, batch_first=True)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for side, cell in (("", forward), ("_reverse", backward)):
            kernel, bias = session.run([cell.kernel, cell.bias])
            parts = {"weight_ih": kernel[:3].T, "weight_hh": kernel[3:].T}
            for name, value in {**parts, "bias_ih": bias, "bias_hh": bias * 0}.items():
                getattr(layer, f"{name}_l0{side}").data = torch.tensor(value.copy())
        packed = torch.nn.utils.rnn.pack_padded_sequence(
            torch.tensor(data), [4, 2], batch_first=True
        )
        found, last = layer(packed)
        padded = torch.nn.utils.rnn.pad_packed_sequence(found, batch_first=True)[0]
        feed = {x: data, lengths: [4, 2]}
        got = session.run(tf.concat([by_fw, by_bw], 2), feed)
        np.testing.assert_allclose(got, padded.detach().numpy(), rtol=1e-4, atol=1e-5)
        ends = np.stack(session.run([last_fw, last_bw], feed))
        np.testing.assert_allclose(ends, last.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_summaries_are_lines_that_anybody_can_read(tmp_path: Path) -> None:
    loss = tf.placeholder(tf.float32, [])
    assert tf.summary.merge_all() is None
    with tf.name_scope("train"):
        tf.summary.scalar("loss", loss)
    merged = tf.summary.merge_all()
    with tf.Session() as session, tf.summary.FileWriter(tmp_path, session.graph) as writer:
        for i in range(2):
            writer.add_summary(session.run(merged, {loss: i / 2}), i)
    lines = (tmp_path / "summaries.jsonl").read_text().splitlines()
    assert len(lines) == 2
    assert '"step": 1, "values": {"train/loss": 0.5}' in lines[1]


def test_batch_statistics_are_kept_by_a_moving_average_inside_a_branch() -> None:
    x, training = tf.placeholder(tf.float32, [None, 3]), tf.placeholder(tf.bool)
    beta, gamma = tf.Variable(tf.zeros([3])), tf.Variable(tf.constant(1.0, shape=[3]))
    batch_mean, batch_var = tf.nn.moments(x, [0])
    average = tf.train.ExponentialMovingAverage(decay=0.5)

    def kept() -> Any:
        with tf.control_dependencies([average.apply([batch_mean, batch_var])]):
            return tf.identity(batch_mean), tf.identity(batch_var)

    mean, var = tf.cond(
        training, kept, lambda: (average.average(batch_mean), average.average(batch_var))
    )
    y = tf.nn.batch_normalization(x, mean, var, beta, gamma, 1e-3)
    step = tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y * y))
    data = RNG.normal(1.0, 2.0, size=(8, 3))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for i in range(3):
            held = session.run(average.average(batch_mean))
            np.testing.assert_allclose(held, data.mean(0) * (1 - 0.5**i), rtol=1e-5)
            session.run(step, {x: data, training: True})
        settled = session.run([y, mean], {x: data, training: False})
        np.testing.assert_allclose(settled[1], data.mean(0) * (1 - 0.5**3), rtol=1e-5)
        assert session.run(average.average(batch_mean)).tolist() == settled[1].tolist()


def test_a_sentence_classifier_pools_over_windows_of_several_sizes() -> None:
    words = tf.placeholder(tf.int32, [None, 10], name="words")
    keep = tf.placeholder(tf.float32, name="keep")
    with tf.device("/cpu:0"), tf.name_scope("embedding"):
        table = tf.Variable(tf.random_uniform([20, 8], -1.0, 1.0, seed=1), name="W")
        found = tf.expand_dims(tf.nn.embedding_lookup(table, words), -1)
    pooled = []
    for i, height in enumerate((2, 3)):
        with tf.name_scope(f"conv-maxpool-{height}"):
            w = tf.Variable(tf.truncated_normal([height, 8, 1, 4], stddev=0.1, seed=i), name="W")
            b = tf.Variable(tf.constant(0.1, shape=[4]), name="b")
            conv = tf.nn.conv2d(found, w, strides=[1, 1, 1, 1], padding="VALID", name="conv")
            h = tf.nn.relu(tf.nn.bias_add(conv, b), name="relu")
            window = [1, 10 - height + 1, 1, 1]
            pooled.append(tf.nn.max_pool(h, window, [1, 1, 1, 1], "VALID", name="pool"))
    h = tf.nn.dropout(tf.reshape(tf.concat(pooled, 3), [-1, 8]), keep)
    with tf.name_scope("output"):
        w = tf.get_variable("W", [8, 2], initializer=tf.contrib.layers.xavier_initializer())
        scores = tf.nn.xw_plus_b(h, w, tf.Variable(tf.constant(0.1, shape=[2])), name="scores")
        guess = tf.argmax(scores, 1, name="predictions")
    truth = RNG.integers(0, 2, 16)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=truth, logits=scores)
    loss = tf.reduce_mean(losses) + 0.01 * tf.nn.l2_loss(w)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    optimizer = tf.train.AdamOptimizer(0.02)
    step = optimizer.apply_gradients(optimizer.compute_gradients(loss), global_step=global_step)
    feed = {words: RNG.integers(0, 20, (16, 10))}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            session.run(step, {**feed, keep: 0.8})
        assert session.run(guess, {**feed, keep: 1.0}).tolist() == truth.tolist()
        assert (
            session.run("output/predictions:0", {"words:0": feed[words], "keep:0": 1.0}).size == 16
        )
        assert session.run(global_step) == 60
    names = [v.name for v in tf.trainable_variables()]
    assert names[:3] == ["embedding/W", "conv-maxpool-2/W", "conv-maxpool-2/b"]
