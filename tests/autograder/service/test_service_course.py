"""What staff do over HTTP: rosters, dates, marks, re-gradings, the gradebook, the audit log."""

import csv
import http.client
import io
import json
import re
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from autograder.service.client import Connection
from autograder.service.errors import Refused, ServerError
from autograder.service.records import audit_log
from autograder.service.records.people import Edit
from autograder.service.records.roster import roster
from autograder.service.records.rules import Rules
from autograder.service.records.store import Store
from autograder.service.times import iso, moment

NOW = datetime.now(UTC).replace(microsecond=0)


def ask(who: Connection, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(who.server).netloc, timeout=30)
    sent = body if body is None or isinstance(body, str | bytes) else json.dumps(body)
    headers = {"Authorization": f"Bearer {who.token}"}
    connection.request(method, path, sent.encode() if isinstance(sent, str) else sent, headers)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


def notebook(source: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": source}]}).encode()


def ago(**ended: float) -> str:
    return (NOW - timedelta(**ended)).isoformat()


def graded(running: Any, who: Connection, source: str, lab: str = "first") -> int:
    number = int(who.submit(lab, notebook(source))["id"])
    running.wait(number)
    return number


def batch_of(running: Any, path: str) -> int:
    """Start a batch and wait until it runs no more."""
    status, body = ask(running.staff, "POST", path)
    assert status == 202
    waiting = threading.Event()
    while ask(running.staff, "GET", f"/api/regrades/{body['batch']}")[1]["state"] == "running":
        waiting.wait(0.01)
    return int(body["batch"])


# Rosters

ROSTER = """Section;role;login;NAME;email
A;;ada;=Ada;ada@example.org
B;student;bob;Bob;
;assistant;grace;Grace;
;;bad login!;x;
;;ada;Again;
"""


def test_a_dry_run_says_what_the_roster_then_does(running: Any) -> None:
    problems = [5, 6]
    for path in ("/api/roster?dry_run=1", "/api/roster?dry_run=1", "/api/roster"):
        status, found = ask(running.staff, "PUT", path, ROSTER)
        assert status == 200
        assert [found[x] for x in ("added", "changed", "unchanged", "removed")] == [3, 0, 0, 0]
        assert [problem["line"] for problem in found["problems"]] == problems
        assert all(problem["reason"] for problem in found["problems"])
    found = ask(running.staff, "PUT", "/api/roster", "name,login\nBobby,bob\nGrace,grace\n")[1]
    assert [found[x] for x in ("added", "changed", "unchanged", "removed")] == [0, 1, 1, 0]
    people = {p.login: p for p in running.server.course.store.roster.learners()}
    assert set(people) == {"ada", "bob"}  # who is not in the second stays
    assert (people["ada"].name, people["ada"].section) == ("=Ada", "A")
    assert (people["bob"].name, people["bob"].section) == ("Bobby", "B")


@pytest.mark.parametrize(
    "body", [b"", b"name,email\nA,b@c.d\n", b"login,login\na,b\n", b'login\n"a', b"login\n\xff\n"]
)
def test_what_is_no_roster_is_refused_whole(unmoved: Any, body: bytes) -> None:
    status, found = ask(unmoved.staff, "PUT", "/api/roster", body)
    assert status == 422 and found["detail"]


@pytest.mark.parametrize("head", ["sep=;\r\n", "\ufeffsep=;\r\n"])
def test_excels_line_that_says_the_separator_is_no_head(running: Any, head: str) -> None:
    text = f"{head}login;name\r\nada;Ada\r\nboss;B;more\r\n"
    found = ask(running.staff, "PUT", "/api/roster", text)[1]
    assert found["added"] == 1 and [p["line"] for p in found["problems"]] == [4]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8", "utf-8-sig"])
def test_a_roster_is_read_as_spreadsheets_save_it(running: Any, encoding: str) -> None:
    text = "login\tname\nada\tÀda\u00a0L\n1.23457E+11\tBob\n1,2E+12\tEve\n1E5\tDan\n"
    found = ask(running.staff, "PUT", "/api/roster", text.encode(encoding))[1]
    assert found["added"] == 2 and [p["line"] for p in found["problems"]] == [3, 4]
    assert "rounded" in found["problems"][0]["reason"]
    assert {p.name for p in running.server.course.store.roster.learners()} == {"Àda L", "Dan"}


def test_a_login_of_another_case_is_a_problem_and_nobody_demotes_themselves(running: Any) -> None:
    running.enroll("Ada")
    text = "login,role\nADA,\ninstructor,learner\nnew,boss\n"
    found = ask(running.staff, "PUT", "/api/roster", text)[1]
    assert [p["line"] for p in found["problems"]] == [2, 3, 4] and found["changed"] == 0
    assert ask(running.staff, "POST", "/api/learners", {"login": "ADA"})[0] == 409


def test_somebody_of_the_roster_gets_a_first_token_and_then_only_by_renewing(running: Any) -> None:
    ask(running.staff, "PUT", "/api/roster", "login,name\nada,Ada Lovelace\n")
    status, found = ask(running.staff, "POST", "/api/learners", {"login": "ada"})
    assert status == 201 and found["name"] == "Ada Lovelace"
    assert ask(running.staff, "POST", "/api/learners", {"login": "ada"})[0] == 409
    body = {"login": "ada", "renew": True}
    assert ask(running.staff, "POST", "/api/learners", body)[0] == 201
    assert ask(Connection(running.staff.server, found["token"]), "GET", "/api/labs")[0] == 401


def test_assistants_mark_and_read_and_change_neither_people_nor_dates(running: Any) -> None:
    body = {"login": "grace", "role": "assistant"}
    status, found = ask(running.staff, "POST", "/api/staff", body)
    assert status == 201
    grace = Connection(running.staff.server, found["token"])
    number = graded(running, running.enroll("Ada"), "manual")
    assert ask(grace, "PUT", f"/api/submissions/{number}/marks", {"why": {"points": 1}})[0] == 200
    for path in ("/api/gradebook", "/api/queue", "/api/audit", "/api/export"):
        if path != "/api/export":
            assert ask(grace, "GET", path)[0] == 200
    for method, path in (
        ("PUT", "/api/roster"),
        ("POST", "/api/learners"),
        ("POST", "/api/staff"),
        ("PUT", "/api/labs/first"),
        ("PUT", "/api/labs/first/extensions/Ada"),
        ("POST", "/api/regrades/1/publish"),
    ):
        assert ask(grace, method, path, {})[0] == 403, path
    assert ask(running.staff, "POST", "/api/staff", {"login": "x", "role": "learner"})[0] == 422


# Dates

RULES = Rules(
    due="2026-03-28T23:59:00+01:00", late_until="2026-04-02T23:59:00+02:00", penalty_per_day=0.1
)


@pytest.mark.parametrize(
    ("submitted", "days"),
    [
        ("2026-03-28T22:59:00Z", 0),  # the very second
        ("2026-03-28T22:59:00.9+00:00", 0),  # a receipt shows the same second
        ("2026-03-28T22:59:01Z", 1),
        ("2026-03-29T22:59:00+00:00", 1),
        ("2026-03-30T00:58:59+02:00", 1),  # 24 h, though the clock was put forward that night
        ("2026-03-30T00:59:01+02:00", 2),
        ("2026-03-29T17:59:01-05:00", 2),
        ("2026-03-28T12:59:00-10:00", 0),
    ],
)
def test_days_of_lateness_are_of_24_hours_in_every_zone(submitted: str, days: int) -> None:
    assert RULES.late_days(moment(submitted)) == days


def test_grace_comes_before_the_first_day() -> None:
    rules = Rules(due="2026-01-01T00:00:00Z", grace_minutes=10)
    assert rules.late_days(moment("2026-01-01T00:10:00Z")) == 0
    assert rules.late_days(moment("2026-01-01T00:10:01Z")) == 1
    assert rules.late_days(moment("2026-01-02T00:10:00Z")) == 1


def test_an_extension_moves_both_dates_and_never_back() -> None:
    later = RULES.extend_to("2026-03-30T23:59:00+02:00")
    assert later.due == "2026-03-30T23:59:00+02:00"
    assert moment(later.late_until or "") - moment(RULES.late_until or "") == 47 * 3600
    assert RULES.extend_to("2026-03-01T00:00:00Z") == RULES
    far = Rules(due="2026-01-01T00:00:00Z", late_until="9999-12-31T23:59:59Z")
    assert far.extend_to("2026-02-01T00:00:00+14:00").late_until == "9999-12-30T14:00:00+14:00"
    assert Rules().extend_to("2026-03-01T00:00:00Z") == Rules()


def test_a_penalty_takes_no_more_than_the_score() -> None:
    assert [RULES.apply_lateness(4.0, days) for days in (0, 1, 3, 99)] == [4.0, 3.6, 2.8, 0.0]
    assert RULES.apply_lateness(None, 3) is None


@pytest.mark.parametrize(
    "body",
    [
        {"due": "2026-01-01T00:00:00"},
        {"due": "tomorrow"},
        {"due": 5},
        {"due": "9999-12-31T23:59:59-01:00"},
        {"due": "0001-01-01T00:00:00+01:00"},
        {"due": "2026-01-02T00:00:00Z", "late_until": "2026-01-01T00:00:00Z"},
        {"opens": "2026-01-02T00:00:00Z", "due": "2026-01-01T23:00:00Z"},
        {"penalty_per_day": 1.5},
        {"penalty_per_day": True},
        {"attempts": 0},
        {"attempts": 1.5},
        {"grace_minutes": -1},
        {"dew": "2026-01-01T00:00:00Z"},
    ],
)
def test_rules_that_are_none_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(Refused) as error:
        Rules.read(body)
    assert error.value.status == 422


def test_dates_refuse_and_an_extension_lets_in_again(running: Any) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    rules = {"due": ago(hours=36), "late_until": ago(hours=1), "penalty_per_day": 0.25}
    assert ask(running.staff, "PUT", "/api/labs/first", rules)[0] == 200
    with pytest.raises(ServerError, match="closed") as error:
        ada.submit("first", notebook("x = 1"))
    assert error.value.status == 403
    path = "/api/labs/first/extensions/ada"
    assert ask(running.staff, "PUT", path, {"due": ago(hours=25)})[0] == 200
    number = graded(running, ada, "x = 1")
    found = ada.submission(str(number))
    assert (found["late_days"], found["score"], found["raw_score"]) == (2, 2.0, 4.0)
    with pytest.raises(ServerError):
        bob.submit("first", notebook("x = 1"))
    assert ask(running.staff, "PUT", path, {"due": ago(hours=-9)})[0] == 200  # after the fact
    assert ada.submission(str(number))["score"] == 4.0
    future = {"opens": ago(hours=-1)}
    assert ask(running.staff, "PUT", "/api/labs/second", future)[0] == 200
    with pytest.raises(ServerError, match="opens"):
        ada.submit("second", notebook("x = 1"))
    assert ask(running.staff, "PUT", "/api/labs/nine", {})[0] == 404
    assert ask(running.staff, "PUT", "/api/labs/first/extensions/x", {"due": None})[0] == 404


def test_solutions_come_when_staff_allow_them_and_nothing_can_be_handed_in(running: Any) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    closed = {"due": ago(hours=36), "late_until": ago(hours=1)}

    def refused(who: Any, says: str) -> None:
        with pytest.raises(ServerError, match=says) as error:
            who.solution("first", "scale")
        assert error.value.status == 403

    refused(ada, "not given out")  # the switch is off, whatever the dates
    assert ask(running.staff, "PUT", "/api/labs/first", closed)[0] == 200
    refused(ada, "not given out")
    still_open = {"due": ago(hours=1), "late_until": ago(hours=-1), "solutions": True}
    assert ask(running.staff, "PUT", "/api/labs/first", still_open)[1]["solutions"] is True
    refused(ada, r"after \w{3} \d\d \w{3} 20")
    assert running.staff.solution("first", "scale") == "def scale(): ..."
    rules = {**closed, "solutions": True}
    assert ask(running.staff, "PUT", "/api/labs/first", rules)[0] == 200
    path = "/api/labs/first/extensions/bob"
    assert ask(running.staff, "PUT", path, {"due": ago(hours=0)})[0] == 200
    assert ada.solution("first", "scale") == "def scale(): ..."
    refused(bob, r"after \w{3} \d\d \w{3} 20")  # who may still hand it in
    with pytest.raises(ServerError, match="no question") as error:
        ada.solution("first", "scales")
    assert error.value.status == 404
    for wrong in ({**rules, "solutions": 1}, {"due": ago(hours=36), "solutions": True}):
        assert ask(running.staff, "PUT", "/api/labs/first", wrong)[0] == 422
    (running.server.course.catalog.path("01_first") / "lab.py").unlink()
    with pytest.raises(ServerError, match="cannot be read: the lab is not in") as error:
        ada.solution("first", "scale")
    assert error.value.status == 422


def test_attempts_run_out_and_asking_again_costs_none(running: Any) -> None:
    ada = running.enroll("Ada")
    ask(running.staff, "PUT", "/api/labs/first", {"attempts": 2, "due": ago(days=-1)})
    number = graded(running, ada, "x = 1")
    labs = ask(ada, "GET", "/api/labs")[1]["labs"]
    assert [lab["name"] for lab in labs] == ["01_first", "02_second"]
    assert [lab["attempts_left"] for lab in labs] == [1, None]
    assert labs[0]["due"] == ago(days=-1)
    graded(running, ada, "x = 2")
    with pytest.raises(ServerError, match="attempts"):
        ada.submit("first", notebook("x = 3"))
    assert ask(ada, "GET", "/api/labs")[1]["labs"][0]["attempts_left"] == 0
    assert ada.submission(str(number))["score"] == 4.0


NOTE = '# %% [markdown] question="note" manual="true" points="2"\n# Write it.\n'


def test_a_notebook_of_another_lab_is_refused_before_it_costs_an_attempt(
    running: Any, labs: Path
) -> None:
    (labs / "02_second" / "lab.py").write_text(
        '# %% question="ring" points="4" defines="ring total"\ndef ring(): return scale\n'
        '# %% [markdown] question="why" manual="true" points="2"\n# **Answer** (why):\n' + NOTE
    )
    with (labs / "01_first" / "lab.py").open("a") as first:
        first.write(NOTE)
    ada = running.enroll("Ada")
    for lab in ("first", "second"):
        ask(running.staff, "PUT", f"/api/labs/{lab}", {"attempts": 9})

    def send(lab: str, source: str, says: object) -> str:
        content = json.loads(notebook(source)) | {"metadata": {"autograder": {"lab": says}}}
        try:
            return str(ada.submit(lab, json.dumps(content).encode())["state"])
        except ServerError as error:
            assert error.status == 422
            return str(error)

    of_second = "this is a notebook of lab 02_second, and nothing in it answers 01_first"
    assert of_second in send("first", "**Answer** (note): ring", "02_second")
    assert "nothing in it answers 02_second" in send("02_second", "def scale(): ...", "first")
    assert "this is a notebook of lab 02_second" in send("first", "q = lab('second')", None)
    labs_of_ada = ask(ada, "GET", "/api/labs")[1]["labs"]
    assert [lab["attempts_left"] for lab in labs_of_ada] == [9, 9]
    for lab, source, says in [
        ("second", "exec('total = 1')", "01_first"),
        ("second", "**Answer** (why): so", "01_first"),
        ("second", "y = 1", "02_second"),
        ("second", "y = 2", "renamed since"),
        ("second", "y = 3", "03_third"),
        ("second", "y = 4", {"first": 1}),
        ("second", "q = lab('second')", "01_first"),
    ]:
        assert send(lab, source, says) == "stored"


def test_of_many_at_once_no_more_get_in_than_attempts(running: Any) -> None:
    ada = running.enroll("Ada")
    ask(running.staff, "PUT", "/api/labs/first", {"attempts": 3})
    stored = []

    def send(number: int) -> None:
        try:
            stored.append(ada.submit("first", notebook(f"y = {number}"))["id"])
        except ServerError as error:
            assert error.status == 403

    threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(stored)) == 3


