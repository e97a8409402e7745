"""What the course server costs: a table of measured against goal, and their ratio.

    python bench/autograder_service.py [--notebook-kib 1024] [--learners 6000]

A course of 600 learners by 16 labs with a notebook for each; by default of 64 KiB, because 9,600 of
1 MiB are 10 GB of disk. Then 600 submissions arrive within `--seconds` from concurrent clients at a
server in a process of its own, which grades all the while (the sample lab, in the sandbox).
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlencode, urlsplit

import sqlalchemy as sa

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.client import Connection
from autograder.service.database import schema
from autograder.service.errors import GraderDied, ServerError
from autograder.service.records.people import LEARNER, add_person
from autograder.service.records.standings.standings import recount
from autograder.service.records.store import Store, sqlite_url
from autograder.service.records.submissions.claims import line_up
from autograder.service.running.server import open_server
from autograder.service.settings import Settings

SAMPLES = Path(__file__).parent.parent / "tests/autograder/sample_labs"
LEARNERS, LABS, WAITING = 600, 16, 600
CLIENTS = 12
AT_ONCE = 500  # learners whose rows are written together
GOALS_MS = {"claim": 10.0, "page": 300.0, "median": 100.0, "p99": 1000.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--notebook-kib", type=int, default=64)
    parser.add_argument("--learners", type=int, default=LEARNERS, help="of the pages' course")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", choices=("reads", "load"), help="default: both")
    asked = parser.parse_args()
    size = asked.notebook_kib << 10
    if asked.only != "load":
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            fill(Path(folder), size, asked.learners)
            claims_and_pages(Path(folder), asked.learners)
    if asked.only != "reads":
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            under_load(Path(folder), size, asked.seconds)


def say(what: str, measured_ms: float, goal_ms: float) -> None:
    ratio = measured_ms / goal_ms
    print(f"{what:<58}{measured_ms:>9.1f} ms{goal_ms:>8.0f} ms{ratio:>7.2f}", flush=True)


def say_median(what: str, goal_ms: float, run: Callable[[], object], times: int) -> None:
    """Say the median of some runs; on a machine that others use the least is nearer to the cost."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(1000 * (time.perf_counter() - began))
    say(f"{what}, median (least {min(found):.1f})", statistics.median(found), goal_ms)


REPORT = Report(
    "lab",
    tuple(CheckResult(f"c{i}", "q", Outcome.CORRECT, 1, 1, "said " * 40) for i in range(25)),
    manual=(ManualAnswer("why", 2.0, "Names the unit.", "Because. " * 50),),
).with_totals()


def fill(data: Path, size: int, learners: int = LEARNERS) -> None:
    """Store all of a course, graded but for the last lab: rows at once, counted at the end."""
    store = Store(sqlite_url(data))
    with store.database.write() as connection:
        rows = [
            {"login": f"learner{n:05}", "name": "", "role": LEARNER, "created_at": 0.0}
            for n in range(learners)
        ]
        people = [add_person(connection, row) for row in rows]
    for lab in range(LABS):
        for start in range(0, learners, AT_ONCE):
            with store.database.write() as connection:
                some = people[start : start + AT_ONCE]
                fill_lab(connection, lab, lab * learners + start + 1, some, size)
    with store.database.write() as connection:
        recount(connection)
        for start in range(0, learners, AT_ONCE):
            line_up(connection, *people[start : start + AT_ONCE])
    store.close()


def fill_lab(connection: sa.Connection, lab: int, first: int, people: list[int], size: int) -> None:
    """Store a submission of each of these people; what each row has is the same but its number."""
    done, rng, text = lab < LABS - 1, random.Random(first), json.dumps(REPORT.to_dict())
    numbers = range(first, first + len(people))
    common = {
        "lab": f"{lab:02}_lab",
        "sha256": "0" * 64,
        "size_bytes": size,
        "state": "graded" if done else "stored",
    }
    if done:
        common |= {"score": 25.0, "max_score": 27.0, "pending": 1}
    rows = [
        {
            **common,
            "id": number,
            "person_id": person,
            "submitted_at": float(number),
            "waiting_since": float(number),
            **({"grading_id": number, "finished_at": float(number)} if done else {}),
        }
        for number, person in zip(numbers, people, strict=True)
    ]
    connection.execute(schema.submissions.insert(), rows)
    books = [{"submission_id": number, "notebook": rng.randbytes(size)} for number in numbers]
    connection.execute(schema.notebooks.insert(), books)
    if done:
        scores = {"finished_at": 1.0, "score": 25.0, "max_score": 25.0}
        graded = [{"id": number, "submission_id": number, **scores} for number in numbers]
        connection.execute(schema.gradings.insert(), graded)
        reports = [{"grading_id": number, "report": text} for number in numbers]
        connection.execute(schema.reports.insert(), reports)
        answer = {"question": "why", "answer_sha256": "0" * 64}
        answers = [{"grading_id": number, **answer} for number in numbers]
        connection.execute(schema.answers.insert(), answers)


