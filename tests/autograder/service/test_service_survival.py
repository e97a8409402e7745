"""Real servers and real graders that are killed, and a lab that goes and comes back."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.service.client import Connection
from autograder.service.database.schema import gradings
from autograder.service.errors import ServerError
from autograder.service.records.store import Store, existing, sqlite_url
from autograder.service.running.start import free_port
from tests.autograder.service.forked import COMMAND, SILENT, Forked

SAMPLES = Path(__file__).parents[1] / "sample_labs"
PROGRAM = [sys.executable, "-c", COMMAND]

SUBMISSIONS, CLIENTS = (600, 12) if os.environ.get("WIDE") else (12, 3)

pytestmark = pytest.mark.sandbox


@contextmanager
def serving(
    data: Path, labs: Path = SAMPLES, options: Sequence[str] = ()
) -> Iterator[tuple[str, int]]:
    """Run a server; yield its address and process id; kill it."""
    words = ["--data", data, "--labs", labs, "--port", "0", *options]
    server = Forked(SILENT + COMMAND, "serve", *words)
    try:
        line = next(line for line in server.stdout if "Course server" in line)
        yield line.split()[-1], server.pid
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


@contextmanager
def running(command: Sequence[str]) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run what starts a server; yield the server's address and the process; kill that."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout
        said = next(line for line in process.stdout if "Course server" in line)
        yield said.split()[-1], process
    finally:
        process.kill()
        process.communicate()


# Runs the server and obeys: $1 is the sandbox, $2 how the server is started.
HIDES = """bwrap=$1; start=$2; shift 2
$start --pdeathsig KILL "$@" < /dev/null &
while read -r order; do
    case $order in hide) mount --bind /dev/null "$bwrap" ;; *) umount --lazy "$bwrap" ;; esac
    echo "$order $?"