# Marks


def test_marks_are_taken_all_or_none(running: Any) -> None:
    ada = running.enroll("Ada")
    number = graded(running, ada, "manual")
    assert ada.submission(str(number))["pending"] == 1
    path = f"/api/submissions/{number}/marks"
    mark = {"points": 1.5, "items": ["Names the unit."], "comment": "Well."}
    assert ask(running.staff, "PUT", path, {"why": mark, "which": mark})[0] == 404
    assert ada.submission(str(number))["pending"] == 1
    status, found = ask(running.staff, "PUT", path, {"why": mark})
    assert (status, found["score"], found["max_score"], found["pending"]) == (200, 1.5, 6.0, 0)
    manual = ada.submission(str(number))["report"]["manual"][0]
    assert (manual["score"], manual["items"], manual["comment"]) == (1.5, mark["items"], "Well.")
    assert ask(running.staff, "PUT", path, {"why": {"comment": "Better."}})[1]["score"] == 1.5
    assert ask(running.staff, "PUT", path, {"why": {"points": None}})[1]["pending"] == 1
    for bad in (3, -1, "x", True, [], {"points": 5}):
        assert ask(running.staff, "PUT", path, {"why": {"points": bad}})[0] == 422
    for bad in ([], 1, {"point": 1}, {"items": [5]}, {"comment": 5}):
        assert ask(running.staff, "PUT", path, {"why": bad})[0] == 422
    assert ask(running.staff, "PUT", path, {"why": {"comment": "x\r\n" * 2000}})[0] == 200
    too_long = ask(running.staff, "PUT", path, {"why": {"comment": "x" * 4001}})
    assert too_long[0] == 422 and "4001 characters, expected at most 4000" in too_long[1]["detail"]
    assert ask(ada, "PUT", path, {"why": mark})[0] == 403
    assert ask(running.staff, "PUT", "/api/submissions/99/marks", {"why": mark})[0] == 404
    assert ask(running.staff, "PUT", path, '{"why": {"points": 1}, "why": {}}')[0] == 422


