"""Dead tokens, attacked: loops in branches not taken, rounds that are none, merges inside loops."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf
from minitorch.graph.control.loop_stacks import DEAD
from minitorch.graph.executors.tokens.tagged import Tokens, TokenStep

AT = np.array([0.7, -0.4, 1.1])
Program = tuple[Callable[[Any, Any], Any], Callable[[torch.Tensor, int], torch.Tensor]]
"""The same function of x and of a number n, as nodes and in PyTorch."""


def loop(count: Any, step: Callable[[Any], Any], x: Any, parallel: int = 3) -> Any:
    """Return x after `count` steps."""
    return tf.while_loop(
        lambda i, v: i < count, lambda i, v: (i + 1, step(v)), [0, x], parallel_iterations=parallel
    )[1]


def nested_in_a_branch(x: Any, n: Any) -> Any:
    def deep() -> Any:
        return loop(n, lambda v: loop(n, tf.sin, v) * 1.5, x)

    return tf.cond(n > 1, deep, lambda: x * x)


def nested_in_a_branch_torch(x: torch.Tensor, n: int) -> torch.Tensor:
    if n <= 1:
        return x * x
    for _ in range(n):
        for _ in range(n):
            x = torch.sin(x)
        x = x * 1.5
    return x


def inner_without_rounds(x: Any, n: Any) -> Any:
    """The inner loop runs n - i times: none at last, and none at all for the rounds after."""

    def step(i: Any, v: Any) -> Any:
        return i + 1, loop(n - 1 - i, tf.tanh, v) + x

    return tf.while_loop(lambda i, v: i < 3, step, [0, x])[1]


def inner_without_rounds_torch(x: torch.Tensor, n: int) -> torch.Tensor:
    v = x
    for i in range(3):
        for _ in range(n - 1 - i):
            v = torch.tanh(v)
        v = v + x
    return v


def merge_in_a_loop(x: Any, n: Any) -> Any:
    """By hand: odd rounds go one way, even ones the other."""

    def step(i: Any, v: Any) -> Any:
        is_odd = tf.equal(tf.floormod(i, 2), 1)
        even, odd = tf.switch(v, is_odd)
        return i + 1, tf.merge([tf.sin(even) * 2.0, odd * tf.switch(x, is_odd)[1]])[0]

    return tf.while_loop(lambda i, v: i < n, step, [0, x])[1]


def merge_in_a_loop_torch(x: torch.Tensor, n: int) -> torch.Tensor:
    v = x
    for i in range(n):
        v = v * x if i % 2 else torch.sin(v) * 2.0
    return v


def switch_around_loops(x: Any, n: Any) -> Any:
    """By hand: each side of a switch goes through a loop of its own before they merge."""
    few, many = tf.switch(x, n > 1)
    return tf.merge([loop(2, tf.cos, few), loop(n, lambda v: v * 0.5 + many, many)])[0]


def switch_around_loops_torch(x: torch.Tensor, n: int) -> torch.Tensor:
    if n <= 1:
        return torch.cos(torch.cos(x))
    v = x
    for _ in range(n):
        v = v * 0.5 + x
    return v


def branch_in_a_loop_in_a_branch(x: Any, n: Any) -> Any:
    def step(v: Any) -> Any:
        return tf.cond(tf.reduce_sum(v) > 0.5, lambda: v * 0.7, lambda: loop(n, tf.exp, v * 0.1))

    return tf.cond(n > 0, lambda: loop(n, step, x), lambda: loop(n, tf.exp, x) - x)


def branch_in_a_loop_in_a_branch_torch(x: torch.Tensor, n: int) -> torch.Tensor:
    if n <= 0:
        return x - x
    for _ in range(n):
        if float(x.detach().sum()) > 0.5:
            x = x * 0.7
        else:
            x = x * 0.1
            for _ in range(n):
                x = torch.exp(x)
    return x


PROGRAMS: dict[str, Program] = {
    "nested in a branch": (nested_in_a_branch, nested_in_a_branch_torch),
    "inner without rounds": (inner_without_rounds, inner_without_rounds_torch),
    "merge in a loop": (merge_in_a_loop, merge_in_a_loop_torch),
    "switch around loops": (switch_around_loops, switch_around_loops_torch),
    "branch in a loop in a branch": (
        branch_in_a_loop_in_a_branch, branch_in_a_loop_in_a_branch_torch,
    ),
}  # fmt: skip
OPTIONS: list[dict[str, Any]] = [
    {"executor": executor, "optimize": optimize}
    for executor in ("compiled", "interpreter", "tokens")
    for optimize in (False, True)
]


def built(name: str) -> tuple[list[Any], Any, Any]:
    x, n = tf.placeholder(tf.float64, (3,)), tf.placeholder(tf.int32, ())
    y = PROGRAMS[name][0](x, n)
    return [y, *tf.gradients(tf.reduce_sum(y * y), [x])], x, n


def by_torch(name: str, count: int) -> list[Any]:
    x = torch.tensor(AT, requires_grad=True)
    y = PROGRAMS[name][1](x, count)
    (grad,) = torch.autograd.grad((y * y).sum(), [x])
    return [y.detach().numpy(), grad.numpy()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_pytorchs_on_every_executor(name: str) -> None:
    fetches, x, n = built(name)
    for options in OPTIONS:
        with tf.Session(**options) as session:
            for count in range(4):
                got = session.run(fetches, {x: AT, n: count})
                for a, b in zip(got, by_torch(name, count), strict=True):
                    np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_hundred_shuffles_change_nothing(name: str) -> None:
    fetches, x, n = built(name)
    step = TokenStep(fetches, [x, n])
    with tf.Session() as session:
        for count in (0, 3):
            given = [AT, np.int32(count)]
            step.shuffle = 0
            want = step(session.state, given)
            for step.shuffle in range(1, 101):
                for a, b in zip(step(session.state, given), want, strict=True):
                    np.testing.assert_array_equal(a, b)


def test_a_frame_is_over_only_when_every_enter_has_come_and_no_token_is_left() -> None:
    """Whatever is ready, the newest or the oldest first: nothing stays behind in any frame."""
    for name in PROGRAMS:
        fetches, x, n = built(name)
        step = TokenStep(fetches, [x, n])
        for newest in (False, True):
            tokens = Tokens(step.program)
            with tf.Session() as session:
                while tokens.ready:
                    firing = tokens.ready.pop() if newest else tokens.ready.popleft()
                    frame = firing.iteration.frame
                    if frame.frame is not None:  # no frame has ended while it has work
                        assert frame.iterations[firing.iteration.number] is firing.iteration
                    value = step.value(firing, session.state, [AT, np.int32(2)])
                    tokens.finish(firing, value)
            assert not tokens.inner
            assert tokens.root.iterations[0].busy == 0
            assert all(value is not DEAD for value in tokens.fetched.values())


@pytest.mark.as_built
@pytest.mark.parametrize("executor", ["tokens"])
@pytest.mark.parametrize("limit", [1, 2, 4])
def test_no_more_iterations_are_under_way_than_were_allowed(executor: str, limit: int) -> None:
    def slow(i: Any, v: Any) -> Any:
        for _ in range(12):
            v = tf.tanh(v)
        return i + 1, v

    y = tf.while_loop(lambda i, v: i < 9, slow, [0, AT], parallel_iterations=limit)[1]
    events: list[Any] = []
    with tf.Session(executor=executor, on_event=events.append) as session:
        session.run(y)
    inside = [e for e in events if e.frame and e.op_name not in ("NextIteration", "Exit")]
    last = {e.iteration: e.step for e in inside}
    begun: set[int] = set()
    most = 0
    for event in inside:
        begun.add(event.iteration)
        most = max(most, sum(last[i] >= event.step for i in begun))
    assert most == limit if executor == "tokens" else most <= limit
