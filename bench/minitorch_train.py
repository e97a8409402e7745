"""A training step of two networks, symbolic and imperative, against PyTorch eager.

Steps are interleaved, one thread, medians; the table shows ratios (ours over PyTorch's).

    python bench/minitorch_train.py
"""

import os
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch

import minitorch as mt
import minitorch.graph as tf
from minitorch import nn, optim

NETWORKS = (((64, 32, 10), 64, 1500), ((784, 200, 100, 10), 128, 300))  # sizes, batch, steps


def network(lib: Any, sizes: tuple[int, ...]) -> Any:
    layers: list[Any] = []
    for a, b in pairwise(sizes):
        layers += [lib.Linear(a, b), lib.ReLU()]
    return lib.Sequential(*layers[:-1])


def imperative(lib: Any, sizes: tuple[int, ...], x: Any, y: Any) -> Callable[[], Any]:
    kind, optimizers = (nn, optim) if lib is mt else (torch.nn, torch.optim)
    model = network(kind, sizes)
    sgd = optimizers.SGD(model.parameters(), lr=0.1)
    data, target = lib.tensor(x), lib.tensor(y)

    def step() -> None:
        sgd.zero_grad()
        kind.functional.cross_entropy(model(data), target).backward()
        sgd.step()

    return step


def symbolic(sizes: tuple[int, ...], x: Any, y: Any, optimize: bool) -> Callable[[], Any]:
    tf.reset_default_graph()
    rng = np.random.default_rng(0)
    data = tf.placeholder(tf.float32, (None, sizes[0]))
    target = tf.placeholder(tf.float32, (None, sizes[-1]))
    h: Any = data
    for i, (a, b) in enumerate(pairwise(sizes)):
        w = tf.Variable((rng.normal(size=(a, b)) / a**0.5).astype(np.float32))
        h = tf.matmul(h, w) + tf.Variable(np.zeros(b, np.float32))
        h = tf.nn.relu(h) if i < len(sizes) - 2 else h
    loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=target, logits=h))
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    session = tf.Session(optimize=optimize)
    session.run(tf.initialize_all_variables())
    feeds = {data: x, target: np.eye(sizes[-1], dtype=np.float32)[y]}
    return lambda: session.run([loss, step], feeds)


def medians(steps: dict[str, Callable[[], Any]], count: int) -> dict[str, float]:
    times: dict[str, list[float]] = {name: [] for name in steps}
    for i in range(count):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if i >= count // 10:  # the first tenth warms up
                times[name].append(time.perf_counter() - start)
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    torch.set_num_threads(1)
    print(f"{'network':<22}{'batch':>6}  {'imperative':>10}  {'session':>8}  {'optimised':>9}")
    for sizes, batch, count in NETWORKS:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
        y = rng.integers(sizes[-1], size=batch)
        steps = {
            "torch": imperative(torch, sizes, x, y),
            "imperative": imperative(mt, sizes, x, y),
            "session": symbolic(sizes, x, y, False),
            "optimised": symbolic(sizes, x, y, True),
        }
        found = medians(steps, count)
        a, b, c = (found[k] / found["torch"] for k in ("imperative", "session", "optimised"))
        print(f"{'-'.join(map(str, sizes)):<22}{batch:>6}  {a:>10.2f}  {b:>8.2f}  {c:>9.2f}")


if __name__ == "__main__":
    main()
