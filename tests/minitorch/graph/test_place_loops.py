"""Loops and branches cut across devices: each rank a part, round by round together."""

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from ddp_lab import launch
from minitorch.graph.placement.partition import LoopPart

pytestmark = pytest.mark.as_built


def _beside(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


on_rendezvous = _beside("rendezvous").on_rendezvous
RandomProgram = _beside("random_programs").RandomProgram
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


def as_long_as_the_data_says() -> Any:
    """Two variables that cross both ways, a trip count that depends on both."""
    x, bound = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.float64, ())
    w, u = matrix(0, "w", 1), matrix(1, "u", 2)

    def going(a: Any, b: Any) -> Any:
        with on(1):
            size = tf.reduce_sum(b * b)
        with on(0):
            return tf.reduce_sum(a * a) + size < bound

    def body(a: Any, b: Any) -> Any:
        with on(0):
            next_a = a * 1.5 + tf.tanh(b @ w)
        with on(1):
            return next_a, b + tf.sin(a @ u)

    a, b = tf.while_loop(going, body, [x, x * 0.5])
    y = tf.reduce_sum(a * b)
    return with_gradients(y, x, w, u), [{x: X, bound: size} for size in (40.0, 0.0, 300.0)]


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


def a_loop_in_a_branch() -> Any:
    """A loop over both devices that runs only if the third says so."""
    x, p = tf.placeholder(tf.float64, (4, 4)), tf.placeholder(tf.bool, ())
    w, u = matrix(0, "w", 1), matrix(1, "u", 2)
    with on(0):
        pred = tf.logical_and(p, True)

    def body(i: Any, v: Any) -> Any:
        with on(0):
            v = tf.tanh(v @ w)
        with on(1):
            return i + 1, v @ u

    def looped() -> Any:
        return tf.while_loop(lambda i, _: i < 3, body, [0, x])[1]

    with on(1):
        y = tf.reduce_sum(tf.cond(pred, looped, lambda: x * 0.1))
    return with_gradients(y, x, w, u), [{x: X, p: taken} for taken in (True, False, True)]


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


def scanned() -> Any:
    """`scan` and `map_fn`, whose lists are on one device and whose functions are on two."""
    rows = tf.placeholder(tf.float64, (None, 3))
    w, u = matrix(0, "w", 1, (3, 3)), matrix(1, "u", 2, (3, 3))

    def step(state: Any, row: Any) -> Any:
        with on(0):
            state = tf.tanh(tf.reshape(state, (1, 3)) @ w)
        with on(1):
            return tf.reshape(state @ u, (3,)) + row

    def each(row: Any) -> Any:
        with on(1):
            row = row * u[0]
        with on(0):
            return tf.reduce_sum(row * w[0])

    scanned = tf.scan(step, rows, tf.zeros((3,), tf.float64))
    mapped = tf.map_fn(each, rows)
    y = tf.reduce_sum(scanned * scanned) + tf.reduce_sum(mapped * mapped)
    values = with_gradients(y, rows, w, u)
    return [scanned, mapped, *values], [{rows: ROWS}, {rows: ROWS[:1]}]


def writes_in_rounds() -> Any:
    """Variables on both devices that the rounds read and write, each after the one before."""
    n = tf.placeholder(tf.int32, ())
    a, b = matrix(0, "a", 1), matrix(1, "b", 2)

    def body(i: Any, total: Any) -> Any:
        with tf.control_dependencies([tf.assign_add(a, tf.tanh(total))]):
            seen = a.read() * 0.5
        with tf.control_dependencies([tf.assign(b, b.read() * 0.9 + seen)]):
            return i + 1, total + tf.reduce_sum(b.read())

    total = tf.while_loop(lambda i, _: i < n, body, [0, np.float64(0.1)])[1]
    with tf.control_dependencies([total]):
        return [total, a.read() + 0.0, b.read() + 0.0], [{n: count} for count in (3, 0, 2)]


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
    halves, as_long_as_the_data_says, nested, a_branch_in_a_loop, a_loop_in_a_branch,
    a_loop_in_a_branch_in_a_loop, scanned, writes_in_rounds, handed_on,
    gradients_elsewhere, gradients_in_rounds, three_devices,
]  # fmt: skip


def ran(program: Callable[[], Any], comm: Any = None, **options: Any) -> list[Any]:
    """The values of all runs, on one device or on ranks, and the parts of loops that ran."""
    with tf.Graph().as_default():
        fetches, feeds = program()
        init = tf.initialize_all_variables()
        with (
            tf.Session(**options) if comm is None else tf.PlacedSession(comm, **options) as session
        ):
            session.run(init)
            values = [session.run(fetches, feed) for feed in feeds]
            return [values, 0 if comm is None else sum(1 for _ in parts(session))]


