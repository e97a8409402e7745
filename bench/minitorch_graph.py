"""The graph side against NumPy and PyTorch eager: steps, fused kernels, rewrites, memory.

Ours and theirs take turns on one thread; the table shows the median of ours over the median of
theirs, and the goal for that ratio.

    python bench/minitorch_graph.py
    python bench/minitorch_graph.py --quick       # a tenth of the runs
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
import torch

import minitorch
import minitorch.graph as tf

Row = tuple[str, float, float]  # what, ratio, goal
NETWORKS = (((64, 32, 10), 64, 600, 0.5), ((784, 200, 100, 10), 128, 100, 0.9))
COUNT = 1_000_000


def ratio(ours: Callable[[], Any], theirs: Callable[[], Any], runs: int) -> float:
    """The median time of ours over that of theirs, taken in turns after three of each."""
    times: tuple[list[float], list[float]] = ([], [])
    for i in range(runs + 3):
        for side, work in zip(times, (ours, theirs), strict=True):
            begin = time.perf_counter()
            work()
            if i >= 3:
                side.append(time.perf_counter() - begin)
    return statistics.median(times[0]) / statistics.median(times[1])


# ── training steps ──────────────────────────────────────────────────────────────────────────────


def symbolic_nodes(sizes: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """A network's placeholders for data and labels, and its training step."""
    tf.reset_default_graph()
    rng = np.random.default_rng(0)
    data = tf.placeholder(tf.float32, (None, sizes[0]))
    labels = tf.placeholder(tf.int64, (None,))
    h: Any = data
    for i, (a, b) in enumerate(pairwise(sizes)):
        w = tf.Variable((rng.normal(size=(a, b)) / a**0.5).astype(np.float32))
        h = tf.matmul(h, w) + tf.Variable(np.zeros(b, np.float32))
        h = tf.nn.relu(h) if i < len(sizes) - 2 else h
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=h))
    return data, labels, tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def symbolic_step(sizes: tuple[int, ...], x: Any, y: Any) -> Callable[[], Any]:
    data, labels, step = symbolic_nodes(sizes)
    session = tf.Session()
    session.run(tf.initialize_all_variables())
    feeds = {data: x, labels: y}
    return lambda: session.run(step, feeds)


def torch_step(sizes: tuple[int, ...], x: Any, y: Any) -> Callable[[], Any]:
    layers: list[Any] = []
    for a, b in pairwise(sizes):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    model = torch.nn.Sequential(*layers[:-1])
    sgd = torch.optim.SGD(model.parameters(), lr=0.1)
    data, labels = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> None:
        sgd.zero_grad()
        torch.nn.functional.cross_entropy(model(data), labels).backward()
        sgd.step()

    return step


def steps(share: float) -> Iterator[Row]:
    for sizes, batch, runs, goal in NETWORKS:
        rng = np.random.default_rng(0)
        x = rng.normal(size=(batch, sizes[0])).astype(np.float32)
        y = rng.integers(0, sizes[-1], batch)
        ours, theirs = symbolic_step(sizes, x, y), torch_step(sizes, x, y)
        name = f"training step {'-'.join(map(str, sizes))}, over PyTorch"
        yield name, ratio(ours, theirs, int(runs * share)), goal


def first_runs(share: float) -> Iterator[Row]:
    """What is done once for each pair of fetches and feeds: passes, plan, source."""
    sizes, batch, runs, _ = NETWORKS[0]
    data, labels, step = symbolic_nodes(sizes)
    feeds = {data: np.zeros((batch, sizes[0]), np.float32), labels: np.zeros(batch, np.int64)}
    known = tf.Session()
    known.run(tf.initialize_all_variables())

    def first() -> None:
        session = tf.Session()
        session.state.values.update(known.state.values)
        session.run(step, feeds)

    def later() -> None:
        for _ in range(100):
            known.run(step, feeds)

    name = f"first run of the step {'-'.join(map(str, sizes))}, over 100 later ones"
    yield name, ratio(first, later, int(runs * share)), 0.5


# ── fused kernels ───────────────────────────────────────────────────────────────────────────────


def kernels(share: float) -> Iterator[Row]:
    """relu(x*w + b)*s + tanh(y): all arrays; w, b and s numbers; in double."""
    for kind, dtype, of in (
        ("", "float32", (COUNT,)),
        (", w b s numbers", "float32", ()),
        (", double", "float64", (COUNT,)),
    ):
        yield from kernel_ways(kind, dtype, of, int(60 * share))


