"""How a lab went: counted as gradings come in, and equal to a plain count over all reports."""

import csv
import io
import itertools
import os
import random
from pathlib import Path
from typing import Any

import httpx
import pytest

from autograder.cli import main
from autograder.records import CheckResult, Outcome, Report
from autograder.service.database.schema import counts
from autograder.service.records.people import LEARNER
from autograder.service.records.store import Store
from autograder.service.reports.numbers import overview

QUESTIONS = ("scale", "sum")
PASS, FAIL, NOT = Outcome.CORRECT, Outcome.INCORRECT, Outcome.NOT_ATTEMPTED


def report(*found: tuple[str, Outcome]) -> Report:
    results = (CheckResult(f"c{n}", *pair, 1.0, 1.0, "No.") for n, pair in enumerate(found))
    return Report("lab", tuple(results)).with_totals()


class Course:
    """A store whose clock is set, and what was handed in: (login, time, report)."""

    def __init__(self, url: Any) -> None:
        self.now = 1e9
        self.store = Store(url, clock=lambda: self.now)
        self.staff = self.store.roster.add("staff", "instructor")
        self.history: list[tuple[str, float, Report]] = []
        self.numbers: list[int] = []

    def hand_in(self, login: str, found: Report) -> None:
        person = self.store.roster.find(login) or self.store.roster.add(login, LEARNER)
        number = self.store.submissions.add(person, "lab", f"{login} {self.now}".encode()).id
        claim = self.store.claims.claim("a", 1e9)
        assert claim and self.store.claims.finish(claim.id, "a", found)
        if login != "staff":
            self.history.append((login, self.now, found))
            self.numbers.append(number)

    def green(self, question: str) -> tuple[int, list[int]]:
        """Count the slow way: over every report of every learner, in order."""
        ever, green = 0, [0] * 10
        for learner in {login for login, *_ in self.history}:
            tries = []
            for login, _, found in self.history:
                mine = [r.outcome for r in found.results if r.question == question]
                if login == learner and set(mine) - {NOT}:
                    tries.append(set(mine) == {PASS})
            ever += bool(tries)
            if True in tries:
                green[min(9, tries.index(True))] += 1
        return ever, green

    def gaps(self) -> list[int]:
        ends, number = (300, 1800, 7200, 86400, 3 * 86400), [0] * 6
        for learner in {login for login, *_ in self.history}:
            times = [at for login, at, _ in self.history if login == learner]
            for before, after in itertools.pairwise(times):
                number[sum(after - before >= end for end in ends)] += 1
        return number


def assert_as_counted_slowly(course: Course) -> None:
    found = overview(course.store.database, "lab")
    for question in found.questions:
        assert (question.ever, question.green) == course.green(question.name)
    assert [number for _, number in found.gaps] == course.gaps()


@pytest.fixture
def course(database_url: Any) -> Any:
    made = Course(database_url)
    yield made
    made.store.close()


def drawn(course: Course, seed: int, number: int) -> None:
    rng = random.Random(seed)
    for _ in range(number):
        course.now += rng.choice((60, 300, 1800, 7200, 86_400, 3 * 86_400, 1e6))
        checks = [(question, rng.choice((PASS, FAIL, NOT))) for question in QUESTIONS * 2]
        course.hand_in(rng.choice(("ada", "bob", "cem", "staff")), report(*checks))


def test_tries_and_times_are_those_of_a_plain_count(course: Course) -> None:
    drawn(course, 1, 60 if os.environ.get("WIDE") else 36)
    assert_as_counted_slowly(course)
    assert sum(course.gaps()) > 20 and len(course.green("sum")[1]) == 10
    course.store.claims.regrade(course.numbers[0])
    claim = course.store.claims.claim("a", 1e9)
    assert claim
    everything = report(*((question, PASS) for question in QUESTIONS))
    assert course.store.claims.finish(claim.id, "a", everything)
    course.history[0] = (*course.history[0][:2], everything)
    assert_as_counted_slowly(course)


def test_a_wrong_count_is_found(course: Course) -> None:
    drawn(course, 2, 10)
    with course.store.database.write() as connection:
        one_more = counts.update().where(counts.c.kind == "green", counts.c.words == "01")
        connection.execute(one_more.values(number=counts.c.number + 1))
    with pytest.raises(AssertionError):
        assert_as_counted_slowly(course)


def test_what_everybody_or_nobody_passes_is_said(course: Course) -> None:
    easy, hard = ("easy", PASS), ("hard", FAIL)
    course.hand_in("ada", report(easy, hard, ("some", PASS)))
    alone = overview(course.store.database, "lab")
    assert [q.verdict(alone.learners) for q in alone.questions] == ["", "", ""]
    course.hand_in("bob", report(easy, hard, ("some", NOT)))
    found = overview(course.store.database, "lab").to_dict()
    verdicts = {q["name"]: q["verdict"] for q in found["questions"]}
    assert verdicts == {"easy": "everybody", "hard": "nobody", "some": ""}


def test_the_page_the_call_the_csv_and_the_command_say_the_same(
    running: Any, browser: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, books in (("ada", ("x = 2", "x = 1")), ("bob", ("x = 2",))):
        learner = running.enroll(name)
        for text in books:
            cells = f'{{"cells": [{{"cell_type": "code", "source": "{text}"}}]}}'.encode()
            running.wait(int(learner.submit("first", cells)["id"]))
    staff = running.staff
    url, headers = f"{staff.server}/api/labs/first/numbers", {"Authorization": ""}
    headers["Authorization"] = f"Bearer {staff.token}"
    found = httpx.get(url, headers=headers, timeout=30, verify=False).json()
    (question,) = found["questions"]
    assert (question["ever"], question["green"][:2], question["passed"]) == (2, [0, 1], 1)
    assert found["gaps"][0] == ["under 5 min", 1]
    assert (
        httpx.get(f"{url}?format=xml", headers=headers, timeout=30, verify=False).status_code == 422
    )
    headers["Authorization"] = f"Bearer {learner.token}"
    assert httpx.get(url, headers=headers, timeout=30, verify=False).status_code == 403
    assert main(["numbers", "first", "--server", staff.server, "--token", staff.token]) == 0
    said = capsys.readouterr().out
    (line,) = csv.DictReader(io.StringIO(said))
    assert (line["question"], line["green_2"], line["not_yet"]) == ("scale", "1", "1")
    assert "output of open check" in line.values()
    browser.log_in(staff.token)
    assert browser.get("/labs/first/numbers.csv").text == said
    page = browser.get("/labs/first/numbers").text
    assert 'aria-label="first try 0, second 1, third 0, later 0, not yet 1"' in page
    browser.log_in(learner.token)
    assert browser.get("/labs/first/numbers").status == 403
    assert browser.get("/labs/first/numbers.csv").status == 403
