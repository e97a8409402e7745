"""Grades of whole labs by staff, and the course total: by a rule, the same wherever it is shown."""

import csv
import io
import json
from typing import Any

import httpx
import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.records.grades.course_rule import CourseRule, Total
from tests.autograder.service.asking import ask

RIGHT = b'{"cells": [{"cell_type": "code", "source": "x = 1"}]}'
WRONG = b'{"cells": [{"cell_type": "code", "source": "x = 2"}]}'
OVER = {"due": "2001-01-01T00:00:00Z", "late_until": "2001-01-02T00:00:00Z"}


def row(running: Any, login: str) -> dict[str, Any]:
    rows = ask(running.staff, "GET", "/api/gradebook")[1]["rows"]
    found: dict[str, Any] = next(row for row in rows if row["login"] == login)
    return found


def totals(running: Any) -> dict[str, dict[str, str]]:
    lines = csv.DictReader(io.StringIO(running.staff.text("export", format="totals")))
    return {line["learner"]: line for line in lines}


@pytest.mark.parametrize(
    ("drop", "weights", "share", "dropped"),
    [
        (0, {}, 7 / 15, ()),
        (1, {}, 7 / 14, ("c",)),
        (2, {}, 4 / 4, ("c", "b")),
        (9, {}, 4 / 4, ("c", "b")),
        (0, {"b": 3}, (1 + 0.9 + 0) / 5, ()),
        (1, {"b": 3}, (1 + 0.9) / 4, ("c",)),
        (0, {"a": 0, "b": 0, "c": 0}, None, ()),
    ],
)
def test_a_total_is_by_points_or_weights_without_the_lowest(
    drop: int, weights: dict[str, float], share: float | None, dropped: tuple[str, ...]
) -> None:
    total = CourseRule(drop, weights).total([("a", 4, 4), ("b", 3, 10), ("c", 0, 1), ("d", 0, 0)])
    assert total == Total(pytest.approx(share), dropped)


def test_of_equals_the_one_that_counts_most_is_dropped() -> None:
    total = CourseRule(1, {"a": 1, "b": 5}).total([("a", 0, 4), ("b", 0, 4), ("c", 4, 4)])
    assert total.dropped == ("b",) and total.share == 0.5


def test_staff_set_a_lab_excuse_and_take_it_back(running: Any, browser: Any) -> None:
    ada, bob = running.enroll("ada"), running.enroll("bob")
    path = "/api/labs/first/grades"
    early = ask(running.staff, "PUT", f"{path}/ada", {"points": 3})
    assert early[0] == 422 and "say max_score" in early[1]["detail"]
    number = int(ada.submit("first", WRONG)["id"])
    running.wait(number)
    assert ask(running.staff, "PUT", f"{path}/ada", {"points": 3, "comment": "oral"})[0] == 200
    assert ask(running.staff, "PUT", f"{path}/bob", {"points": 1})[0] == 200
    for who, points in (("ada", 3.0), ("bob", 1.0)):
        lab = row(running, who)["labs"]["01_first"]
        assert (lab["score"], lab["max_score"], lab["decision"]) == (points, 4.0, "set by staff")
    assert row(running, "bob")["labs"]["01_first"]["submission"] is None
    assert row(running, "bob")["total"] == 0.25
    standing = bob.get("standing")
    assert (standing["score"], standing["total"], standing["labs"][0]["score"]) == (1, 0.25, 1)
    assert "oral" not in str(ada.get("standing"))  # it is for staff
    running.wait(int(ada.submit("first", RIGHT)["id"]))  # it holds for what comes later
    assert row(running, "ada")["labs"]["01_first"]["score"] == 3
    assert ask(running.staff, "PUT", f"{path}/ada", {"excused": True})[1]["excused"]
    assert row(running, "ada")["labs"]["01_first"]["score"] is None
    assert (
        row(running, "ada")["total"] is None
        and ada.get("standing")["labs"][0]["state"] == "excused"
    )
    canvas = running.staff.text("export", format="canvas").splitlines()
    assert canvas[2] == "ada,,,ada,,EX" and canvas[3] == "bob,,,bob,,1"
    assert ask(running.staff, "PUT", f"{path}/ada", {})[0] == 200
    assert row(running, "ada")["labs"]["01_first"]["score"] == 4
    log = ask(running.staff, "GET", "/api/audit")[1]["entries"]
    ours = [line for line in log if line["action"] == "lab grade"]
    assert [line["subject"].partition(": ")[2] for line in ours] == ["ada", "ada", "bob", "ada"]
    assert ours[0]["before"] == {"excused": True, "comment": ""} and ours[0]["after"] is None
    browser.log_in(running.staff.token)
    page = browser.get("/learners/bob").text
    assert (
        "set by staff" in page and "25.0 %" in page and "25.0 %" in browser.get("/gradebook").text
    )
    form = {"lab": "01_first", "what": "points", "points": "2", "max_score": "5", "comment": "x"}
    assert browser.ask("POST", "/learners/bob/grades", form).status == 303
    assert row(running, "bob")["total"] == 0.4
    assert browser.ask("POST", "/learners/bob/grades", {**form, "what": "none"}).status == 422
    none = {"lab": "01_first", "what": "none"}
    assert browser.ask("POST", "/learners/bob/grades", none).status == 303
    assert row(running, "bob")["labs"] == {}


