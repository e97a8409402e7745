"""People, many at once: rosters as platforms export them, tokens, leaving, a factor on time."""

import csv
import io
import stat
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.service.times import iso
from tests.autograder.service.asking import ask

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,01_first (7)
,,,,,Manual Posting
    Points Possible,,,,,4
"Lovelace, Ada",1,,ada,A,3
"Student, Test",2,,0f41e68d,A,
"""
MOODLE = """First name,Last name,Email address,Groups
Ada,Lovelace,ada@b.example,A
"""
EDGE = "--b\r\nContent-Disposition: form-data; name="


def assistant(running: Any) -> Connection:
    body = {"login": "grace", "role": "assistant"}
    return Connection(running.staff.server, running.staff.send("POST", "staff", body=body)["token"])


def person(running: Any, login: str) -> dict[str, Any]:
    (found,) = [
        p
        for role in ("", "former")
        for p in ask(running.staff, "GET", f"/api/people?role={role}&search={login}")[1]["people"]
    ]
    return dict(found)


# ---- rosters


@pytest.mark.parametrize(
    ("exported", "login"), [(CANVAS, "ada"), (MOODLE, "ada@b.example")], ids=["canvas", "moodle"]
)
def test_a_roster_is_taken_as_platforms_export_it(running: Any, exported: str, login: str) -> None:
    found = running.staff.roster(exported.encode())
    assert (found["added"], found["problems"]) == (1, [])
    ada = person(running, login)
    assert (ada["name"], ada["section"], ada["role"]) == ("Ada Lovelace", "A", "learner")


def test_a_roster_is_taken_as_excel_pads_it_and_leaves_out_what_is_empty(running: Any) -> None:
    found = running.staff.roster(b"login;name;email;;\r\nada;Ada;;;\r\nbob;Bob\r\ncy;Cy;;;x\r\n")
    assert (found["added"], [p["line"] for p in found["problems"]]) == (2, [4])


def test_the_page_takes_the_encodings_that_the_command_takes(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    excel = "login\tname\r\nada\tÄda\r\n".encode("utf-16")
    files, cookie = {"file": ("roster.txt", excel)}, {"Cookie": browser.cookie}
    page = httpx.post(f"{running.staff.server}/people/roster", files=files, headers=cookie)
    assert page.status_code == 200
    assert "Äda" in page.text


def test_a_roster_says_what_it_would_change(running: Any) -> None:
    running.staff.roster(b"login,section\nada,A\nbob,A\n")
    found = running.staff.roster(b"login,section\nada,A\nbob,B\ncy,B\n", dry_run=True)
    assert found["changes"] == [
        {"login": "bob", "before": {"section": "A"}, "after": {"section": "B"}},
        {"login": "cy", "before": None, "after": {"section": "B"}},
    ]
    assert person(running, "bob")["section"] == "A"


def upload(browser: Any, fields: str) -> httpx.Response:
    kind = "multipart/form-data; boundary=b"
    headers = {"Content-Type": kind, "Cookie": browser.cookie}
    url = f"http://{browser.netloc}/people/roster"
    return httpx.post(
        url, content=f"{fields}--b--\r\n".encode(), headers=headers, timeout=30, verify=False
    )


def test_a_roster_is_seen_before_it_is_taken_over(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    text = "\nlogin,name\nada,<b>Ada</b>\nb!,x\n"
    page = upload(browser, f'{EDGE}"file"; filename="r.csv"\r\n\r\n{text}\r\n')
    assert page.status_code == 200 and "1 added, 0 changed" in page.text
    assert "<b>Ada" not in page.text and "line 4" in page.text
    assert ask(running.staff, "GET", "/api/people?search=ada")[1]["people"] == []
    sent = f'{EDGE}"text"\r\n\r\n{text}\r\n{EDGE}"sure"\r\n\r\n1\r\n'
    assert "is taken over" in upload(browser, sent).text
    assert person(running, "ada")["name"] == "<b>Ada</b>"
    assert upload(browser, f'{EDGE}"text"\r\n\r\n \r\n').status_code == 422


def test_a_roster_that_is_too_large_is_not_taken(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    answer = upload(browser, f'{EDGE}"text"\r\n\r\n{"x" * (9 << 20)}\r\n')
    assert answer.status_code in (400, 413)  # of a part, or of the whole: whichever is met first


# ---- tokens for all


def test_all_learners_get_tokens_and_the_file_is_its_owners(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    had = running.enroll("ada")
    running.staff.roster(b"login,section\nada,A\nbob,A\ncy,B\n=dee,A\n")
    where = ["--server", running.staff.server, "--token", running.staff.token]
    out = tmp_path / "tokens.csv"
    assert main(["tokens", *where, "-o", str(out), "--section", "A"]) == 0
    assert "1 token." in capsys.readouterr().out
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    (bob,) = csv.DictReader(io.StringIO(out.read_text()))
    assert bob["login"] == "bob" and Connection(had.server, bob["token"]).labs()
    assert main(["tokens", *where, "-o", str(out)]) != 0  # nothing is written over
    other = tmp_path / "other.csv"
    assert main(["tokens", *where, "-o", str(other), "--section", "NOSUCH"]) == 2
    assert "no learner is in it" in capsys.readouterr().err and not other.exists()
    assert had.labs()
    renewed = running.staff.send(
        "POST", "tokens", body={"kind": "token", "section": "", "renew": True}
    )["people"]
    assert [p["login"] for p in renewed] == ["ada", "bob", "cy"]
    with pytest.raises(ServerError, match="not known"):
        had.labs()
    assert (
        running.staff.send("POST", "tokens", body={"kind": "token", "section": "", "renew": False})[
            "people"
        ]
        == []
    )
    log = ask(running.staff, "GET", "/api/audit")[1]["entries"]
    assert [e["subject"] for e in log if e["action"] == "token"][:3] == ["cy", "bob", "ada"]


def test_a_link_logs_in_once_and_ends_no_token(running: Any, browse: Any) -> None:
    ada = running.enroll("ada")
    (link,) = [
        p["link"]
        for p in running.staff.send(
            "POST", "tokens", body={"kind": "link", "section": "", "renew": False}
        )["people"]
    ]
    path = link.removeprefix(ada.server)
    browser = browse(ada.server)
    assert "Log in as" in browser.get(path).text
    code = path.partition("=")[2]
    assert browser.ask("POST", "/enter", {"code": code, "next": "/"}).status == 303
    assert browser.get("/labs").status == 200
    assert browse(ada.server).ask("POST", "/enter", {"code": code, "next": "/"}).status == 401
    assert ada.labs()


# ---- leaving, and coming back


def test_who_is_removed_has_no_way_in_and_comes_back_with_their_work(
    running: Any, browse: Any
) -> None:
    ada = running.enroll("ada")
    number = int(ada.submit("first", b'{"cells": [{"cell_type": "code", "source": "x"}]}')["id"])
    running.wait(number)
    browser = browse(ada.server)
    browser.log_in(ada.token)
    where = ["--server", running.staff.server, "--token", running.staff.token]
    assert main(["roster", "remove", "ada", *where]) == 0
    with pytest.raises(ServerError, match="not known"):
        ada.labs()
    assert browser.get("/labs").status == 303
    assert ask(running.staff, "GET", "/api/gradebook")[1]["learners"] == 0
    assert person(running, "ada")["role"] == "former"
    assert ask(running.staff, "DELETE", "/api/people/ada")[0] == 409
    assert ask(running.staff, "DELETE", "/api/people/instructor")[0] == 409
    assert running.staff.submission(str(number))["login"] == "ada"
    assert running.staff.roster(b"login\nada\n")["changed"] == 1
    assert person(running, "ada")["role"] == "learner"
    assert ask(running.staff, "DELETE", "/api/people/ada")[0] == 204
    again = running.enroll("ada")
    assert again.submission(str(number))["id"] == number


# ---- time


def test_a_factor_on_time_holds_for_all_labs_and_learners_see_their_dates(running: Any) -> None:
    ada, bob = running.enroll("ada"), running.enroll("bob")
    hour, now = 3600, time.time()
    for lab in ("first", "second"):
        rules = {"opens": iso(now - 4 * hour), "due": iso(now - hour), "late_until": iso(now)}
        assert ask(running.staff, "PUT", f"/api/labs/{lab}", rules)[0] == 200
    where = ["--server", running.staff.server, "--token", running.staff.token]
    assert main(["roster", "time", "ada", "1.5", *where]) == 0
    assert person(running, "ada")["factor"] == 1.5
    dues = {lab["due"].replace("+00:00", "Z") for lab in ada.labs()}
    assert dues == {iso(now + hour / 2)}
    assert {lab["due"] for lab in bob.labs()} == {iso(now - hour)}
    extended = iso(now + 9 * hour)
    path = "/api/labs/first/extensions/ada"
    assert ask(running.staff, "PUT", path, {"due": extended})[1]["due"] == extended
    assert ask(running.staff, "PUT", "/api/people/ada/time", {"factor": 1})[0] == 200
    assert {lab["due"] for lab in ada.labs()} == {extended, iso(now - hour)}
    for wrong in (0.5, 11, True, "2", None, [1]):
        assert ask(running.staff, "PUT", "/api/people/ada/time", {"factor": wrong})[0] == 422


# ---- who may


def test_only_instructors_change_people(running: Any, browse: Any) -> None:
    ada, grace = running.enroll("ada"), assistant(running)
    for who in (ada, grace):
        assert ask(who, "POST", "/api/tokens", {})[0] == 403
        assert ask(who, "GET", "/api/people")[0] == 403
        assert ask(who, "DELETE", "/api/people/ada")[0] == 403
        assert ask(who, "PUT", "/api/people/ada/time", {"factor": 2})[0] == 403
        browser = browse(ada.server)
        browser.log_in(who.token)
        assert browser.get("/people").status == 403
        for path in ("/people/tokens", "/people/remove", "/learners/ada/time"):
            assert browser.ask("POST", path, {"login": "ada", "kind": "token"}).status == 403
        assert upload(browser, f'{EDGE}"text"\r\n\r\nlogin\r\n').status_code == 403
    browser = browse(ada.server)
    browser.log_in(running.staff.token)
    foreign = {"Origin": "https://evil.example"}
    for path in ("/people/tokens", "/people/remove", "/learners/ada/time"):
        assert browser.ask("POST", path, {"login": "ada"}, **foreign).status == 403
    assert ada.labs()


@pytest.mark.parametrize("body", [{"kind": "crown"}, {"kind": 1}, {"renew": "yes"}, {"a": 1}])
def test_what_asks_for_no_tokens_is_refused(running: Any, body: Any) -> None:
    assert ask(running.staff, "POST", "/api/tokens", body)[0] == 422


def test_the_page_of_people_walks_and_makes_a_file(running: Any, browser: Any) -> None:
    lines = "".join(f"learner{n:03},A\n" for n in range(60))
    running.staff.roster(f"login,section\n{lines}".encode())
    browser.log_in(running.staff.token)
    page = browser.get("/people?role=learner").text
    assert "60 learners" in page and "learner049" in page and "learner050" not in page
    assert "learner059" in browser.get("/people?role=learner&after=learner049").text
    made = browser.ask("POST", "/people/tokens", {"kind": "link", "section": "A"})
    assert made.getheader("Content-Disposition") == 'attachment; filename="links.csv"'
    assert len(made.text.splitlines()) == 61 and "/enter?code=" in made.text
    assert browser.ask("POST", "/people/tokens", {"kind": 'x"'}).status == 422
