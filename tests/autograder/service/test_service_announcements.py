"""Announcements: who sees which, from when until when, until they are read; nothing of it runs."""

import time
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.database.schema import announcements
from autograder.service.records import personal_data
from autograder.service.times import iso
from tests.autograder.service.asking import ask

HOUR = 3600


def texts(who: Connection, *, unread: bool = False) -> list[str]:
    return [news["text"] for news in who.announcements(unread=unread)]


@pytest.fixture
def people(running: Any) -> tuple[Connection, Connection]:
    running.staff.roster(b"login,section\nada,A\nbob,B\n")
    body = {"kind": "token"}
    made = ask(running.staff, "POST", "/api/tokens", body)[1]["people"]
    tokens = {person["login"]: person["token"] for person in made}
    server = running.staff.server
    return Connection(server, tokens["ada"]), Connection(server, tokens["bob"])


def test_a_section_sees_its_own_in_its_time_until_it_is_read(running: Any, people: Any) -> None:
    staff, (ada, bob) = running.staff, people
    now = time.time()
    every = staff.send("POST", "announcements", body={"text": "to all"})["id"]
    mine = staff.send(
        "POST", "announcements", body={"text": "to A", "section": "A", "ends": iso(now + HOUR)}
    )["id"]
    later = staff.send("POST", "announcements", body={"text": "later", "starts": iso(now + HOUR)})[
        "id"
    ]
    assert texts(ada) == ["to A", "to all"] and texts(bob) == ["to all"]
    assert texts(staff) == ["later", "to A", "to all"]
    ada.mark_read(every)
    ada.mark_read(every)  # twice is once
    assert texts(ada, unread=True) == ["to A"] and texts(bob, unread=True) == ["to all"]
    assert [news["unread"] for news in ada.announcements()] == [True, False]
    for who, number in ((bob, mine), (ada, later), (ada, 99), (ada, 10**30)):
        assert ask(who, "POST", f"/api/announcements/{number}/read")[0] == 404
    staff.do("DELETE", "announcements", str(every))
    assert texts(ada) == ["to A"] and texts(bob) == []
    assert ask(staff, "DELETE", f"/api/announcements/{every}")[0] == 404
    log = ask(staff, "GET", "/api/audit")[1]["entries"]
    actions = [line["action"] for line in log if "announcement" in line["action"]]
    assert actions == ["announcement withdrawn", *["announcement"] * 3]
    store = running.server.course.store
    with store.database.write() as connection:  # time goes by
        connection.execute(announcements.update().values(ends=now - 1))
    assert texts(ada) == [] and len(texts(staff)) == 2


@pytest.mark.parametrize(
    ("body", "why"),
    [
        *(({"text": text}, "text") for text in (None, "", " \0", 7, "x" * 10_001)),
        *(({"text": "x", "section": s}, "section") for s in ("C", ["A"], 7)),
        *(({"text": "x", "starts": t}, "starts") for t in ("tomorrow", "2031-03-01T12:00:00", 7)),
        ({"text": "x", "ends": "2001-03-01T12:00:00Z"}, "is to come"),
        (
            {"text": "x", "starts": "2131-03-01T12:00:00Z", "ends": "2131-03-01T12:00:00Z"},
            "is to come",
        ),
        ({"txet": "x"}, "expected"),
    ],
)
def test_nonsense_is_refused(unmoved: Any, body: Any, why: str) -> None:
    status, answer = ask(unmoved.staff, "POST", "/api/announcements", body)
    assert status == 422 and why in answer["detail"]
    assert texts(unmoved.staff) == []


def test_pages_show_it_and_run_nothing(running: Any, people: Any, browser: Any) -> None:
    ada, _ = people
    browser.log_in(running.staff.token)
    bad = "**Exam** <script>alert(1)</script> [x](javascript:alert(1)) ![p](http://spy/p.png)"
    bad += ' [Dates](/labs) `href="/`'
    form = {"text": bad, "section": "A", "starts": "", "ends": ""}
    seen = browser.ask("POST", "/announcements", {**form, "preview": "1"}).text
    assert "As learners will see it" in seen and texts(running.staff) == []
    assert browser.ask("POST", "/announcements", form).status == 303
    browser.log_in(ada.token)
    for path in ("/submissions", "/labs", "/announcements"):
        text = browser.get(path).text
        assert "<strong>Exam</strong>" in text and "Mark as read" in text, path
        assert "<script>alert" not in text and 'href="javascript' not in text
        assert "<img" not in text
        assert '<a href="/labs" rel="noopener noreferrer">Dates</a> <code>href="/</code>' in text
    assert browser.ask("POST", "/announcements", form).status == 403
    assert browser.ask("POST", "/announcements/1/withdraw", {"a": "1"}).status == 403
    assert browser.ask("POST", "/announcements/1/read", {"a": "1"}).status == 303
    assert "Exam" not in browser.get("/submissions").text
    assert "Exam" in browser.get("/announcements").text
    browser.log_in(running.staff.token)
    assert browser.ask("POST", "/announcements/1/withdraw", {"a": "1"}).status == 303
    assert "There is none" in browser.get("/announcements").text


def test_the_command_line_writes_shows_and_withdraws(
    running: Any, people: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(who: Connection, *command: str) -> str:
        assert main(["news", *command, "--server", who.server, "--token", who.token]) == 0
        return capsys.readouterr().out

    file = tmp_path / "news.md"
    file.write_text("No lab today.\n\nSee *you*.")
    assert said(running.staff, "write", str(file), "--section", "B") == "announcement 1\n"
    assert said(people[0], "show") == ""
    lines = said(people[1], "show").splitlines()
    assert lines[0].startswith("* 1: ") and lines[1] == "    No lab today."
    assert "withdrawn" in said(running.staff, "withdraw", "1") and said(people[1], "show") == ""


def test_what_somebody_has_read_goes_with_them(running: Any, people: Any) -> None:
    running.staff.send("POST", "announcements", body={"text": "to all"})["id"]
    people[0].mark_read(1)
    store = running.server.course.store
    ada = store.roster.find("ada")
    with store.database.write() as connection:
        personal_data.remove(connection, ada, store.clock, "me")
    assert texts(people[1], unread=True) == ["to all"]