def kernel_ways(kind: str, dtype: str, of: tuple[int, ...], runs: int) -> Iterator[Row]:
    tf.reset_default_graph()
    rng = np.random.default_rng(0)
    shapes = {"x": (COUNT,), "w": of, "b": of, "s": of, "y": (COUNT,)}
    a = {name: np.asarray(rng.normal(size=shape), dtype) for name, shape in shapes.items()}
    t = {name: torch.from_numpy(array) for name, array in a.items()}
    n = {name: tf.placeholder(getattr(tf, dtype), shapes[name], name=name) for name in a}
    z = tf.nn.relu(n["x"] * n["w"] + n["b"]) * n["s"] + tf.tanh(n["y"])
    session, compiled = tf.Session(), tf.compile(z)
    jitted = tf.jit(lambda x, w, b, s, y: (x * w + b).relu() * s + y.tanh())
    tensors = [minitorch.tensor(array) for array in a.values()]
    feeds = {n[name]: a[name] for name in a}

    def by_numpy() -> Any:
        return np.maximum(a["x"] * a["w"] + a["b"], 0) * a["s"] + np.tanh(a["y"])

    def by_torch() -> Any:
        return torch.relu(t["x"] * t["w"] + t["b"]) * t["s"] + torch.tanh(t["y"])

    ways = {
        "run": lambda: session.run(z, feeds),
        "compile": lambda: compiled(**a),
        "jit": lambda: jitted(*tensors),
    }
    for way, ours in ways.items():
        for whose, theirs in (("NumPy", by_numpy), ("PyTorch", by_torch)):
            found = ratio(ours, theirs, runs)
            yield f"relu(x*w+b)*s + tanh(y){kind} by {way}, over {whose}", found, 0.5


def oscillations(share: float) -> Iterator[Row]:
    tf.reset_default_graph()
    x = tf.placeholder(tf.float64, (COUNT,))
    wave = tf.sin(x) * tf.exp(-tf.square(tf.cos(x)))
    session = tf.Session()
    at = np.random.default_rng(0).normal(size=COUNT)

    def by_numpy() -> Any:
        return np.sin(at) * np.exp(-np.square(np.cos(at)))

    ours = ratio(lambda: session.run(wave, {x: at}), by_numpy, int(30 * share))
    yield "sin(x) exp(-cos(x)^2) in double, over NumPy", ours, 0.5


def reductions(share: float) -> Iterator[Row]:
    tf.reset_default_graph()
    x = tf.placeholder(tf.float32, (1000, 1000))
    total = tf.reduce_sum(tf.exp(x * 0.1) - 1.0, 1)
    session = tf.Session()
    at = np.random.default_rng(0).normal(size=(1000, 1000)).astype(np.float32)

    def by_numpy() -> Any:
        return (np.exp(at * np.float32(0.1)) - 1).sum(1)

    ours = ratio(lambda: session.run(total, {x: at}), by_numpy, int(60 * share))
    yield "rows of exp(0.1 x) - 1 summed, over NumPy", ours, 1.0


# ── rewrites and memory ─────────────────────────────────────────────────────────────────────────


def chains(share: float) -> Iterator[Row]:
    tf.reset_default_graph()
    shapes = ((512, 512), (512, 512), (512, 1))
    a, b, v = (tf.placeholder(tf.float32, shape) for shape in shapes)
    product = tf.matmul(tf.matmul(a, b), v)
    rng = np.random.default_rng(0)
    feeds = {n: rng.normal(size=n.shape).astype(np.float32) for n in (a, b, v)}
    better, plain = tf.Session(), tf.Session(optimize=False)
    found = ratio(
        lambda: better.run(product, feeds), lambda: plain.run(product, feeds), int(40 * share)
    )
    yield "(512x512 . 512x512) . 512x1, optimised over as written", found, 0.1


def network(batch: int) -> tuple[list[Any], dict[Any, Any]]:
    """Loss and gradients of an 8-layer MLP 64 wide, and what to feed."""
    tf.reset_default_graph()
    rng = np.random.default_rng(0)
    x = tf.placeholder(tf.float32, (batch, 64))
    h, feeds, weights = x, {x: rng.normal(size=(batch, 64)).astype(np.float32)}, []
    for _ in range(8):
        weights.append(tf.placeholder(tf.float32, (64, 64)))
        feeds[weights[-1]] = rng.normal(size=(64, 64)).astype(np.float32) / 8
        h = tf.nn.relu(tf.matmul(h, weights[-1]))
    loss = tf.reduce_sum(h)
    return [loss, *tf.gradients(loss, weights)], feeds


def memory(share: float) -> Iterator[Row]:
    plan = tf.memory_plan(network(64)[0])
    yield (
        "memory of an 8-layer MLP, planned over all buffers",
        plan.peak_bytes / plan.total_bytes,
        0.5,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    share = 0.1 if parser.parse_args().quick else 1.0
    torch.set_num_threads(1)
    print(f"{'':<66}{'ratio':>8}{'goal':>8}")
    for part in (steps, first_runs, kernels, oscillations, reductions, chains, memory):
        for what, found, goal in part(share):
            print(f"{what:<66}{found:>8.2f}{goal:>8.2f}{'' if found <= goal else '  missed'}")


if __name__ == "__main__":
    main()