def test_an_identical_answer_handed_in_again_keeps_its_mark(running: Any) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    number = graded(running, ada, "manual")
    body = {"why": {"points": 2, "comment": "Yes."}}
    ask(running.staff, "PUT", f"/api/submissions/{number}/marks", body)
    again = ada.submission(str(graded(running, ada, "manual x = 1")))
    assert (again["score"], again["pending"]) == (6.0, 0)
    assert again["report"]["manual"][0]["comment"] == "Yes."
    assert bob.submission(str(graded(running, bob, "manual")))["pending"] == 1


# Re-gradings


def test_a_batch_shows_what_changes_and_changes_it_when_published(
    running: Any, browse: Any
) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    right, wrong = graded(running, ada, "x = 1"), graded(running, bob, "x = 2")
    running.grader.right = "x = 2"
    batch = batch_of(running, "/api/labs/first/regrade")
    path = f"/api/regrades/{batch}"
    found = ask(running.staff, "GET", path)[1]
    assert found["state"] == "ready"
    assert found["changed"] == [
        {"id": right, "login": "Ada", "before": 4.0, "after": 0.0},
        {"id": wrong, "login": "Bob", "before": 0.0, "after": 4.0},
    ]
    assert ada.submission(str(right))["score"] == 4.0
    browser = browse(running.staff.server)
    browser.log_in(running.staff.token)
    page = browser.get(f"/regrades/{batch}").text
    assert "<code>scale</code> 4 → 0" in page and "<code>scale</code> 0 → 4" in page
    assert ask(ada, "POST", f"{path}/publish")[0] == 403
    status, found = ask(running.staff, "POST", f"{path}/publish")
    assert (status, found["state"], len(found["changed"])) == (200, "published", 2)
    page = browser.get(f"/regrades/{batch}")
    assert page.status == 200 and "Questions" not in page.text
    assert [ada.submission(str(right))["score"], bob.submission(str(wrong))["score"]] == [0.0, 4.0]
    assert ask(running.staff, "POST", f"{path}/publish")[0] == 200
    assert ask(running.staff, "GET", "/api/regrades/99")[0] == 404


