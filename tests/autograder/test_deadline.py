"""What never ends: a check, a checks.py; and the judge whose owner is gone."""

import json
import signal
import subprocess
import sys
import threading
import time

import pytest

from autograder.checks import Check, load_checks, run_check
from autograder.errors import LabError
from autograder.grading.deadline import deadline
from autograder.records import Outcome, Statement
from autograder.student.local import LocalStudent


def endless(student, rng):
    while True:
        time.sleep(0.001)


def test_a_check_that_never_ends_is_broken_and_costs_nothing() -> None:
    check = Check(endless, "scale", 1.0, False, None)
    found = run_check(check, LocalStudent(), 1, 2.0, within_s=0.05)
    assert (found.broken, found.outcome, found.score) == (True, Outcome.CORRECT, 2.0)
    assert "did not end within 0.05 s" in found.detail


def test_a_check_that_swallows_the_first_word_gets_a_second() -> None:
    def stubborn(student, rng):
        try:
            endless(student, rng)
        except TimeoutError:
            endless(student, rng)

    assert run_check(Check(stubborn, "scale", 1.0, False, None), LocalStudent(), 1, within_s=0.05)


RINGS = """
def rings():
    import signal
    signal.setitimer(signal.ITIMER_REAL, 9.0)  # little is left
    signal.raise_signal(signal.SIGALRM)
"""


def test_the_wait_for_the_learners_code_is_not_cut_short_and_does_not_count() -> None:
    student = LocalStudent()
    student.load([Statement(RINGS, ("rings",))])
    with pytest.raises(TimeoutError), deadline(60):
        assert student.call("rings") is None  # the timer's signal, in the midst of it
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 10
        signal.raise_signal(signal.SIGALRM)


def test_one_that_has_passed_before_the_body_begins_is_said_and_leaves_no_timer() -> None:
    before = signal.getsignal(signal.SIGALRM)
    for _ in range(30):
        with pytest.raises(TimeoutError, match="did not end"), deadline(1e-6):
            endless(None, None)
        assert signal.getsignal(signal.SIGALRM) is before
        assert signal.getitimer(signal.ITIMER_REAL)[1] == 0.0  # ours would go off again and again


def test_a_deadline_inside_another_gives_the_timer_back() -> None:
    with pytest.raises(TimeoutError, match=r"within 0\.1 s"), deadline(0.1):
        with deadline(5.0):
            pass
        endless(None, None)


def test_outside_the_main_thread_nothing_is_bounded() -> None:
    ended = []

    def body() -> None:
        with deadline(1e-6):
            ended.append(sum(range(1000)))

    thread = threading.Thread(target=body)
    thread.start()
    thread.join()
    assert ended == [499500]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = (", r"checks\.py:1 does not run: SyntaxError"),
        ("\nraise RuntimeError('boom')", r"checks\.py:2 does not run: RuntimeError: boom"),
        ("import sys\nsys.exit(0)", r"checks\.py:2 does not run: SystemExit: 0"),
        ("raise KeyError", r"checks\.py:1 does not run: KeyError: no message"),
    ],
)
def test_a_broken_checks_file_is_said_on_one_line(text, says, tmp_path) -> None:
    path = tmp_path / "checks.py"
    path.write_text(text)
    with pytest.raises(LabError, match=says) as caught:
        load_checks(path)
    assert "\n" not in str(caught.value)


@pytest.mark.sandbox
def test_a_judge_in_a_check_that_never_ends_goes_with_its_owner(
    lab_copy, notebook, tmp_path
) -> None:
    begun = tmp_path / "begun"
    body = f"    open({str(begun)!r}, 'w').close()\n    while True:\n        pass\n"
    lab = lab_copy(checks=[("    x = rng.normal(size=(4, 3))\n", body)])
    path = tmp_path / "a.ipynb"
    path.write_bytes(notebook([("code", "def sum_rows(x):\n    return 1")]))
    command = [sys.executable, "-m", "autograder.grading.judge", "{}"]
    judge = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert judge.stdin is not None and judge.stdout is not None
    request = {"lab": str(lab), "path": str(path), "name": "a.ipynb", "timeout_s": None}
    judge.stdin.write(json.dumps(request).encode() + b"\n")
    judge.stdin.flush()
    while not begun.exists():
        assert judge.poll() is None
        time.sleep(0.005)
    judge.stdin.close()
    assert judge.wait(60) == 1
    judge.stdout.close()


def test_an_interrupted_compiler_counts_as_late() -> None:
    with pytest.raises(TimeoutError, match="did not end"), deadline(1e-3):
        while True:
            compile("x = 1\n" * 9_000, "<cell>", "exec")


def test_an_exception_that_a_finalizer_swallows_is_raised_at_the_end() -> None:
    with pytest.raises(TimeoutError, match="did not end"), deadline(1e-3):
        try:
            while True:
                pass
        except TimeoutError:
            pass


def test_a_system_error_of_the_body_itself_passes() -> None:
    with pytest.raises(SystemError, match="its own"), deadline(60):
        raise SystemError("its own")
