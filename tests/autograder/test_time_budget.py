"""The wall time of a submission is dealt out so that an answer that hangs costs itself."""

from collections.abc import Callable

import pytest

from autograder.checks import Check
from autograder.grading.time_budget import Task, deal_time
from autograder.records import Question


def task(question: str, timeout_s: float | None = None, *, hidden: bool = False) -> Task:
    check = Check(lambda student, rng: None, question, 1.0, hidden, timeout_s)
    return Task(check, Question(question, 1.0, (question,)), 1.0)


def deal(tasks: list[Task], wall_s: float, call_s: float, uses: Callable[[str, float], float]):
    """Return (question, allowed) in the order of turns; `uses` says how long each takes."""
    now = [0.0]
    found = []
    for turn, allowed in deal_time(tasks, wall_s, call_s, lambda: now[0]):
        found.append((turn.question.name, allowed))
        now[0] += uses(turn.question.name, max(allowed, 0.0))
    return found, now[0]


def hangs(*names: str) -> Callable[[str, float], float]:
    return lambda name, allowed: allowed if name in names else 0.01


def test_quick_checks_run_in_order_with_the_limit_of_a_call() -> None:
    tasks = [task(name) for name in "aabbc"]
    found, _ = deal(tasks, 60.0, 5.0, hangs())
    assert found == [(name, 5.0) for name in "aabbc"]


@pytest.mark.parametrize("hanging", ["a", "b", "c", "ab", "abc"])
def test_who_hangs_leaves_time_to_the_others(hanging: str) -> None:
    tasks = [task(name) for name in "aaaabbbbcccc"]
    found, took = deal(tasks, 10.0, 10.0, hangs(*hanging))
    assert len(found) == len(tasks)
    assert took <= 10.0
    honest = [allowed for name, allowed in found if name not in hanging]
    assert all(allowed > 1.0 for allowed in honest)


def test_the_other_checks_of_a_slow_question_come_last() -> None:
    found, _ = deal([task(name) for name in "aabb"], 10.0, 10.0, hangs("a"))
    assert [name for name, _ in found] == ["a", "b", "b", "a"]


def test_a_check_with_a_limit_of_its_own_has_it() -> None:
    found, _ = deal([task("a", 20.0), task("b")], 60.0, 5.0, hangs())
    assert [allowed for _, allowed in found] == [20.0, 5.0]


def test_when_time_is_up_nothing_is_allowed() -> None:
    found, _ = deal([task("a"), task("b")], -1.0, 5.0, hangs())
    assert all(allowed <= 0 for _, allowed in found)


def test_hidden_checks_come_last_even_behind_those_of_a_slow_question() -> None:
    tasks = [task("a", hidden=True), task("a"), task("a"), task("b", hidden=True), task("b")]
    order = [
        turn.check.hidden
        for turn, _ in deal_time(tasks, 60.0, 5.0, iter(range(0, 900, 9)).__next__)
    ]
    assert order == [False, False, False, True, True]
    found, took = deal(tasks, 10.0, 10.0, hangs("a"))
    assert took <= 10.0
    assert all(allowed > 1.0 for name, allowed in found if name == "b")
