"""Placement: who runs what, Send and Recv where an edge crosses, on ranks of `ddp_lab`."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from ddp_lab import launch
from minitorch.errors import GraphError
from minitorch.graph.core.node import build
from minitorch.graph.core.order import schedule
from minitorch.graph.core.variables import NoOp
from minitorch.graph.placement.place import place
from tests.minitorch.graph.rendezvous import on_rendezvous

pytestmark = pytest.mark.as_built

FED = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)


# ── programs: what is fetched in each of some runs, with variables at the end ───────────────────


def two_layers(optimizer: Callable[[], Any] = lambda: tf.train.AdamOptimizer(0.01)) -> Any:
    """A network with a layer on each of two devices, and a step of training."""
    rng = np.random.default_rng(1)
    x = tf.placeholder(tf.float32, (None, 8), name="x")
    with tf.device("cpu:0"):
        w1 = tf.Variable(rng.normal(size=(8, 5)).astype("f") / 3, name="w1")
        h = tf.nn.relu(tf.matmul(x, w1))
    with tf.device("cpu:1"):
        w2 = tf.Variable(rng.normal(size=(5, 3)).astype("f") / 3, name="w2")
        loss = tf.reduce_mean(tf.square(tf.matmul(h, w2) - 1.0))
    return [loss, optimizer().minimize(loss)], {x: FED}


def branch_across() -> Any:
    """The sides of a cond on different devices: one of them is dead when it crosses."""
    x = tf.placeholder(tf.float32, (6, 8))
    with tf.device("cpu:0"):
        w = tf.Variable(np.float32(2.0))
        p = tf.reduce_sum(x) * w > 0.0
    count = tf.Variable(0.0)

    def left() -> Any:
        with tf.device("cpu:1"):
            return tf.reduce_sum(x * w)

    def right() -> Any:
        with tf.device("cpu:0"), tf.control_dependencies([tf.assign_add(count, 1.0)]):
            return tf.reduce_sum(x) - w

    with tf.device("cpu:1"):
        y = tf.cond(p, left, right) * 3.0
    (by,) = tf.gradients(y, [w])
    with tf.control_dependencies([y]):
        flip = tf.assign(w, -w)
    return [y, by, flip, p], {x: FED}


def loop_on_one_of_them() -> Any:
    x = tf.placeholder(tf.float32, (6, 8))
    with tf.device("cpu:0"):
        w = tf.Variable(np.eye(8, dtype=np.float32) * 0.9)
    with tf.device("cpu:1"):
        y = tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, tf.tanh(v @ w)), [0, x])[1]
    with tf.device("cpu:0"):
        loss = tf.reduce_sum(y * y)
    return [loss, tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)], {x: FED}


def effects_in_order() -> Any:
    x = tf.placeholder(tf.float32, (6, 8))
    with tf.device("cpu:1"):
        w = tf.Variable(np.float32(1.0))
    with tf.device("cpu:0"):
        v = tf.Variable(np.float32(5.0))
        first = tf.assign(w, w * 2.0 + v)
    with tf.control_dependencies([first]), tf.device("cpu:0"):
        second = tf.assign_add(v, w.read())
    with tf.control_dependencies([second]), tf.device("cpu:1"):
        third = tf.assign_sub(w, tf.reduce_sum(x) + v.read())
    return [first, second, third, w + 0.0], {x: FED}


PROGRAMS = [two_layers, branch_across, loop_on_one_of_them, effects_in_order]


def ran(program: Any, comm: Any = None, runs: int = 4) -> list[Any]:
    """Values of some runs and of the variables after them, on one device or on ranks."""
    with tf.Graph().as_default():
        fetches, feed = program()
        variables = tf.global_variables()
        init = tf.initialize_all_variables()
        session = tf.Session() if comm is None else tf.PlacedSession(comm)
        with session:
            session.run(init)
            found = [session.run(fetches, feed) for _ in range(runs)]
            return [found, session.run(variables)]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a is b or np.array_equal(a, b)


# ── on ranks ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", PROGRAMS)
def test_two_threads_give_what_one_device_gives(program: Any) -> None:
    want = ran(program)
    for found in launch(lambda comm: ran(program, comm), 2, transport="threads", timeout_s=200):
        assert same(found, want)


def test_a_training_step_on_two_processes_ends_with_the_same_parameters() -> None:
    want = ran(two_layers)
    for found in launch(lambda comm: ran(two_layers, comm), 2, transport="shm", timeout_s=200):
        assert same(found, want)


def test_a_dead_value_crosses_as_dead_and_fetching_it_names_it_on_every_rank() -> None:
    def rank(comm: Any) -> str:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            p = tf.placeholder(tf.bool, ())
            with tf.device("cpu:0"):
                no, _ = tf.switch(tf.constant(3.0), p)
            with tf.device("cpu:1"):
                doubled = tf.multiply(no, 2.0, name="doubled")
            assert session.run(doubled, {p: False}) == 6.0
            with pytest.raises(GraphError) as caught:
                session.run(doubled, {p: True})
            return str(caught.value)

    for message in launch(rank, 2, transport="threads", timeout_s=200):
        assert "'doubled' is dead" in message
        assert "test_place.py" in message


# ── without a transport of our own: any object of the Protocol, and one that waits ──────────────


def random_program(seed: int) -> Any:
    """Operators, writes and control edges at random, on devices at random."""

    def program() -> Any:
        rng = np.random.default_rng(seed)
        x = tf.placeholder(tf.float32, (6, 8))
        devices = [None, "cpu:0", "cpu:1"]
        variables, nodes = [], [x]
        for _ in range(3):
            with tf.device(devices[rng.integers(3)]):
                variables.append(tf.Variable(rng.normal(size=(6, 8)).astype("f")))
        for _ in range(25):
            a, b = (nodes[i] for i in rng.integers(0, len(nodes), 2))
            v = variables[rng.integers(3)]
            before = [nodes[i] for i in rng.integers(0, len(nodes), rng.integers(0, 2))]
            with tf.device(devices[rng.integers(3)]), tf.control_dependencies(before):
                kind = rng.integers(5)
                if kind == 0:
                    made = tf.assign(v, tf.tanh(a + b))
                elif kind == 1:
                    made = v.read() * 0.5
                elif kind == 2:
                    made = tf.cond(tf.reduce_sum(a) > 0.0, lambda a=a: a * 0.5, lambda b=b: b - 1.0)
                else:
                    made = tf.tanh(a - b) if kind == 3 else tf.maximum(a, v)
            nodes.append(made)
        return nodes[-6:], {x: FED}

    return program


@pytest.mark.parametrize("seed", range(15))
def test_random_graphs_on_random_devices_neither_hang_nor_differ(seed: int) -> None:
    program = random_program(seed)
    want = ran(program, runs=2)
    found, _ = on_rendezvous(lambda comm: ran(program, comm, runs=2))
    assert same(found[0], want)
    assert same(found[1], want)


def test_a_value_is_sent_once_to_a_rank_and_what_is_only_awaited_is_a_flag() -> None:
    def work(comm: Any) -> Any:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            x = tf.placeholder(tf.float32, (6, 8))
            with tf.device("cpu:0"):
                h = tf.tanh(x)
                big = tf.exp(x)
            with tf.device("cpu:1"), tf.control_dependencies([big]):
                total = tf.reduce_sum(h * h + h)
            session.run(total, {x: FED})  # the ranks have compared their graphs
            comm.sent.clear()
            return session.run(total, {x: FED})

    found, ranks = on_rendezvous(work)
    assert found[0] == found[1]
    assert ranks[0].sent == [(1, (6, 8)), (1, (1,))]
    assert ranks[1].sent == [(0, ())]


# ── who runs what ───────────────────────────────────────────────────────────────────────────────


def ranks_of(fetches: list[Any], n: int = 2, **options: Any) -> dict[str, int]:
    order = schedule(fetches, set())
    return {node.name: rank for node, rank in place(order, (), n, **options).items()}


def test_a_variable_its_reads_its_slots_and_its_writes_are_together() -> None:
    (_, step), _ = two_layers()
    found = ranks_of([step, *tf.global_variables()])
    assert found["w1"] == 0
    assert found["w2"] == 1
    assert {rank for name, rank in found.items() if "w1" in name} == {0}
    assert {rank for name, rank in found.items() if "w2" in name} == {1}


def test_what_nobody_placed_is_where_most_of_its_data_is() -> None:
    with tf.device("gpu:1"):
        large = tf.Variable(np.ones((50, 50), np.float32))
    with tf.device("cpu:0"):
        small = tf.Variable(np.ones((1, 50), np.float32))
    both = tf.add(large, small, name="both")
    assert ranks_of([both])["both"] == 1


def test_devices_may_have_names_of_their_own() -> None:
    with tf.device("left"):
        a = tf.Variable(1.0, name="a")
    with tf.device("right"), tf.device(None):
        free = tf.multiply(a, 2.0, name="free")
    assert ranks_of([free], ranks={"left": 1}) == {"a": 1, "free": 1}


@pytest.mark.parametrize(
    ("blocks", "ranks", "rank"),
    [
        (["/cpu:0"], {}, 0),
        (["/device:GPU:1"], {}, 1),
        (["/job:worker/replica:0/task:1/device:GPU:0"], {}, 1),
        (["/job:worker/task:1", "/gpu:0"], {}, 1),
        (["/gpu:0", "/gpu:1"], {}, 1),
        (["/job:worker/task:0", "/gpu:0"], {"/job:ps": 0, "/job:worker/task:0": 1}, 1),
        (["/job:worker/task:1", "cpu:0"], {}, 0),
    ],
)
def test_devices_in_tensorflows_spelling_are_the_rank_of_the_task(
    blocks: list[str], ranks: dict[str, int], rank: int
) -> None:
    with ExitStack() as stack:
        for name in blocks:
            stack.enter_context(tf.device(name))
        node = tf.placeholder(tf.float32, (2,)) * 2.0
    assert place(schedule([node], set()), set(), 2, ranks)[node] == rank


def test_a_function_for_a_device_is_refused() -> None:
    with pytest.raises(TypeError, match="A function"), tf.device(lambda op: "cpu:0"):  # type: ignore[arg-type]
        pass


def test_placement_that_cannot_be_is_refused_with_names_and_lines() -> None:
    with tf.device("cpu:7"):
        lost = tf.Variable(1.0, name="lost")
    with pytest.raises(GraphError, match=r"no device 'cpu:7': got 2 ranks.*'lost'.*place\.py:\d+"):
        ranks_of([lost])
    with tf.device("nowhere"):
        other = tf.Variable(1.0)
    with pytest.raises(GraphError, match="no device 'nowhere'"):
        ranks_of([other])
    with pytest.raises(TypeError, match="got int"), tf.device(1):  # type: ignore[arg-type]
        pass


def test_variables_written_by_one_operator_must_be_on_one_device() -> None:
    with tf.device("cpu:0"):
        a = tf.Variable(1.0, name="a")
    with tf.device("cpu:1"):
        b = tf.Variable(1.0, name="b")

    class Both(NoOp):
        writes = (a, b)

    both = build(Both(), ())
    with pytest.raises(GraphError, match=r"'a' on 'cpu:0' and 'b' on 'cpu:1' belong together"):
        ranks_of([both, a, b])


# ── loops ───────────────────────────────────────────────────────────────────────────────────────


def a_loop(first: str | None, second: str | None, around: str | None = None) -> Any:
    x = tf.placeholder(tf.float32, (4, 4))

    def body(i: Any, v: Any) -> Any:
        with tf.device(first):
            v = tf.tanh(v, name="curve")
        with tf.device(second):
            v = v + 1.0
        return i + 1, v

    with tf.device(around):
        return tf.while_loop(lambda i, v: i < 3, body, [0, x])[1]


def test_a_loop_goes_where_what_is_in_it_was_put() -> None:
    order = schedule([a_loop("cpu:1", None)], ())
    placed = place(order, (), 2)
    assert {placed[n] for n in order if n in placed and n.op is not None} == {1}


def test_a_loop_over_two_devices_is_whole_where_the_first_node_in_it_was_put() -> None:
    order = schedule([a_loop("cpu:1", "cpu:0")], ())
    placed = place(order, (), 2)
    assert {placed[n] for n in order if n in placed and n.op is not None} == {1}


def test_a_device_inside_a_loop_that_is_not_there_is_named() -> None:
    with pytest.raises(GraphError, match=r"there is no device 'cpu:7'.*'curve'"):
        place(schedule([a_loop("cpu:7", None)], ()), (), 2)
