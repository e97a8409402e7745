"""Every page and list of a large course: its p95 as a share of the goal, 300 ms.

    python bench/autograder_size.py URL [URL ...] [--only gradebook] [--costs] [--exports csv]

asks four servers behind nginx over each course that `autograder_course.py` filled, as staff and as
learners, one request after the other: each time another page, learner or lab, so that
nothing is warm by itself. Where one machine has the database, servers and this client, they share
its cores.
"""

import argparse
import contextlib
import http.client
import itertools
import math
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import sqlalchemy as sa
from autograder_course import (
    LABS,
    MARKED_LABS,
    TIMED_LABS,
    VARIANTS,
    lab_name,
    login,
    report_of,
    token,
)
from autograder_fleet import Fleet, fleet

from autograder.service.records.store import Store
from autograder.service.reports.exports import FORMATS

SAMPLES = Path(__file__).parent.parent / "tests/autograder/sample_labs"
GOAL_S = 0.3
TIMES = 40
SERVERS = 4


class Course:
    """Draws what is asked for next."""

    def __init__(self, url: str, rng: random.Random) -> None:
        self.url, self.rng, self.site = url, rng, ""
        self.submissions = _number(url, "SELECT max(submission_id) FROM gradings")
        self.learners = _number(url, "SELECT count(*) FROM people WHERE role = 'learner'")

    def lab(self, most: int = LABS) -> str:
        return lab_name(self.rng.randrange(most))

    def learner(self) -> str:
        return login(self.rng.randint(1, self.learners))

    def number(self, most: int | None = None) -> int:
        return self.rng.randint(1, most or self.submissions)


def _number(url: str, query: str) -> int:
    engine = sa.create_engine(url.replace("postgresql:", "postgresql+psycopg:"))
    with engine.connect() as connection:
        return connection.scalar(sa.text(query)) or 1


Path_ = Callable[[Course], str]

