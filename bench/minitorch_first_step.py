"""The first step of a process beside PyTorch's: from the import to its end, in children.

Processor time, one thread, medians of children that take turns. The first child of minitorch on a
machine also compiles its kernels, which later ones find on the disk; it is not counted. The graph
of PyTorch is built as it runs. Run: python bench/minitorch_first_step.py
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import importlib
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

ROUNDS = 5
OPERATORS = 1000


def cnn(name: str) -> Callable[[], Any]:
    """Return the step of the CNN of `minitorch_speed`."""
    lib = importlib.import_module(name)
    f, rng = importlib.import_module(f"{name}.nn.functional"), np.random.default_rng(0)
    shapes = [(16, 1, 3, 3), (16,), (32, 16, 3, 3), (32,), (10, 128), (10,)]
    arrays = [0.1 * rng.standard_normal(s).astype(np.float32) for s in shapes]
    params = w1, b1, w2, b2, w3, b3 = [lib.tensor(a, requires_grad=True) for a in arrays]
    x = lib.tensor(rng.standard_normal((64, 1, 8, 8)).astype(np.float32))
    classes, optimizer = lib.tensor(rng.integers(0, 10, 64)), lib.optim.SGD(params, lr=0.01)

    def step() -> None:
        optimizer.zero_grad()
        h = f.max_pool2d(f.relu(f.conv2d(x, w1, b1, padding=1)), 2)
        h = f.max_pool2d(f.relu(f.conv2d(h, w2, b2, padding=1)), 2).flatten(1)
        f.cross_entropy(f.linear(h, w3, b3), classes).backward()
        optimizer.step()

    return step


def graph(name: str) -> Callable[[], Any]:
    """Return the run of a chain of 1,000 operators."""
    x = np.ones((8, 8), np.float32)
    if name == "torch":
        torch = importlib.import_module(name)

        def run() -> None:
            y = torch.tensor(x)
            for _ in range(OPERATORS // 2):
                y = torch.tanh(y * 1.01)

        return run
    tf = importlib.import_module("minitorch.graph")
    fed = y = tf.placeholder("float32", x.shape)
    for _ in range(OPERATORS // 2):
        y = tf.tanh(y * 1.01)
    session = tf.Session()
    return lambda: session.run(y, {fed: x})


CASES = {"first step of a CNN": cnn, "first run of 1,000 operators": graph}


def measure(case: str, name: str) -> None:
    """Print milliseconds: to the end of the first step, of it alone, and of the second."""
    began = time.process_time()
    step = CASES[case](name)
    times = [time.process_time()]
    for _ in range(2):
        step()
        times.append(time.process_time())
    print(*(1e3 * t for t in (times[1] - began, times[1] - times[0], times[2] - times[1])))


def main() -> None:
    if sys.argv[1:]:
        measure(*sys.argv[1:])
        return
    print(f"{'times PyTorch, import included':<34}{'minitorch':>10}{'goal':>7}", end="")
    print(f"{'first - 2 second, ms':>22}{'goal':>6}")
    for case in CASES:
        found: dict[str, list[list[float]]] = {"minitorch": [], "torch": []}
        for turn in range(ROUNDS + 1):
            for name, rows in found.items():
                command = [sys.executable, __file__, case, name]
                child = subprocess.run(command, check=True, capture_output=True, text=True)
                if turn:
                    rows.append([float(ms) for ms in child.stdout.split()])
        whole = {name: statistics.median(row[0] for row in rows) for name, rows in found.items()}
        over = statistics.median(first - 2 * second for _, first, second in found["minitorch"])
        print(f"{case:<34}{whole['minitorch'] / whole['torch']:>10.2f}{0.33:>7}", end="")
        print(f"{over:>22.1f}{20:>6}", flush=True)


if __name__ == "__main__":
    main()
