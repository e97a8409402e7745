"""Loops and branches on devices: a loop is whole on one of them, and its gradient's too."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from ddp_lab import launch
from ddp_lab.errors import RankFailed
from minitorch.errors import GraphError
from minitorch.graph.control.loop_stacks import empty, has_more, push, without_top
from minitorch.graph.control.row_lists import next_row, spread, stack_arrays
from tests.minitorch.graph.random_programs import RandomProgram
from tests.minitorch.graph.rendezvous import on_rendezvous

pytestmark = pytest.mark.as_built


RNG = np.random.default_rng(0)
X = RNG.normal(size=(4, 4)) * 0.5
ROWS = RNG.normal(size=(5, 3)) * 0.5


def on(rank: int) -> Any:
    return tf.device(f"cpu:{rank}")


def matrix(rank: int, name: str, seed: int, shape: tuple[int, ...] = (4, 4)) -> Any:
    with on(rank):
        return tf.Variable(np.random.default_rng(seed).normal(size=shape) * 0.4, name=name)


def with_gradients(y: Any, *xs: Any) -> list[Any]:
    """A value and its derivatives, and the derivatives of one of those."""
    first = [g for g in tf.gradients(y, list(xs)) if g is not None]
    second = [
        g for g in tf.gradients(tf.reduce_sum(first[0] * first[0]), list(xs)) if g is not None
    ]
    return [y, *first, *second]


# ── programs: what is fetched, and what is fed in each of some runs ─────────────────────────────


def halves() -> Any:
    """The body in two halves, the condition without a device."""
    x, n = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.int32, ())
    w, u = matrix(0, "w", 1), matrix(1, "u", 2)

    def body(i: Any, v: Any) -> Any:
        with on(0):
            v = tf.tanh(v @ w)
        with on(1):
            return i + 1, tf.sigmoid(v @ u) - v

    y = tf.reduce_sum(tf.while_loop(lambda i, v: i < n, body, [0, x])[1])
    return with_gradients(y, x, w, u), [{x: X, n: count} for count in (3, 0, 1)]


def nested() -> Any:
    """A loop in a loop, both over both; the inner one's trips depend on the outer round."""
    x, n = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.int32, ())
    w, u = matrix(0, "w", 1), matrix(1, "u", 2)

    def inner(j: Any, v: Any) -> Any:
        with on(1):
            v = tf.tanh(v @ u)
        with on(0):
            return j + 1, v + w

    def outer(i: Any, v: Any) -> Any:
        _, v = tf.while_loop(lambda j, _: j < i, inner, [0, v])
        with on(1):
            return i + 1, v * 0.7

    y = tf.reduce_sum(tf.while_loop(lambda i, _: i < n, outer, [0, x])[1])
    return with_gradients(y, x, w, u), [{x: X, n: count} for count in (4, 0, 2)]


def a_branch_in_a_loop() -> Any:
    """The sides of a branch on two devices, its predicate on the one or the other."""
    x, n = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.int32, ())
    w, u = matrix(0, "w", 1), matrix(1, "u", 2)

    def left(v: Any) -> Any:
        with on(0):
            return tf.tanh(v @ w)

    def right(v: Any) -> Any:
        with on(1):
            return tf.sin(v @ u) * 1.5

    def body(i: Any, v: Any) -> Any:
        with on(0):
            odd = tf.equal(i % 2, 1)
        v = tf.cond(odd, lambda: left(v), lambda: right(v))
        with on(1):
            high = tf.reduce_sum(v) > 0.0
        return i + 1, tf.cond(high, lambda: left(v * 2.0), lambda: right(v - 1.0))

    y = tf.reduce_sum(tf.while_loop(lambda i, _: i < n, body, [0, x])[1])
    return with_gradients(y, x, w, u), [{x: X, n: count} for count in (4, 0, 1)]