done"""


@contextmanager
def serving_with_its_own_mounts(data: Path) -> Iterator[tuple[str, int, Callable[[str], None]]]:
    """Run a server from which, and from nothing else, the sandbox can be hidden.

    Yields its address, its process id, and a function to "hide" the sandbox or "give back".
    """
    bwrap, root = shutil.which("bwrap"), os.geteuid() == 0
    assert bwrap
    own = [] if root else ["--user", "--map-current-user", "--keep-caps"]
    start = "setpriv" if root else "setpriv --ambient-caps=-all --inh-caps=-all"
    shell = ["unshare", *own, "--mount", "sh", "-c", HIDES, "sh", bwrap, start]
    serve = [*PROGRAM, "serve", "--port", "0", "--data", str(data), "--labs", str(SAMPLES)]
    with running([*shell, *serve]) as (url, process):

        def tell(order: str) -> None:
            assert process.stdin and process.stdout
            print(order, file=process.stdin, flush=True)
            assert process.stdout.readline() == f"{order} 0\n"

        (server,) = said_by(Path(f"/proc/{process.pid}/task/{process.pid}/children")).split()
        yield url, int(server), tell


def notebooks(count: int) -> list[bytes]:
    """Return solutions that differ in a comment."""
    content = json.loads(solution_notebook(load_lab(SAMPLES / "scale_and_sum")))
    found = []
    for number in range(count):
        comment = {"cell_type": "markdown", "metadata": {}, "source": f"Number {number}"}
        found.append(json.dumps({**content, "cells": [*content["cells"], comment]}).encode())
    return found


def slowed(notebook: bytes) -> bytes:
    """Return a solution that takes its grader longer than it takes to find and to kill it."""
    assert b"    return x * factor" in notebook
    return notebook.replace(
        b"    return x * factor", b"    __import__('time').sleep(2)\\n    return x * factor"
    )


def enrolled(url: str, data: Path) -> tuple[Connection, Connection]:
    staff = Connection(url, (data / "instructor.token").read_text().strip())
    return staff, Connection(url, staff.enroll("Ada")["token"])


def judges(server: int) -> list[int]:
    """Return the grading processes of a server."""
    children = list(Path(f"/proc/{server}/task").glob("*/children"))
    found = [int(pid) for path in children for pid in said_by(path).split()]
    return [p for p in found if "grading.judge" in said_by(Path(f"/proc/{p}/cmdline"))]


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
    """Return what the server says of its queue, a moment later: who asks on and on slows it."""
    time.sleep(0.02)
    return staff._json("queue", "/api/queue")


def drained(staff: Connection) -> Any:
    while (found := queue(staff))["waiting"] or found["grading"]:
        assert found["parked"] == []
    return found


def test_ten_kills_of_the_grader_over_one_submission_leave_it_graded(tmp_path: Path) -> None:
    with serving(tmp_path) as (url, server):
        staff, ada = enrolled(url, tmp_path)
        number = ada.submit("scale_and_sum", slowed(notebooks(1)[0]))["id"]
        killed: set[int] = set()
        while len(killed) < 10 and ada.submission(str(number))["state"] != "graded":
            for judge in set(judges(server)) - killed:
                kill(judge)
                killed.add(judge)
            time.sleep(0.005)
        drained(staff)
        found = ada.submission(str(number))
    assert (found["state"], found["score"]) == ("graded", 8.0)
    assert len(killed) == 10


def test_servers_and_graders_killed_at_random_lose_nothing_and_fail_nobody(
    tmp_path: Path, database_url: Any
) -> None:
    """Every acknowledged submission has one row, and every row one grade."""
    rng, books = random.Random(5), notebooks(SUBMISSIONS)
    acknowledged: dict[int, bytes] = {}
    where = ["--port", str(free_port(0, 0))]  # the same for all servers, so that clients try again
    where += ["--database", database_url] if "postgresql" in str(database_url) else []
    up, nothing, learners = threading.Event(), threading.Event(), []

    def hand_in(learner: Connection, own: list[bytes]) -> None:
        while own:
            up.wait()
            try:
                receipt = learner.submit("scale_and_sum", own[-1])
            except ServerError:
                continue
            acknowledged[receipt["id"]] = own.pop()

    with serving(tmp_path, options=where) as (url, _):
        staff = Connection(url, (tmp_path / "instructor.token").read_text().strip())
        for number in range(CLIENTS):
            learners.append(Connection(url, staff.enroll(f"learner{number}")["token"]))
    clients = [
        threading.Thread(target=hand_in, args=(learner, books[number::CLIENTS]))
        for number, learner in enumerate(learners)
    ]
    for client in clients:
        client.start()
    killed = 0  # a grader for every twelfth: fewer than what counts against a submission
    while (stored := len(acknowledged)) < SUBMISSIONS:
        with serving(tmp_path, options=where) as (_, server):
            up.set()
            enough = min(SUBMISSIONS, stored + rng.randrange(1, SUBMISSIONS // 4 + 1))
            while (stored := len(acknowledged)) < enough:
                if 12 * stored >= SUBMISSIONS * killed and (found := judges(server)):
                    kill(found[0])
                    killed += 1
                nothing.wait(0.01)
            up.clear()
    for client in clients:
        client.join()
    with serving(tmp_path, options=where):
        drained(staff)
    with closing(Store(database_url if "--database" in where else sqlite_url(tmp_path))) as store:
        entries = {entry.id: entry for entry in store.submissions.all()}
        assert {(e.state, e.score) for e in entries.values()} == {("graded", 8.0)}
        assert len(acknowledged) == SUBMISSIONS and acknowledged.keys() <= entries.keys()
        assert all(store.submissions.notebook(n) == book for n, book in acknowledged.items())
        assert gradings_of(store) == dict.fromkeys(entries, 1)


def gradings_of(store: Store) -> dict[int, int]:
    """Return how many gradings each submission has."""
    counted = sa.select(gradings.c.submission_id, sa.func.count())
    with store.database.read() as connection:
        rows = connection.execute(counted.group_by(gradings.c.submission_id))
        return {row[0]: row[1] for row in rows}


def test_a_submission_that_ends_graders_is_tried_twice_and_others_are_graded(
    tmp_path: Path,
) -> None:
    """Staff send it again each time: it ends two graders more, and nobody else has a try."""
    rounds = 5 if os.environ.get("WIDE") else 2
    labs, died = tmp_path / "labs", tmp_path / "died"
    shutil.copytree(SAMPLES, labs)
    checks = labs / "scale_and_sum" / "checks.py"
    before = '    if student.value("predicted_size") != 3:'
    deadly = f"""    if student.value("predicted_size") == 13:
        import os
        with open({str(died)!r}, "a") as file:
            file.write("x")
        os._exit(3)
{before}"""
    checks.write_text(checks.read_text().replace(before, deadly))
    books = notebooks(1 + rounds)
    poison = books[0].replace(b"predicted_size = 3", b"predicted_size = 13")
    assert poison != books[0]
    with serving(tmp_path / "data", labs=labs) as (url, _):
        staff, ada = enrolled(url, tmp_path / "data")
        bob = Connection(url, staff.enroll("Bob")["token"])
        number, others = bob.submit("scale_and_sum", poison)["id"], []
        for round, book in enumerate(books[1:], 1):
            others.append(ada.submit("scale_and_sum", book)["id"])
            while (found := queue(staff))["waiting"] or found["grading"]:
                assert not found["paused"]
            assert [(p["id"], p["tries"]) for p in found["parked"]] == [(number, 2)]
            assert died.read_text() == "xx" * round
            if round < rounds:
                staff._json("retry", "/api/parked/retry", method="POST")
    with existing(tmp_path / "data") as store:
        assert gradings_of(store) == dict.fromkeys(others, 1)
        found = [store.submissions.get(other) for other in others]
        assert [(e.state, e.score, e.tries) for e in found if e] == [("graded", 8.0, 0)] * rounds


def test_a_sandbox_that_is_hidden_and_given_back_under_load_fails_nobody(tmp_path: Path) -> None:
    rounds = 20 if os.environ.get("WIDE") else 2
    books, numbers = iter(notebooks(6 * rounds)), []
    with serving_with_its_own_mounts(tmp_path) as (url, server, tell):
        staff, ada = enrolled(url, tmp_path)
        for _ in range(rounds):
            numbers += [ada.submit("scale_and_sum", next(books))["id"] for _ in range(3)]
            tell("hide")
            for judge in judges(server):  # it has a warm sandbox; a later one has none
                kill(judge)
            numbers += [ada.submit("scale_and_sum", next(books))["id"] for _ in range(3)]
            while not (found := queue(staff))["paused"]:
                assert found["parked"] == []
            assert "bwrap is not installed" in found["reason"]
            assert found["waiting"] + found["grading"] >= 3
            tell("give back")
            drained(staff)
            assert not queue(staff)["paused"]
    with existing(tmp_path) as store:
        entries = store.submissions.all()
        assert {(e.state, e.score, e.tries) for e in entries} == {("graded", 8.0, 0)}
        assert gradings_of(store) == dict.fromkeys(numbers, 1)


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
