"""A course server in a thread, with an honest small grader in place of the sandboxed one."""

import http.client
import importlib
import json
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from autograder.records import CheckResult, ManualAnswer, Outcome, Report, RubricItem
from autograder.service.client import Connection
from autograder.service.errors import GraderDied, GraderKilled
from autograder.service.records.store import sqlite_url
from autograder.service.running.server import Server, open_server
from autograder.service.settings import Settings
from tests.autograder.service import postgres

LABS = ("01_first", "02_second")


def notebook(*cells: str) -> bytes:
    """Return a notebook of code cells."""
    made = [{"cell_type": "code", "source": text, "metadata": {}, "outputs": []} for text in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}).encode()


def result(name: str, right: bool, *, hidden: bool = False, points: float = 2.0) -> CheckResult:
    outcome = Outcome.CORRECT if right else Outcome.INCORRECT
    output = "" if right else f"output of {name}"
    score = points if right else 0.0
    return CheckResult(
        name,
        "scale",
        outcome,
        score,
        points,
        output,
        hidden,
        title=name,
        detail=f"detail of {name}",
    )


RUBRIC = (RubricItem(1.5, "Names the unit"), RubricItem(0.5, "Says why"))


@dataclass
class FakeGrader:
    """Finds `x = 1` right, dies of its poison, waits for the gate on `wait`.

    What stands behind `manual: ` is the answer for a person.
    An answer `takes 1.5` times as long as the reference.

    While it is `out_of_order` it dies of everything, saying that.
    """

    gate: threading.Event = field(default_factory=threading.Event)
    entered: threading.Event = field(default_factory=threading.Event)
    graded: list[str] = field(default_factory=list)
    closed: bool = False
    out_of_order: str = ""
    poison: str = "die"
    right: str = "x = 1"
    points: float = 2.0  # of each check

    def grade(self, lab: str, notebook: bytes) -> Report:
        text = notebook.decode()
        self.graded.append(text)
        if "wait" in text:
            self.entered.set()
            self.gate.wait()
        if self.closed:
            raise GraderDied("the server is stopping")
        if self.out_of_order:
            raise GraderDied(self.out_of_order)
        if self.poison in text:
            raise GraderDied("the grading process ended with status -9")
        if "kill" in text:
            raise GraderKilled("the grading process ended with status -9")
        right = self.right in text
        worth = {"points": self.points}
        secret = result("secret check", right, hidden=True, **worth)
        results = (result("open check", right, **worth), secret)
        if takes := re.search(r"takes ([0-9.]+)", text):
            results = (replace(results[0], ratio=float(takes[1])), *results[1:])
        if "report" in text:
            said = json.loads(text)["cells"][0]["source"]
            results = (replace(results[0], output=said, title=said), *results[1:])
        written = "Because."
        if "manual: " in text:
            written = json.loads(text)["cells"][0]["source"].partition("manual: ")[2]
        manual = (
            (ManualAnswer("why", 2.0, RUBRIC, "" if "unwritten" in text else written),)
            if "manual" in text
            else ()
        )
        return Report(
            lab=lab, manual=manual, results=results, title="The lab", seed="42"
        ).with_totals()

    def close(self) -> None:
        self.closed = True
        self.gate.set()


@dataclass(frozen=True)
class Running:
    """A server that runs: its parts, its address, the instructor's connection."""

    server: Server
    grader: FakeGrader
    staff: Connection

    def enroll(self, name: str) -> Connection:
        return Connection(self.staff.server, self.staff.enroll(name)["token"])

    def wait(self, number: int) -> str:
        """Return the final state of a submission, once it has one."""
        waiting = threading.Event()
        while True:
            entry = self.server.course.store.submissions.get(number)
            assert entry is not None
            if entry.is_final:
                return entry.state
            waiting.wait(0.01)


@pytest.fixture(scope="session")
def bench() -> Iterator[Callable[[str], Any]]:
    """Return what imports a program of `bench`, which takes its neighbours by their names."""
    sys.path.insert(0, str(Path(__file__).parents[3] / "bench"))
    yield importlib.import_module
    del sys.path[0]


@pytest.fixture
def grader() -> FakeGrader:
    return FakeGrader()


@pytest.fixture
def labs(tmp_path: Path) -> Path:
    return labs_in(tmp_path)


def labs_in(folder: Path) -> Path:
    for name in LABS:
        lab = folder / "labs" / name
        lab.mkdir(parents=True)
        (lab / "lab.py").write_text('# %% question="scale" points="4"\ndef scale(): ...\n')
        (lab / "checks.py").write_text("")
    return folder / "labs"


@pytest.fixture
def settings(tmp_path: Path, labs: Path) -> Settings:
    return Settings(data=tmp_path / "data", labs=labs, port=0)


@pytest.fixture(scope="session")
def make_postgres() -> Iterator[Callable[..., str]]:
    """Return a way to make an empty database on a PostgreSQL that runs for these tests."""
    where = postgres.programs()
    if where is None:
        pytest.skip("PostgreSQL is not installed: sudo apt-get install postgresql")
    with postgres.running(where) as make:
        yield make


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return the URL of an empty database, once of SQLite and once of PostgreSQL."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    return request.getfixturevalue("make_postgres")()


Starter = Callable[..., AbstractContextManager[Running]]


@pytest.fixture
def start(settings: Settings) -> Starter:
    """Return a context manager that runs a server, with some settings changed."""

    def run(**changes: object) -> AbstractContextManager[Running]:
        return serving(replace(settings, **changes))  # type: ignore[arg-type]

    return run


@contextmanager
def serving(settings: Settings) -> Iterator[Running]:
    """Run a server, and stop it."""
    grader = FakeGrader()
    with open_server(settings, lambda: grader) as server:
        ready = threading.Event()
        thread = threading.Thread(target=server.run, args=(ready.set,))
        thread.start()
        try:
            assert ready.wait(30)
            token = (settings.data / "instructor.token").read_text().strip()
            yield Running(server, grader, Connection(server.url, token))
        finally:
            server.stop()
            thread.join()


@pytest.fixture
def running(start: Starter) -> Iterator[Running]:
    with start() as server:
        yield server


@pytest.fixture(scope="module")
def unmoved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One server of all tests of a file of which each is refused, and leaves it as it was."""
    folder = tmp_path_factory.mktemp("unmoved")
    with serving(Settings(data=folder / "data", labs=labs_in(folder), port=0)) as server:
        yield server


class Browser:
    """Sends requests as a browser does, with the cookie it was given; follows no redirect."""

    def __init__(self, url: str) -> None:
        self.netloc = urlsplit(url).netloc
        self.cookie = ""

    def ask(self, method: str, path: str, form: Any = None, **headers: str) -> Any:
        connection = http.client.HTTPConnection(self.netloc, timeout=30)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if self.cookie:
            sent["Cookie"] = self.cookie
        if form is not None:
            sent["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request(method, path, urlencode(form) if form else None, sent)
        answer = connection.getresponse()
        answer.text = answer.read().decode()  # type: ignore[attr-defined]
        if given := answer.getheader("Set-Cookie"):
            self.cookie = given.partition(";")[0]
        connection.close()
        return answer

    def get(self, path: str) -> Any:
        return self.ask("GET", path)

    def log_in(self, token: str, next: str = "/") -> Any:
        return self.ask("POST", "/login", {"token": token, "next": next})


@pytest.fixture
def browse() -> type[Browser]:
    return Browser


@pytest.fixture
def browser(running: Any) -> Browser:
    return Browser(running.staff.server)