def a_loop_in_a_branch_in_a_loop() -> Any:
    x, n = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.int32, ())
    w, u = matrix(0, "w", 1), matrix(1, "u", 2)

    def inner(j: Any, v: Any) -> Any:
        with on(0):
            v = tf.tanh(v @ w)
        with on(1):
            return j + 1, v - u

    def outer(i: Any, v: Any) -> Any:
        with on(1):
            odd = tf.equal(i % 2, 1)
        v = tf.cond(
            odd, lambda: tf.while_loop(lambda j, _: j < i, inner, [0, v])[1], lambda: v * 0.9
        )
        return i + 1, v

    y = tf.reduce_sum(tf.while_loop(lambda i, _: i < n, outer, [0, x])[1])
    return with_gradients(y, x, w, u), [{x: X, n: count} for count in (4, 1, 0)]


def over_rows(step: Callable[[Any, Any], Any], array: Any, start: Any) -> Any:
    """Every value of a = step(a, row), which a loop over the rows of an array keeps in a list."""
    made: list[Any] = []

    def body(rows: Any, done: Any, state: Any) -> list[Any]:
        made.append(step(state, next_row(rows, array)))
        return [without_top(rows), push(done, made[-1]), made[-1]]

    first = [spread(array), empty(), start]
    done = tf.while_loop(lambda rows, *_: has_more(rows), body, first)[1]
    return stack_arrays(done, made[0], count=array.shape[0])


def lists_of_rows() -> Any:
    """Loops over rows whose lists are on one device and whose functions are on two."""
    rows = tf.placeholder(tf.float64, (None, 3))
    w, u = matrix(0, "w", 1, (3, 3)), matrix(1, "u", 2, (3, 3))

    def step(state: Any, row: Any) -> Any:
        with on(0):
            state = tf.tanh(tf.reshape(state, (1, 3)) @ w)
        with on(1):
            return tf.reshape(state @ u, (3,)) + row

    def each(_: Any, row: Any) -> Any:
        with on(1):
            row = row * u[0]
        with on(0):
            return tf.reduce_sum(row * w[0])

    states = over_rows(step, rows, tf.zeros((3,), tf.float64))
    sums = over_rows(each, rows, tf.zeros((), tf.float64))
    y = tf.reduce_sum(states * states) + tf.reduce_sum(sums * sums)
    values = with_gradients(y, rows, w, u)
    return [states, sums, *values], [{rows: ROWS}, {rows: ROWS[:1]}]


def handed_on() -> Any:
    """Variables that change places, that stay, that become constants; captured arrays; a number."""
    x, n = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.int32, ())
    w, u = matrix(0, "w", 1), matrix(1, "u", 2)

    def body(i: Any, a: Any, b: Any, same: Any, one: Any, outer: Any) -> Any:
        with on(0):
            total = a + b * w
        with on(1):
            noise = tf.random_uniform((4, 4), seed=3, dtype=tf.float64)
            total = total + same * noise * one
        return i + 1, b, total, same, tf.constant(2.0, tf.float64), u

    first = [0, x, x * 2.0, w, tf.constant(1.0, tf.float64), x]
    found = tf.while_loop(lambda i, *_: i < n, body, first)
    y = tf.add_n([tf.reduce_sum(value) for value in found[1:]])
    return [*found, *with_gradients(y, x, w, u)], [{x: X, n: count} for count in (3, 0, 1)]


def gradients_in_rounds() -> Any:
    """A gradient that rounds take of a loop within them, in a branch, and write to a variable."""
    x, n = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.int32, ())
    w, a = matrix(1, "w", 1), matrix(0, "a", 2)

    def inner(j: Any, v: Any) -> Any:
        with on(0):
            v = tf.tanh(v)
        with on(1):
            return j + 1, v @ w

    def outer(i: Any, v: Any) -> Any:
        y = tf.while_loop(lambda j, _: j < 2, inner, [0, v])[1]
        by = tf.cond(i > 0, lambda: tf.gradients(tf.reduce_sum(y), v)[0], lambda: v * 0.0)
        with tf.control_dependencies([tf.assign_add(a, by)]):
            return i + 1, tf.identity(y + by)

    y = tf.while_loop(lambda i, _: i < n, outer, [0, x])[1]
    with tf.control_dependencies([y]):
        return [y, a.read() + 0.0], [{x: X, n: count} for count in (3, 1, 0)]