@pytest.fixture(scope="module")
def graded(unmoved: Any) -> Any:
    """Return a server on which ada has 0 points."""
    ada = unmoved.enroll("ada")
    unmoved.wait(int(ada.submit("first", WRONG)["id"]))
    return unmoved


@pytest.mark.parametrize(
    "body",
    [
        *({"points": points} for points in (-1, 4.5, "3", True, float("nan"), float("inf"), [])),
        *({"points": 1, "max_score": most} for most in (0, -1, "9", float("inf"))),
        {"excused": "yes"},
        {"excused": True, "points": 1},
        {"points": 1, "comment": 7},
        {"points": 1, "comment": "x" * 2001},
        {"pionts": 1},
    ],
)
def test_a_decision_that_makes_no_sense_is_refused(graded: Any, body: Any) -> None:
    text = json.dumps(body)
    headers = {"Authorization": f"Bearer {graded.staff.token}"}
    url = f"{graded.staff.server}/api/labs/first/grades/ada"
    answer = httpx.put(url, content=text, headers=headers, timeout=30, verify=False)
    assert answer.status_code == 422 and "expected" in answer.json()["detail"]
    assert row(graded, "ada")["labs"]["01_first"]["score"] == 0


def test_only_instructors_decide_and_only_about_learners(running: Any, browser: Any) -> None:
    ada = running.enroll("ada")
    staff = {"login": "grace", "role": "assistant"}
    grace = Connection(ada.server, ask(running.staff, "POST", "/api/staff", staff)[1]["token"])
    for who in (ada, grace):
        assert ask(who, "PUT", "/api/labs/first/grades/ada", {"excused": True})[0] == 403
        assert ask(who, "PUT", "/api/rule", {"drop_lowest": 1})[0] == 403
        browser.log_in(who.token)
        assert browser.get("/rule").status == 403
        assert browser.ask("POST", "/rule", {"drop_lowest": "1"}).status == 403
        assert browser.ask("POST", "/learners/ada/grades", {"what": "excused"}).status == 403
    assert ask(running.staff, "PUT", "/api/labs/first/grades/grace", {"excused": True})[0] == 409
    assert ask(running.staff, "PUT", "/api/labs/none/grades/ada", {"excused": True})[0] == 404
    assert ask(running.staff, "PUT", "/api/labs/first/grades/nobody", {"excused": True})[0] == 404


