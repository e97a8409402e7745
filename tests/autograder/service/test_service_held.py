"""Grades that are held back: a learner finds them on no route, and all of them once released."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.web.app import routers
from tests.autograder.service.asking import ask
from tests.autograder.service.conftest import notebook

OPEN = "2131-03-01T12:00:00+01:00"
FEEDBACK = "feedback-of-a-check"
COMMENT, ANSWER = "comment-of-a-marker", "answer-to-a-request"
POINTS = "4.8125"  # of 6, whatever page or format says it
RATIO = "takes 7.25"
SECRETS = re.compile(f"{FEEDBACK}|{COMMENT}|{ANSWER}|{re.escape(POINTS)}|7[.]25")
RULES = {"requests_until": OPEN, "leaderboard": True, "due": OPEN}


def rules(running: Any, **more: Any) -> None:
    assert ask(running.staff, "PUT", "/api/labs/first", {**RULES, **more})[0] == 200


@pytest.fixture
def graded(running: Any) -> tuple[Any, Connection, int]:
    """A graded submission with feedback, a time, a mark with a comment, and an answered request."""
    rules(running)
    ada, staff = running.enroll("Ada"), running.staff
    cells = [f"{FEEDBACK} report manual", f"x = 1 {RATIO}"]
    book = {"cells": [{"cell_type": "code", "source": text} for text in cells]}
    number = int(ada.submit("first", json.dumps(book).encode())["id"])
    assert running.wait(number) == "graded"
    mark = {"why": {"points": 0.8125, "comment": COMMENT}}
    assert ask(staff, "PUT", f"/api/submissions/{number}/marks", mark)[0] == 200
    path = f"/api/submissions/{number}/requests"
    assert ask(ada, "POST", path, {"question": "why", "text": "Is it so?"})[0] == 201
    assert ask(staff, "POST", path, {"question": "why", "text": ANSWER})[0] == 201
    return running, ada, number


def paths(running: Any, number: int) -> Iterator[tuple[str, str]]:
    """Yield every method and address of the application, with Ada's things in the places."""
    api, monitors, pages = routers(running.server.course)
    values = {"lab": "01_first", "number": str(number), "login": "Ada", "question": "scale"}
    for route in (*api.routes, *monitors.routes, *pages.routes):
        path = re.sub(r"\{(\w+)[^}]*\}", lambda m: values.get(m[1], "1"), route.path)
        for method in sorted(route.methods - {"HEAD"}):
            yield method, path


# What would end the walk, or change whom or what it is about; and the walk's own upload, which is
# what the learner sent.
NOT_WALKED = {"/logout", "/submissions/{}/notebook", "/api/submissions/{}/notebook"}


def leaks(running: Any, browser: Any, who: Connection, number: int) -> dict[str, list[str]]:
    """Return what of the grade each route tells a learner, where it tells anything."""
    browser.log_in(who.token)
    left_out = {path.replace("{}", str(number)) for path in NOT_WALKED}
    found, walked = {}, 0
    for method, path in paths(running, number):
        if path in left_out or method == "DELETE":
            continue
        seen = f"{path}?seen=other" if path.endswith("/state") else path
        if path.startswith("/api/"):
            headers = {"Authorization": f"Bearer {who.token}"}
            text = httpx.request(
                method, who.server + path, headers=headers, timeout=30, verify=False
            ).text
        else:
            text = browser.ask(method, seen, {"none": "1"} if method == "POST" else None).text
        walked += 1
        if told := sorted(set(SECRETS.findall(text))):
            found[f"{method} {path}"] = told
    assert walked > 90
    return found


def test_a_learner_finds_no_grade_on_any_route_while_it_is_held_back(
    graded: Any, browser: Any
) -> None:
    running, ada, number = graded
    shown = leaks(running, browser, ada, number)
    expected = {
        *(f"GET /api/submissions/{number}", f"GET /submissions/{number}", "GET /submissions"),
        *(f"GET /submissions/{number}/report", f"GET /api/submissions/{number}/requests"),
        *("GET /api/labs/01_first/leaderboard", "GET /labs/01_first/leaderboard"),
        *("GET /standing", "GET /api/standing"),
    }
    assert set(shown) == expected  # the specimen: each of these tells it, while nothing is held
    rules(running, held=True)
    assert leaks(running, browser, ada, number) == {}
    rules(running)
    assert leaks(running, browser, ada, number) == shown


