"""What the course server costs: a table of measured against goal, and their ratio.

    python bench/autograder_service.py [--notebook-kib 1024] [--seconds 60]

A course of 600 learners by 16 labs with a notebook for each; by default of 64 KiB, because 9,600 of
1 MiB are 10 GB of disk. Then 600 submissions arrive within `--seconds` from concurrent clients at a
server in a process of its own, which grades all the while (the sample lab, in the sandbox).
"""

import argparse
import contextlib
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fastapi.testclient import TestClient

from autograder.notebook import solution_notebook
from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.app import create_app
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.service.roster import LEARNER
from autograder.service.server import opened
from autograder.service.settings import Settings
from autograder.service.store import Store, sqlite_url
from autograder.source import load_lab

SAMPLES = Path(__file__).parent.parent / "tests/autograder/sample_labs"
LEARNERS, LABS, WAITING = 600, 16, 600
CLIENTS = 12
GOALS_MS = {"claim": 10.0, "page": 300.0, "median": 100.0, "p99": 1000.0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--notebook-kib", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        data = Path(folder)
        fill(data, asked.notebook_kib << 10)
        claims_and_pages(data)
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        under_load(Path(folder), asked.notebook_kib << 10, asked.seconds)


def say(what: str, measured_ms: float, goal_ms: float) -> None:
    ratio = measured_ms / goal_ms
    print(f"{what:<58}{measured_ms:>9.1f} ms{goal_ms:>8.0f} ms{ratio:>7.2f}", flush=True)


def median_ms(run: Callable[[], object], times: int) -> float:
    found = []
    for _ in range(times):
        began = time.perf_counter()
        run()
        found.append(1000 * (time.perf_counter() - began))
    return statistics.median(found)


REPORT = Report(
    "lab",
    tuple(CheckResult(f"c{i}", "q", Outcome.CORRECT, 1, 1, "said " * 40) for i in range(25)),
    manual=(ManualAnswer("why", 2.0, "Names the unit.", "Because. " * 50),),
).with_totals()


def fill(data: Path, size: int) -> None:
    """Grade all of a course but the last 600."""
    store = Store(sqlite_url(data))
    with store.database.write() as connection:  # the disk's time is not what is measured here
        connection.exec_driver_sql("PRAGMA wal_autocheckpoint = 100000")
    learners = [store.roster.add(f"learner{i:03}", LEARNER) for i in range(LEARNERS)]
    rng = random.Random(0)
    for lab in range(LABS):
        for learner in learners:
            store.ledger.add(learner, f"{lab:02}_lab", rng.randbytes(size))
        while lab < LABS - 1 and (claim := store.claims.claim("bench", 1e6)):
            store.claims.finish(claim.id, "bench", REPORT)
    store.close()


def claims_and_pages(data: Path) -> None:
    print(f"{LEARNERS} learners by {LABS} labs, {WAITING} waiting")
    with opened(Settings(data=data, labs=SAMPLES, port=0), _NoGrader) as server:
        claims = server.course.claims
        say("claim", median_ms(lambda: claims.claim("bench", 1e6), 200), GOALS_MS["claim"])
        token = (data / "instructor.token").read_text().strip()
        with TestClient(create_app(server.course), base_url="http://127.0.0.1") as client:
            client.post("/login", data={"token": token})
            for path in ("/gradebook?page=6", "/submissions?page=100", "/queue"):
                assert client.get(path).status_code == 200
                say(path, median_ms(lambda: client.get(path), 20), GOALS_MS["page"])  # noqa: B023


class _NoGrader:
    def grade(self, lab: str, notebook: bytes) -> Report:
        raise NotImplementedError

    def close(self) -> None:
        pass


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
    with who._asked("bench", path) as answer:
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
