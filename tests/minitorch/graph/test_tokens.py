"""The token executor: lowering, tags, dead tokens; every executor gives the same values."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import minitorch.graph as tf
from minitorch.errors import GraphError, ShapeError
from minitorch.graph.executors.tokens.loop_nodes import Enter, Exit, LoopCond, NextIteration
from minitorch.graph.executors.tokens.lower import Lowered, lower
from minitorch.graph.executors.tokens.program import Program as Tables
from minitorch.graph.executors.tokens.program import TokenEvent
from minitorch.graph.executors.tokens.tagged import TokenStep
from minitorch.graph.passes.optimize import flatten

pytestmark = pytest.mark.as_built

EXECUTORS = ("compiled", "interpreter", "tokens")


# ── programs: what to fetch, and what to feed in turn ───────────────────────────────────────────

Program = tuple[Any, list[dict[Any, Any]]]


def straight() -> Program:
    x = tf.placeholder(tf.float64, (2, 3))
    w = tf.Variable(np.arange(6.0).reshape(3, 2))
    y = tf.reduce_sum(tf.tanh(tf.matmul(x, w)), 1)
    return [y, *tf.gradients(y, [x, w])], [{x: np.linspace(-1, 1, 6).reshape(2, 3)}]


def branches() -> Program:
    x, w = tf.placeholder(tf.float64, ()), tf.Variable(np.float64(3.0))

    def inner() -> Any:
        return tf.cond(x > 10.0, lambda: w * x * x, lambda: tf.exp(x * 0.1) * w)

    y = tf.cond(x > 0.0, inner, lambda: -x * 2.0) + w * x
    by = tf.gradients(y, [x, w])
    return [y, *by, *tf.gradients(by[0], [x])], [{x: v} for v in (20.0, 5.0, -4.0)]


def counting() -> Program:
    n = tf.placeholder(tf.int32, ())
    found = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), [0, 0])
    return found, [{n: count} for count in (0, 1, 25)]


def data_dependent() -> Program:
    x, w = tf.placeholder(tf.float64, ()), tf.Variable(np.float64(1.5))
    y = tf.while_loop(lambda v: v < 50.0, lambda v: v * w + 1.0, [x])
    by = tf.gradients(y * y, [x, w])
    return [y, *by, *tf.gradients(by[1], [x, w])], [{x: v} for v in (0.5, 49.0, 60.0)]


def nested_in_a_branch() -> Program:
    p, x = tf.placeholder(tf.bool, ()), tf.placeholder(tf.float64, ())

    def inner(i: Any, v: Any) -> Any:
        return tf.while_loop(lambda j, u: j < i, lambda j, u: (j + 1, u * x), [tf.constant(0), v])[
            1
        ]

    def outer() -> Any:
        return tf.while_loop(lambda i, v: i < 4, lambda i, v: (i + 1, inner(i, v)), [0, x])[1]

    y = tf.cond(p, outer, lambda: x * 5.0)
    return [y, *tf.gradients(y, [x])], [{p: True, x: 1.1}, {p: False, x: 1.1}]


def collatz() -> Program:
    n = tf.placeholder(tf.int32, ())
    found = tf.while_loop(
        lambda n, count: n > 1,
        lambda n, count: (
            tf.cond(tf.equal(tf.mod(n, 2), 0), lambda: tf.floordiv(n, 2), lambda: n * 3 + 1),
            count + 1,
        ),
        [n, 0],
    )
    return found, [{n: 27}, {n: 1}]


def constants_only() -> Program:
    """A body that looks at nothing of its round, in a branch and out of it."""
    p = tf.placeholder(tf.bool, ())

    def loop() -> Any:
        return tf.while_loop(
            lambda i, v: i < 3, lambda i, v: (i + 1, tf.constant(2.0) * 3.0), [0, 1.0]
        )[1]

    return [loop(), tf.cond(p, loop, lambda: tf.constant(-1.0))], [{p: True}, {p: False}]


def effects() -> Program:
    """Writes, reads and draws in a loop and around it; the order decides the values."""
    tf.set_random_seed(3)
    w = tf.Variable(np.float64(1.0))
    before = w * 1.0

    def body(i: Any, total: Any) -> Any:
        with tf.control_dependencies([tf.assign(w, w * 2.0 + tf.cast(i, tf.float64))]):
            now = w.read()
        return i + 1, total * 0.5 + now + tf.random_uniform((), dtype=tf.float64)

    rounds, total = tf.while_loop(lambda i, s: i < 6, body, [0, tf.constant(np.float64(0.0))])
    with tf.control_dependencies([total]):
        after = tf.assign_add(w, 1.0)
    return [before, rounds, total, after], [{}, {}]


def training() -> Program:
    x = tf.placeholder(tf.float32, (4, 3))
    w, b = tf.Variable(np.ones((3, 2), np.float32)), tf.Variable(np.zeros(2, np.float32))
    h = tf.while_loop(
        lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w) + b) @ w.T), [0, x]
    )[1]
    loss = tf.reduce_sum(h * h)
    step = tf.train.AdamOptimizer(0.1).minimize(loss)
    return [loss, step], [{x: np.linspace(-1, 1, 12).reshape(4, 3)}] * 3


PROGRAMS: list[Callable[[], Program]] = [
    straight, branches, counting, data_dependent, nested_in_a_branch, collatz, constants_only,
    effects, training,
]  # fmt: skip


def ran(fetches: Any, feeds: list[dict[Any, Any]], **options: Any) -> list[Any]:
    init = tf.initialize_all_variables()
    variables = tf.global_variables()
    with tf.Session(**options) as session:
        session.run(init)
        found = [session.run(fetches, feed) for feed in feeds]
        return [found, session.run(variables)]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a is b or (np.asarray(a).dtype == np.asarray(b).dtype and np.array_equal(a, b))


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("optimize", [False, True])
def test_executors_agree_bit_for_bit(program: Callable[[], Program], optimize: bool) -> None:
    fetches, feeds = program()
    first, *others = (ran(fetches, feeds, executor=e, optimize=optimize) for e in EXECUTORS)
    for other in others:
        assert same(first, other)


def shuffled(fetches: Any, feeds: list[dict[Any, Any]], seeds: Iterable[int]) -> Iterator[Any]:
    """As `ran` by tokens, once for each seed, planned once."""
    init, variables = tf.initialize_all_variables(), tf.global_variables()
    leaves: list[Any] = []
    flatten(fetches, leaves)
    step = TokenStep(leaves, list(feeds[0]))
    for step.shuffle in seeds:
        with tf.Session() as session:
            session.run(init)
            given = [[np.asarray(v, n.dtype) for n, v in feed.items()] for feed in feeds]
            found = [step(session.state, arrays) for arrays in given]
            yield [found, session.run(variables)]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_order_of_what_is_ready_changes_nothing(program: Callable[[], Program]) -> None:
    fetches, feeds = program()
    want = ran(fetches, feeds, executor="tokens")
    for found in shuffled(fetches, feeds, range(20)):
        assert same(want, found)


def test_shuffles_of_one_graph_with_everything_in_it_agree() -> None:
    programs = [program() for program in PROGRAMS if program is not training]
    fetches = [node for nodes, _ in programs for node in nodes]
    feed = {node: value for _, feeds in programs for node, value in feeds[0].items()}
    want = ran(fetches, [feed])
    for found in shuffled(fetches, [feed], range(200 if os.environ.get("WIDE") else 50)):
        assert same(want, found)


def test_a_race_in_a_graph_would_be_seen_by_the_shuffles() -> None:
    """The specimen: without the edges that keep effects in order, the shuffles disagree."""
    fetches, _ = effects()
    init = tf.initialize_all_variables()
    lowered = lower(fetches)
    step = TokenStep(fetches, ())
    step.program = Tables(Lowered(lowered.fetches, lowered.nodes, {}), ())
    seen = set()
    for step.shuffle in range(40):
        with tf.Session() as session:
            session.run(init)
            seen.add(tuple(map(float, step(session.state, []))))
    assert len(seen) > 1


# ── lowering ────────────────────────────────────────────────────────────────────────────────────


def test_a_loop_is_lowered_to_the_ring_of_the_paper() -> None:
    n = tf.placeholder(tf.int32, ())
    found = tf.while_loop(lambda i, s: i < n, lambda i, s: (i + 1, s + i), [0, 0])
    kinds = Counter(type(node.op).__name__ for node in lower(found).nodes)
    assert kinds["Merge"] == kinds["NextIteration"] == kinds["Exit"] == 2
    assert kinds["Switch"] == 4  # one on, one out, for each variable
    assert kinds["LoopCond"] == 1
    assert kinds["Enter"] == 2 + 1 + 1  # the variables, n, and the constant 1
    assert "While" not in kinds


def test_every_loop_variable_goes_round_through_its_own_merge() -> None:
    found = tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, s * 2.0), [0, 1.0])
    for out in lower(found).fetches:
        assert isinstance(out.op, Exit)
        merge, condition = out.inputs[0].inputs
        assert isinstance(condition.op, LoopCond)
        enter, back = merge.inputs
        assert isinstance(enter.op, Enter)
        assert isinstance(back.op, NextIteration)


# ── events ──────────────────────────────────────────────────────────────────────────────────────


def events_of(fetches: Any, feed: dict[Any, Any], **options: Any) -> list[TokenEvent]:
    found: list[TokenEvent] = []
    with tf.Session(executor="tokens", on_event=found.append, **options) as session:
        session.run(tf.initialize_all_variables())
        found.clear()
        session.run(fetches, feed)
    return found


def test_events_tell_every_token_with_frame_iteration_and_value() -> None:
    n = tf.placeholder(tf.int32, ())
    square = tf.while_loop(
        lambda i: i < n, lambda i: tf.add(i, 1, name="plus"), [tf.constant(0)], name="count"
    )
    events = events_of(square, {n: 3})
    assert [e.step for e in events] == list(range(len(events)))
    plus = [e for e in events if e.node_name == "plus"]
    assert [(e.frame, e.iteration, e.dead) for e in plus] == [
        ("count", 0, False), ("count", 1, False), ("count", 2, False), ("count", 3, True),
    ]  # fmt: skip
    assert [e.value for e in plus] == [1, 2, 3, None]
    leaving = [e for e in events if e.op_name == "Exit"]
    assert [e.dead for e in leaving] == [True, True, True, False]
    assert (leaving[-1].frame, leaving[-1].iteration, leaving[-1].value) == ("", 0, 3)
    conditions = [bool(e.value) for e in events if e.op_name == "LoopCond"]
    assert conditions == [True, True, True, False]


def test_a_frame_inside_a_frame_says_which_iteration_it_was_entered_from() -> None:
    def body(i: Any) -> Any:
        inner = tf.while_loop(lambda j: j < 2, lambda j: j + 1, [tf.constant(0)], name="inner")
        return i + inner

    events = events_of(tf.while_loop(lambda i: i < 4, body, [tf.constant(0)], name="outer"), {})
    frames = {e.frame for e in events}
    assert {"", "outer", "outer[0]/inner", "outer[1]/inner"} <= frames


def test_a_loop_in_a_branch_that_is_not_taken_runs_no_iteration() -> None:
    p = tf.placeholder(tf.bool, ())

    def loop() -> Any:
        return tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="never")

    events = events_of(tf.cond(p, loop, lambda: tf.constant(7)), {p: False})
    inside = [e for e in events if e.frame == "never"]
    assert inside
    assert all(e.dead and e.iteration == 0 for e in inside)
    assert [e.dead for e in events if e.op_name == "Exit"] == [True]


@pytest.mark.parametrize("limit", [1, 2, 5])
def test_iterations_overlap_up_to_the_limit(limit: int) -> None:
    """A counter runs ahead of a slow chain as far as it may."""

    def slow(i: Any, v: Any) -> Any:
        for _ in range(30):
            v = v + 1.0
        return i + 1, v

    y = tf.while_loop(lambda i, v: i < 12, slow, [0, 0.0], parallel_iterations=limit)[1]
    events = [e for e in events_of(y, {}) if e.op_name != "NextIteration"]
    open_now: set[int] = set()
    most = 0
    last = {e.iteration: e.step for e in events if e.frame}
    for event in events:
        if event.frame:
            open_now.add(event.iteration)
            most = max(most, len([i for i in open_now if last[i] >= event.step]))
    assert most == limit


# ── dead values, errors ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("executor", EXECUTORS)
def test_fetching_a_dead_value_names_the_node_and_its_line(executor: str) -> None:
    p = tf.placeholder(tf.bool, ())
    no, _ = tf.switch(tf.constant(3.0), p)
    doubled = tf.multiply(no, 2.0, name="doubled")
    with tf.Session(executor=executor) as session:
        assert session.run(doubled, {p: False}) == 6.0
        with pytest.raises(GraphError, match=r"'doubled' is dead.*test_tokens\.py:\d+"):
            session.run(doubled, {p: True})


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_error_in_a_round_names_the_node_and_its_line(executor: str) -> None:
    a, b = tf.placeholder(tf.float32, (None,)), tf.placeholder(tf.float32, (None,))
    y = tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, tf.add(v, b, name="total")), [0, a])[
        1
    ]
    says = r"\(2,\) and \(3,\).*node 'total' built at .*test_tokens\.py:\d+"
    with tf.Session(executor=executor) as session:
        with pytest.raises(ShapeError, match=says) as caught:
            session.run(y, {a: [1, 2], b: [1, 2, 3]})
        assert str(caught.value).count("built at") == 1
        assert session.run(y, {a: [1, 2], b: [1, 2]}).tolist() == [3.0, 6.0]


@pytest.mark.parametrize("executor", EXECUTORS)
def test_missing_feeds_and_values_are_named_by_every_executor(executor: str) -> None:
    x, w = tf.placeholder(tf.float32, (), name="pixels"), tf.Variable(1.0, name="weights")
    with tf.Session(executor=executor) as session:
        with pytest.raises(GraphError, match=r"'pixels'.*test_tokens"):
            session.run(x * 2.0)
        with pytest.raises(GraphError, match=r"'weights'.*test_tokens.*initialize"):
            session.run(w * 2.0)


def test_executors_and_options_that_do_not_exist_are_refused() -> None:
    with pytest.raises(GraphError, match="'quantum', expected one of 'compiled'"):
        tf.Session(executor="quantum")
    with pytest.raises(GraphError, match="option 'shuffle' for executor 'compiled'"):
        tf.Session(shuffle=1)


def test_the_loop_itself_cannot_be_fetched() -> None:
    tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="spin")
    keep = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [tf.constant(0)], name="turn")
    with tf.Session() as session:
        with pytest.raises(GraphError, match="it is a loop"):
            session.run("turn")
        assert session.run(keep) == 3


@pytest.mark.parametrize("executor", EXECUTORS)
def test_any_node_may_be_fed_and_a_fed_variable_is_read_as_fed(executor: str) -> None:
    x, w = tf.placeholder(tf.float32, ()), tf.Variable(1.0)
    y = x * 2.0
    with tf.control_dependencies([tf.no_op()]):
        seen = w.read() + 0.0
    looped = tf.while_loop(lambda v: v < 10.0, lambda v: v * w, [y])
    with tf.Session(executor=executor) as session:
        assert session.run([y + w, seen, looped], {y: 5.0, w: 2.0}) == [7.0, 2.0, 10.0]