def test_while_a_batch_runs_learners_see_their_grade_and_it_cannot_be_published(
    running: Any,
) -> None:
    ada = running.enroll("Ada")
    first = graded(running, ada, "x = 1")
    running.grader.gate.clear()
    holding = int(ada.submit("second", notebook("wait"))["id"])
    running.grader.entered.wait(30)
    batch = ask(running.staff, "POST", "/api/labs/01_first/regrade")[1]["batch"]
    assert ask(running.staff, "GET", f"/api/regrades/{batch}")[1]["state"] == "running"
    assert ask(running.staff, "POST", f"/api/regrades/{batch}/publish")[0] == 409
    found = ada.submission(str(first))
    assert (found["state"], found["score"]) == ("graded", 4.0)
    running.grader.gate.set()
    running.wait(holding)


def test_a_parked_regrade_keeps_its_batch_running_and_its_grade(running: Any) -> None:
    ada = running.enroll("Ada")
    number = graded(running, ada, "x = 1")
    running.grader.poison = "x = 1"
    batch = ask(running.staff, "POST", "/api/labs/first/regrade")[1]["batch"]
    waiting = threading.Event()
    while not ask(running.staff, "GET", "/api/queue")[1]["parked"]:
        waiting.wait(0.01)
    found = ask(running.staff, "GET", f"/api/regrades/{batch}")[1]
    assert (found["state"], found["parked"]) == ("running", 1)
    assert (ada.submission(str(number))["state"], ada.submission(str(number))["score"]) == (
        "parked",
        4.0,
    )
    running.grader.poison = "die"
    ask(running.staff, "POST", "/api/parked/retry")
    while ask(running.staff, "GET", f"/api/regrades/{batch}")[1]["state"] == "running":
        waiting.wait(0.01)
    assert ask(running.staff, "GET", f"/api/regrades/{batch}")[1]["changed"] == []


