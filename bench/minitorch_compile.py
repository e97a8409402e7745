"""Products and convolutions by schedules, beside NumPy's BLAS and PyTorch: one thread, interleaved.

Each shape is tuned first, with as many trials as the table says; the columns are ratios of medians,
below 1 where the tuned kernel is faster. Run: python bench/minitorch_compile.py
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import minitorch_speed as speed
import numpy as np
import torch

import minitorch
from minitorch import compile as code
from minitorch.compile.products import convolve_with_blas

TRIALS = 64
MATMULS = ((512, 512, 512), (509, 127, 33), (128, 200, 784))
CONVOLUTIONS = (
    (8, 32, 28, 28, 64, 3, 3, 1, 1), (4, 64, 14, 14, 64, 3, 3, 1, 1),
    (1, 64, 28, 28, 64, 3, 3, 1, 1), (1, 64, 28, 28, 128, 3, 3, 2, 1),
    (1, 64, 28, 28, 64, 1, 1, 1, 0),
)  # fmt: skip
CNN = (
    (64, 1, 8, 8, 16, 3, 3, 1, 1), (64, 16, 4, 4, 32, 3, 3, 1, 1), (64, 32, 4, 4, 16, 3, 3, 1, 1),
)  # fmt: skip
"""The convolutions of the small network of minitorch_speed: two forward, one gradient."""


def medians(runs: dict[str, Callable[[], Any]], rounds: int = 41) -> dict[str, float]:
    """Return the median seconds of each, all taking turns."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(rounds + 3):
        for name, run in runs.items():
            began = time.perf_counter()
            run()
            if turn >= 3:
                times[name].append(time.perf_counter() - began)
    return {name: statistics.median(found) for name, found in times.items()}


def products() -> None:
    rng = np.random.default_rng(0)
    print(f"{'product, float32':<24}{'of BLAS':>9}{'goal':>6}{'of naive':>10}{'goal':>6}", end="")
    print(f"{'fused, of BLAS+NumPy':>22}{'goal':>6}")
    for m, n, k in MATMULS:
        best = code.tune(("matmul", m, n, k), TRIALS).best
        a, b = (rng.normal(size=s).astype(np.float32) for s in ((m, k), (k, n)))
        bias, out = rng.normal(size=n).astype(np.float32), np.empty((m, n), np.float32)
        plain, naive = code.matmul(m, n, k, schedule=best), code.matmul(m, n, k)
        fused = code.matmul(m, n, k, schedule=best, epilogue="bias_relu")

        def library(a: Any = a, b: Any = b, bias: Any = bias, out: Any = out) -> None:
            np.matmul(a, b, out=out)
            np.add(out, bias, out=out)
            np.maximum(out, 0, out=out)

        found = medians(
            {
                "plain": lambda plain=plain, a=a, b=b, out=out: plain(a, b, out=out),
                "blas": lambda a=a, b=b, out=out: np.matmul(a, b, out=out),
                "fused": lambda f=fused, a=a, b=b, c=bias, out=out: f(a, b, c, out=out),
                "library": library,
            }
        )
        slow = medians({"naive": lambda f=naive, a=a, b=b, out=out: f(a, b, out=out)}, 3)["naive"]
        ratios = (found["plain"] / found["blas"], found["plain"] / slow)
        print(
            f"{f'{m} x {n} x {k}':<24}{ratios[0]:>9.2f}{1.25:>6}{ratios[1]:>10.3f}{0.2:>6}", end=""
        )
        print(f"{found['fused'] / found['library']:>22.2f}{0.95:>6}", flush=True)


