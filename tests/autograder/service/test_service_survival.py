"""Real servers and real graders that are killed, and a lab that goes and comes back."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.service.store import existing

SAMPLES = Path(__file__).parents[1] / "sample_labs"
PROGRAM = [sys.executable, "-c", "from autograder.cli import main; raise SystemExit(main())"]

pytestmark = pytest.mark.sandbox


@contextmanager
def serving(data: Path, labs: Path = SAMPLES) -> Iterator[tuple[str, int]]:
    """Run a server; yield its address and process id; kill it."""
    command = [*PROGRAM, "serve", "--port", "0", "--data", str(data), "--labs", str(labs)]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout
        said = next(line for line in process.stdout if "Course server" in line)
        yield said.split()[-1], process.pid
    finally:
        process.kill()
        process.communicate()


def notebooks(count: int) -> list[bytes]:
    """Return solutions that differ in a comment."""
    content = json.loads(solution_notebook(load_lab(SAMPLES / "scale_and_sum")))
    found = []
    for number in range(count):
        comment = {"cell_type": "markdown", "metadata": {}, "source": f"Number {number}"}
        found.append(json.dumps({**content, "cells": [*content["cells"], comment]}).encode())
    return found


def enrolled(url: str, data: Path) -> tuple[Connection, Connection]:
    staff = Connection(url, (data / "instructor.token").read_text().strip())
    return staff, Connection(url, staff.enroll("Ada")["token"])


def judges(server: int) -> list[int]:
    """Return the grading processes of a server."""
    children = list(Path(f"/proc/{server}/task").glob("*/children"))
    found = [int(pid) for path in children for pid in said_by(path).split()]
    return [p for p in found if "grading_process" in said_by(Path(f"/proc/{p}/cmdline"))]


def said_by(path: Path) -> str:
    """Return what a file of /proc says; nothing where its process or thread is gone."""
    try:
        return path.read_text()
    except OSError:
        return ""


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def queue(staff: Connection) -> Any:
    return staff._json("queue", "/api/queue")


def drained(staff: Connection) -> Any:
    while (found := queue(staff))["waiting"] or found["grading"]:
        assert found["parked"] == []
    return found


def test_ten_kills_of_the_grader_over_one_submission_leave_it_graded(tmp_path: Path) -> None:
    with serving(tmp_path) as (url, server):
        staff, ada = enrolled(url, tmp_path)
        number = ada.submit("scale_and_sum", notebooks(1)[0])["id"]
        killed: set[int] = set()
        while len(killed) < 10 and ada.submission(str(number))["state"] != "graded":
            for judge in set(judges(server)) - killed:
                kill(judge)
                killed.add(judge)
        drained(staff)
        found = ada.submission(str(number))
    assert (found["state"], found["score"]) == ("graded", 8.0)
    assert len(killed) == 10


def test_servers_and_graders_killed_at_random_lose_nothing_and_fail_nobody(tmp_path: Path) -> None:
    """Every acknowledged submission has one row and one grade."""
    rng, waiting = random.Random(5), notebooks(12)
    acknowledged: dict[int, bytes] = {}
    with serving(tmp_path) as (url, _):
        _, ada = enrolled(url, tmp_path)
    while waiting:
        with serving(tmp_path) as (url, server):
            ada = Connection(url, ada.token)
            for _ in range(rng.randrange(1, 4)):
                for judge in judges(server):
                    kill(judge)
                if waiting:
                    try:
                        receipt = ada.submit("scale_and_sum", waiting[-1])
                    except ServerError:
                        continue
                    acknowledged[receipt["id"]] = waiting.pop()
    with serving(tmp_path) as (url, _):
        staff = Connection(url, (tmp_path / "instructor.token").read_text().strip())
        drained(staff)
    with existing(tmp_path) as store:
        entries = {entry.id: entry for entry in store.ledger.all()}
        assert entries.keys() == acknowledged.keys() and len(acknowledged) == 12
        assert {(e.state, e.score) for e in entries.values()} == {("graded", 8.0)}
        assert all(store.ledger.notebook(n) == book for n, book in acknowledged.items())


def test_a_lab_whose_checks_are_gone_waits_until_they_are_back(tmp_path: Path) -> None:
    labs, books = tmp_path / "labs", notebooks(3)
    shutil.copytree(SAMPLES, labs)
    checks = labs / "scale_and_sum" / "checks.py"
    with serving(tmp_path / "data", labs=labs) as (url, _):
        staff, ada = enrolled(url, tmp_path / "data")
        hidden = checks.rename(tmp_path / "hidden.py")
        numbers = [ada.submit("scale_and_sum", book)["id"] for book in books]
        while not (found := queue(staff))["paused"]:
            assert found["parked"] == []
        assert "checks.py" in found["reason"]
        assert found["waiting"] + found["grading"] == 3
        assert {ada.submission(str(n))["state"] for n in numbers} <= {"stored", "grading"}
        hidden.rename(checks)
        drained(staff)
        assert {ada.submission(str(n))["score"] for n in numbers} == {8.0}
        assert queue(staff)["paused"] is False