def test_a_batch_of_one_question_takes_that_alone_and_marks_enter_it(running: Any) -> None:
    ada = running.enroll("Ada")
    number = graded(running, ada, "manual x = 1")
    path = "/api/labs/first/regrade"
    assert ask(running.staff, "POST", f"{path}?question=nothing")[0] == 404
    running.grader.right = "nothing"
    batch = batch_of(running, f"{path}?question=scale")
    body = {"why": {"points": 2}}
    ask(running.staff, "PUT", f"/api/submissions/{number}/marks", body)
    found = ask(running.staff, "GET", f"/api/regrades/{batch}")[1]
    assert found["changed"] == [{"id": number, "login": "Ada", "before": 6.0, "after": 2.0}]
    ask(running.staff, "POST", f"/api/regrades/{batch}/publish")
    assert ada.submission(str(number))["score"] == 2.0


def test_a_batch_says_of_whom_the_full_points_change_where_the_score_stays(
    running: Any, browser: Any
) -> None:
    ada = running.enroll("Ada")
    number = graded(running, ada, "x = 2")
    running.grader.points = 5.0
    path = f"/regrades/{batch_of(running, '/api/labs/first/regrade')}"
    found = ask(running.staff, "GET", f"/api{path}")[1]
    assert (found["changed"], found["rescaled"]) == ([], 1)
    browser.log_in(running.staff.token)
    assert "1 submission will be of other full points" in browser.get(path).text
    assert ask(running.staff, "POST", f"/api{path}/publish")[1]["rescaled"] == 0
    assert ada.submission(str(number))["max_score"] == 10.0