# What staff look at; {N} is a submission, {L} a lab, {U} a learner.
STAFF: dict[str, Path_] = {
    "/today": lambda c: "/today",
    "/gradebook": lambda c: "/gradebook",
    "/gradebook, any page": lambda c: f"/gradebook?page={c.number(max(1, c.learners // 50))}",
    "/gradebook by name": lambda c: (
        f"/gradebook?sort=-name&page={c.number(max(1, c.learners // 50))}"
    ),
    "/gradebook by total": lambda c: "/gradebook?sort=-total",
    "/gradebook by course total": lambda c: "/gradebook?sort=-course",
    "/gradebook by a lab": lambda c: f"/gradebook?sort=-{c.lab()}",
    "/gradebook, one section": lambda c: "/gradebook?section=Section+000&sort=total",
    "/gradebook, found": lambda c: f"/gradebook?search={c.learner()[-5:]}",
    "/gradebook, one lab": lambda c: f"/gradebook?lab={c.lab()}&sort=-total",
    "/submissions": lambda c: "/submissions",
    "/submissions, further": lambda c: f"/submissions?before={c.number()}",
    "/submissions, an old link": lambda c: f"/submissions?page={c.number(c.submissions // 50)}",
    "/submissions/N": lambda c: f"/submissions/{c.number()}",
    "/submissions/N/report": lambda c: f"/submissions/{c.number()}/report",
    "/learners/LOGIN": lambda c: f"/learners/{c.learner()}",
    "/queue": lambda c: "/queue",
    "/grading": lambda c: "/grading",
    "/grading/LAB/QUESTION": lambda c: f"/grading/{lab_name(MARKED_LABS)}/why",
    "/grading/LAB/QUESTION, any": lambda c: f"/grading/{c.lab()}/why?at={c.number()}",
    "/labs": lambda c: "/labs",
    "/labs/LAB/numbers": lambda c: f"/labs/{c.lab()}/numbers",
    "/labs/LAB/leaderboard": lambda c: f"/labs/{c.lab(TIMED_LABS)}/leaderboard",
    "/regrades/BATCH": lambda c: f"/regrades/{c.number(2)}",
    "/schedule": lambda c: "/schedule",
    "/people": lambda c: "/people",
    "/people, further": lambda c: f"/people?after={c.learner()}",
    "/people, found": lambda c: f"/people?search={c.learner()[-5:]}",
    "/requests": lambda c: "/requests",
    "/requests, one lab": lambda c: "/requests?lab=03_lab&answered=1",
    "/audit": lambda c: "/audit",
    "/audit, further": lambda c: f"/audit?before={c.number(c.submissions // 3)}",
    "/audit, an old link": lambda c: f"/audit?page={c.number(c.submissions // 300)}",
    "/sessions": lambda c: "/sessions",
    "/metrics": lambda c: "/metrics",
    "/healthz": lambda c: "/healthz",
}
LEARNER: dict[str, Path_] = {
    "/submissions": lambda c: "/submissions",
    "/labs": lambda c: "/labs",
    "/standing": lambda c: "/standing",
    "/calendar.ics": lambda c: "/calendar.ics",
    "/sessions": lambda c: "/sessions",
    "/labs/LAB/leaderboard": lambda c: f"/labs/{c.lab(TIMED_LABS)}/leaderboard",
}
STAFF_API: dict[str, Path_] = {
    "/api/today": lambda c: "/api/today",
    "/api/gradebook": lambda c: f"/api/gradebook?page={c.number(max(1, c.learners // 50))}",
    "/api/gradebook by total": lambda c: "/api/gradebook?sort=-total",
    "/api/submissions": lambda c: f"/api/submissions?limit=50&before={c.number()}",
    "/api/submissions/N": lambda c: f"/api/submissions/{c.number()}",
    "/api/queue": lambda c: "/api/queue",
    "/api/people": lambda c: f"/api/people?after={c.learner()}",
    "/api/audit": lambda c: "/api/audit",
    "/api/requests": lambda c: "/api/requests",
    "/api/regrades": lambda c: "/api/regrades",
    "/api/labs/LAB/leaderboard": lambda c: f"/api/labs/{c.lab(TIMED_LABS)}/leaderboard",
    "/api/learners/LOGIN/standing": lambda c: f"/api/learners/{c.learner()}/standing",
    "/api/schedule": lambda c: "/api/schedule",
}
LEARNER_API: dict[str, Path_] = {
    "/api/labs": lambda c: "/api/labs",
    "/api/standing": lambda c: "/api/standing",
    "/api/calendar": lambda c: "/api/calendar",
    "/api/labs/LAB/leaderboard": lambda c: f"/api/labs/{c.lab(TIMED_LABS)}/leaderboard",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("urls", nargs="+", help="of databases that autograder_course.py filled")
    parser.add_argument("--only", default="", help="what has this in its name")
    parser.add_argument("--times", type=int, default=TIMES)
    parser.add_argument("--exports", nargs="+", choices=FORMATS, default=[], help="and no pages")
    parser.add_argument("--costs", action="store_true", help="of a submission, and nothing else")
    asked = parser.parse_args()
    courses = [Course(url, random.Random(1)) for url in asked.urls]
    if asked.costs:
        costs(courses, asked.times)
        return
    with contextlib.ExitStack() as stack:
        fleets = [stack.enter_context(serving(course)) for course in courses]
        if asked.exports:
            for running, kind in itertools.product(fleets, asked.exports):
                export(running.processes[0].pid, running.ports[0], kind)
            return
        for course, running in zip(courses, fleets, strict=True):
            course.site = running.addresses[0]
        walk(courses, asked.only, asked.times)


@contextlib.contextmanager
def serving(course: "Course") -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        for number in range(LABS):
            shutil.copytree(SAMPLES / "scale_and_sum", folder / "labs" / lab_name(number))
        where = (folder, course.url, token("instructor"), folder / "labs")
        with fleet(*where, servers=SERVERS, nginx=True) as running:
            yield running


def walk(courses: list["Course"], only: str, times: int) -> None:
    """Print a table: each page's p95 in every course, and its median in the last; in turns."""
    heads = [f"p95, {course.learners:,}" for course in courses]
    print(f"| page | {' | '.join(heads)} | median, {courses[-1].learners:,} |")
    print("|---" * (len(courses) + 2) + "|")
    over = 0
    kinds = (("staff", STAFF, STAFF_API), ("learner", LEARNER, LEARNER_API))
    for who, pages, calls in kinds:
        for name, path in {**pages, **calls}.items():
            if only not in name:
                continue
            for course, _ in itertools.product(courses, range(SERVERS)):
                timed(course, who, path)  # each server has its templates made now
            turns = [[timed(course, who, path) for course in courses] for _ in range(times)]
            shares = [sorted(took / GOAL_S for took in turn) for turn in zip(*turns, strict=True)]
            p95 = [own[math.ceil(0.95 * times) - 1] for own in shares]
            over += p95[-1] > 1
            row = " | ".join(f"{share:.2f}" for share in p95)
            print(f"| {who} {name} | {row} | {shares[-1][times // 2]:.2f} |", flush=True)
    print(f"\n{over} miss the goal in the last course")


def costs(courses: list["Course"], times: int) -> None:
    """Print what handing in and grading take, in turns, as ratios to the first course's."""
    steps: list[dict[str, list[float]]] = [{} for _ in courses]
    stores = [Store(course.url) for course in courses]
    for number in range(times):
        for course, store, took in zip(courses, stores, steps, strict=True):
            person = store.roster.find(course.learner())
            assert person
            book, lab = f"{time.time()} {number}".encode(), course.lab()
            add = partial(store.submissions.add, person, lab, book, retry_key=f"{book!r}")
            claim = partial(store.claims.claim, "bench", 60.0)
            _clocked(took, "handing in", add)
            mine = _clocked(took, "claiming", claim)
            report = report_of(number % VARIANTS)
            _clocked(took, "finishing", partial(store.claims.finish, mine.id, "bench", report))
    print(f"| a submission | {' | '.join(f'{course.learners:,}' for course in courses)} |")
    print("|---" * (len(courses) + 1) + "|")
    for name in steps[0]:
        medians = [statistics.median(took[name]) for took in steps]
        row = " | ".join(f"{median / medians[0]:.2f}" for median in medians)
        print(f"| {name} | {row} |")


def _clocked(took: dict[str, list[float]], name: str, run: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    found = run()
    took.setdefault(name, []).append(time.perf_counter() - began)
    return found


def export(pid: int, port: int, kind: str) -> None:
    """Read an export of one server; print what its memory grew by, and its pace."""
    before_kib, began, received = memory_kib(pid), time.perf_counter(), 0
    connection = http.client.HTTPConnection("127.0.0.1", port)
    headers = {"Authorization": f"Bearer {token('instructor')}"}
    connection.request("GET", f"/api/export?format={kind}", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    first_s, most_kib = 0.0, before_kib
    while piece := answer.read1(1 << 20):
        first_s = first_s or time.perf_counter() - began
        received += len(piece)
        most_kib = max(most_kib, memory_kib(pid))
    connection.close()
    share = (most_kib - before_kib) / before_kib
    print(
        f"export {kind}: {received >> 20} MiB, its first piece after {first_s / GOAL_S:.2f} of the "
        f"goal for a page; the server's memory grew by {share:.0%}, by "
        f"{(most_kib - before_kib) * 1024 / received:.2f} bytes for each that was sent"
    )


def memory_kib(pid: int) -> int:
    """Return what a process has in memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


_COOKIES: dict[tuple[str, str], str] = {}


def timed(course: Course, who: str, path: Path_) -> float:
    """Return how long an answer took, to its last byte."""
    site = course.site
    asked = path(course)
    known = min(20, course.learners)  # who log in: enough that none is warm by itself
    whose = "instructor" if who == "staff" else login(course.rng.randint(1, known))
    if asked.startswith("/api/"):
        headers = {"Authorization": f"Bearer {token(whose)}"}
    else:
        if (site, whose) not in _COOKIES:
            _COOKIES[site, whose] = cookie(site, token(whose))
        headers = {"Cookie": _COOKIES[site, whose]}
    began = time.perf_counter()
    connection = http.client.HTTPConnection(urlsplit(site).netloc)
    connection.request("GET", asked, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    took = time.perf_counter() - began
    connection.close()
    assert answer.status == 200, (asked, answer.status, body[:300])
    return took


def cookie(site: str, secret: str) -> str:
    connection = http.client.HTTPConnection(urlsplit(site).netloc)
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/login", urlencode({"token": secret}), kind)
    found = connection.getresponse().getheader("Set-Cookie", "").partition(";")[0]
    connection.close()
    return found


if __name__ == "__main__":
    main()
