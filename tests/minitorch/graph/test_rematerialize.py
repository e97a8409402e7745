"""Cheap values that would wait across the peak are computed again: less memory, the same bits."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import minitorch
import minitorch.graph as tf
from minitorch import nn
from minitorch.errors import GraphError
from minitorch.graph.core.order import list_needed
from minitorch.graph.passes.optimize import PASSES
from minitorch.graph.passes.rematerialize import rematerialize
from minitorch.nn import functional

WITHOUT = [name for name in PASSES if name != "rematerialize"]


SHARE = 0.65


def operators(nodes: Any) -> Counter[str]:
    return Counter(type(n.op).__name__ for n in list_needed(nodes, ()) if n.op is not None)


def blocks(depth: int, rows: int = 640, width: int = 64) -> tuple[list[Any], dict[Any, Any]]:
    """Return a loss and its gradients by the weights of pre-norm blocks, and values to feed."""
    rng = np.random.default_rng(0)
    feeds: dict[Any, Any] = {}

    def fed(*shape: int) -> Any:
        node = tf.placeholder(tf.float32, shape)
        feeds[node] = rng.standard_normal(shape).astype(np.float32)
        return node

    x, weights = fed(rows, width), []
    for _ in range(depth):
        scale, up, down = fed(width), fed(width, 4 * width), fed(4 * width, width)
        h = functional.layer_norm(x, (width,), scale, scale)
        x = x + functional.gelu(h @ up) @ down
        weights += [scale, up, down]
    loss = tf.reduce_mean(x * x)
    return [loss, *tf.gradients(loss, weights)], feeds


def peak(nodes: Sequence[Any], passes: list[str]) -> tuple[int, list[Any]]:
    after = tf.optimize(nodes, passes=passes)
    return tf.memory_plan(after).peak_bytes, after


def test_a_step_of_blocks_needs_less_memory_and_gives_the_same_bits() -> None:
    fetches, feeds = blocks(6)
    before, plain = peak(fetches, WITHOUT)
    after, again = peak(plain, ["rematerialize"])
    assert after <= SHARE * before
    counts, counts_again = operators(plain), operators(again)
    assert counts["MatMul"] == counts_again["MatMul"]  # only what is cheap comes twice
    assert counts_again["LayerNorm"] > counts["LayerNorm"]
    for executor in ("compiled", "interpreter", "arena"):
        with tf.Session(executor=executor, optimize=False) as session:
            for a, b in zip(session.run(plain, feeds), session.run(again, feeds), strict=True):
                np.testing.assert_array_equal(a, b)


def test_other_passes_do_not_keep_that_bound() -> None:
    fetches, _ = blocks(6)
    assert peak(fetches, WITHOUT)[0] > SHARE * tf.memory_plan(fetches).peak_bytes


def test_what_is_small_or_of_unknown_size_is_left_alone() -> None:
    small, _ = blocks(6, rows=32)
    assert rematerialize(small) == small
    x = tf.placeholder(tf.float32, (None, 64))
    w = tf.placeholder(tf.float32, (64, 64))
    loss = tf.reduce_mean(functional.gelu(functional.gelu(x @ w) @ w))
    unknown = [loss, *tf.gradients(loss, [w])]
    assert rematerialize(unknown) == unknown
    with pytest.raises(GraphError):  # as nobody can tell its peak
        tf.memory_plan(unknown)


def test_what_is_fetched_stays_and_so_does_what_has_lost_its_inputs() -> None:
    x, w = tf.placeholder(tf.float32, (512, 256)), tf.placeholder(tf.float32, (256, 256))
    y = functional.relu(x @ w)  # its gradient reads the result: what came in is not there
    loss = tf.reduce_mean(functional.relu(functional.relu(y @ w) @ w))
    fetches = tf.optimize([loss, y, *tf.gradients(loss, [w])], passes=WITHOUT)
    assert operators(rematerialize(fetches)) == operators(fetches)


class Net(nn.Module):
    """Pre-norm blocks, as in a GPT."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(depth)])
        self.ups = nn.ModuleList([nn.Linear(width, 4 * width) for _ in range(depth)])
        self.downs = nn.ModuleList([nn.Linear(4 * width, width) for _ in range(depth)])

    def forward(self, x: Any) -> Any:
        """Return what the blocks give."""
        for norm, up, down in zip(self.norms, self.ups, self.downs, strict=True):
            x = x + down(functional.dropout(functional.gelu(up(norm(x))), 0.1))
        return x


def losses(compiled: bool) -> list[float]:
    minitorch.manual_seed(0)
    net = Net(32, 4)
    optimizer = minitorch.optim.AdamW(net.parameters(), lr=1e-2)
    x = minitorch.randn(512, 32)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.mse_loss(net(x), x * 0.5)
        loss.backward()
        nn.utils.clip_grad_norm_(list(net.parameters()), 1.0)
        optimizer.step()
        return loss

    run = tf.jit(step) if compiled else step
    return [float(run(x)) for _ in range(20)]


def test_twenty_steps_of_a_net_with_dropout_lose_what_they_lose_uncompiled() -> None:
    np.testing.assert_allclose(losses(True), losses(False), rtol=2e-5)