def test_a_batch_never_takes_a_newer_grading_back(running: Any) -> None:
    ada = running.enroll("Ada")
    number = graded(running, ada, "x = 1")
    running.grader.right = "nothing"
    old = batch_of(running, "/api/labs/first/regrade")
    running.grader.right = "x = 1"
    ask(running.staff, "POST", f"/api/submissions/{number}/regrade")
    running.wait(number)
    path = f"/api/regrades/{old}"
    assert ask(running.staff, "GET", path)[1]["changed"] == []
    status, published = ask(running.staff, "POST", f"{path}/publish")
    assert (status, published["state"], published["changed"]) == (200, "published", [])
    assert ada.submission(str(number))["score"] == 4.0
    log = ask(running.staff, "GET", "/api/audit")[1]["entries"]
    assert "publish" not in {line["action"] for line in log}


# The gradebook


def test_the_gradebook_has_pages_and_what_counts_of_each_lab(running: Any) -> None:
    roster = "".join(f"learner{n:03d},{'AB'[n % 2]}\n" for n in range(120))
    ask(running.staff, "PUT", "/api/roster", f"login,section\n{roster}")
    body = {"login": "learner007", "renew": True}
    token = ask(running.staff, "POST", "/api/learners", body)[1]["token"]
    seven = Connection(running.staff.server, token)
    graded(running, seven, "x = 2")
    best = graded(running, seven, "manual x = 1")
    found = ask(running.staff, "GET", "/api/gradebook")[1]
    assert (found["pages"], len(found["rows"]), found["learners"]) == (3, 50, 120)
    row = next(row for row in found["rows"] if row["login"] == "learner007")
    assert row["labs"] == {
        "01_first": {
            "score": 4.0,
            "max_score": 6.0,
            "pending": 1,
            "late_days": 0,
            "submission": best,
        }
    }
    assert len(ask(running.staff, "GET", "/api/gradebook?page=3")[1]["rows"]) == 20
    found = ask(running.staff, "GET", "/api/gradebook?section=B&lab=second")[1]
    assert found["learners"] == 60 and not any(row["labs"] for row in found["rows"])
    for sort in ("-total", "-01_first"):
        found = ask(running.staff, "GET", f"/api/gradebook?sort={sort}")[1]
        assert found["rows"][0]["login"] == "learner007"
    assert ask(running.staff, "GET", "/api/gradebook?sort=x")[0] == 422
    assert ask(running.staff, "GET", "/api/gradebook?page=0")[0] == 422
    assert ask(running.staff, "GET", "/api/gradebook?lab=x")[0] == 404
    assert ask(seven, "GET", "/api/gradebook")[0] == 403


