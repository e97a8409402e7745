"""Random programs of nested branches and loops: values and two derivatives, against PyTorch."""

import math
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import minitorch.graph as tf

pytestmark = pytest.mark.as_built

W = 0.7
Block = tuple[list[tuple[Any, ...]], str]
"""Statements, and the name of the result."""


def block(rng: random.Random, depth: int, names: list[str]) -> Block:
    """Return a random block over `names`; the last statement's name is its result."""
    statements: list[tuple[Any, ...]] = []
    names = list(names)
    for _ in range(rng.randint(1, 3)):
        new, kind = f"v{len(names)}", rng.random()
        a, b = rng.choice(names), rng.choice(names)
        if depth and kind < 0.3:
            sides = [block(rng, depth - 1, names) for _ in range(2)]
            statements.append(("cond", new, a, rng.uniform(-0.5, 0.5), *sides))
        elif depth and kind < 0.6:
            inner = [f"{new}.{depth}.{k}" for k in range(2)]
            bodies = [block(rng, depth - 1, names + inner) for _ in range(2)]
            how = rng.randint(0, 3), rng.random() < 0.4, rng.randint(1, 4)
            statements.append(("while", new, a, b, inner, bodies, how))
        else:
            statements.append((rng.choice(["mix", "mul", "sin", "tanh"]), new, a, b))
        names.append(new)
    return statements, names[-1]


class Graph:
    """The words of a program as nodes."""

    sin, tanh, cond = tf.sin, tf.tanh, tf.cond

    @staticmethod
    def loop(body: Callable[[Any, Any], Any], a: Any, b: Any, how: tuple[int, bool, int]) -> Any:
        count, depends, parallel = how

        def going(i: Any, x: Any, _: Any) -> Any:
            return tf.logical_and(i < count, x < 3.0) if depends else i < count

        start = [tf.constant(0), a, b]
        found = tf.while_loop(
            going, lambda i, x, y: (i + 1, *body(x, y)), start, parallel_iterations=parallel
        )
        return found[1] + found[2]


class Eager:
    """The same in PyTorch."""

    sin, tanh = torch.sin, torch.tanh

    @staticmethod
    def cond(pred: Any, yes: Callable[[], Any], no: Callable[[], Any]) -> Any:
        return yes() if bool(pred) else no()

    @staticmethod
    def loop(body: Callable[[Any, Any], Any], a: Any, b: Any, how: tuple[int, bool, int]) -> Any:
        count, depends, _ = how
        for _ in range(count):
            if depends and not bool(a < 3.0):
                break
            a, b = body(a, b)
        return a + b


def run(words: Any, program: Block, known: dict[str, Any]) -> Any:
    statements, result = program
    env = dict(known)
    for kind, new, *rest in statements:
        env[new] = statement(words, kind, rest, dict(env))
    return env[result]


def statement(words: Any, kind: str, rest: list[Any], env: dict[str, Any]) -> Any:
    a = env[rest[0]]
    if kind == "cond":
        _, bound, yes, no = rest
        return words.cond(a > bound, lambda: run(words, yes, env), lambda: run(words, no, env))
    b = env[rest[1]]
    if kind == "while":
        _, _, names, bodies, how = rest

        def body(x: Any, y: Any) -> Any:
            inside = {**env, **dict(zip(names, (x, y), strict=True))}
            return [run(words, part, inside) for part in bodies]

        return words.loop(body, a, b, how)
    simple: dict[str, Callable[[], Any]] = {
        "mix": lambda: a * 0.5 - b,
        "mul": lambda: words.tanh(a) * b,
        "sin": lambda: words.sin(a) + b * 0.1,
        "tanh": lambda: words.tanh(a),
    }
    return simple[kind]()


def derived(y: Any, grad: Callable[[Any], Any]) -> list[Any]:
    """Return the value, its derivatives by x and w, and those of a mixture of these."""
    by = grad(y)
    return [y, *by, *grad(by[0] + by[1] * 0.5)]


def by_pytorch(program: Block, at: float) -> list[float]:
    x, w = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (at, W))
    nothing = (x + w) * 0.0  # so that every value depends on both

    def grad(y: Any) -> Any:
        return torch.autograd.grad(y + nothing, [x, w], create_graph=True, materialize_grads=True)

    return [v.item() for v in derived(run(Eager, program, {"x": x, "w": w}), grad)]


def agree(seed: int, depth: int, **options: Any) -> None:
    program = block(random.Random(seed), depth, ["x", "w"])
    x, w = tf.placeholder(tf.float64, ()), tf.Variable(np.float64(W))

    def grad(y: Any) -> Any:
        nothing = (x + w) * 0.0
        return tf.gradients(y + nothing, [x, w])

    fetches = derived(run(Graph, program, {"x": x, "w": w}), grad)
    with tf.Session(**options) as session:
        session.run(tf.initialize_all_variables())
        for at in (-0.6, 0.4, 1.3):
            want = by_pytorch(program, at)
            if all(map(math.isfinite, want)):
                got = session.run(fetches, {x: at})
                np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-10)


OPTIONS: list[dict[str, Any]] = [
    {}, {"optimize": True}, {"executor": "interpreter"}, {"executor": "tokens", "shuffle": 5},
]  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_have_pytorchs_values_and_derivatives(seed: int) -> None:
    agree(seed, 1 + seed % 2, **OPTIONS[seed % len(OPTIONS)])


@pytest.mark.wide
@pytest.mark.parametrize("seed", range(100, 200))
@pytest.mark.parametrize("options", OPTIONS)
def test_many_deeper_random_programs(seed: int, options: dict[str, Any]) -> None:
    agree(seed, 3, **options)


def test_a_gradient_by_a_captured_node_does_not_flow_through_another_one() -> None:
    """Inside, sin(w) and w are two captured nodes, although one is computed from the other."""
    w = tf.Variable(np.float64(W))
    s = tf.sin(w)
    y = tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v * s + w), [0, w])[1]
    (by,) = tf.gradients(y, [w])
    t = torch.tensor(W, dtype=torch.float64, requires_grad=True)
    v = (t * torch.sin(t) + t) * torch.sin(t) + t
    with tf.Session() as session:
        session.run(tf.initialize_all_variables())
        np.testing.assert_allclose(session.run(by), torch.autograd.grad(v, t)[0], rtol=1e-12)