def three_devices() -> Any:
    x, n = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.int32, ())
    ws = [matrix(rank, f"w{rank}", rank) for rank in range(3)]

    def body(i: Any, v: Any) -> Any:
        for rank, w in enumerate(ws):
            with on(rank):
                v = tf.tanh(v @ w)
        return i + 1, v

    def going(i: Any, v: Any) -> Any:
        with on(2):
            return tf.logical_and(i < n, tf.reduce_sum(v) < 100.0)

    y = tf.reduce_sum(tf.while_loop(going, body, [0, x])[1])
    return with_gradients(y, x, *ws), [{x: X, n: count} for count in (3, 0)]


def gradients_elsewhere() -> Any:
    """The gradient of a loop, built on another device, in a branch, and in another loop."""
    x = tf.placeholder(tf.float64, (4, 4))
    w, u = matrix(0, "w", 1), matrix(1, "u", 2)

    def body(i: Any, v: Any) -> Any:
        with on(0):
            v = tf.tanh(v @ w)
        with on(1):
            return i + 1, v + u

    y = tf.reduce_sum(tf.while_loop(lambda i, _: i < 3, body, [0, x])[1])
    with on(1):
        (at_once,) = tf.gradients(y, x)
    sometimes = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.gradients(y, w)[0], lambda: w * 0.0)
    twice = tf.while_loop(
        lambda i, _: i < 2, lambda i, v: (i + 1, v + tf.gradients(y, u)[0]), [0, u * 0.0]
    )[1]
    return [at_once, sometimes, twice, *tf.gradients(y, [w, u])], [{x: X}, {x: -X}]


PROGRAMS = [
    halves, nested, a_branch_in_a_loop, a_loop_in_a_branch_in_a_loop, lists_of_rows,
    handed_on,
    gradients_elsewhere, gradients_in_rounds, three_devices,
]  # fmt: skip


def ran(program: Callable[[], Any], comm: Any = None, **options: Any) -> list[Any]:
    """The values of all runs, on one device or on ranks."""
    with tf.Graph().as_default():
        fetches, feeds = program()
        init = tf.initialize_all_variables()
        with tf.Session(**options) if comm is None else tf.PlacedSession(comm) as session:
            session.run(init)
            return [session.run(fetches, feed) for feed in feeds]


ROUNDING = 1e-12
"""What is sent arrives with its elements in order, and BLAS may then sum in another one."""