# Exports


@pytest.mark.parametrize("name", ["=1+1", "+x", "-2", "@SUM(A1)", "  =x", "＝1", 'a"b', "a,b"])
def test_no_cell_of_an_export_begins_a_formula(running: Any, name: str) -> None:
    text = io.StringIO()
    csv.writer(text).writerows([["login", "name"], ["ada", name]])
    ask(running.staff, "PUT", "/api/roster", text.getvalue())
    token = ask(running.staff, "POST", "/api/learners", {"login": "ada"})[1]["token"]
    graded(running, Connection(running.staff.server, token), "x = 1")
    for format in ("csv", "canvas", "moodle"):
        cells = [
            c
            for row in csv.reader(io.StringIO(running.staff.text("export", format=format)))
            for c in row
        ]
        assert not [c for c in cells if c.lstrip()[:1] in ("=", "+", "-", "@", "＝")]
    row = ask(running.staff, "GET", "/api/gradebook")[1]["rows"][0]
    assert row["name"] == name.strip()  # as it was given


def test_an_export_of_one_lab_has_that_lab_alone(running: Any) -> None:
    ada = running.enroll("Ada")
    graded(running, ada, "x = 1")
    graded(running, ada, "x = 1", lab="second")
    for format in ("csv", "canvas", "moodle", "gradescope"):
        connection = http.client.HTTPConnection(urlsplit(ada.server).netloc, timeout=30)
        headers = {"Authorization": f"Bearer {running.staff.token}"}
        connection.request("GET", f"/api/export?format={format}&lab=second", None, headers)
        text = connection.getresponse().read().decode()
        connection.close()
        assert "02_second" in text and "01_first" not in text
    assert ask(running.staff, "GET", f"/api/export?format={quote('x y')}")[0] == 422


# The audit log


def test_every_change_is_in_the_audit_log_with_a_name(running: Any) -> None:
    ask(running.staff, "POST", "/api/staff", {"login": "grace", "role": "assistant"})
    ask(running.staff, "PUT", "/api/roster", "login,role\ngrace,instructor\n")
    ada = running.enroll("Ada")
    number = graded(running, ada, "manual x = 1")
    ask(running.staff, "PUT", "/api/labs/first", {"due": ago(days=-1)})
    ask(running.staff, "PUT", "/api/labs/first/extensions/Ada", {"due": ago(days=-2)})
    ask(running.staff, "PUT", f"/api/submissions/{number}/marks", {"why": {"points": 1}})
    running.grader.right = "nothing"
    batch = batch_of(running, "/api/labs/first/regrade")
    ask(running.staff, "POST", f"/api/regrades/{batch}/publish")
    status, found = ask(running.staff, "GET", "/api/audit")
    assert status == 200
    lines = found["entries"]
    assert {line["who"] for line in lines} == {"instructor"}
    said = {(line["action"], line["subject"]) for line in lines}
    assert said >= {
        ("role", "grace"),
        ("role", "Ada"),
        ("token", "Ada"),
        ("dates", "01_first"),
        ("extension", "01_first: Ada"),
        ("mark", f"submission {number}: why"),
        ("regrade", f"batch {batch}: 01_first"),
        ("publish", f"submission {number}: Ada"),
    }
    published = next(line for line in lines if line["action"] == "publish")
    assert (published["before"], published["after"]) == (5.0, 1.0)
    assert datetime.fromisoformat(published["at"]) >= NOW
    assert ask(ada, "GET", "/api/audit")[0] == 403


def test_lines_of_the_log_are_of_the_times_of_their_transactions(tmp_path: Path) -> None:
    now = [1e9]
    with closing(Store(f"sqlite:///{tmp_path}/course.db", clock=lambda: now[0])) as store:
        edit = Edit(store.database, store.clock, store.roster.add("grace", "instructor"))
        now[0] += 60  # as its transaction waits for another's
        roster.take(edit, b"login\nada\n", dry_run=False)
        assert [line["at"] for line in audit_log.read(store.database, 1)] == [iso(now[0])]


# Sessions, hosts, the description


