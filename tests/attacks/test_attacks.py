"""The corpus: each file of `answers/` attacks, and gets nothing, leaves nothing and learns nothing.

An attack that gets where it should not says so by an exception with the word ESCAPED in it. After
each, in the same batch, the honest submission has full marks; where every process is built anew,
after all of them.
"""

import contextlib
import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from autograder.authoring.source import load_lab
from autograder.grading.grade import LabGrader, solution_cells
from autograder.grading.report import to_html, to_json, to_text
from autograder.records import MIB, Limits, Report
from autograder.sandbox.host import Sandbox
from autograder.sandbox.worker_pool import Supply
from autograder.student.local import LocalStudent

HERE = Path(__file__).parent
ATTACKS = sorted((HERE / "answers").glob("*.py"))
SECRET = "judge-only-5d1f"
MARK = "attack-was-here"
SLEEPS = "98765"  # what an attack's processes are called with
PORT = 47811  # where an attack finds the judge's machine listening, if it gets there
# What the wall does itself, and not the wire: bubblewrap builds it here, and the zygote there.
COLD = (
    *("calls_the_kernel", "fills_the_disk", "forks_without_end", "kills_everything"),
    *("leaves_survivors", "makes_links_and_devices", "reads_checks", "reads_environment_and_proc"),
    *("uses_the_network", "waits_for_the_next", "wakes_what_is_stopped", "writes_results"),
)
COLD_TOO = ("exits_with_success",)  # with a worker anew for each call; the judge sees it alike
LIMITS = Limits(
    wall_s=12, cpu_s=12, call_s=1.0, memory_bytes=256 * MIB, processes=24, file_bytes=16 * MIB
)
# These are as busy as they can be until the limit of a call ends them, which may come soon.
ENDLESS = ("floods_the_network", "forks_without_end", "patches_clocks", "swallows_interrupts")
SHORT = replace(LIMITS, call_s=0.25)
# For the solution, which a slow machine must not keep from its marks.
AMPLE = replace(LIMITS, wall_s=240, cpu_s=240, call_s=120)
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\u200b\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def notebook(*cells: str) -> bytes:
    made = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": c}
        for c in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


class Batch:
    """A grader that keeps what the submissions printed."""

    def __init__(self, source: Supply) -> None:
        self.source = source
        self.students: list[Sandbox] = []
        lab = load_lab(HERE / "lab")
        self.honest = notebook(*solution_cells(lab))
        self.grader = LabGrader(lab, open_student=self.open)

    @contextlib.contextmanager
    def open(self, limits: Limits) -> Iterator[Sandbox]:
        preload = self.grader.checks.settings.loaded
        with Sandbox(limits, preload=preload, source=self.source) as student:
            self.students.append(student)
            yield student

    def grade_honest(self) -> Report:
        """Return the report on the solution."""
        self.grader.limits = AMPLE
        return self.grader.grade(self.honest)

    def grade(self, data: bytes, limits: Limits = LIMITS) -> tuple[Report, str]:
        """Return the report, and all that anyone could read of it, staff included."""
        self.students.clear()
        self.grader.limits = limits
        report = self.grader.grade(data)
        shown = [to_json(report, staff=True), to_html(report), to_text(report)]
        printed = [s.output.decode(errors="replace") for s in self.students]
        return report, "\n".join([*shown, *printed])


@pytest.fixture(scope="module")
def secret() -> Iterator[str]:
    """A secret in the environment, as the judge's may hold."""
    os.environ["JUDGE_SECRET"] = SECRET
    yield SECRET
    del os.environ["JUDGE_SECRET"]


@pytest.fixture(scope="module")
def batch(secret: str) -> Iterator[Batch]:
    source = Supply(wall="bubblewrap")
    made = Batch(source)
    assert made.grade_honest().score == 10
    yield made
    assert not source.reasons
    source.close()


@pytest.fixture(scope="module")
def cold_batch(secret: str) -> Iterator[Batch]:
    made = Batch(Supply(wall="bubblewrap", warm=False))
    yield made
    assert made.grade_honest().score == 10


@pytest.fixture
def listening() -> Iterator[None]:
    """Sockets of the judge's machine that no submission may reach."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(socket.create_server(("127.0.0.1", PORT), reuse_port=True))
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        with contextlib.suppress(OSError):  # where another run of these tests listens already
            local.bind("\0attack-target")
            local.listen()
        yield


def marked_files() -> list[Path]:
    places = ["/tmp", "/dev/shm", "/var/tmp", "/", "/run", Path.cwd(), HERE, HERE / "lab", "/usr"]
    return [found for place in places for found in Path(place).glob(f"*{MARK}*")]


def marked_processes() -> list[str]:
    found = []
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            text = cmdline.read_bytes().decode(errors="replace")
            if MARK in text or SLEEPS in text.split("\0"):
                found.append(text)
    return found


def check_is_stopped(attack: Path, batch: Batch) -> None:
    """Grade an attack: it gets nothing, and nothing of it is left."""
    idle = batch.source.pids()
    limits = SHORT if attack.stem in ENDLESS else LIMITS
    report, seen = batch.grade(notebook(attack.read_text()), limits)

    assert report.sandbox == "bubblewrap"
    assert report.score == 0
    assert report.max_score == 10
    assert not any(result.broken for result in report.results)
    assert "ESCAPED" not in seen
    assert SECRET not in seen
    assert "<script" not in to_html(report).lower()
    assert not CONTROL.search(to_text(report) + to_html(report))
    assert batch.source.pids() == idle
    assert not marked_files()
    assert not marked_processes()


@pytest.mark.sandbox
@pytest.mark.timeout(280)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda path: path.stem)
def test_an_attack_gets_nothing(attack: Path, batch: Batch, listening: None) -> None:
    check_is_stopped(attack, batch)
    again = batch.grade_honest()
    assert again.score == 10, to_text(again)


@pytest.mark.sandbox
@pytest.mark.timeout(280)
@pytest.mark.parametrize(
    "name", [*COLD, *(pytest.param(name, marks=pytest.mark.wide) for name in COLD_TOO)]
)
def test_an_attack_gets_nothing_where_no_zygote_can_be(
    name: str, cold_batch: Batch, listening: None
) -> None:
    check_is_stopped(HERE / "answers" / f"{name}.py", cold_batch)


@pytest.mark.sandbox
def test_two_of_the_same_attack_find_nothing_of_each_other(batch: Batch) -> None:
    attack = notebook((HERE / "answers" / "waits_for_the_next.py").read_text())
    for _ in range(2):
        report, seen = batch.grade(attack)
        assert "ESCAPED" not in seen
        assert report.score == 0


def test_without_the_wall_the_same_attacks_are_seen_to_escape(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The specimens: what these tests look for is there to be found when nothing is in the way."""
    monkeypatch.setenv("JUDGE_SECRET", SECRET)
    lab = load_lab(HERE / "lab")

    @contextlib.contextmanager
    def open_here(limits: Limits) -> Iterator[LocalStudent]:
        yield LocalStudent()

    grader = LabGrader(lab, open_student=open_here)
    grader.limits = LIMITS
    for name in ("reads_environment_and_proc", "walks_frames_and_gc"):
        data = notebook((HERE / "answers" / f"{name}.py").read_text())
        report = grader.grade(data)
        assert "ESCAPED" in to_json(report, staff=True) or report.score > 0, name