def assert_same(found: Any, want: Any, rtol: float = ROUNDING) -> None:
    for run, expected in zip(found, want, strict=True):
        for a, b in zip(run, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


# ── the same values ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_loop_beside_devices_gives_what_one_device_gives(program: Any) -> None:
    want = ran(program, optimize=False)
    size = 3 if program is three_devices else 2
    found, _ = on_rendezvous(lambda comm: ran(program, comm), size)
    for values in found:
        assert_same(values, want)


def test_rounds_send_nothing() -> None:
    def sent(rounds: int) -> list[int]:
        def work(comm: Any) -> Any:
            with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
                fetches, (feed, *_) = halves()
                session.run(tf.initialize_all_variables())
                n = next(node for node in feed if node.dtype.kind == "i")
                return session.run(fetches, {**feed, n: rounds})

        return [len(rank.sent) for rank in on_rendezvous(work, 2)[1]]

    assert sent(7) == sent(0)


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
def test_a_gradient_built_in_a_branch_or_loop_is_that_built_outside(executor: str) -> None:
    runs = ran(gradients_elsewhere, optimize=False, executor=executor)
    for (_, sometimes, twice, by_w, by_u), x in zip(runs, (X, -X), strict=True):
        np.testing.assert_allclose(sometimes, by_w if x.sum() > 0.0 else 0.0 * by_w, rtol=1e-12)
        np.testing.assert_allclose(twice, 2.0 * by_u, rtol=1e-12)


class OnDevices(RandomProgram):  # type: ignore[misc, valid-type]  # loaded from its file
    """A random program each of whose statements is on a device drawn at random, or on none.

    Some are followed by a loop over rows, a gradient, or a loop over a variable.
    """

    def __init__(self, seed: int, size: int, **options: Any) -> None:
        self.draw, self.size = np.random.default_rng(1000 + seed), size
        with self._somewhere():
            super().__init__(seed, **options)

    def _somewhere(self) -> Any:
        rank = int(self.draw.integers(self.size + 1))
        return tf.device(None if rank == self.size else f"cpu:{rank}")

    def _statement(self, depth: int, values: list[Any], last: list[Any]) -> Any:
        with self._somewhere():
            made, last = super()._statement(depth, values, last)
        kind = self.draw.random()
        if kind < 0.08:
            return over_rows(self._step, made, tf.zeros_like(made[0])), last
        if kind < 0.16:
            return over_rows(self._row, made, tf.zeros_like(made[0])), last
        if kind < 0.2:
            with self._somewhere():
                found = tf.gradients(tf.reduce_sum(tf.tanh(made)), values[0])[0]
            return made if found is None else made + found, last
        return self._counted(made, last) if kind < 0.26 else (made, last)

    def _step(self, state: Any, row: Any) -> Any:
        with self._somewhere():
            state = tf.tanh(state * 0.7)
        with self._somewhere():
            return state + row

    def _row(self, _: Any, row: Any) -> Any:
        with self._somewhere():
            row = tf.tanh(row * 0.5)
        with self._somewhere():
            return row + tf.reduce_mean(row)

    def _counted(self, value: Any, last: list[Any]) -> Any:
        """A loop that goes on while a variable is small, which its rounds write."""
        variable = self.variables[0]

        def going(i: Any, v: Any) -> Any:
            with self._somewhere():
                small = tf.reduce_sum(tf.tanh(variable.read())) < 100.0
            with self._somewhere():
                return tf.logical_and(i < 2, small)

        def body(i: Any, v: Any) -> Any:
            with self._somewhere():
                written = tf.assign_add(variable, tf.tanh(v))
            with tf.control_dependencies([written]), self._somewhere():
                v = v * 0.5 + variable.read()
            with tf.control_dependencies([v]):
                return i + 1, tf.identity(v)

        with tf.control_dependencies(last):
            made = tf.while_loop(going, body, [0, value])[1]
        return tf.stop_gradient(made), [made]


def agree(seed: int, size: int, **options: Any) -> None:
    """Check a random program on ranks against one device."""

    def ran_here(comm: Any = None) -> Any:
        with tf.Graph().as_default():
            program = OnDevices(seed, size, **options)
            if comm is None:
                return program.run(program.fetches, optimize=False)
            with tf.PlacedSession(comm) as session:
                session.run(program.start)
                runs = [session.run(program.fetches, program.feeds) for _ in range(2)]
                return runs[0] + runs[1]

    want = ran_here()
    found, _ = on_rendezvous(ran_here, size)
    for values in found:
        assert_same([values], [want])


@pytest.mark.parametrize(("size", "seeds"), [(2, range(12)), (3, range(12, 20))])
def test_random_programs_on_random_devices_agree(size: int, seeds: range) -> None:
    for seed in seeds:
        agree(seed, size)


@pytest.mark.wide
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("options", [{}, {"depth": 3}])
def test_many_random_programs_agree(size: int, options: dict[str, Any]) -> None:
    for seed in range(100, 200):
        agree(seed, size, **options)


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_ranks_of_a_communicator_run_loops(transport: str) -> None:
    programs = [halves, a_loop_in_a_branch_in_a_loop, lists_of_rows]
    want = [ran(program, optimize=False) for program in programs]

    def rank(comm: Any) -> Any:
        return [ran(program, comm) for program in programs]

    for found in launch(rank, 2, transport=transport, timeout_s=200):
        for values, expected in zip(found, want, strict=True):
            assert_same(values, expected)


# ── what goes wrong ─────────────────────────────────────────────────────────────────────────────


def fails_in_round_three() -> Any:
    table = tf.constant(np.arange(3.0))

    def body(i: Any, v: Any) -> Any:
        with on(1):
            row = tf.gather(table, i, name="lookup")
            return i + 1, (tf.tanh(v) + 1.0) * row

    return tf.while_loop(lambda i, v: i < 5, body, [0, tf.constant(1.0, tf.float64)])[1]


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_an_operator_that_fails_in_a_round_ends_all_ranks_and_is_named(transport: str) -> None:
    def rank(comm: Any) -> Any:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            return session.run(fails_in_round_three())

    with pytest.raises(RankFailed) as caught:
        launch(rank, 2, transport=transport, timeout_s=200)
    assert caught.value.rank == 1
    message = str(caught.value)
    assert "rank 1 of 2 failed" in message
    assert "index 3 is out of bounds" in message
    assert "node 'lookup' built at" in message
    assert "test_place_loops.py" in message
    assert "rank 1 has failed" in caught.value.failures[0]


def test_a_placeholder_that_one_rank_needs_is_missed_by_all() -> None:
    def work(comm: Any) -> str:
        with tf.Graph().as_default(), tf.PlacedSession(comm) as session:
            x, missing = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.float64, (), "gone")

            def body(i: Any, v: Any) -> Any:
                with on(0):
                    v = tf.tanh(v)
                with on(1):
                    return i + 1, v * missing

            y = tf.while_loop(lambda i, v: i < 2, body, [0, x])[1]
            with pytest.raises(GraphError) as caught:
                session.run(y, {x: X})
            return str(caught.value)

    for message in on_rendezvous(work)[0]:
        assert "placeholder 'gone' was not fed" in message


