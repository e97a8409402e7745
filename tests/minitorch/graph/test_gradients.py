"""Symbolic gradients and optimizers agree with PyTorch and with TensorFlow 1's meanings."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError, NoGradientRule
from minitorch.op import Op


def close(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    want = theirs.detach().numpy() if hasattr(theirs, "detach") else theirs
    np.testing.assert_allclose(ours, want, rtol=tolerance, atol=tolerance)


def mlp(sizes: tuple[int, ...], seed: int = 0) -> tuple[Any, ...]:
    """The same network twice: as a graph and in PyTorch, in float64 with the same weights."""
    rng = np.random.default_rng(seed)
    x = tf.placeholder(tf.float64, (None, sizes[0]), "x")
    y = tf.placeholder(tf.float64, (None, sizes[-1]), "y")
    ours, theirs, h = [], [], x
    for i, (a, b) in enumerate(pairwise(sizes)):
        w, c = rng.normal(size=(a, b)) / a**0.5, rng.normal(size=b)
        ours += [tf.Variable(w), tf.Variable(c)]
        theirs += [torch.tensor(w, requires_grad=True), torch.tensor(c, requires_grad=True)]
        h = tf.matmul(h, ours[-2]) + ours[-1]
        h = tf.nn.relu(h) if i < len(sizes) - 2 else h
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y, logits=h))

    def reference(data: Any, target: Any) -> Any:
        z = torch.tensor(data)
        for i in range(0, len(theirs), 2):
            z = z @ theirs[i] + theirs[i + 1]
            z = torch.relu(z) if i < len(theirs) - 2 else z
        return torch.nn.functional.cross_entropy(z, torch.tensor(target))

    return x, y, loss, ours, theirs, reference


def batch(n: int, inputs: int, classes: int, seed: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, inputs)), np.eye(classes)[rng.integers(classes, size=n)]


def test_gradients_of_a_network_equal_pytorchs() -> None:
    x, y, loss, ours, theirs, reference = mlp((5, 7, 6, 3))
    grads = tf.gradients(loss, ours)
    data, target = batch(11, 5, 3, 1)
    reference(data, target).backward()
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        got = session.run(grads, {x: data, y: target})
    for a, b in zip(got, theirs, strict=True):
        close(a, b.grad)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_large_variable_descends_as_a_small_one_does(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    start, slope = (rng.normal(size=(200, 200)).astype(dtype) for _ in range(2))
    w = tf.Variable(start)
    by_slope = tf.train.GradientDescentOptimizer(0.3).minimize(tf.reduce_sum(w * slope))
    turned = tf.transpose(w)  # as a gradient it looks into the very memory that is written
    by_itself = tf.train.GradientDescentOptimizer(0.3).apply_gradients([(turned, w)])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        session.run(by_slope)
        after = start - dtype(0.3) * slope
        np.testing.assert_array_equal(session.run(w), after)
        session.run(by_itself)
        np.testing.assert_array_equal(session.run(w), after - dtype(0.3) * after.T)


def test_an_optimizer_trains_as_pytorchs_does() -> None:
    pairs = [
        (tf.train.GradientDescentOptimizer(0.3), torch.optim.SGD, {"lr": 0.3}),
        (tf.train.MomentumOptimizer(0.1, 0.9), torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        (
            tf.train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
            torch.optim.SGD,
            {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        ),
        (
            tf.train.AdagradOptimizer(0.2),
            torch.optim.Adagrad,
            {"lr": 0.2, "initial_accumulator_value": 0.1, "eps": 0.0},
        ),
    ]
    for optimizer, kind, options in pairs:
        tf.reset_default_graph()
        x, y, loss, ours, theirs, reference = mlp((4, 6, 3))
        step = optimizer.minimize(loss)
        other = kind(theirs, **options)
        with tf.Session() as session:
            session.run(tf.initialize_all_variables())
            for i in range(15):
                data, target = batch(8, 4, 3, i)
                got, _ = session.run([loss, step], {x: data, y: target})
                other.zero_grad()
                want = reference(data, target)
                want.backward()
                other.step()
                close(got, want, 1e-10)
            for w, v in zip(session.run(ours), theirs, strict=True):
                close(w, v, 1e-10)


def test_adam_is_tensorflows_with_epsilon_outside_the_correction() -> None:
    w = tf.Variable(np.array([1.0, -2.0]))
    g = np.array([0.5, -1e-6])
    step = tf.train.AdamOptimizer(0.1, epsilon=1e-3).apply_gradients([(tf.constant(g), w)])
    value, m, v = np.array([1.0, -2.0]), np.zeros(2), np.zeros(2)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        for t in range(1, 6):
            session.run(step)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            rate = 0.1 * (1 - 0.999**t) ** 0.5 / (1 - 0.9**t)
            value = value - rate * m / (np.sqrt(v) + 1e-3)
        close(session.run(w), value, 1e-10)


def test_minimize_of_a_vector_takes_its_sum() -> None:
    w = tf.Variable(np.array([1.0, 2.0, 3.0]))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(w * w)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        session.run(step)
        close(session.run(w), np.array([0.8, 1.6, 2.4]))


@pytest.mark.parametrize("write", [tf.assign, tf.assign_add])
def test_no_gradient_goes_through_a_write(write: Any) -> None:
    """TensorFlow registers its writes as not differentiable; what goes round them still counts."""
    x, v = tf.placeholder(tf.float64, (2,)), tf.Variable(np.ones(2))
    written = write(v, x)
    assert tf.gradients(tf.reduce_sum(written), [x]) == [None]
    (grad,) = tf.gradients(tf.reduce_sum(written * x), [x])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        at, found = session.run([written, grad], {x: [3.0, 4.0]})
    np.testing.assert_array_equal(found, at)


def test_a_step_updates_only_its_variables_and_counts_steps() -> None:
    a, b = tf.Variable(1.0), tf.Variable(1.0)
    frozen = tf.Variable(1.0, trainable=False)
    count = tf.Variable(0, trainable=False)
    loss = a * b * frozen
    all_of_them = tf.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=count)
    only_b = tf.train.GradientDescentOptimizer(1.0).minimize(loss, var_list=[b])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        session.run(only_b)
        assert session.run([a, b, frozen, count]) == [1.0, 0.0, 1.0, 0]
        session.run(all_of_them)
        assert session.run([a, b, frozen, count]) == [1.0, -1.0, 1.0, 1]


def test_a_rate_may_be_a_node() -> None:
    w, rate = tf.Variable(0.0), tf.placeholder(tf.float32, ())
    step = tf.train.GradientDescentOptimizer(rate).minimize(w * 3.0)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        session.run(step, {rate: 0.5})
        session.run(step, {rate: 2.0})
        assert session.run(w) == -7.5


def test_all_updates_see_the_weights_from_before_the_step() -> None:
    a, b = tf.Variable(2.0), tf.Variable(5.0)
    step = tf.train.GradientDescentOptimizer(1.0).minimize(a * b)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        session.run(step)
        assert session.run([a, b]) == [2.0 - 5.0, 5.0 - 2.0]


def test_gradients_of_gradients() -> None:
    x = tf.placeholder(tf.float64, ())
    y = tf.sin(x) * tf.exp(x * x)
    (first,) = tf.gradients(y, [x])
    (second,) = tf.gradients(first, [x])
    (third,) = tf.gradients(second, [x])
    t = torch.tensor(0.7, dtype=torch.float64, requires_grad=True)
    chain = [torch.sin(t) * torch.exp(t * t)]
    for _ in range(3):
        chain += torch.autograd.grad(chain[-1], t, create_graph=True)
    with tf.Session() as session:
        for ours, theirs in zip(
            session.run([y, first, second, third], {x: 0.7}), chain, strict=True
        ):
            close(ours, theirs)


def test_gradients_are_of_the_sum_of_all_ys_weighted_by_grad_ys() -> None:
    x = tf.placeholder(tf.float64, (2,))
    y, z = x * x, tf.exp(x)
    plain = tf.gradients([y, z], x)
    weighted = tf.gradients([y, z], x, grad_ys=[tf.constant(np.array([1.0, 10.0])), None])
    at = np.array([0.5, 2.0])
    with tf.Session() as session:
        a, b = session.run([plain[0], weighted[0]], {x: at})
    close(a, 2 * at + np.exp(at))
    close(b, 2 * at * [1, 10] + np.exp(at))


def test_a_gradient_that_arrives_has_the_shape_of_its_y() -> None:
    x = tf.placeholder("float64", (None, 3))
    tf.gradients(x * 2.0, x, grad_ys=tf.placeholder("float64", (5, None)))
    with pytest.raises(GraphError, match=r"grad_ys of shape \(2,\).*expected \(None, 3\)"):
        tf.gradients(x * 2.0, x, grad_ys=tf.ones([2]))


def test_what_does_not_depend_has_no_gradient_and_a_middle_value_has_one() -> None:
    x, other = tf.Variable(np.ones(3)), tf.Variable(1.0)
    middle = x * 3.0
    y = tf.reduce_sum(middle * middle)
    by_middle, by_other, by_x = tf.gradients(y, [middle, other, x])
    assert by_other is None
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        close(session.run(by_middle), np.full(3, 6.0))
        close(session.run(by_x), np.full(3, 18.0))


def test_a_stopped_gradient_counts_as_a_constant() -> None:
    x = tf.Variable(3.0)
    (g,) = tf.gradients(x * tf.stop_gradient(x), [x])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(g) == 3.0


def test_gradients_flow_to_a_variable_through_all_its_reads() -> None:
    w = tf.Variable(2.0)
    with tf.control_dependencies([tf.assign(w, 5.0)]):
        later = w * 1.0
    (g,) = tf.gradients(later * later + w, [w])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        assert session.run(g) == 11.0


def test_a_broadcast_bias_over_an_unknown_batch_is_summed_back() -> None:
    x, b = tf.placeholder(tf.float64, (None, 3)), tf.Variable(np.zeros(3))
    (g,) = tf.gradients(tf.reduce_sum(x + b), [b])
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        for n in (1, 4):
            close(session.run(g, {x: np.zeros((n, 3))}), np.full(3, float(n)))


def test_an_integer_y_an_unconnected_loss_and_no_variables_are_errors() -> None:
    with pytest.raises(GraphError, match="int32"):
        tf.gradients(tf.constant(1), [tf.Variable(1.0)])
    with pytest.raises(GraphError, match="depends on none of the variables"):
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0))
    tf.reset_default_graph()
    with pytest.raises(GraphError, match="no variable"):
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0))
    with pytest.raises(GraphError, match="above 0"):
        tf.train.AdagradOptimizer(0.1, initial_accumulator_value=0.0)


def test_an_operator_without_a_gradient_is_named() -> None:
    class Cube(Op):
        def compute(self, xp: Any, x: Any) -> Any:  # type: ignore[override]
            return x**3

    x = tf.Variable(2.0)
    with pytest.raises(NoGradientRule, match="Cube"):
        tf.gradients(Cube()(x), [x])


def test_a_learners_operator_works_in_both_modes_with_its_gradient() -> None:
    from minitorch.tensor.tensor import tensor

    class Cube(Op):
        def compute(self, xp: Any, x: Any) -> Any:  # type: ignore[override]
            return x**3

        def gradient(self, out_grad: Any, node: Any) -> Any:
            return out_grad * 3.0 * node.inputs[0] * node.inputs[0]

    cube = Cube()
    x = tf.placeholder(tf.float32, (None,))
    (g,) = tf.gradients(cube(x), [x])
    t = tensor([1.0, 2.0]).requires_grad_()
    cube(t).sum().backward()
    assert t.grad is not None
    with tf.Session() as session:
        assert session.run(g, {x: [1.0, 2.0]}).tolist() == t.grad.tolist() == [3.0, 12.0]


CASES: list[tuple[str, Any, Any]] = [
    ("softmax", lambda x: tf.nn.softmax(x), lambda t: torch.softmax(t, -1)),
    ("softmax along 0", lambda x: tf.nn.softmax(x, 0), lambda t: torch.softmax(t, 0)),
    ("log_softmax", lambda x: tf.nn.log_softmax(x), lambda t: torch.log_softmax(t, -1)),
    (
        "cross entropy",
        lambda x: tf.nn.softmax_cross_entropy_with_logits(x, tf.exp(x * 0.3)),
        lambda t: -(torch.exp(t * 0.3).detach() * torch.log_softmax(t, -1)).sum(-1),
    ),
    (
        "sparse cross entropy",
        lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 2, 1], logits=x),
        lambda t: torch.nn.functional.cross_entropy(t, torch.tensor([0, 2, 1]), reduction="none"),
    ),
    (
        "sigmoid cross entropy",
        lambda x: tf.nn.sigmoid_cross_entropy_with_logits(labels=0.3, logits=x),
        lambda t: torch.nn.functional.binary_cross_entropy_with_logits(
            t, torch.full_like(t, 0.3), reduction="none"
        ),
    ),
    ("l2_loss", lambda x: tf.nn.l2_loss(x), lambda t: (t * t).sum() / 2),
    ("reduce_prod", lambda x: tf.reduce_prod(x, 1), lambda t: t.prod(1)),
    ("reduce_max", lambda x: tf.reduce_max(x, 1), lambda t: t.amax(1)),
    ("matmul transposed", lambda x: tf.matmul(x, x, transpose_b=True), lambda t: t @ t.T),
    ("concat", lambda x: tf.concat([x, x * 2.0], 1), lambda t: torch.cat([t, t * 2], 1)),
    ("stack", lambda x: tf.stack([x, x * x]), lambda t: torch.stack([t, t * t])),
    ("clip_by_value", lambda x: tf.clip_by_value(x, -0.5, 0.5), lambda t: t.clamp(-0.5, 0.5)),
    ("where", lambda x: tf.where(x > 0.0, x * x, -x), lambda t: torch.where(t > 0, t * t, -t)),
    ("indexing", lambda x: x[1:, 0] * 2.0, lambda t: t[1:, 0] * 2),
    ("expand_dims", lambda x: tf.expand_dims(x, 1) * x, lambda t: t.unsqueeze(1) * t),
    ("transpose", lambda x: tf.transpose(x, [1, 0]) @ x, lambda t: t.T @ t),
    ("leaky_relu", lambda x: tf.nn.leaky_relu(x), lambda t: torch.where(t > 0, t, 0.2 * t)),
]


@pytest.mark.parametrize(("_name", "ours", "theirs"), CASES, ids=[c[0] for c in CASES])
@pytest.mark.parametrize("known", [True, False], ids=["static", "unknown batch"])
def test_functions_agree_in_value_gradient_and_second_gradient(
    _name: str, ours: Any, theirs: Any, known: bool
) -> None:
    rng = np.random.default_rng(3)
    at = rng.normal(size=(3, 4))
    x = tf.placeholder(tf.float64, (3 if known else None, 4))
    t = torch.tensor(at, requires_grad=True)
    y, want = ours(x), theirs(t)
    out = rng.normal(size=tuple(want.shape))
    (g,) = tf.gradients(y, [x], grad_ys=[tf.constant(out)])
    (gg,) = tf.gradients(tf.reduce_sum(g * g), [x])
    (wg,) = torch.autograd.grad(want, t, torch.tensor(out), create_graph=True)
    wgg = (
        torch.autograd.grad((wg * wg).sum(), t, allow_unused=True)[0] if wg.requires_grad else None
    )
    with tf.Session() as session:
        close(session.run(y, {x: at}), want, 1e-10)
        close(session.run(g, {x: at}), wg, 1e-9)
        if wgg is not None:
            assert gg is not None
            close(session.run(gg, {x: at}), wgg, 1e-8)


def channels_last(t: Any) -> Any:
    return t.permute(0, 2, 3, 1)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize("stride", [1, 2])
def test_images_are_convolved_and_pooled_channels_last(padding: str, stride: int) -> None:
    rng = np.random.default_rng(0)
    image, kernel = rng.normal(size=(2, 6, 6, 3)), rng.normal(size=(3, 3, 3, 4))
    x, w = tf.placeholder(tf.float64, (None, 6, 6, 3)), tf.constant(kernel)
    steps, window = [1, stride, stride, 1], [1, 3, 3, 1]
    ours = [
        tf.nn.conv2d(x, w, steps, padding),
        tf.nn.max_pool(x, window, steps, padding),
        tf.nn.avg_pool(x, window, steps, padding),
    ]
    t = torch.tensor(image).permute(0, 3, 1, 2).requires_grad_()
    total = 0 if padding == "VALID" else 2 if stride == 1 else 1
    inside = [total // 2, total - total // 2] * 2
    F = torch.nn.functional
    far = F.pad(t, inside, value=float("-inf"))
    count = F.avg_pool2d(F.pad(torch.ones_like(t), inside), 3, stride)
    theirs = [
        F.conv2d(F.pad(t, inside), torch.tensor(kernel).permute(3, 2, 0, 1), stride=stride),
        F.max_pool2d(far, 3, stride),
        F.avg_pool2d(F.pad(t, inside), 3, stride) / count,
    ]
    with tf.Session() as session:
        for y, want in zip(ours, theirs, strict=True):
            (g,) = tf.gradients(tf.reduce_sum(tf.square(y)), [x])
            (wg,) = torch.autograd.grad((want * want).sum(), t)
            close(session.run(y, {x: image}), channels_last(want), 1e-10)
            close(session.run(g, {x: image}), channels_last(wg), 1e-9)


def test_rows_are_gathered_tiled_and_padded() -> None:
    table = tf.Variable(np.arange(12.0).reshape(4, 3))
    rows = tf.nn.embedding_lookup(table, tf.constant([2, 0, 2]))
    (g,) = tf.gradients(tf.reduce_sum(rows), [table])
    columns = tf.gather(table, tf.constant([1]), axis=1)
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        a, b, c = session.run([rows, g, columns])
        assert a[:, 0].tolist() == [6.0, 0.0, 6.0]
        assert b[:, 0].tolist() == [1.0, 0.0, 2.0, 0.0]
        assert c.tolist() == [[1.0], [4.0], [7.0], [10.0]]
        assert session.run(tf.tile(tf.constant([[1, 2]]), [2, 2])).tolist() == [[1, 2, 1, 2]] * 2
        assert session.run(tf.tile([[1, 2]], [2, 2])).tolist() == [[1, 2, 1, 2]] * 2
        padded = session.run(tf.pad(tf.constant([[1.0]]), [[1, 0], [0, 2]]))
        assert padded.tolist() == [[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]


def test_dropout_keeps_the_mean_and_drops_the_same_elements_in_the_gradient() -> None:
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, (None, 100))
    keep = tf.placeholder(tf.float32, ())
    y = tf.nn.dropout(x, keep)
    (g,) = tf.gradients(y, [x])
    with tf.Session() as session:
        a, b = session.run([y, g], {x: np.ones((200, 100)), keep: 0.8})
        np.testing.assert_array_equal(a, b)
        assert set(np.round(np.unique(a), 5)) == {0.0, 1.25}
        assert abs(a.mean() - 1.0) < 6 * 0.5 / 20_000**0.5
        assert (session.run(y, {x: np.ones((2, 100)), keep: 1.0}) == 1.0).all()


def test_what_is_stopped_counts_as_a_constant() -> None:
    x, a = tf.placeholder(tf.float64, (2,)), tf.Variable("A", dtype=tf.float64)
    b = x * x
    y = x * b
    total, part, by_b = (
        tf.gradients(y, [x]),
        tf.gradients(y, [x], stop_gradients=[b]),
        tf.gradients(y, [x, b], stop_gradients=b),
    )
    (late,) = tf.gradients(a * tf.exp(a), [a], stop_gradients=[a])
    squares = a * a
    (other,) = tf.gradients(a * squares, [a], stop_gradients=[squares])
    assert tf.gradients(b * 2.0, [x], stop_gradients=[b]) == [None]
    at = np.array([2.0, 3.0])
    with tf.Session() as session:
        found = session.run([*total, *part, *by_b, other, late], {x: at, a: at})
    for got, want in zip(
        found, [3 * at**2, at**2, at**2, at, at**2, (1 + at) * np.exp(at)], strict=True
    ):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_the_gradient_of_a_fused_operator_is_by_each_input_alone() -> None:
    x = tf.placeholder(tf.float64, (4,))
    square = tf.reshape(x, (2, 2))
    b = tf.reshape(tf.matmul(square, square), (4,))
    y = tf.exp(x * 0.1) * b + x
    fused = tf.optimize(y)
    assert fused.op.name.startswith("fused")
    at = np.arange(4.0) + 1.0
    with tf.Session() as session:
        want, got = (session.run(tf.gradients(z, [x])[0], {x: at}) for z in (y, fused))
    np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.parametrize("nested", [False, True])
def test_a_constant_inside_a_loop_has_no_gradient_and_is_named(nested: bool) -> None:
    def repeat(body: Any, start: Any) -> Any:
        state = [tf.constant(0), start]
        return tf.while_loop(lambda i, _: i < 2, lambda i, x: [i + 1, body(x)], state)[1]

    factor, other = tf.constant([2.0, 3.0], name="factor"), tf.constant([1.0, 2.0])
    y = repeat(lambda x: repeat(lambda z: z * factor, x) if nested else x * factor, other)
    with pytest.raises(GraphError, match=r"'factor' is a constant that a loop uses.*variable"):
        tf.gradients(y, [other, factor])
    (grad,) = tf.gradients(y, [other])
    np.testing.assert_allclose(tf.Session().run(grad), np.array([2.0, 3.0]) ** (4 if nested else 2))


def test_no_gradient_passes_through_integers() -> None:
    x = tf.placeholder(tf.float32, [2])
    whole = tf.cast(tf.cast(x, tf.int32), tf.float32)
    assert tf.gradients(whole * 3.0, x) == [None]
    assert tf.gradients(tf.cast(tf.cast(x, tf.bool), tf.float32), x) == [None]
    (by_x,) = tf.gradients(whole * x, x)
    assert tf.Session().run(by_x, {x: [1.5, 2.5]}).tolist() == [1.0, 2.0]
    (through,) = tf.gradients(tf.cast(tf.cast(x, tf.float64), tf.float32) * 3.0, x)
    assert tf.Session().run(through, {x: [1.5, 2.5]}).tolist() == [3.0, 3.0]


def test_an_operator_without_a_gradient_is_named_with_its_line() -> None:
    class HandleNode(Op):
        def compute(self, xp: Any, *arrays: Any) -> Any:
            return arrays[0]

    x = tf.placeholder(tf.float32, [2])
    y = HandleNode()(x)
    with pytest.raises(
        NoGradientRule, match=rf"HandleNode.*node 'HandleNode' built at .*:{y.built_at[1]}"
    ):
        tf.gradients(y * 2.0, x)
