"""Re-grade requests: who may ask and answer, until when, and what becomes of the points."""

import json
import time
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.service.times import iso
from tests.autograder.service.asking import ask

OPEN = "2131-03-01T12:00:00+01:00"


def handed_in(running: Any, who: Connection, source: str = "manual x = 2") -> int:
    cells = {"cells": [{"cell_type": "code", "source": source}]}
    number = int(who.submit("first", json.dumps(cells).encode())["id"])
    assert running.wait(number) == "graded"
    return number


@pytest.fixture
def open_lab(running: Any) -> Any:
    assert ask(running.staff, "PUT", "/api/labs/first", {"requests_until": OPEN})[0] == 200
    return running


def assistant(running: Any) -> Connection:
    body = {"login": "grace", "role": "assistant"}
    return Connection(running.staff.server, running.staff.send("POST", "staff", body=body)["token"])


def test_a_request_is_asked_answered_and_asked_again(open_lab: Any) -> None:
    ada, grace = open_lab.enroll("Ada"), assistant(open_lab)
    number = handed_in(open_lab, ada)
    path = f"/api/submissions/{number}/requests"
    status, request = ask(ada, "POST", path, {"question": "why", "text": "I named the unit."})
    assert status == 201 and request["open"] and request["lab"] == "01_first"
    found = ask(grace, "GET", "/api/requests")[1]
    assert found["labs"] == [{"lab": "01_first", "waiting": 1, "total": 1}]
    assert [r["text"] for r in found["requests"]] == ["I named the unit."]
    answer = {"question": "why", "text": "So you did.", "points": 1.5}
    assert ask(grace, "POST", path, answer)[1]["open"] is False
    assert ask(ada, "GET", f"/api/submissions/{number}")[1]["score"] == 1.5
    assert ask(grace, "GET", "/api/requests")[1]["requests"] == []
    assert len(ask(grace, "GET", "/api/requests?answered=1&lab=first")[1]["requests"]) == 1
    assert ask(ada, "POST", path, {"question": "why", "text": "And why it is."})[1]["open"]
    answer = {"question": "why", "text": "No: that is the rule, not its reason."}
    assert ask(grace, "POST", path, answer)[0] == 201
    (thread,) = ask(ada, "GET", path)[1]["requests"]
    assert [m["name"] for m in thread["messages"]] == ["Ada", "grace", "Ada", "grace"]
    assert ask(ada, "GET", f"/api/submissions/{number}")[1]["score"] == 1.5
    log = ask(open_lab.staff, "GET", "/api/audit")[1]["entries"]
    who = [line["who"] for line in log if line["action"] == "re-grade request"]
    assert who == ["grace", "Ada", "grace", "Ada"]
    assert sum(line["action"] == "mark" for line in log) == 1


def test_points_of_a_question_that_checks_grade_are_set_and_taken_back(open_lab: Any) -> None:
    ada, staff = open_lab.enroll("Ada"), open_lab.staff
    number = handed_in(open_lab, ada, "x = 2")
    path = f"/api/submissions/{number}/requests"
    assert ask(ada, "POST", path, {"question": "scale", "text": "It is right."})[0] == 201
    answer = {"question": "scale", "text": "Most of it.", "points": 3}
    assert ask(staff, "POST", path, answer)[0] == 201
    shown = ask(ada, "GET", f"/api/submissions/{number}")[1]
    assert (shown["score"], shown["max_score"]) == (3.0, 4.0)
    tests = shown["report"]["tests"]
    assert sum(test["score"] for test in tests) == 3.0
    assert tests[-1]["title"] == "points set by staff: 3 of 4"
    assert ask(staff, "POST", f"/api/submissions/{number}/regrade")[0] == 202
    assert open_lab.wait(number) == "graded"
    assert ask(ada, "GET", f"/api/submissions/{number}")[1]["score"] == 3.0
    marks = f"/api/submissions/{number}/marks"
    assert ask(staff, "PUT", marks, {"scale": {"points": 5}})[0] == 422
    assert ask(staff, "PUT", marks, {"scale": {"points": None}})[1]["score"] == 0.0


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"question": "nothing", "text": "x"}, 404),
        ({"question": "why", "text": " \0 "}, 422),
        ({"question": "why", "text": "x" * 2001}, 422),
        ({"question": "why", "text": 1}, 422),
        ({"question": ["why"], "text": "x"}, 422),
        ({"question": "why", "text": "x", "points": 2}, 403),
        ({"question": "why", "text": "x", "id": 2}, 422),
    ],
)
def test_what_is_no_request_is_refused(open_lab: Any, body: Any, status: int) -> None:
    ada = open_lab.enroll("Ada")
    path = f"/api/submissions/{handed_in(open_lab, ada)}/requests"
    assert ask(ada, "POST", path, body)[0] == status
    assert ask(ada, "GET", path)[1]["requests"] == []