# ── a recurrent network: the cell's weights on one rank, those of what is read out on the other ─

TIMES, BATCH, WIDTH, HIDDEN = 6, 8, 3, 5
_rng = np.random.default_rng(1)
SERIES = _rng.normal(size=(TIMES, BATCH, WIDTH)).astype(np.float32)
SUMS = 0.3 * np.cumsum(SERIES.sum(axis=2, keepdims=True), axis=0)


def network() -> Any:
    """A step of training over the first n steps of a series; the loss is summed in the loop."""
    rng = np.random.default_rng(2)
    x = tf.placeholder(tf.float32, (None, BATCH, WIDTH))
    y = tf.placeholder(tf.float32, (None, BATCH, 1))
    n = tf.placeholder(tf.int32, ())

    def weight(*shape: int) -> Any:
        return tf.Variable(rng.normal(size=shape).astype(np.float32) * 0.5)

    with on(0):
        w_in, w_state = weight(WIDTH, HIDDEN), weight(HIDDEN, HIDDEN)
    with on(1):
        w_out = weight(HIDDEN, 1)

    def body(t: Any, h: Any, loss: Any) -> Any:
        with on(0):
            h = tf.tanh(tf.matmul(tf.gather(x, t), w_in) + tf.matmul(h, w_state))
        with on(1):
            error = tf.matmul(h, w_out) - tf.gather(y, t)
            return t + 1, h, loss + tf.reduce_mean(tf.square(error))

    start = [0, tf.zeros((BATCH, HIDDEN)), tf.constant(0.0)]
    loss = tf.while_loop(lambda t, h, loss: t < n, body, start)[2]
    return loss, tf.train.AdamOptimizer(0.02).minimize(loss), (x, y, n)


def trained(comm: Any = None, steps: int = 12) -> list[Any]:
    """The losses of some steps, and the weights after them."""
    with tf.Graph().as_default():
        loss, step, (x, y, n) = network()
        session = tf.Session() if comm is None else tf.PlacedSession(comm)
        with session:
            session.run(tf.initialize_all_variables())
            feeds = [{x: SERIES, y: SUMS, n: TIMES - k % 3} for k in range(steps)]
            losses = [session.run([loss, step], feed)[0] for feed in feeds]
            return [np.stack(losses), *session.run(tf.trainable_variables())]


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_a_recurrent_network_trains_on_two_ranks_as_on_one(transport: str) -> None:
    want = trained()
    assert want[0][-3:].sum() < 0.5 * want[0][:3].sum()
    for found in launch(trained, 2, transport=transport, timeout_s=200):
        for a, b in zip(found, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)
