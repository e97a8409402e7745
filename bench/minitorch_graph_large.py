"""Large graphs: the time for a node in a graph of 4n operators, over that in one of n.

Where work is proportional to the graph the ratio is 1; a little more is caches and the logarithm
of the sorting; with the square of the size it would be 4. Both sizes take turns, and the table
shows the ratio of the medians of processor time. A goal that is missed is marked.

    python bench/minitorch_graph_large.py                    # n = 2,000, and 8,000
    python bench/minitorch_graph_large.py --operators 25000  # and 100,000: minutes
    python bench/minitorch_graph_large.py --quick            # n = 1,000, once each
"""

import argparse
import gc
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import minitorch.graph as tf
from minitorch.graph.core.verify import verify
from minitorch.graph.costs.machine import Fixed, use
from minitorch.graph.memory.plan import memory_plan

AT = np.array([[0.6, 0.8], [-0.8, 0.6]])
GOAL = 1.5
SETTLE = 60  # operators of the graph that warms everything up


def chain(x: Any, n: int) -> Any:
    """Each operator uses the one before."""
    for _ in range(n // 2):
        x = tf.tanh(x * 1.01)
    return x


def fan(x: Any, n: int) -> Any:
    """All use one."""
    middle = tf.tanh(x)
    return tf.add_n([middle * (1.0 + 1e-6 * i) for i in range(n // 2)])


def diamonds(x: Any, n: int) -> Any:
    """Two ways from each stage to the next."""
    for _ in range(n // 4):
        x = tf.tanh(x) * 0.5 + tf.sigmoid(x)
    return x


def layers(x: Any, n: int) -> Any:
    """A very deep network of very small layers."""
    for i in range(n // 3):
        x = tf.nn.relu(tf.matmul(x, tf.constant(AT * (1.0 + 1e-6 * i))) + 0.01)
    return x


GRAPHS = (chain, fan, diamonds, layers)


class Stopwatch:
    """Seconds of processor time by name, one entry a measurement.

    Attributes:
        seconds: what was measured.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {}

    def __call__(self, name: str, work: Callable[[], Any]) -> Any:
        """Return what `work` returns, once its time has been noted."""
        gc.collect()
        begin = time.process_time()
        found = work()
        self.seconds.setdefault(name, []).append(time.process_time() - begin)
        return found


def measure(build: Callable[[Any, int], Any], n: int, watch: Stopwatch) -> None:
    """Take a graph of `n` operators and its gradient through everything."""
    tf.reset_default_graph()
    x = tf.placeholder(tf.float64, (2, 2))
    y = watch("build", lambda: build(x, n))
    (grad,) = watch("gradients", lambda: tf.gradients(y, [x]))
    for what, fetch in (("", y), (" of the gradient", grad)):
        watch(f"verify{what}", lambda fetch=fetch: verify([fetch]))
        watch(f"memory plan{what}", lambda fetch=fetch: memory_plan(fetch))
        watch(f"optimize{what}", lambda fetch=fetch: tf.optimize(fetch, [x]))
        for executor in ("compiled", "tokens"):
            with tf.Session(executor=executor, optimize=False) as session:
                run = lambda fetch=fetch, s=session: s.run(fetch, {x: AT})  # noqa: E731
                watch(f"first run{what}, {executor}", run)
                watch(f"run{what}, {executor}", run)


def ratios(build: Callable[[Any, int], Any], n: int, rounds: int) -> dict[str, float]:
    """The time for a node at 4n over that at n, by what is done."""
    few, many = Stopwatch(), Stopwatch()
    measure(build, SETTLE, Stopwatch())
    for _ in range(rounds):
        measure(build, n, few)
        measure(build, 4 * n, many)
    return {
        name: statistics.median(many.seconds[name]) / statistics.median(times) / 4
        for name, times in few.seconds.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operators", type=int, default=2000, help="n, of the smaller graph")
    parser.add_argument("--quick", action="store_true", help="n = 1,000, once each")
    asked = parser.parse_args()
    n, rounds = (1000, 1) if asked.quick else (asked.operators, 3 if asked.operators < 10**4 else 1)
    with use(Fixed(kernels=False)):
        found = {build.__name__: ratios(build, n, rounds) for build in GRAPHS}
    print(f"{f'a node of {4 * n:,} over one of {n:,}':<40}" + "".join(f"{g:>10}" for g in found))
    for name in next(iter(found.values())):
        row = [by_name[name] for by_name in found.values()]
        missed = "  missed" if max(row) > GOAL else ""
        print(f"{name:<40}" + "".join(f"{ratio:>10.2f}" for ratio in row) + missed)


if __name__ == "__main__":
    main()