def test_only_the_learner_and_staff_have_a_part_in_a_thread(open_lab: Any, browse: Any) -> None:
    ada, bob = open_lab.enroll("Ada"), open_lab.enroll("Bob")
    number = handed_in(open_lab, ada)
    path, body = f"/api/submissions/{number}/requests", {"question": "why", "text": "Please look."}
    assert ask(open_lab.staff, "POST", path, body)[0] == 404  # nobody has asked
    assert ask(bob, "POST", path, body)[0] == 404
    assert ask(ada, "POST", path, body)[0] == 201
    assert ask(bob, "GET", path)[0] == 404
    assert ask(ada, "GET", "/api/requests")[0] == 403
    form = f"/submissions/{number}/requests"
    his, hers = browse(ada.server), browse(ada.server)
    his.log_in(bob.token)
    hers.log_in(ada.token)
    assert his.get("/requests").status == 403
    assert his.ask("POST", form, body).status == 404
    assert hers.ask("POST", form, body, Origin="https://evil.example").status == 403
    assert len(ask(ada, "GET", path)[1]["requests"][0]["messages"]) == 1


def test_the_window_closes_and_moves_with_an_extension(running: Any) -> None:
    ada = running.enroll("Ada")
    number = handed_in(running, ada)
    path, body = f"/api/submissions/{number}/requests", {"question": "why", "text": "Please look."}
    assert "not taken" in ask(ada, "POST", path, body)[1]["detail"]
    past = iso(time.time() - 3600)
    rules = {"due": past, "requests_until": past}
    assert ask(running.staff, "PUT", "/api/labs/first", rules)[0] == 200
    assert "were taken until" in ask(ada, "POST", path, body)[1]["detail"]
    longer = {"due": iso(time.time() + 3600)}
    assert ask(running.staff, "PUT", "/api/labs/first/extensions/Ada", longer)[0] == 200
    assert ask(ada, "POST", path, body)[0] == 201


def test_a_form_sent_twice_is_one_message_and_a_stale_one_is_refused(open_lab: Any) -> None:
    ada, grace = open_lab.enroll("Ada"), assistant(open_lab)
    number = handed_in(open_lab, ada)
    path = f"/api/submissions/{number}/requests"
    request = {"question": "why", "text": "I named the unit.", "seen": 0}
    assert [ask(ada, "POST", path, request)[0] for _ in range(2)] == [201, 201]
    answer = {"question": "why", "text": "So you did.", "points": 1.5, "seen": 1}
    assert [ask(grace, "POST", path, answer)[0] for _ in range(2)] == [201, 201]
    for who, text in ((open_lab.staff, "No."), (ada, "Please.")):
        stale = {"question": "why", "text": text, "seen": 1}
        status, said = ask(who, "POST", path, stale)
        assert status == 409 and "answered meanwhile" in said["detail"]
    (thread,) = ask(ada, "GET", path)[1]["requests"]
    assert [m["text"] for m in thread["messages"]] == ["I named the unit.", "So you did."]
    assert ask(ada, "POST", path, {"question": "why", "text": "So you did.", "seen": 2})[0] == 201
    assert ask(ada, "POST", path, {**request, "seen": "many"})[0] == 422


def test_a_thread_has_an_end(open_lab: Any) -> None:
    ada = open_lab.enroll("Ada")
    path = f"/api/submissions/{handed_in(open_lab, ada)}/requests"
    body = {"question": "why", "text": "Please."}
    assert [ask(ada, "POST", path, body)[0] for _ in range(21)] == [201] * 20 + [409]


def test_pages_show_a_thread_as_text_and_the_command_lists_it(
    open_lab: Any, browse: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    ada = open_lab.enroll("Ada")
    number = handed_in(open_lab, ada)
    hers, theirs = browse(ada.server), browse(ada.server)
    hers.log_in(ada.token)
    theirs.log_in(open_lab.staff.token)
    assert "Ask for a re-grade" in hers.get(f"/submissions/{number}").text
    asked = {"question": "scale", "text": "<b>me</b> \x1b[31m"}
    assert hers.ask("POST", f"/submissions/{number}/requests", asked).status == 303
    assert "&lt;b&gt;me" in theirs.get("/requests").text
    page = theirs.get(f"/submissions/{number}").text
    assert "&lt;b&gt;me" in page and "<b>me" not in page and "New points, 0 to 4" in page
    as_learner = theirs.get(f"/submissions/{number}?as=learner").text
    assert "New points" not in as_learner and "&lt;b&gt;me" in as_learner
    command = ["requests", "--server", ada.server, "--token", open_lab.staff.token]
    assert main([*command, "--lab", "first"]) == 0
    said = capsys.readouterr().out
    assert f"01_first: submission {number}: scale: Ada: <b>me</b>" in said and "\x1b" not in said
    answer = {"question": "scale", "text": "Yes.", "points": "4"}
    assert theirs.ask("POST", f"/submissions/{number}/requests", answer).status == 303
    page = hers.get(f"/submissions/{number}").text
    assert "points set by staff: 4 of 4" in page and "answered" in hers.get("/submissions").text
    assert main(command) == 0 and capsys.readouterr().out == ""
    with pytest.raises(ServerError):
        list(ada.requests())
