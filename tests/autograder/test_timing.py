"""Timed questions: ratios by the judge's clock, with an interval; clocks are made up here."""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from autograder.checks import Feedback, not_slower
from autograder.student.local import LocalStudent
from autograder.student.timing import interval


class Clock:
    """A clock that goes on only when someone is asked."""

    def __init__(self, times: Iterator[float]) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self._times = times

    def __call__(self) -> float:
        return self.now

    def runs(self, who: str, scale: float) -> Callable[[object], None]:
        def ask(student: object) -> None:
            self.asked.append(who)
            self.now += scale * next(self._times)

        return ask


def measure(ratio: float, most: float, noise: float = 0.0) -> tuple[object, Clock]:
    rng = np.random.default_rng(0)
    clock = Clock(1.0 + noise * rng.random() for _ in itertools.count())
    found = not_slower(
        LocalStudent({}),
        most,
        answer=clock.runs("answer", ratio),
        reference=clock.runs("reference", 1.0),
        called="f(x)",
        hint="Look at the loop.",
        clock=clock,
    )
    return found, clock


def test_an_answer_that_is_too_slow_is_told_so_without_seconds() -> None:
    with pytest.raises(Feedback, match=r"f\(x\) takes 3\.0 times as long .* at most 2 times") as e:
        measure(3.0, 2.0)
    assert e.value.hint == "Look at the loop."


def test_an_answer_that_is_fast_enough_passes() -> None:
    found, _ = measure(1.5, 2.0, noise=0.1)
    assert found.low <= 1.5 <= found.high


def test_answer_and_reference_take_turns() -> None:
    _, clock = measure(1.0, 2.0)
    first = clock.asked[2::2]
    assert first == ["reference", "answer"] * 5 + ["reference"]


def test_a_close_call_is_measured_again_and_forgiven() -> None:
    _, clear = measure(1.0, 2.0, noise=0.5)
    _, close = measure(2.0, 2.0, noise=0.5)
    assert len(close.asked) == 2 + 3 * (len(clear.asked) - 2)


def test_the_interval_holds_the_median_of_the_population_95_times_in_100() -> None:
    rng = np.random.default_rng(0)
    inside = 0
    for _ in range(400):
        found = interval(list(rng.lognormal(size=33)))
        inside += found.low <= 1.0 <= found.high
    assert inside >= 370


def test_one_slow_round_changes_nothing() -> None:
    assert interval([1.0] * 10 + [100.0]).high == 1.0


@pytest.mark.sandbox
def test_a_reference_in_the_sandbox_runs_apart_from_the_learners_code() -> None:
    from autograder.records import Limits, Statement
    from autograder.sandbox.host import Sandbox

    def alone():
        return sorted(name for name in globals() if name in ("x", "y"))

    with Sandbox(Limits()) as student, contextlib.ExitStack() as stack:
        student.load([Statement("x = 1", ("x",))])
        other = stack.enter_context(student.apart())
        assert student.probe(alone) == ["x"]
        assert other.probe(alone) == []


@pytest.mark.sandbox
def test_a_core_that_cannot_be_had_is_said_in_the_report(sample_lab, notebook) -> None:
    """As where root may not place other users' processes; here there is no such core."""
    from autograder.grading.grade import LabGrader
    from autograder.grading.report import to_text
    from autograder.sandbox.host import NOT_PINNED

    def timed(student, rng):
        for _ in range(2):
            with student.pinned(4095):
                student.call("scale", 1.0, 2.0)

    grader = LabGrader(sample_lab)
    object.__setattr__(grader.tasks[0].check, "function", timed)
    report = grader.grade(notebook([("code", "def scale(x, factor):\n    return x * factor")]))
    assert report.notes == (NOT_PINNED,)
    assert "autograder doctor" in to_text(report)


SPINNER = """
import os, threading
if os.fork() == 0:
    while True: pass
threading.Thread(target=lambda: [None for _ in iter(int, 1)], daemon=True).start()
def cores():
    return [sorted(os.sched_getaffinity(int(t))) for t in os.listdir("/proc/self/task")]
def escape():
    os.sched_setaffinity(0, range(os.cpu_count()))
"""


@pytest.mark.sandbox
def test_what_is_timed_stays_on_its_core_and_stands_still_for_the_reference() -> None:
    from autograder.errors import StudentError
    from autograder.grading.slicing import statements_of
    from autograder.records import Limits
    from autograder.sandbox import watch
    from autograder.sandbox.host import Sandbox

    core = max(os.sched_getaffinity(0))
    with Sandbox(Limits()) as student:
        found = statements_of([("code", SPINNER)])
        assert not student.load([analysed.statement for analysed in found])
        free = student.call("cores")
        with student.pinned(core):
            assert set(map(tuple, student.call("cores"))) == {(core,)}
            with pytest.raises(StudentError, match="PermissionError"):
                student.call("escape")
        assert student.call("cores") == free
        root = student._worker.pid
        with student.stopped():
            _, before, _ = watch.usage(root)
            sum(range(3_000_000))  # for several ticks of the clock, which spinners would fill
            assert watch.usage(root)[1] == before
        assert student.call("cores") == free
