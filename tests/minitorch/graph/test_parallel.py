"""The parallel executor: the bits of the sequential run, effects in order, errors that stop all."""

import runpy
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError
from minitorch.graph.executors.parallel import ParallelStep, critical_path
from minitorch.graph.executors.tokens.lower import lower
from minitorch.graph.executors.tokens.program import Program
from minitorch.op import Op

BENCH = Path(__file__).parents[3] / "bench"
makespan = runpy.run_path(str(BENCH / "list_scheduling.py"))["makespan"]


@pytest.fixture(autouse=True)
def _fresh_graph() -> Iterator[None]:
    tf.reset_default_graph()
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before  # no thread outlives its run


class Meeting(Op):
    """Computes only while another one does: two threads are at work at once."""

    def __init__(self, barrier: threading.Barrier) -> None:
        self.barrier = barrier

    def compute(self, xp: Any, *arrays: Any) -> Any:
        self.barrier.wait(timeout=120)
        return arrays[0]

    def infer(self, *specs: Any) -> Any:
        return specs[0]


class Broken(Op):
    def compute(self, xp: Any, *arrays: Any) -> Any:
        raise RuntimeError("no idea")

    def infer(self, *specs: Any) -> Any:
        return specs[0]


def layers(width: int, depth: int) -> tuple[Any, Any]:
    x = tf.placeholder(tf.float32, (8, width))
    h, rng = x, np.random.default_rng(0)
    for _ in range(depth):
        w = tf.Variable(rng.normal(size=(width, width)).astype("f") / width**0.5)
        h = tf.nn.relu(tf.matmul(h, w)) + tf.reduce_mean(h, 0)
    return x, tf.reduce_sum(h * h)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_training_gives_the_same_bits_with_any_number_of_threads(threads: int) -> None:
    x, loss = layers(16, 4)
    step = tf.train.MomentumOptimizer(1e-3, 0.9).minimize(loss)
    init, variables = tf.initialize_all_variables(), tf.global_variables()
    fed = np.random.default_rng(1).normal(size=(8, 16))
    ends = []
    for options in ({}, {"executor": "parallel", "threads": threads}):
        with tf.Session(**options) as session:
            session.run(init)
            losses = [session.run([loss, step], {x: fed})[0] for _ in range(5)]
            ends.append([*losses, *session.run(variables)])
    for a, b in zip(*ends, strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.as_built
def test_two_operators_run_at_once() -> None:
    barrier = threading.Barrier(2)
    pair = [Meeting(barrier)(tf.constant(float(k))) for k in range(2)]
    with tf.Session(executor="parallel", threads=2) as session:
        assert session.run(pair) == [0.0, 1.0]


def test_iterations_of_a_loop_run_at_once() -> None:
    """Each round's slow part waits for that of the next round: they must overlap."""
    barrier = threading.Barrier(2)
    meet = Meeting(barrier)
    parts = tf.while_loop(
        lambda i, done: i < 4, lambda i, done: (i + 1, done + meet(i * 1)), [0, 0]
    )
    with tf.Session(executor="parallel", threads=2) as session:
        assert session.run(parts) == [4, 6]


def test_effects_keep_the_order_of_the_sequential_run() -> None:
    tf.set_random_seed(1)
    w = tf.Variable(np.ones(3))
    node: Any = w
    for k in range(12):
        with tf.control_dependencies([node]):
            node = tf.assign(w, w.read() * 1.5 + float(k))
    noise = tf.random_uniform((3,))
    late = tf.assign_add(w, tf.cast(noise, tf.float64))
    init = tf.initialize_all_variables()
    ends = []
    for options in ({}, {"executor": "parallel", "threads": 4}):
        with tf.Session(**options) as session:
            session.run(init)
            ends.append([session.run([w, node, late, noise]) for _ in range(3)])
    for a, b in zip(*ends, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


def test_an_operator_that_raises_stops_all_and_is_named_with_its_line() -> None:
    x, loss = layers(8, 3)
    broken = Broken()(loss * 2.0)
    with tf.Session(executor="parallel", threads=3) as session:
        session.run(tf.initialize_all_variables())
        fed = {x: np.ones((8, 8))}
        with pytest.raises(GraphError, match=r"Broken.*no idea.*test_parallel\.py:\d+"):
            session.run([broken, loss], fed)
        assert np.isfinite(session.run(loss, fed))


@pytest.mark.parametrize("threads", [0, "two"])
def test_threads_are_one_or_more(threads: Any) -> None:
    with (
        tf.Session(executor="parallel", threads=threads) as session,
        pytest.raises(GraphError, match=f"threads={threads!r}"),
    ):
        session.run(tf.constant(1.0))


def test_the_critical_path_is_the_longest_way_to_the_end() -> None:
    a = tf.placeholder(tf.float32, (), "a")
    b = tf.exp(a, name="b")
    c = tf.exp(b, name="c")
    d = tf.add(c, a, name="d")
    program = Program(lower([d], {a}), [a])
    costs = {"a": 1.0, "b": 5.0, "c": 2.0, "d": 3.0}
    ranks = critical_path(program, [costs[s.node.name] for s in program.spots])
    found = {s.node.name: rank for s, rank in zip(program.spots, ranks, strict=True)}
    assert found == {"d": 3.0, "c": 5.0, "b": 10.0, "a": 11.0}


def test_what_is_most_urgent_runs_first() -> None:
    x = tf.placeholder(tf.float32, (), "x")
    short = tf.exp(x, name="short")
    long = x
    for k in range(3):
        long = tf.exp(long, name=f"long{k}")
    fired: list[str] = []
    step = ParallelStep([short, long], [x], threads=1, on_event=lambda e: fired.append(e.node_name))
    step(tf.Session().state, [np.float32(0.0)])
    assert fired == ["x", "long0", "long1", "short", "long2"]


# ── schedules with known costs ──────────────────────────────────────────────────────────────────


def uneven() -> tuple[Program, list[float]]:
    """A chain of four that is built last, and six operators that wait for nothing but x."""
    x = tf.placeholder(tf.float32, (), "x")
    short = [tf.exp(x, name=f"short{k}") for k in range(6)]
    long = x
    for k in range(4):
        long = tf.exp(long, name=f"long{k}")
    program = Program(lower([*short, long], {x}), [x])
    return program, [0.0 if spot.node is x else 1.0 for spot in program.spots]


def test_the_longest_path_first_takes_less_time_than_first_come() -> None:
    program, costs = uneven()
    urgent, order = makespan(program, costs, critical_path(program, costs), 2)
    served, _ = makespan(program, costs, [0.0] * len(costs), 2)
    assert urgent == sum(costs) / 2 == 5.0  # no thread ever waits
    assert served == 3.0 + 4.0  # the short ones first, and then the chain alone
    assert [program.spots[i].node.name for i in order[:2]] == ["x", "long0"]


@pytest.mark.parametrize("threads", [1, 2, 3, 20])
def test_a_makespan_lies_between_grahams_bounds(threads: int) -> None:
    program, costs = uneven()
    ranks = critical_path(program, costs)
    least = max(max(ranks), sum(costs) / threads)
    for order in (ranks, [0.0] * len(costs), [-r for r in ranks]):
        took, begun = makespan(program, costs, order, threads)
        assert least <= took <= (2 - 1 / threads) * least
        assert sorted(begun) == list(range(len(costs)))


def test_a_makespan_of_a_loop_is_refused() -> None:
    y = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)])
    program = Program(lower([y], ()), [])
    with pytest.raises(GraphError, match="loop"):
        makespan(program, [1.0] * len(program.spots), [0.0] * len(program.spots), 2)


def test_a_chain_is_run_by_the_caller_alone() -> None:
    """No second thread is started for what can only be done one after another."""
    names: set[str] = set()

    class Where(Op):
        def compute(self, xp: Any, *arrays: Any) -> Any:
            names.add(threading.current_thread().name)
            return arrays[0]

        def infer(self, *specs: Any) -> Any:
            return specs[0]

    x = tf.placeholder(tf.float32, ())
    y: Any = x
    for _ in range(20):
        y = Where()(y)
    with tf.Session(executor="parallel", threads=4) as session:
        session.run(y, {x: 1.0})
    assert names == {threading.current_thread().name}
