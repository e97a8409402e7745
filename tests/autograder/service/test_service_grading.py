"""Grading in a process of its own: what kills it, stalls it, or confuses it kills nothing else."""

import os
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.source import load_lab
from autograder.errors import SandboxError
from autograder.grading.judge import Judge, notebook_request
from autograder.grading.line_process import LineProcess
from autograder.records import Outcome, Report
from autograder.sandbox.worker_pool import Supply
from autograder.service.errors import GraderDied, GraderKilled
from autograder.service.grading.process import ProcessGrader

SAMPLES = Path(__file__).parents[1] / "sample_labs"
WALL = "bubblewrap"

# A grader that obeys its notebook: dies, stalls, talks nonsense, or reports.
OBEYS = """
import base64, json, os, sys, time
for line in sys.stdin:
    head = json.loads(line)
    order = base64.b64decode(head["notebook"]).decode()
    if order == "die":
        os.kill(os.getpid(), 9)
    if order == "stall":
        open("/proc/self/comm", "w").write("stalled")
        time.sleep(3600)
    answer = {"report": {"lab": head["lab"], "results": [], "manual": [], "notes": [order]}}
    if order == "error":
        answer = {"refused": "no checks.py", "kind": "LabError", "fatal": True}
    if order == "large":
        answer["report"]["notes"] = ["x" * 3_000_000]
    print("nonsense" if order == "nonsense" else json.dumps(answer), flush=True)
    if order == "leave":
        sys.exit()
"""


def obeying(timeout_s: float, *options: str, program: str = OBEYS) -> ProcessGrader:
    def start() -> LineProcess:
        return LineProcess([*options, "-c", program])

    return ProcessGrader(Path("labs"), start, timeout_s=timeout_s)


@pytest.fixture
def grader() -> Any:
    made = obeying(30)
    yield made
    made.close()


def judge_of(grader: ProcessGrader) -> "subprocess.Popen[bytes]":
    (judge,) = grader._pool._started
    return judge._process


@pytest.mark.parametrize("order", ["die", "nonsense", "error"])
def test_a_process_that_fails_is_reported_and_replaced(grader: ProcessGrader, order: str) -> None:
    with pytest.raises(GraderDied):
        grader.grade("lab", order.encode())
    assert grader.grade("lab", b"hello").notes == ("hello",)


def test_a_process_that_stalls_is_ended(grader: ProcessGrader) -> None:
    impatient = obeying(0.5)
    with pytest.raises(GraderDied, match="status -9: no answer in 0 s"):
        impatient.grade("lab", b"stall")
    impatient.close()


def kill_while_it_grades(grader: ProcessGrader, number: int) -> GraderDied:
    caught: list[GraderDied] = []

    def grade() -> None:
        try:
            grader.grade("lab", b"stall")
        except GraderDied as death:
            caught.append(death)

    assert grader.grade("lab", b"hello")
    thread = threading.Thread(target=grade)
    thread.start()
    pid = judge_of(grader).pid
    while Path(f"/proc/{pid}/comm").read_text().strip() != "stalled":
        time.sleep(0.005)  # killed before it is asked, it would only be replaced
    os.kill(pid, number)
    thread.join()
    return caught[0]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_somebody_kills_is_told_from_one_that_dies(
    grader: ProcessGrader, number: int
) -> None:
    assert isinstance(kill_while_it_grades(grader, number), GraderKilled)
    assert grader.grade("lab", b"hello").notes == ("hello",)
    assert not isinstance(kill_while_it_grades(grader, signal.SIGABRT), GraderKilled)


@pytest.mark.sandbox
@pytest.mark.parametrize(
    "end", ["os.kill(os.getpid(), 9)", "os.killpg(0, 15)", "os._exit(3)", "os.abort()"]
)
def test_a_check_that_ends_its_judge_is_no_kill_from_outside(lab_copy: Any, end: str) -> None:
    """A lab whose check does so is out of order, whichever way it takes."""
    text = "    close(got, 2.5 * x"
    directory = lab_copy(checks=[(text, f"    import os\n    {end}\n{text}")])
    lab = load_lab(directory)
    grader = ProcessGrader.behind(WALL, directory.parent, timeout_s=60)
    with pytest.raises(GraderDied) as death:
        grader.grade(directory.name, solution_notebook(lab).encode())
    assert not isinstance(death.value, GraderKilled)
    grader.close()