def parts(session: Any) -> Iterator[LoopPart]:
    for step in session._steps.values():
        yield from (node.op for node in step.part.order if isinstance(node.op, LoopPart))


ROUNDING = 1e-12
"""What is sent arrives with its elements in order, and BLAS may then sum in another one."""


def assert_same(found: Any, want: Any, rtol: float = ROUNDING) -> None:
    for run, expected in zip(found, want, strict=True):
        for a, b in zip(run, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)


# ── the same values ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_loop_over_devices_gives_what_one_device_gives(program: Any) -> None:
    want, _ = ran(program, optimize=False)
    found, _ = on_rendezvous(
        lambda comm: ran(program, comm, optimize=False), 3 if program is three_devices else 2
    )
    for values, count in found:
        assert_same(values, want)
        assert count >= 1


@pytest.mark.parametrize("program", PROGRAMS)
def test_so_it_does_after_all_passes(program: Any) -> None:
    want, _ = ran(program, optimize=False)
    size = 3 if program is three_devices else 2
    found, _ = on_rendezvous(lambda comm: ran(program, comm, optimize=True), size)
    for values, _ in found:
        assert_same(values, want, 1e-9)


@pytest.mark.parametrize("executor", ["compiled", "interpreter", "tokens"])
def test_a_gradient_built_in_a_branch_or_loop_is_that_built_outside(executor: str) -> None:
    runs, _ = ran(gradients_elsewhere, optimize=False, executor=executor)
    for (_, sometimes, twice, by_w, by_u), x in zip(runs, (X, -X), strict=True):
        np.testing.assert_allclose(sometimes, by_w if x.sum() > 0.0 else 0.0 * by_w, rtol=1e-12)
        np.testing.assert_allclose(twice, 2.0 * by_u, rtol=1e-12)


class OnDevices(RandomProgram):  # type: ignore[misc, valid-type]  # loaded from its file
    """A random program each of whose statements is on a device drawn at random, or on none.

    Some are followed by a scan, a gradient, or a loop over a list, over a variable.
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
            return tf.scan(self._step, made), last
        if kind < 0.16:
            return tf.map_fn(self._row, made), last
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

    def _row(self, row: Any) -> Any:
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


def agree(seed: int, size: int, optimize: bool = False, **options: Any) -> int:
    """Check a random program on ranks against one device; return how many loops were cut."""

    def ran_here(comm: Any = None) -> Any:
        with tf.Graph().as_default():
            program = OnDevices(seed, size, **options)
            if comm is None:
                return program.run(program.fetches, optimize=False)
            with tf.PlacedSession(comm, optimize=optimize) as session:
                session.run(program.start)
                runs = [session.run(program.fetches, program.feeds) for _ in range(2)]
                return runs[0] + runs[1], sum(1 for _ in parts(session))

    want = ran_here()
    found, _ = on_rendezvous(ran_here, size)
    rtol = 1e-9 if optimize else ROUNDING
    for values, _ in found:
        assert_same([values], [want], rtol)
    return max(count for _, count in found)


@pytest.mark.parametrize(("size", "seeds"), [(2, range(25)), (3, range(25, 40))])
def test_random_programs_on_random_devices_agree(size: int, seeds: range) -> None:
    assert sum(agree(seed, size) for seed in seeds) > len(seeds) // 4


def test_random_programs_agree_after_all_passes() -> None:
    assert sum(agree(seed, 2, optimize=True) for seed in range(50, 56)) > 2


@pytest.mark.wide
@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("options", [{}, {"optimize": True}, {"depth": 3}])
def test_many_random_programs_agree(size: int, options: dict[str, Any]) -> None:
    assert sum(agree(seed, size, **options) for seed in range(100, 200)) > 25


@pytest.mark.parametrize("transport", ["threads", "shm"])
def test_ranks_of_a_communicator_run_loops_together(transport: str) -> None:
    programs = [halves, a_loop_in_a_branch_in_a_loop, scanned]
    want = [ran(program, optimize=False)[0] for program in programs]

    def rank(comm: Any) -> Any:
        return [ran(program, comm)[0] for program in programs]

    for found in launch(rank, 2, transport=transport, timeout_s=200):
        for values, expected in zip(found, want, strict=True):
            assert_same(values, expected)