def test_held_and_released_by_the_command_and_the_page_and_written_down(
    graded: Any, browser: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    running, ada, number = graded
    rules(running, solutions=False, attempts=7)

    def said(who: Connection, *command: str) -> str:
        assert main([*command, "--server", who.server, "--token", who.token]) == 0
        return capsys.readouterr().out

    assert "held: False -> True" in said(running.staff, "schedule", "hold", "first", "--dry-run")
    assert POINTS in said(ada, "status", str(number))
    assert "1 lab changed" in said(running.staff, "schedule", "hold", "first")
    assert "graded: grades are held back" in said(ada, "status", str(number))
    assert "01_first: handed in, grades held back" in said(ada, "standing")
    assert "yes" in said(running.staff, "schedule", "show")
    assert POINTS in said(running.staff, "status", str(number))
    request = {"question": "why", "text": "And now?"}
    path = f"/api/submissions/{number}/requests"
    refused, why = ask(ada, "POST", path, request)
    assert refused == 403 and "held back" in why["detail"]
    browser.log_in(ada.token)
    text = browser.get(f"/submissions/{number}").text
    assert "Received and graded" in text and 'data-state="held back"' in text
    assert ">held back<" in browser.get("/submissions").text
    assert "graded, without what is held back" in browser.get("/standing").text
    assert browser.get(f"/submissions/{number}/report").status == 404
    assert browser.ask("POST", "/labs/01_first/held", {"held": "1"}).status == 403
    browser.log_in(running.staff.token)
    assert POINTS in browser.get(f"/submissions/{number}").text
    assert POINTS not in browser.get(f"/submissions/{number}?as=learner").text
    assert ask(running.staff, "GET", "/api/learners/Ada/standing")[1]["score"] == float(POINTS)
    assert "Release" in browser.get("/schedule").text
    assert browser.ask("POST", "/labs/01_first/held", {"sure": "1"}).status == 303
    assert POINTS in said(ada, "status", str(number))
    labs = {lab["name"]: lab for lab in ada.labs()}
    assert labs["01_first"]["attempts"] == 7 and not labs["01_first"]["held"]
    log = ask(running.staff, "GET", "/api/audit")[1]["entries"]
    done = [(line["action"], line["subject"]) for line in log if "grades " in line["action"]]
    assert done == [("grades released", "01_first"), ("grades held back", "01_first")]


def test_a_page_that_waits_shows_the_release(graded: Any, browser: Any) -> None:
    running, ada, number = graded
    rules(running, held=True)
    browser.log_in(ada.token)
    state = f"/submissions/{number}/state?seen="
    assert json.loads(browser.get(f"{state}graded").text) == {"state": "held back"}
    rules(running)
    assert json.loads(browser.get(f"{state}held+back").text) == {"state": "graded"}


def test_grades_of_a_lab_whose_folder_is_gone_can_be_released_and_decided(
    start: Any, labs: Path
) -> None:
    with start() as running:
        ada = running.enroll("ada")
        number = int(ada.submit("second", notebook("x = 1"))["id"])
        assert running.wait(number) == "graded"
        assert ask(running.staff, "PUT", "/api/labs/second/held", {"held": True})[0] == 200
    (labs / "02_second").rename(labs.parent / "gone")
    with start() as running:
        ada = Connection(running.staff.server, ada.token)
        assert ada.submission(str(number))["score"] is None
        assert ask(running.staff, "PUT", "/api/labs/second/held", {"held": False})[0] == 200
        assert ada.submission(str(number))["score"] == 4.0
        grade = {"points": 3, "max_score": 4}
        assert ask(running.staff, "PUT", "/api/labs/02_second/grades/ada", grade)[0] == 200
        assert ask(running.staff, "PUT", "/api/labs/nine/held", {"held": False})[0] == 404
        assert ada.get("standing")["score"] == 3.0