def claims_and_pages(data: Path, learners: int) -> None:
    print(f"{learners} learners by {LABS} labs, {learners} waiting", flush=True)
    for lab in range(LABS):
        shutil.copytree(SAMPLES / "scale_and_sum", data / "labs" / f"{lab:02}_lab")
    with open_server(Settings(data=data, labs=data / "labs", port=0), _NoGrader) as server:
        claims = server.course.store.claims
        say_median("claim", GOALS_MS["claim"], lambda: claims.claim("bench", 1e6), 200)
        ready = threading.Event()
        thread = threading.Thread(target=server.run, args=(ready.set,))
        thread.start()
        ready.wait()
        cookie = logged_in(server.url, (data / "instructor.token").read_text().strip())
        pages = ["/gradebook?page=6", "/submissions?page=100", "/queue", "/grading"]
        for path in (*pages, "/grading/00_lab/why", "/labs/00_lab/numbers"):
            say_median(path, GOALS_MS["page"], partial(got, server.url, path, cookie), 20)
        server.stop()
        thread.join()


def logged_in(url: str, token: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", urlencode({"token": token}), kind)
    cookie = connection.getresponse().getheader("Set-Cookie", "").partition(";")[0]
    connection.close()
    return cookie


def got(url: str, path: str, cookie: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.request("GET", path, headers={"Cookie": cookie})
    answer = connection.getresponse()
    assert answer.status == 200
    answer.read()
    connection.close()


class _NoGrader:
    """Grades nothing, for as long as the course is open."""

    def __init__(self) -> None:
        self._closed = threading.Event()

    def grade(self, lab: str, notebook: bytes) -> Report:
        self._closed.wait()
        raise GraderDied("closed")

    def close(self) -> None:
        self._closed.set()


@contextlib.contextmanager
def serving(data: Path) -> Iterator[str]:
    command = [sys.executable, "-c", "from autograder.cli import main; raise SystemExit(main())"]
    command += ["serve", "--port", "0", "--data", str(data), "--labs", str(SAMPLES)]
    log = (data / "server.log").open("wb")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout
        line = next(line for line in process.stdout if "Course server" in line)
        found = re.search(r"http://\S+", line)
        assert found
        yield found[0]
    finally:
        process.terminate()
        process.wait()
        log.close()


def under_load(data: Path, size: int, seconds: float) -> None:
    """Six hundred submissions, evenly over the time, from clients that do not wait for others."""
    print(f"{WAITING} submissions in {seconds:g} s while grading goes on, {os.cpu_count()} cores")
    took_ms: list[float] = []
    failures: list[str] = []
    with serving(data) as url:
        staff = Connection(url, (data / "instructor.token").read_text().strip())
        learners = [
            Connection(url, staff.enroll(f"learner{i:03}")["token"]) for i in range(WAITING)
        ]
        notebooks = iter([(learner, padded(size, i)) for i, learner in enumerate(learners)])
        began, lock = time.perf_counter(), threading.Lock()

        def client() -> None:
            while True:
                with lock:
                    learner, notebook = next(notebooks, (None, b""))
                    number = WAITING - len(took_ms) - len(failures)
                if learner is None:
                    return
                due = began + seconds * (WAITING - number) / WAITING
                threading.Event().wait(max(0.0, due - time.perf_counter()))
                start = time.perf_counter()
                try:
                    learner.submit("scale_and_sum", notebook)
                except ServerError as error:
                    failures.append(str(error))
                else:
                    took_ms.append(1000 * (time.perf_counter() - start))

        threads = [threading.Thread(target=client) for _ in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spent_s = time.perf_counter() - began
        waiting = json.loads(_get(staff, "/api/queue"))
    took_ms.sort()
    say("acknowledgement, median", statistics.median(took_ms), GOALS_MS["median"])
    say("acknowledgement, p99", took_ms[int(0.99 * len(took_ms))], GOALS_MS["p99"])
    graded = WAITING - waiting["waiting"] - waiting["grading"]
    print(
        f"{len(took_ms)} acknowledged in {spent_s:.0f} s, {len(failures)} refused, {graded} graded"
    )
    for failure in sorted(set(failures)):
        print(f"  {failure}")


def _get(who: Connection, path: str) -> bytes:
    with who._send_request("bench", path) as answer:
        return answer.read()


def padded(size: int, seed: int) -> bytes:
    """Return the sample lab's solution with outputs that bring it to `size` bytes."""
    content = json.loads(solution_notebook(load_lab(SAMPLES / "scale_and_sum")))
    text = random.Random(seed).randbytes(size // 2).hex()
    output = {"output_type": "display_data", "data": {"image/png": text}, "metadata": {}}
    code = next(cell for cell in content["cells"] if cell["cell_type"] == "code")
    code["outputs"] = [output]
    return json.dumps(content).encode()


if __name__ == "__main__":
    main()
