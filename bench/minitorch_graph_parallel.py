"""The parallel executor on two threads: against one thread, against first-come-first-served.

All ratios are medians of times taken in turns. "the machine" is the same products by two bare
threads over one, which is what can be had at that moment: on two idle cores 0.5. "predicted" is
list scheduling by a clock, with the costs that the executor has measured itself.

    python bench/minitorch_graph_parallel.py
    python bench/minitorch_graph_parallel.py --runs 60 --size 512
"""

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from list_scheduling import makespan

import minitorch.graph as tf
from minitorch.graph.core.variables import State
from minitorch.graph.executors.compiled import Step
from minitorch.graph.executors.parallel import MEASURED_RUNS, ParallelStep, critical_path

Work = Callable[[], Any]


def in_turns(works: list[Work], runs: int) -> list[float]:
    """The median time of each, taken in turns after two of each."""
    times: list[list[float]] = [[] for _ in works]
    for i in range(runs + 2):
        for seconds, work in zip(times, works, strict=True):
            begin = time.perf_counter()
            work()
            if i >= 2:
                seconds.append(time.perf_counter() - begin)
    return [statistics.median(seconds) for seconds in times]


def chain(x: Any, w: Any, length: int) -> Any:
    for _ in range(length):
        x = tf.matmul(x, w)
    return x


def branches(size: int, kind: str) -> tuple[list[Any], Any, Any]:
    """Two independent halves: of products, or of a product and elementwise work."""
    x, w = (tf.placeholder(tf.float32, (size, size)) for _ in range(2))
    ends = []
    for k in range(2):
        h = x * float(k + 1)
        for _ in range(3):
            h = tf.matmul(h, w)
            if kind == "kernels":
                h = tf.tanh(h * 0.5) + tf.sigmoid(h) * tf.exp(-tf.square(h))
        ends.append(tf.reduce_sum(h))
    return ends, x, w


def uneven(size: int, length: int = 5) -> tuple[list[Any], Any, Any]:
    """A chain, built last, and twice as many products that wait for nothing."""
    x, w = (tf.placeholder(tf.float32, (size, size)) for _ in range(2))
    short = [tf.reduce_sum(tf.matmul(x * float(k + 2), w)) for k in range(2 * length)]
    return [*short, tf.reduce_sum(chain(x, w, length + 1))], x, w


def bare(arrays: list[Any], threads: int) -> None:
    """The products of `branches`, by NumPy alone."""

    def half() -> None:
        h = arrays[0]
        for _ in range(3):
            h = h @ arrays[1]

    if threads == 1:
        half()
        half()
        return
    other = threading.Thread(target=half)
    other.start()
    half()
    other.join()


def stepped(fetches: list[Any], feeds: list[Any], threads: int, arrays: list[Any]) -> ParallelStep:
    """The executor, once it has measured its operators."""
    step = ParallelStep(fetches, feeds, threads=threads)
    for _ in range(MEASURED_RUNS):
        step(State(), arrays)
    return step


def costs_of(step: ParallelStep, arrays: list[Any]) -> list[float]:
    """The seconds of each operator, alone: the median of five runs on one thread."""
    seen: list[list[float]] = [[] for _ in step.program.spots]
    alone = ParallelStep(step.fetches, step.feeds, threads=1)
    alone.program, alone.ranks = step.program, step.ranks
    value = alone.value

    def timed(firing: Any, *rest: Any) -> Any:
        begin = time.perf_counter()
        found = value(firing, *rest)
        seen[firing.spot].append(time.perf_counter() - begin)
        return found

    alone.value = timed  # type: ignore[method-assign]
    for _ in range(5):
        alone(State(), arrays)
    return [statistics.median(times) for times in seen]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=30)
    parser.add_argument("--size", type=int, default=384)
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    made = (rng.normal(size=(options.size, options.size)) for _ in range(2))
    arrays = [(array / options.size**0.5).astype(np.float32) for array in made]
    print(f"{'two threads over one':<44}{'measured':>9}{'machine':>9}{'predicted':>10}")
    for kind in ("products", "kernels"):
        fetches, x, w = branches(options.size, kind)
        nodes = tf.optimize(fetches, (x, w))
        compiled, step = Step(nodes, (x, w)), stepped(nodes, [x, w], 2, arrays)
        works: list[Work] = [
            lambda step=step: step(State(), arrays),  # type: ignore[misc]
            lambda compiled=compiled: compiled(State(), arrays),  # type: ignore[misc]
            lambda: bare(arrays, 2),
            lambda: bare(arrays, 1),
        ]
        ours, alone, two, one = in_turns(works, options.runs)
        costs = costs_of(step, arrays)
        predicted = makespan(step.program, costs, step.ranks, 2)[0] / sum(costs)
        what = f"two branches of {kind}, over the compiled step"
        print(f"{what:<44}{ours / alone:>9.2f}{two / one:>9.2f}{predicted:>10.2f}")
    print_scheduling(options.size, options.runs, arrays)


def print_scheduling(size: int, runs: int, arrays: list[Any]) -> None:
    """Print the longest path first against first come, first served."""
    fetches, x, w = uneven(size)
    urgent, served = (stepped(fetches, [x, w], 2, arrays) for _ in range(2))
    served.ranks = [0.0] * len(served.program.spots)
    costs = costs_of(urgent, arrays)
    urgent.ranks = critical_path(urgent.program, costs)
    state = State()
    ours, fifo, two, one = in_turns(
        [
            lambda: urgent(state, arrays),
            lambda: served(state, arrays),
            lambda: bare(arrays, 2),
            lambda: bare(arrays, 1),
        ],
        runs,
    )
    first = makespan(urgent.program, costs, urgent.ranks, 2)[0]
    other = makespan(urgent.program, costs, served.ranks, 2)[0]
    what = "the longest path first, over first come"
    print(f"{what:<44}{ours / fifo:>9.2f}{two / one:>9.2f}{first / other:>10.2f}")


if __name__ == "__main__":
    main()
