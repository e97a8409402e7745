"""What holds in every executor: what is fed counts, and results belong to the caller."""

from collections.abc import Iterator

import numpy as np
import pytest

from minitorch.errors import GraphError
from minitorch.graph import (
    Graph,
    Session,
    Variable,
    assign_add,
    cond,
    constant,
    control_dependencies,
    exp,
    float64,
    gradients,
    identity,
    initialize_all_variables,
    placeholder,
    reduce_sum,
    reshape,
    while_loop,
)
from minitorch.graph.core.node import Node
from minitorch.graph.executors.registry import EXECUTORS

pytestmark = pytest.mark.as_built

ARGUMENTS = {"arena": {"poison": True}}


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with Graph().as_default():
        yield


@pytest.fixture(params=[(name, optimize) for name in EXECUTORS for optimize in (False, True)])
def session(request: pytest.FixtureRequest) -> Session:
    name, optimize = request.param
    return Session(executor=name, optimize=optimize, **ARGUMENTS.get(name, {}))


def looped(x: Node, rounds: int) -> tuple[Node, Node]:
    first = (constant(0), x)
    count, last = while_loop(lambda i, a: i < rounds, lambda i, a: (i + 1, a * x), first)
    return count, last


def test_a_fed_result_of_a_loop_is_taken_while_another_one_is_computed(session: Session) -> None:
    x = placeholder(float64, (2,))
    count, last = looped(x, 3)
    found = session.run([last + 1.0, count], {x: [2.0, 3.0], last: [9.0, 9.0]})
    np.testing.assert_array_equal(found[0], [10.0, 10.0])
    assert found[1] == 3


def test_a_fed_result_of_a_branch_is_taken(session: Session) -> None:
    x = placeholder(float64, ())
    chosen = cond(x > 0.0, lambda: x * 2.0, lambda: x * 3.0)
    assert session.run(chosen + 1.0, {x: 1.0, chosen: 9.0}) == 10.0


def test_a_fed_variable_is_what_was_fed_also_after_a_write(session: Session) -> None:
    v = Variable(np.ones(2))
    with session.graph.as_default(), control_dependencies([assign_add(v, v)]):
        after = v.read()
    session.run(initialize_all_variables())
    np.testing.assert_array_equal(session.run(after, {v: [5.0, 6.0]}), [5.0, 6.0])


def test_a_fed_constant_is_what_was_fed_inside_loops_too(session: Session) -> None:
    x, factor, rounds = placeholder(float64, ()), constant(2.0, float64), constant(3)

    def powers(a: Node) -> Node:
        first = (constant(0), a)
        return while_loop(lambda i, _: i < rounds, lambda i, b: (i + 1, b * factor), first)[1]

    first = (constant(0), x)
    last = while_loop(lambda i, _: i < 2, lambda i, a: (i + 1, powers(a)), first)[1]
    (slope,) = gradients(last, [x])
    assert session.run([last, slope], {x: 1.0}) == [64.0, 64.0]
    assert session.run([last, slope], {x: 1.0, factor: 5.0, rounds: 1}) == [25.0, 25.0]


def test_a_fed_constant_counts_where_shapes_are_known_in_the_run_only(session: Session) -> None:
    x, factor = placeholder(float64), constant(2.0, float64)
    first = (constant(0), constant(1.0, float64))
    power = while_loop(lambda i, _: i < 3, lambda i, a: (i + 1, a * factor), first)[1]
    total = reduce_sum(x, 0) + power
    assert session.run(total, {x: np.zeros(2), factor: 3.0}) == 27.0


def test_a_feed_that_a_loop_would_not_see_is_refused(session: Session) -> None:
    x, v = placeholder(float64, ()), Variable(1.0, dtype=float64)
    inside = []

    def body(i: Node, a: Node) -> tuple[Node, Node]:
        inside.append(a * 2.0)
        with control_dependencies([assign_add(v, 1.0)]):
            return i + 1, inside[0] + v.read()

    last = while_loop(lambda i, _: i < 2, body, (constant(0), x))[1]
    session.run(initialize_all_variables())
    for fed, why in ((inside[0], "is in a while loop"), (v, "a while loop writes it")):
        with pytest.raises(GraphError, match=f"cannot feed {fed.name!r}: .*{why}"):
            session.run(last, {x: 1.0, fed: 1.0})
    assert session.run(x, {x: 1.0, inside[0]: 1.0}) == 1.0  # the loop does not run


def test_arrays_in_another_byte_order_are_taken_for_their_numbers(session: Session) -> None:
    swapped = np.arange(3.0).astype(np.dtype(np.float64).newbyteorder())
    c, x, v = constant(swapped), placeholder(float64, (3,)), Variable(swapped)
    session.run(initialize_all_variables())
    for found in session.run([c, x, v, c + x, v * 1.0], {x: swapped}):
        assert found.dtype == np.float64
        assert found.dtype.isnative
    np.testing.assert_array_equal(session.run(c + x + v, {x: swapped}), [0.0, 3.0, 6.0])


def test_no_two_results_share_memory(session: Session) -> None:
    x = placeholder(float64, (2, 3))
    y = exp(x)
    fetches = [y, y, identity(y), identity(y), reshape(y, [6]), looped(y, 0)[1]]
    fed = np.zeros((2, 3))
    found = session.run(fetches, {x: fed})
    for i, array in enumerate(found):
        array[...] = i + 10.0
    for i, array in enumerate(found):
        np.testing.assert_array_equal(array, i + 10.0)
    np.testing.assert_array_equal(session.run(y, {x: fed}), 1.0)


def test_results_are_no_part_of_a_feed_or_of_a_variable(session: Session) -> None:
    x, v = placeholder(float64, (2, 3)), Variable(np.zeros((2, 3)))
    session.run(initialize_all_variables())
    fetches = [kind(s) for s in (x, v) for kind in (identity, lambda s: s, lambda s: s[0])]
    fetches += [looped(x, 0)[1], cond(constant(value=True), lambda: x, lambda: x)]
    fed = np.zeros((2, 3))
    for array in session.run(fetches, {x: fed}):
        array += 1.0
    assert not fed.any()
    assert not session.run(v).any()
