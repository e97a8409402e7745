"""How a learner stands, by their own dates, for them and for staff; and the calendar."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.errors import GraderUnable
from autograder.service.records.rules import DATES, Rules
from autograder.service.reports.standing import calendar, standing
from autograder.service.times import iso
from tests.autograder.service.asking import ask

HOUR = 3600


def state(who: Connection, lab: str) -> str:
    labs = {place["lab"]: place for place in who.get("standing")["labs"]}
    return str(labs[lab]["state"])


def test_a_lab_opens_is_open_late_and_missing(running: Any) -> None:
    ada, now = running.enroll("ada"), time.time()
    for opens, due, until, expected in (
        (1, 2, 3, "opens later"),
        (-1, 2, 3, "open"),
        (-2, -1, 3, "late"),
        (-3, -2, -1, "missing"),
    ):
        dates = [iso(now + hours * HOUR) for hours in (opens, due, until)]
        rules = dict(zip(("opens", "due", "late_until"), dates, strict=True))
        assert ask(running.staff, "PUT", "/api/labs/first", rules)[0] == 200
        assert state(ada, "01_first") == expected
    assert ada.get("standing")["missing"] == 1
    due = {"due": iso(now + HOUR)}
    assert ask(running.staff, "PUT", "/api/labs/first/extensions/ada", due)[0] == 200
    assert state(ada, "01_first") == "open"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({"due": -1, "late_until": 3, "grace_minutes": 90}, "open"),
        ({"due": -3, "late_until": -1, "grace_minutes": 90}, "late"),
        ({"due": -3, "late_until": -1, "grace_minutes": 30}, "missing"),
        ({"late_until": -1}, "missing"),
        ({"late_until": 1}, "open"),
    ],
)
def test_what_can_still_be_handed_in_is_not_missing(rules: dict[str, Any], expected: str) -> None:
    now = time.time()
    dates = {n: iso(now + h * HOUR) if n in DATES else h for n, h in rules.items()}
    lab = {"name": "01_first", "attempts_left": None, **Rules.read(dates).to_dict()}
    assert [place.state for place in standing([lab], {}, now)] == [expected]


def test_what_counts_is_shown_to_the_learner_and_to_staff(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], browser: Any
) -> None:
    ada, bob = running.enroll("ada"), running.enroll("bob")
    rules = {"due": iso(time.time() - HOUR), "penalty_per_day": 0.5}
    assert ask(running.staff, "PUT", "/api/labs/first", rules)[0] == 200
    cells = b'{"cells": [{"cell_type": "code", "source": "x = 1"}]}'
    running.wait(int(ada.submit("first", cells)["id"]))
    found = ada.get("standing")
    assert (found["score"], found["max_score"], found["late_days"]) == (2.0, 4.0, 1)
    assert ask(running.staff, "GET", "/api/learners/ada/standing")[1] == found
    assert ask(bob, "GET", "/api/learners/ada/standing")[0] == 403
    assert bob.get("standing")["score"] == 0
    where = ["--server", ada.server, "--token", ada.token]
    assert main(["standing", *where]) == 0
    said = capsys.readouterr().out
    assert "01_first: handed in, 2 of 4 points" in said and "0 missing" in said
    file = tmp_path / "labs.ics"
    assert main(["standing", "--calendar", str(file), *where]) == 0
    assert "SUMMARY:01_first is due" in file.read_text()
    browser.log_in(ada.token)
    page = browser.get("/standing").text
    assert "2 of 4" in page and "1 d late" in page
    assert browser.get("/calendar.ics").getheader("Content-Type").startswith("text/calendar")


def test_a_calendar_is_folded_and_escaped() -> None:
    name = "a, b; c\\d " + "é" * 60
    lab = {
        "name": name,
        "title": name,
        "opens": None,
        "due": "2031-03-01T12:00:00+01:00",
        "late_until": None,
    }
    text = calendar([lab], "course.example", 0.0)
    lines = text.split("\r\n")
    assert all(len(line.encode()) <= 75 for line in lines)
    whole = re.sub("\r\n ", "", text)
    assert "DTSTART:20310301T110000Z" in whole and "DTSTAMP:19700101T000000Z" in whole
    assert f"SUMMARY:a\\, b\\; c\\\\d {'é' * 60} is due\r\n" in whole
    assert text.endswith("END:VEVENT\r\nEND:VCALENDAR\r\n")


def test_a_lab_whose_folder_is_gone_keeps_its_grades_and_its_pages(
    start: Any, labs: Path, browse: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    with start() as running:
        ada = running.enroll("ada")
        for lab in ("first", "second"):
            cells = [{"cell_type": "code", "source": "x = 1 # manual"}]
            running.wait(ada.submit(lab, json.dumps({"cells": cells}).encode())["id"])
    (labs / "02_second").rename(labs.parent / "away")
    with start() as running:
        ada, staff = Connection(running.staff.server, ada.token), running.staff
        now = ada.get("standing")
        assert [place["lab"] for place in now["labs"]] == ["01_first", "02_second"]
        assert now["score"] / now["max_score"] == now["total"]
        assert main(["standing", "--server", ada.server, "--token", ada.token]) == 0
        line = "02_second: handed in, 4 of 6 points, 1 answer waits for a person"
        assert line in capsys.readouterr().out
        assert [lab["name"] for lab in ada.labs()] == ["01_first"]
        browser = browse(staff.server)
        browser.log_in(staff.token)
        below = ("", "/groups", "/sample", "/comments")
        pages = ("/labs/02_second/numbers", *(f"/grading/02_second/why{path}" for path in below))
        assert {path: browser.get(path).status for path in pages} == dict.fromkeys(pages, 200)
        assert browser.ask("POST", "/grading/02_second/why?at=2", {"points": "1"}).status == 303
        assert ada.submission("2")["score"] == 5.0
        assert browser.get("/labs/03_third/numbers").status == 404
        with pytest.raises(GraderUnable, match="any more: expected 02_second"):
            running.server.course.catalog.solution("02_second")
