"""Recurrent networks by loop and unrolled, sequences of different lengths, against PyTorch."""

from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.errors import GraphError

EXECUTORS = ("compiled", "tokens")
LENGTHS = [2, 5, 0]
rnn_cell = tf.nn.rnn_cell


def as_torch(kernel: Any, bias: Any, gates: str) -> Any:
    """Return PyTorch's layer of 3 inputs and 4 units with the weights of ours."""
    units = 4
    if gates == "ijfo":  # PyTorch has i, f, j, o; the forget gate's 1 is in its bias
        order = np.r_[0:4, 8:12, 4:8, 12:16]
        layer: Any = torch.nn.LSTM(3, units, batch_first=True)
        shift = np.repeat([0.0, 1.0, 0.0, 0.0], units)
    else:
        order, shift = np.arange(units), np.zeros(units)
        layer = torch.nn.RNN(3, units, batch_first=True)
    layer = layer.double()
    with torch.no_grad():
        layer.weight_ih_l0[:] = torch.tensor(kernel[:3, order].T)
        layer.weight_hh_l0[:] = torch.tensor(kernel[3:, order].T)
        layer.bias_ih_l0[:] = torch.tensor(bias[order] + shift)
        layer.bias_hh_l0[:] = 0.0
    return layer


def run_by_torch(layer: Any, x: Any) -> list[Any]:
    """Outputs, last h and, for an LSTM, last c, each sequence alone; then the loss's gradient."""
    given = torch.tensor(x, requires_grad=True)
    outputs = torch.zeros(3, 6, 4, dtype=torch.float64)
    states = [torch.zeros(3, 4, dtype=torch.float64) for _ in range(2)]
    for i, length in enumerate(LENGTHS):
        if length:
            found, last = layer(given[i : i + 1, :length])
            outputs[i, :length] = found[0]
            for state, end in zip(
                states, last if isinstance(last, tuple) else (last,), strict=False
            ):
                state[i] = end[0, 0]
    loss = (outputs**2).sum() + sum((s**3).sum() for s in states)
    (by_x,) = torch.autograd.grad(loss, [given])
    return [t.detach().numpy() for t in (outputs, *states, by_x)]


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("kind", ["lstm", "rnn"])
def test_sequences_of_different_lengths_are_those_of_pytorch(kind: str, executor: str) -> None:
    x, n = tf.placeholder(tf.float64, (None, None, 3)), tf.placeholder(tf.int32, (None,))
    cell = rnn_cell.BasicLSTMCell(4) if kind == "lstm" else rnn_cell.BasicRNNCell(4)
    outputs, state = tf.nn.dynamic_rnn(cell, x, n, dtype=tf.float64)
    ends = [state.h, state.c] if kind == "lstm" else [state]
    loss = tf.reduce_sum(outputs**2) + tf.add_n([tf.reduce_sum(s**3) for s in ends])
    (by_x,) = tf.gradients(loss, [x])
    assert outputs.shape == (None, None, 4)
    rng = np.random.default_rng(0)
    fed = {x: rng.normal(size=(3, 6, 3)), n: LENGTHS}
    with tf.Session(executor=executor) as session:
        session.run(tf.global_variables_initializer())
        session.load(cell.bias, rng.normal(size=cell.bias.shape))
        kernel, bias = session.run([cell.kernel, cell.bias])
        found = session.run([outputs, *ends, by_x], fed)
    want = run_by_torch(as_torch(kernel, bias, "ijfo" if kind == "lstm" else "j"), fed[x])
    want = want if kind == "lstm" else [want[0], want[1], want[3]]
    for got, expected in zip(found, want, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


def test_a_gru_is_its_formula() -> None:
    cell = rnn_cell.GRUCell(2)
    x, h = tf.placeholder(tf.float64, (1, 3)), tf.placeholder(tf.float64, (1, 2))
    _, new = cell(x, h)
    rng = np.random.default_rng(0)
    at = rng.normal(size=(1, 3)), rng.normal(size=(1, 2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        wg, bg, w, b = session.run([cell.gate_kernel, cell.gate_bias, cell.kernel, cell.bias])
        got = session.run(new, {x: at[0], h: at[1]})
    assert bg.tolist() == [1.0] * 4
    gates = 1 / (1 + np.exp(-(np.hstack(at) @ wg + bg)))
    r, u = gates[:, :2], gates[:, 2:]
    candidate = np.tanh(np.hstack([at[0], r * at[1]]) @ w + b)
    np.testing.assert_allclose(got, u * at[1] + (1 - u) * candidate, rtol=1e-12)


def test_the_loop_equals_the_unrolled_network_with_the_same_variables() -> None:
    x = tf.placeholder(tf.float32, (2, 4, 3))
    n = tf.constant([4, 2])
    cells = [rnn_cell.GRUCell(5), rnn_cell.BasicLSTMCell(3)]
    stack = rnn_cell.MultiRNNCell(cells)
    looped, last = tf.nn.dynamic_rnn(stack, x, n, dtype=tf.float32)
    steps, end = tf.nn.static_rnn(stack, tf.unstack(x, axis=1), dtype=tf.float32, sequence_length=n)
    unrolled = tf.stack(steps, axis=1)
    variables = tf.trainable_variables()
    assert len(variables) == 6
    assert variables[0].name == "rnn/multi_rnn_cell/cell_0/gru_cell/gates/kernel"
    pairs = [(looped, unrolled), (last[0], end[0]), (last[1].c, end[1].c)]
    for a, b in [(looped, unrolled)]:
        by = [tf.gradients(tf.reduce_sum(y * y), variables) for y in (a, b)]
        pairs += list(zip(*by, strict=True))
    fed = {x: np.random.default_rng(1).normal(size=(2, 4, 3))}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for a, b in session.run(pairs, fed):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)


def test_the_loop_ends_with_the_longest_sequence() -> None:
    class Counting(rnn_cell.BasicRNNCell):
        def call(self, inputs: Any, state: Any) -> Any:
            output, new = super().call(inputs, state)
            with tf.control_dependencies([tf.assign_add(steps, 1)]):
                return tf.identity(output), new

    steps = tf.Variable(0, trainable=False)
    x, n = tf.placeholder(tf.float32, (2, 100, 3)), tf.placeholder(tf.int32, (2,))
    outputs, _ = tf.nn.dynamic_rnn(Counting(4), x, n, dtype=tf.float32)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        found = session.run(outputs, {x: np.ones((2, 100, 3)), n: [3, 7]})
        assert session.run(steps) == 7
    assert found.shape == (2, 100, 4)
    assert not found[:, 7:].any()
    assert found[1, 6].all()


def test_time_may_be_the_first_axis_and_the_state_may_be_given() -> None:
    x = tf.placeholder(tf.float32, (4, 2, 3))
    cell = rnn_cell.BasicRNNCell(5)
    start = tf.ones((2, 5))
    outputs, last = tf.nn.dynamic_rnn(cell, x, initial_state=start, time_major=True)
    other, _ = tf.nn.dynamic_rnn(cell, tf.transpose(x, (1, 0, 2)), initial_state=start)
    assert outputs.shape == (4, 2, 5)
    fed = {x: np.random.default_rng(1).normal(size=(4, 2, 3))}
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        a, b, end = session.run([outputs, other, last], fed)
    np.testing.assert_allclose(a, b.transpose(1, 0, 2), rtol=1e-5)
    np.testing.assert_array_equal(a[-1], end)


def test_a_network_over_sequences_trains() -> None:
    """It learns whether the sum of a sequence is positive, whatever its length."""
    x, n = tf.placeholder(tf.float32, (None, None, 1)), tf.placeholder(tf.int32, (None,))
    y = tf.placeholder(tf.float32, (None,))
    _, state = tf.nn.dynamic_rnn(rnn_cell.GRUCell(8), x, n, dtype=tf.float32)
    w = tf.Variable(tf.random_uniform((8, 1), -0.8, 0.8))
    logits = tf.squeeze(tf.matmul(state, w), 1)
    losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=y, logits=logits)
    loss = tf.reduce_mean(losses)
    step = tf.train.AdamOptimizer(0.03).minimize(loss)
    rng = np.random.default_rng(0)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        history = []
        for _ in range(60):
            lengths = rng.integers(1, 7, 32)
            data = rng.normal(size=(32, 6, 1)) * (np.arange(6) < lengths[:, None])[..., None]
            fed = {x: data, n: lengths, y: data.sum((1, 2)) > 0}
            history.append(session.run([loss, step], fed)[0])
    assert np.mean(history[-10:]) < 0.5 * np.mean(history[:5])


def test_what_does_not_fit_is_refused() -> None:
    cell = rnn_cell.BasicRNNCell(4)
    with pytest.raises(GraphError, match=r"\(2, 3\), expected \(batch, time, features\)"):
        tf.nn.dynamic_rnn(cell, tf.zeros((2, 3)), dtype=tf.float32)
    with pytest.raises(GraphError, match="neither initial_state nor dtype"):
        tf.nn.dynamic_rnn(cell, tf.zeros((2, 5, 3)))
    with pytest.raises(GraphError, match=r"float32 \(2,\), expected integers of shape \(2,\)"):
        tf.nn.dynamic_rnn(cell, tf.zeros((2, 5, 3)), tf.ones((2,)), dtype=tf.float32)
    with pytest.raises(GraphError, match=r"expected integers of shape \(2,\)"):
        tf.nn.dynamic_rnn(cell, tf.zeros((2, 5, 3)), [1, 2, 3], dtype=tf.float32)
    with pytest.raises(GraphError, match="features known"):
        cell(tf.placeholder(tf.float32, (2, None)), tf.zeros((2, 4)))
    with pytest.raises(GraphError, match="no inputs"):
        tf.nn.static_rnn(cell, [], dtype=tf.float32)
    with pytest.raises(GraphError, match="no cells"):
        rnn_cell.MultiRNNCell([])
