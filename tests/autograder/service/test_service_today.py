"""The home of staff: counted by indexes, from midnight on, and for staff alone."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.cli import main
from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.records.rules import Rules
from autograder.service.records.store import Store, sqlite_url
from autograder.service.reports.today import Deadline, Lab, Stumble, today
from autograder.service.times import iso

DAY_S = 86_400


def report(right: bool) -> Report:
    outcome = Outcome.CORRECT if right else Outcome.INCORRECT
    checks = (
        CheckResult("a", "scale", outcome, 2.0 * right, 2.0, title="it is doubled"),
        CheckResult("b", "scale", Outcome.CORRECT, 2.0, 2.0, title="it stays an array"),
    )
    return Report("lab", checks, (ManualAnswer("why", 1.0, (), "Because."),)).with_totals()


@pytest.fixture
def day(tmp_path: Path) -> Any:
    """A store whose clock is a list of one time, at noon."""
    clock = [1000 * DAY_S + DAY_S / 2]
    store = Store(sqlite_url(tmp_path), clock=lambda: clock[0])
    yield store, clock
    store.close()


def hand_in(store: Store, name: str, right: bool) -> None:
    person = store.roster.find(name) or store.roster.add(name, "learner")
    text = f"{name} {right} {store.clock()}"
    store.submissions.add(person, "lab", text.encode())
    claim = store.claims.claim("me", 600)
    assert claim and store.claims.finish(claim.id, "me", report(right))


def test_the_day_is_counted_from_midnight_and_a_learner_once_a_lab(day: Any) -> None:
    store, clock = day
    clock[0] -= DAY_S
    for n in range(9):
        hand_in(store, f"early{n}", right=False)
    clock[0] += DAY_S
    assert today(store).labs == [Lab("lab", 0, 0, 9)] and today(store).stumbles == []
    for n in range(6):
        hand_in(store, f"L{n}", right=False)
    clock[0] += 1
    for n in range(3):
        hand_in(store, f"L{n}", right=True)
    found = today(store)
    assert found.labs == [Lab("lab", 9, 6, 15)]
    assert found.stumbles == [Stumble("lab", "scale", "it is doubled", 3, 6)]
    hand_in(store, "L3", right=True)
    assert today(store).stumbles == []


def test_dates_of_a_week_are_in_order(day: Any) -> None:
    store, clock = day
    staff = store.roster.add("grace", "instructor")
    dates = [iso(clock[0] + days * DAY_S) for days in (-1, 2, 8)]
    store.dates.set_rules("b", Rules(*dates), staff)
    store.dates.set_rules("a", Rules(due=iso(clock[0] + DAY_S)), staff)
    found = [(date.lab, date.what) for date in today(store).deadlines]
    assert found == [("a", "due"), ("b", "due")]
    assert today(store).deadlines[1] == Deadline("b", "due", str(dates[1]))


def test_counting_walks_over_nothing_that_is_done(day: Any) -> None:
    store, _ = day
    for n in range(3):
        hand_in(store, f"L{n}", right=True)
    statements: list[Any] = []

    def keep(_c: Any, _cursor: Any, text: str, values: Any, *_: Any) -> None:
        statements.append((text, values))

    sa.event.listen(store.database.engine, "before_cursor_execute", keep)
    today(store)
    sa.event.remove(store.database.engine, "before_cursor_execute", keep)
    plans = ""
    with closing(sqlite3.connect(str(store.database.engine.url.database))) as connection:
        for text, values in statements:
            if text.startswith("SELECT"):
                plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", values)
                plans += " ".join(row[3] for row in plan) + "\n"
    assert "SEARCH submissions USING COVERING INDEX submissions_by_time" in plans
    assert "SEARCH counts USING" in plans
    assert "SCAN submissions" not in plans and "SCAN counts" not in plans


def test_it_is_for_staff_and_the_command_says_it(
    running: Any, browser: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ada, staff = running.enroll("Ada"), running.staff
    number = int(
        ada.submit("first", b'{"cells": [{"cell_type": "code", "source": "manual"}]}')["id"]
    )
    running.wait(number)
    course = running.server.course
    rules = Rules(due=iso(time.time() + 2 * DAY_S), requests_until=iso(time.time() + 9 * DAY_S))
    course.store.dates.set_rules("01_first", rules, course.person("instructor"))
    entry = course.store.submissions.get(number)
    asked = {"question": "why", "text": "Please look again."}
    course.store.requests.say(entry, course.person("Ada"), asked)
    assert main(["today", "--server", staff.server, "--token", staff.token]) == 0
    said = capsys.readouterr().out
    for line in ("1 learners to mark", "01_first: 1 re-grade requests wait", "01_first: due 20"):
        assert line in said
    assert "0 wait, 0 put aside" in said
    assert main(["today", "--server", staff.server, "--token", ada.token]) != 0
    browser.log_in(ada.token)
    assert browser.get("/today").status == 403
    browser.log_in(staff.token)
    assert browser.get("/").getheader("Location") == "/today"
    page = browser.get("/today").text
    assert "01_first is due" in page and "Learners whose answers wait" in page
