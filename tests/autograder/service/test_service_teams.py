"""Teams: one submission counts for each member, is graded and marked once, and stays theirs."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.records import personal_data
from autograder.service.records.marking import marking
from tests.autograder.service.asking import ask

CSV = b"login,team\nada,reds\nbob,reds\ncem,blues\n"
PAST = "2001-01-01T00:00:00Z"


def book(*cells: str) -> bytes:
    made = [{"cell_type": "code", "source": text} for text in cells]
    return json.dumps({"cells": made}).encode()


def points(running: Any) -> dict[str, float | None]:
    rows = ask(running.staff, "GET", "/api/gradebook?lab=first")[1]["rows"]
    return {row["login"]: row["labs"].get("01_first", {}).get("score") for row in rows}


def of(running: Any, login: str) -> list[Any]:
    store = running.server.course.store
    person = store.roster.find(login)
    assert person
    found: list[Any] = store.submissions.all(person_id=person.id)
    return found


@pytest.fixture
def people(running: Any) -> dict[str, Connection]:
    made = {name: running.enroll(name) for name in ("ada", "bob", "cem", "dan")}
    assert (
        len(running.staff.send("PUT", "labs", "first", "teams", body=CSV, dry_run=False)["changes"])
        == 3
    )
    return made


def hand_in(running: Any, who: Connection, *cells: str) -> int:
    number = int(who.submit("first", book(*cells))["id"])
    assert running.wait(number) == "graded"
    return number


def test_one_submission_counts_for_each_member_by_their_own_dates(
    running: Any, people: Any, browser: Any
) -> None:
    rules = {"due": PAST, "penalty_per_day": 0.0001}
    assert ask(running.staff, "PUT", "/api/labs/first", {**rules, "attempts": 2})[0] == 200
    path = "/api/labs/first/extensions/bob"
    assert ask(running.staff, "PUT", path, {"due": "2131-01-01T00:00:00Z"})[0] == 200
    number = hand_in(running, people["ada"], "x = 1")
    found = points(running)
    assert found["bob"] == 4 and found["ada"] is not None and found["ada"] < 4
    assert found["cem"] is None and found["dan"] is None
    labs = {lab["name"]: lab for lab in people["bob"].labs()}
    assert labs["01_first"]["attempts_left"] == 1
    assert labs["01_first"]["team"]["logins"] == ["ada", "bob"]
    (copy,) = of(running, "bob")
    assert copy.id != number and len(running.grader.graded) == 1
    whole = people["bob"].submission(str(copy.id))
    assert whole["report"]["tests"] and whole["state"] == "graded"
    for who, status in (("bob", 200), ("ada", 404), ("cem", 404)):
        assert ask(people[who], "GET", f"/api/submissions/{copy.id}")[0] == status
    browser.log_in(people["bob"].token)
    page = browser.get(f"/submissions/{copy.id}").text
    assert "reds, handed in by ada" in page and "4</strong> of 4" in page
    assert browser.get("/submissions").text.count("reds, handed in by ada") == 1
    assert json.loads(browser.get(f"/submissions/{copy.id}/notebook").text)["cells"]
    team = {"name": "reds", "handed_in_by": "ada"}
    assert whole["team"] == team
    hand_in(running, people["dan"], "x = 2")
    listed = ask(running.staff, "GET", "/api/submissions")[1]
    assert {row["login"]: row["team"] for row in listed} == {"ada": team, "bob": team, "dan": None}
    rows = ask(running.staff, "GET", "/api/gradebook")[1]["rows"]
    shown = {row["login"]: row["labs"]["01_first"].get("team") for row in rows if row["labs"]}
    assert shown == {"ada": team, "bob": team, "dan": None}
    assert "Team reds: ada, bob." in browser.get("/labs").text
    assert people["bob"].get("standing")["total"] == 1


def test_a_copy_waits_with_its_original_and_is_graded_by_nobody(running: Any, people: Any) -> None:
    number = int(people["ada"].submit("first", book("wait", "x = 1"))["id"])
    assert running.grader.entered.wait(30)
    (copy,) = of(running, "bob")
    assert copy.state == "stored" and copy.score is None
    assert ask(running.staff, "GET", "/api/queue")[1]["waiting"] == 0
    running.grader.gate.set()
    running.wait(number)
    running.wait(copy.id)
    assert points(running)["bob"] == 4 and len(running.grader.graded) == 1


def test_answers_are_marked_once_for_the_team(running: Any, people: Any) -> None:
    store = running.server.course.store
    hand_in(running, people["ada"], "x = 1", "manual")
    (copy,) = of(running, "bob")
    assert [(pile.waiting, pile.written) for pile in marking.list_piles(store.database)] == [(1, 1)]
    mark = {"why": {"points": 1.5, "comment": "Well."}}
    assert ask(running.staff, "PUT", f"/api/submissions/{copy.id}/marks", mark)[0] == 200
    assert points(running) == {"ada": 5.5, "bob": 5.5, "cem": None, "dan": None}
    report = store.submissions.report(copy.id)
    assert report and report.manual[0].comment == "Well."
    hand_in(running, people["bob"], "x = 1", "manual", "again")  # the same answer keeps its mark
    assert points(running)["ada"] == 5.5 and not marking.list_piles(store.database)


def test_grading_again_and_a_batch_reach_the_copies(running: Any, people: Any) -> None:
    number = hand_in(running, people["ada"], "x = 1")
    (copy,) = of(running, "bob")
    running.grader.right = "x = 2"
    assert ask(running.staff, "POST", f"/api/submissions/{copy.id}/regrade")[0] == 202
    while points(running)["bob"] != 0:
        running.wait(number)
    assert points(running)["ada"] == 0
    running.grader.right = "x = 1"
    batch = ask(running.staff, "POST", "/api/labs/first/regrade")[1]["batch"]
    running.wait(number)
    while ask(running.staff, "GET", f"/api/regrades/{batch}")[1]["state"] != "ready":
        running.wait(number)
    assert points(running)["bob"] == 0
    assert ask(running.staff, "POST", f"/api/regrades/{batch}/publish")[0] == 200
    assert points(running) == {"ada": 4, "bob": 4, "cem": None, "dan": None}


def test_everybody_keeps_what_was_handed_in_when_people_change(running: Any, people: Any) -> None:
    hand_in(running, people["ada"], "x = 1")
    running.staff.send(
        "PUT", "labs", "first", "teams", body=b"team,login\n,bob\nreds,dan\n", dry_run=False
    )["changes"]
    hand_in(running, people["ada"], "x = 2")
    assert points(running) == {"ada": 4, "bob": 4, "cem": None, "dan": 0}
    assert [len(of(running, name)) for name in ("ada", "bob", "dan")] == [2, 1, 1]
    log = ask(running.staff, "GET", "/api/audit")[1]["entries"]
    changes = [(x["subject"], x["before"], x["after"]) for x in log if x["action"] == "team"]
    assert changes[:2] == [("01_first: dan", None, "reds"), ("01_first: bob", "reds", None)]


def test_who_is_removed_leaves_the_work_of_a_team_to_it(running: Any, people: Any) -> None:
    number = hand_in(running, people["ada"], "x = 1", "manual")
    (copy,) = of(running, "bob")
    request = {"question": "why", "text": "Is it so?"}
    until = {"requests_until": "2131-01-01T00:00:00Z"}
    assert ask(running.staff, "PUT", "/api/labs/first", until)[0] == 200
    for who, mine in (("ada", number), ("bob", copy.id)):
        assert ask(people[who], "POST", f"/api/submissions/{mine}/requests", request)[0] == 201
    store = running.server.course.store
    ada = store.roster.find("ada")
    with store.database.write() as connection:
        personal_data.remove(connection, ada, store.clock, "me")
    (kept,) = of(running, "bob")
    assert kept.id == number and points(running)["bob"] == 4
    assert store.submissions.notebook(number)
    assert [thread[1][0].name for thread in store.requests.threads(kept).values()] == ["bob"]
    assert [(p.waiting, p.written) for p in marking.list_piles(store.database)] == [(1, 1)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("team\nreds\n", "expected team and login"),
        ("team,login,x\nreds,ada,1\n", "expected team and login"),
        ("team,login\nreds,nobody\n", "line 2: no learner is called 'nobody'"),
        ("team,login\nreds,instructor\n", "line 2: no learner"),
        ("team,login\nreds,ada\nblues,ada\n", "line 3: ada comes twice"),
        ("team,login\nreds\n", "line 2: expected 2 columns"),
        ("team,login\n" + "x" * 101 + ",ada\n", "line 2: team"),
        ("\xff", "expected team and login"),
    ],
)
def test_a_list_that_cannot_be_taken_changes_nothing(
    running: Any, people: Any, text: str, why: str
) -> None:
    before = running.staff.text("labs", "first", "teams")
    url = f"{running.staff.server}/api/labs/first/teams"
    headers = {"Authorization": f"Bearer {running.staff.token}"}
    answer = httpx.put(url, content=text.encode(), headers=headers, timeout=30, verify=False)
    assert answer.status_code == 422 and why in answer.json()["detail"]
    assert (
        running.staff.text("labs", "first", "teams")
        == before
        == "team,login\nblues,cem\nreds,ada\nreds,bob\n"
    )


def test_the_page_and_the_command_show_what_would_change_first(
    running: Any, people: Any, browser: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "teams.csv"
    file.write_text("login;team\ndan;blues\n")
    where = ["--server", running.staff.server, "--token", running.staff.token]
    assert main(["teams", "set", "first", str(file), "--dry-run", *where]) == 0
    assert capsys.readouterr().out == "dan: no team -> blues\n1 would change.\n"
    assert "dan" not in running.staff.text("labs", "first", "teams")
    browser.log_in(running.staff.token)
    form = {"text": file.read_text()}
    shown = browser.ask("POST", "/labs/first/teams", form).text
    assert "dan: no team" in shown and "Let it hold" in shown
    assert browser.ask("POST", "/labs/first/teams", {**form, "sure": "1"}).status == 303
    assert "blues,dan" in running.staff.text("labs", "first", "teams")
    assert main(["teams", "show", "first", *where]) == 0
    assert "reds,ada" in capsys.readouterr().out
    browser.log_in(people["ada"].token)
    assert browser.ask("POST", "/labs/first/teams", form).status == 403
    assert browser.get("/labs/first/teams").status == 403
    assert ask(people["ada"], "PUT", "/api/labs/first/teams", {})[0] == 403