def test_the_rule_is_set_in_words_and_counts_everywhere(
    running: Any, browser: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ada, bob = running.enroll("ada"), running.enroll("bob")
    running.wait(int(ada.submit("first", RIGHT)["id"]))
    running.wait(int(ada.submit("second", WRONG)["id"]))
    running.wait(int(bob.submit("first", RIGHT)["id"]))
    assert row(running, "ada")["total"] == 0.5 and row(running, "bob")["total"] == 1
    assert ask(running.staff, "PUT", "/api/labs/second", OVER)[0] == 200
    assert row(running, "bob")["total"] == 0.5  # what is missing counts 0

    def said(who: Connection, *command: str) -> str:
        assert main([*command, "--server", who.server, "--token", who.token]) == 0
        return capsys.readouterr().out

    words = said(running.staff, "grades", "rule", "--weight", "first=3")
    assert "Labs count by their weights: 01_first 3, every other 1." in words
    for found in (row(running, "ada")["total"], ada.get("standing")["total"]):
        assert found == 0.75
    assert totals(running)["ada"]["total"] == "75"
    assert "The lowest is dropped" in said(running.staff, "grades", "rule", "--drop", "1")
    assert "Course total: 100.0%" in said(ada, "standing")
    assert "02_second: handed in, 0 of 4 points, dropped" in said(ada, "standing")
    assert row(running, "bob")["dropped"] == ["02_second"]
    assert "points of all labs" in said(running.staff, "grades", "rule", "--by-points")
    said(running.staff, "grades", "set", "bob", "second", "2", "--of", "8")
    said(running.staff, "grades", "rule", "--drop", "0")
    assert row(running, "bob")["total"] == 0.5 and totals(running)["bob"]["02_second"] == "2"
    assert "is excused" in said(running.staff, "grades", "excuse", "bob", "second")
    assert row(running, "bob")["total"] == 1
    assert "as it is graded" in said(running.staff, "grades", "reset", "bob", "second")
    browser.log_in(running.staff.token)
    form = {"drop_lowest": "1", "weight-01_first": "2.5", "weight-02_second": ""}
    assert browser.ask("POST", "/rule", form).status == 303
    assert "01_first 2.5" in browser.get("/gradebook?sort=-course").text
    rule = ask(ada, "GET", "/api/rule")[1]
    assert (rule["drop_lowest"], rule["weights"]) == (1, {"01_first": 2.5})
    browser.log_in(ada.token)
    assert "The lowest is dropped" in browser.get("/standing").text
    log = ask(running.staff, "GET", "/api/audit")[1]["entries"]
    assert sum(line["action"] == "course rule" for line in log) == 5


def test_the_gradebook_is_sorted_by_the_course_total(running: Any) -> None:
    for name, book in (("ada", WRONG), ("bob", RIGHT)):
        running.wait(int(running.enroll(name).submit("first", book)["id"]))
    running.enroll("cem")

    def order(sort: str) -> list[str]:
        rows = ask(running.staff, "GET", f"/api/gradebook?sort={sort}")[1]["rows"]
        return [row["login"] for row in rows]

    assert order("course") == ["cem", "ada", "bob"] and order("-course") == ["bob", "ada", "cem"]
    assert ask(running.staff, "PUT", "/api/labs/first/grades/cem", {"points": 2})[0] == 200
    assert order("course") == ["ada", "cem", "bob"] == order("total") == order("01_first")


@pytest.mark.parametrize(
    "body",
    [
        *({"drop_lowest": drop} for drop in (-1, 101, 1.5, "1", True, None)),
        *({"weights": weights} for weights in ({"x": 1}, {"01_first": -1}, {"01_first": "2"}, [])),
        {"lowest": 1},
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(unmoved: Any, body: Any) -> None:
    status, answer = ask(unmoved.staff, "PUT", "/api/rule", body)
    assert status == 422 and "rule:" in answer["detail"]
    assert ask(unmoved.staff, "GET", "/api/rule")[1]["drop_lowest"] == 0


def test_what_is_held_back_is_in_no_total_that_learners_see(running: Any, browser: Any) -> None:
    ada = running.enroll("ada")
    running.wait(int(ada.submit("first", RIGHT)["id"]))
    running.wait(int(ada.submit("second", WRONG)["id"]))
    assert ada.get("standing")["total"] == 0.5
    assert ask(running.staff, "PUT", "/api/labs/second", {"held": True})[0] == 200
    grade = {"points": 1.25, "max_score": 1.5, "comment": "c"}
    assert ask(running.staff, "PUT", "/api/labs/second/grades/ada", grade)[0] == 200
    found = ada.get("standing")
    assert found["total"] == 1 and found["labs"][1]["score"] is None
    assert found["labs"][1]["decision"] == "" and found["labs"][1]["held_back"]
    assert ask(running.staff, "GET", "/api/learners/ada/standing")[1]["total"] == 5.25 / 5.5
    assert ask(running.staff, "PUT", "/api/rule", {"drop_lowest": 1})[0] == 200
    assert ada.get("standing")["labs"][0]["dropped"] is False
    browser.log_in(ada.token)
    page = browser.get("/standing").text
    assert "100.0 %" in page and "1.25" not in page and "What is held back is not in it" in page
    bob = running.enroll("bob")  # who has nothing but what staff set
    assert ask(running.staff, "PUT", "/api/labs/second/grades/bob", grade)[0] == 200
    assert (
        bob.get("standing")["total"] is None and bob.get("standing")["labs"][1]["state"] == "open"
    )
    assert ask(running.staff, "PUT", "/api/labs/second", {})[0] == 200
    assert (
        ada.get("standing")["labs"][1]["score"] == 1.25 == bob.get("standing")["labs"][1]["score"]
    )
