"""Jitted code beside the same code eager, and beside PyTorch eager: one thread, interleaved.

Every round runs one step of each, so that load on the machine meets all of them; the table holds
the median step over that of the same code eager in minitorch. Run: python bench/minitorch_jit.py
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import minitorch
from minitorch.graph import jit

Step = Callable[[], Any]
ROUNDS, WARM = 60, 5


def network(lib: Any, sizes: tuple[int, ...]) -> Any:
    layers: list[Any] = []
    for i, (a, b) in enumerate(itertools.pairwise(sizes)):
        layers += [lib.nn.ReLU()] * bool(i) + [lib.nn.Linear(a, b)]
    return lib.nn.Sequential(*layers)


def training(sizes: tuple[int, ...], batch: int) -> dict[str, Step]:
    """Return forward and backward of a classifier, each way."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((batch, sizes[0])).astype(np.float32)
    y = rng.integers(0, sizes[-1], batch)
    ours, theirs = network(minitorch, sizes), network(torch, sizes)

    def loss(x: Any, y: Any) -> Any:
        return minitorch.nn.functional.cross_entropy(ours(x), y)

    def step(function: Any, lib: Any, net: Any) -> Step:
        inputs = lib.tensor(x), lib.tensor(y)

        def run() -> None:
            function(*inputs).backward()
            net.zero_grad()

        return run

    def their_loss(x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(theirs(x), y)

    return {
        "eager": step(loss, minitorch, ours),
        "jit": step(jit(loss), minitorch, ours),
        "torch": step(their_loss, torch, theirs),
    }


def elementwise(count: int) -> dict[str, Step]:
    """Return relu(x * w + b) * s + tanh(y), each way."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(count).astype(np.float32) for _ in range(5)]

    def f(x: Any, w: Any, b: Any, s: Any, y: Any) -> Any:
        return (x * w + b).relu() * s + y.tanh()

    ours = [minitorch.tensor(a) for a in arrays]
    theirs = [torch.tensor(a) for a in arrays]
    compiled = jit(f)
    return {
        "eager": lambda: f(*ours),
        "jit": lambda: compiled(*ours),
        "torch": lambda: f(*theirs),
    }


def ratios(steps: dict[str, Step]) -> dict[str, float]:
    """Return the median time of each step over that of the eager one."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for k in range(WARM + ROUNDS):
        for name, step in steps.items():
            begin = time.perf_counter()
            step()
            if k >= WARM:
                times[name].append(time.perf_counter() - begin)
    medians = {name: statistics.median(found) for name, found in times.items()}
    return {name: median / medians["eager"] for name, median in medians.items()}


def main() -> None:
    torch.set_num_threads(1)
    cases = {
        "64-32-10, batch 32, forward and backward": training((64, 32, 10), 32),
        "784-200-100-10, batch 64, forward and backward": training((784, 200, 100, 10), 64),
        "relu(x*w+b)*s + tanh(y), a million": elementwise(1_000_000),
    }
    print(f"{'over minitorch eager':<50}{'jit':>8}{'torch':>8}")
    for name, steps in cases.items():
        found = ratios(steps)
        print(f"{name:<50}{found['jit']:>8.2f}{found['torch']:>8.2f}")


if __name__ == "__main__":
    main()