def convolutions() -> None:
    rng = np.random.default_rng(0)
    print(f"{'convolution':<34}{'of im2col, BLAS':>16}{'goal':>6}{'of PyTorch':>12}", end="")
    print(f"{'conv2d, of im2col':>19}{'goal':>6}{'of PyTorch':>12}")
    for sizes in CONVOLUTIONS:
        best = code.tune(("conv2d", *sizes), TRIALS).best
        n, c, h, w, o, kh, kw, stride, padding = sizes
        x, weight = (rng.normal(size=s).astype(np.float32) for s in ((n, c, h, w), (o, c, kh, kw)))
        kernel = code.conv2d(*sizes, schedule=best)
        both = [(lib, lib.tensor(x), lib.tensor(weight)) for lib in (minitorch, torch)]
        out = np.empty((n, o, *kernel.task.places), np.float32)
        runs = {"tuned": lambda f=kernel, x=x, w=weight, out=out: f(x, w, out=out)}
        for lib, image, weights in both:
            runs[lib.__name__] = (
                lambda f=lib.nn.functional.conv2d, x=image, w=weights, s=stride, p=padding: f(
                    x, w, stride=s, padding=p
                )
            )
        runs["im2col"] = lambda task=kernel.task, x=x, w=weight: convolve_with_blas(task, x, w)
        found = medians(runs)
        tuned, eager = (
            [found[way] / found[other] for other in ("im2col", "torch")]
            for way in ("tuned", "minitorch")
        )
        print(f"{sizes!s:<34}{tuned[0]:>16.2f}{1.0:>6}{tuned[1]:>12.2f}", end="")
        print(f"{eager[0]:>19.2f}{0.9:>6}{eager[1]:>12.2f}", flush=True)


def network() -> None:
    """Print the step of a small network before and after its convolutions were tuned."""
    pair = {"minitorch": speed.cnn(minitorch), "torch": speed.cnn(torch)}
    before = medians(pair, 151)
    for sizes in CNN:
        code.keep(code.tune(("conv2d", *sizes), TRIALS))
    after = medians(pair, 151)
    ratios = [found["minitorch"] / found["torch"] for found in (before, after)]
    print(f"step of the CNN on 8x8, of PyTorch: {ratios[0]:.2f}, tuned {ratios[1]:.2f}, goal 1.2")


def searches(seeds: int = 20, trials: int = 64) -> None:
    """Print how many trials searches need on each recorded table; one more than all for never."""
    names = ("random", "genetic", "annealing", "learned")
    print(f"{'trials until 1.10 of the best':<36}" + "".join(f"{name:>11}" for name in names))
    for table in map(code.recorded, code.recorded_tasks()):
        reached = [
            np.median([trials_until(table, name, seed, trials) for seed in range(seeds)])
            for name in names
        ]
        print(f"{table.task!s:<36}" + "".join(f"{count:>11.0f}" for count in reached), flush=True)


def trials_until(table: Any, name: str, seed: int, trials: int, near: float = 1.1) -> int:
    """Return after how many trials a search is near the best of a table."""
    curve = code.tune(table.task, trials, name, table, seed, space=table.space).curve()
    return 1 + sum(best > near * table.seconds.min() for best in curve)


def models(seeds: int = 20, trials: int = 96) -> None:
    """Print how well models that were fitted to some schedules rank the others of a table."""
    table = code.recorded(("matmul", 512, 512, 512))
    points, logs = table.space.points(), np.log(table.seconds)
    print(f"{f'model, of {trials} schedules':<28}{'of ranks':>13}{'best of 32':>12}")
    features = code.CostModel(table.task).prepare(points)
    for kind in ("ridge", "trees", "both", "rank"):
        found = []
        for seed in range(seeds):
            order = np.random.default_rng(seed).permutation(len(points))
            known, others = order[:trials], order[trials:]
            model = code.CostModel(table.task, kind)
            model.fit([points[i] for i in known], table.seconds[known])
            guesses = model.predict(points, features)[others]
            ranks = [np.argsort(np.argsort(values)) for values in (guesses, logs[others])]
            best = table.seconds[others[np.argsort(guesses)[:32]]].min()
            found.append((np.corrcoef(*ranks)[0, 1], best / table.seconds.min()))
        correlation, ratio = np.median(found, axis=0)
        print(f"{kind:<28}{correlation:>13.2f}{ratio:>12.3f}", flush=True)


def main() -> None:
    torch.set_num_threads(1)
    if not code.available():
        print("llvmlite is not installed: there is nothing to compare")
        return
    searches()
    models()
    products()
    with tempfile.TemporaryDirectory() as directory:
        code.set_cache_directory(directory)
        convolutions()
        network()


if __name__ == "__main__":
    main()