def test_a_judge_that_does_not_read_is_ended_at_its_time() -> None:
    grader = obeying(0.5, program="import time; time.sleep(3600)")
    with pytest.raises(GraderDied):
        grader.grade("lab", b"x" * (1 << 20))  # more than a pipe holds
    grader.close()


class OneWorker(Supply):
    """A sandbox that can be put up once."""

    started = 0

    def _start(self, *args: Any) -> Any:
        self.started += 1
        if self.started > 1:
            raise SandboxError("sandbox: no more processes")
        return super()._start(*args)


@pytest.mark.sandbox
def test_a_sandbox_that_fails_in_the_middle_is_no_wrong_answer(lab_copy: Any) -> None:
    """A check that asks for a second one swallows the error; the solution would lose points."""
    text = "    close(got, 2.5 * x"
    asks = f"    student.apart().__enter__()\n{text}"
    directory = lab_copy(checks=[(text, asks)])
    source = OneWorker(wall="bubblewrap", warm=False)
    notebook = solution_notebook(load_lab(directory)).encode()
    answer = Judge(source=source).answer(notebook_request(directory, notebook))
    assert answer["kind"] == "SandboxError"
    assert answer["refused"] == "sandbox: no more processes"


def test_a_process_that_left_is_replaced(grader: ProcessGrader) -> None:
    grader.grade("lab", b"leave")
    judge_of(grader).wait()
    assert grader.grade("lab", b"hello").notes == ("hello",)


def test_large_notebooks_and_reports_pass(grader: ProcessGrader) -> None:
    assert len(grader.grade("lab", b"y" * 5_000_000).notes[0]) == 5_000_000
    assert len(grader.grade("lab", b"large").notes[0]) == 3_000_000


@pytest.mark.parametrize("repeat", range(12))
def test_closing_ends_what_is_under_way(repeat: int) -> None:
    """A pipe closed under the reader would leave it waiting, one time in twenty or so."""
    grader = obeying(3600, "-S")
    caught: list[GraderDied] = []

    def grade() -> None:
        try:
            grader.grade("lab", b"stall")
        except GraderDied as death:
            caught.append(death)

    grader.grade("lab", b"hello")
    thread = threading.Thread(target=grade)
    thread.start()
    grader.close()
    thread.join()
    assert caught
    with pytest.raises(GraderDied, match="stopping"):
        grader.grade("lab", b"hello")


@pytest.mark.sandbox
def test_the_real_process_grades_and_ends_with_its_input() -> None:
    lab = load_lab(SAMPLES / "scale_and_sum")
    grader = ProcessGrader.behind(WALL, SAMPLES, timeout_s=120)
    report = grader.grade(lab.name, solution_notebook(lab).encode())
    assert (report.score, report.max_score, report.sandbox) == (8.0, 8.0, "bubblewrap")
    report = grader.grade(lab.name, learner_notebook(lab).encode())
    assert {r.outcome for r in report.results} == {Outcome.NOT_ATTEMPTED}
    assert isinstance(grader.grade(lab.name, b"not json"), Report)
    with pytest.raises(GraderDied, match="UnknownLab"):
        grader.grade("no_such_lab", b"{}")
    grader.grade(lab.name, b"{}")
    process = judge_of(grader)
    assert process.stdin
    process.stdin.close()
    assert process.wait(30) == 0
    grader.close()


@pytest.mark.sandbox
def test_a_real_process_that_is_killed_is_replaced() -> None:
    lab = load_lab(SAMPLES / "scale_and_sum")
    grader = ProcessGrader.behind(WALL, SAMPLES, timeout_s=120)
    grader.grade(lab.name, learner_notebook(lab).encode())
    os.kill(judge_of(grader).pid, signal.SIGKILL)
    report = None
    while report is None:
        try:
            report = grader.grade(lab.name, solution_notebook(lab).encode())
        except GraderDied:
            continue  # the death had not been noticed yet
    assert report.score == 8.0
    grader.close()