def test_sessions_are_listed_and_ended(running: Any, browse: Any) -> None:
    ada = running.enroll("Ada")
    here, there = browse(ada.server), browse(ada.server)
    for browser, name in ((here, "Firefox"), (there, "Chromium")):
        browser.ask("POST", "/login", {"token": ada.token, "next": "/"}, User_Agent=name)
    found = ask(ada, "GET", "/api/sessions")[1]["sessions"]
    assert {session["browser"] for session in found} == {"Firefox", "Chromium"}
    key = next(session["key"] for session in found if session["browser"] == "Firefox")
    bob = running.enroll("Bob")
    assert ask(bob, "DELETE", f"/api/sessions/{key}")[0] == 404
    assert ask(ada, "DELETE", f"/api/sessions/{key}")[0] == 204
    assert here.get("/submissions").status == 303
    assert there.get("/submissions").status == 200


def test_the_description_is_for_staff_and_names_the_routes(running: Any) -> None:
    ada = running.enroll("Ada")
    assert ask(ada, "GET", "/openapi.json")[0] == 403
    status, found = ask(running.staff, "GET", "/openapi.json")
    assert status == 200
    assert {"/api/roster", "/api/labs/{lab}", "/api/gradebook", "/healthz"} <= set(found["paths"])


NASTY = ("", "x", "-1", "0", "9" * 30, "%00", "a%0Ab", "%F0%9F%98%80", "1e999", "%2e%2e%2f", "'")
BODIES = ("", "{", "[]", "{}", "null", '{"due": {}}', '{"login": "\\u0000"}', '{"a": NaN}', "a\0,b")


def test_nothing_that_is_sent_to_a_described_route_is_an_error_of_ours(running: Any) -> None:
    """Each route of the description, with values that no client would send."""
    paths = ask(running.staff, "GET", "/openapi.json")[1]["paths"]
    tried = 0
    for path, operations in paths.items():
        for method, operation in operations.items():
            names = [p["name"] for p in operation.get("parameters", []) if p["in"] == "query"]
            for n, value in enumerate(NASTY):
                filled = re.sub(r"{\w+}", value or "%20", path)
                query = "&".join(f"{name}={value}" for name in names)
                body = BODIES[n % len(BODIES)] if "requestBody" in operation else None
                connection = http.client.HTTPConnection(urlsplit(running.staff.server).netloc)
                headers = {"Authorization": f"Bearer {running.staff.token}"}
                sent = None if body is None else body.encode()
                connection.request(method.upper(), f"{filled}?{query}", sent, headers)
                answer = connection.getresponse()
                text = answer.read()
                connection.close()
                assert answer.status < 500, (method, path, value, text)
                if answer.status >= 400:
                    assert isinstance(json.loads(text)["detail"], str)
                tried += 1
    assert tried > 250


def test_only_the_names_that_were_allowed_are_answered(start: Any) -> None:
    names = ("Course.example", "127.0.0.1:1")
    with start(allowed_hosts=names[:1], public_url="https://c.example.org/") as running:
        netloc = urlsplit(running.staff.server).netloc
        for host, status in (
            ("course.example", 200),
            ("COURSE.example:8000", 200),
            ("c.example.org", 200),
            (netloc, 200),
            ("evil.example", 400),
            ("course.example.evil.org", 400),
            ("[", 400),
            ("", 400),
        ):
            connection = http.client.HTTPConnection(netloc, timeout=30)
            connection.putrequest("GET", "/healthz", skip_host=True)
            connection.putheader("Host", host)
            connection.endheaders()
            answer = connection.getresponse()
            assert answer.status == status, host
            assert answer.getheader("Strict-Transport-Security")
            connection.close()


def test_a_second_key_for_what_waits_is_remembered(running: Any) -> None:
    ada = running.enroll("Ada")
    running.grader.gate.clear()
    kept = notebook("wait")

    def send(key: str, book: bytes) -> tuple[int, int]:
        connection = http.client.HTTPConnection(urlsplit(ada.server).netloc, timeout=30)
        edge = "--b\r\nContent-Disposition: form-data; name="
        body = f'{edge}"lab"\r\n\r\nfirst\r\n{edge}"notebook"; filename="a"\r\n\r\n'.encode()
        headers = {
            "Authorization": f"Bearer {ada.token}",
            "Content-Type": "multipart/form-data; boundary=b",
            "Idempotency-Key": key,
        }
        connection.request("POST", "/api/submissions", body + book + b"\r\n--b--\r\n", headers)
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found.get("id", 0)

    status, number = send("one", kept)
    assert status == 201
    assert send("two", kept) == (200, number)
    running.grader.gate.set()
    running.wait(number)
    assert send("two", kept) == (200, number)
    assert send("one", kept) == (200, number)
    assert send("two", notebook("x = 1"))[0] == 422
