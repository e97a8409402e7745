"""All labs' dates at once: out, in, moved by weeks; whole or not at all."""

import re
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from tests.autograder.service.asking import ask

DUE, LATE = "2031-03-01T12:00:00+01:00", "2031-03-08T12:00:00+01:00"
HEAD = (
    "lab,opens,due,late_until,penalty_per_day,attempts,grace_minutes,solutions,leaderboard,"
    "requests_until,held\n"
)


def test_what_comes_out_goes_in_and_changes_nothing(running: Any) -> None:
    staff = running.staff
    rules = {"due": DUE, "late_until": LATE, "attempts": 3, "penalty_per_day": 0.1}
    assert ask(staff, "PUT", "/api/labs/first", {**rules, "solutions": True})[0] == 200
    text = staff.text("schedule")
    assert text == f"{HEAD}01_first,,{DUE},{LATE},0.1,3,0,yes,,,\n02_second,,,,0,,0,,,,\n"
    assert staff.send("PUT", "schedule", body=text.encode(), dry_run=False)["changes"] == []
    assert (
        staff.send("PUT", "schedule", body=text.replace(",", ";").encode(), dry_run=False)[
            "changes"
        ]
        == []
    )


def test_the_command_sets_and_moves_dates_and_the_log_has_it(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ada, staff = running.enroll("ada"), running.staff
    where = ["--server", staff.server, "--token", staff.token]
    file = tmp_path / "schedule.csv"
    file.write_text(f"lab,due\nfirst,{DUE}\nsecond,{DUE}\n")
    assert main(["schedule", "set", str(file), "--dry-run", *where]) == 0
    assert "2 labs would change" in capsys.readouterr().out and ada.labs()[0]["due"] is None
    assert main(["schedule", "set", str(file), *where]) == 0
    assert f"01_first: due: None -> {DUE}" in capsys.readouterr().out
    assert ask(staff, "PUT", "/api/labs/first/extensions/ada", {"due": LATE})[0] == 200
    assert main(["schedule", "shift", "1", *where]) == 0
    found = {lab["name"]: lab["due"] for lab in ada.labs()}
    assert found == {"01_first": "2031-03-15T12:00:00+01:00", "02_second": LATE}
    assert main(["schedule", "shift", "-1", *where]) == 0
    assert {lab["due"] for lab in ada.labs()} == {LATE, DUE}
    entries = ask(staff, "GET", "/api/audit")[1]["entries"]
    assert sum(line["action"] == "dates" for line in entries) == 6
    assert main(["schedule", "show", *where]) == 0 and DUE in capsys.readouterr().out


@pytest.mark.parametrize(
    "text",
    [
        "",
        "due\n2031-03-01T12:00:00Z\n",
        "lab,king\nfirst,x\n",
        "lab,due\nnowhere,\n",
        "lab,due\nfirst,tomorrow\n",
        "lab,due\nfirst\n",
        "lab,due\nfirst,,\n",
        "lab,due\nfirst,\n01_first,\n",
        "lab,attempts\nfirst,many\n",
        "lab,solutions\nfirst,perhaps\n",
        f"lab,due,late_until\nfirst,{LATE},{DUE}\n",
        '"lab',
        "lab,due,due\nfirst,,\n",
    ],
)
def test_one_wrong_line_and_nothing_is_taken(running: Any, text: str) -> None:
    whole = text + f"second,{DUE}\n" if text.startswith("lab,due\n") else text
    with pytest.raises(ServerError) as refused:
        running.staff.send("PUT", "schedule", body=whole.encode(), dry_run=False)["changes"]
    assert refused.value.status in (404, 422)
    assert DUE not in running.staff.text("schedule")


@pytest.mark.parametrize(
    ("due", "weeks", "moved"),
    [
        ("0001-02-03T00:00:00-12:00", -104, "0001-01-01T12:00:00-12:00"),
        ("9999-12-20T00:00:00+14:00", 104, "9999-12-30T14:00:00+14:00"),
    ],
)
def test_dates_are_moved_as_far_as_calendars_go(
    running: Any, due: str, weeks: int, moved: str
) -> None:
    assert ask(running.staff, "PUT", "/api/labs/01_first", {"due": due})[0] == 200
    status, _ = ask(running.staff, "POST", "/api/schedule/shift", {"weeks": weeks})
    assert (status, running.server.course.store.dates.calendar().rules["01_first"].due) == (
        200,
        moved,
    )


@pytest.mark.parametrize("weeks", [0, 105, -105, 1.5, "1", None, True])
def test_weeks_are_a_whole_number(running: Any, weeks: Any) -> None:
    assert ask(running.staff, "POST", "/api/schedule/shift", {"weeks": weeks})[0] == 422


def test_only_instructors_change_the_schedule(running: Any, browse: Any) -> None:
    ada = running.enroll("ada")
    body = {"login": "grace", "role": "assistant"}
    grace = Connection(ada.server, running.staff.send("POST", "staff", body=body)["token"])
    with pytest.raises(ServerError):
        ada.text("schedule")
    assert grace.text("schedule").startswith("lab,")
    for who in (ada, grace):
        assert ask(who, "POST", "/api/schedule/shift", {"weeks": 1})[0] == 403
        with pytest.raises(ServerError) as refused:
            who.send("PUT", "schedule", body=b"lab\n", dry_run=False)["changes"]
        assert refused.value.status == 403
        browser = browse(ada.server)
        browser.log_in(who.token)
        assert browser.get("/schedule").status == 403
        assert browser.ask("POST", "/schedule/shift", {"weeks": "1"}).status == 403
    browser = browse(ada.server)
    browser.log_in(running.staff.token)
    foreign = browser.ask("POST", "/schedule", {"text": "lab\n"}, Origin="https://evil.example")
    assert foreign.status == 403
    shown = browser.ask("POST", "/schedule", {"text": f"lab,due\nfirst,{DUE}\n"})
    assert shown.status == 200 and "Let it hold" in shown.text and DUE in shown.text
    assert DUE not in running.staff.text("schedule")
    sure = {"text": f"lab,due\nfirst,{DUE}\n", "sure": "1"}
    assert browser.ask("POST", "/schedule", sure).status == 303
    assert DUE in browser.get("/schedule.csv").text
    assert browser.ask("POST", "/schedule/shift", {"weeks": "x"}).status == 422


def test_an_unknown_lab_is_named_as_it_was_typed(
    running: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--server", running.staff.server, "--token", running.staff.token]
    for action in ("hold", "release"):
        assert main(["schedule", action, "thrid", *where]) == 2
        said = capsys.readouterr().err
        assert "unknown lab: got 'thrid', expected one of 01_first" in said and "line" not in said


def test_dates_are_saved_from_the_table(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    form = {"due.01_first": DUE, "opens.01_first": "", "due.02_second": " "}
    assert browser.ask("POST", "/schedule/dates", form).status == 303
    rules = running.server.course.store.dates.calendar().rules
    assert rules["01_first"].due == DUE and "02_second" not in rules
    assert f'name="due.01_first" value="{DUE}"' in browser.get("/schedule").text.replace(
        "&#43;", "+"
    )
    for wrong, why in (
        ({"due.01_first": "tomorrow"}, "expected a time with its zone"),
        ({"attempts.01_first": "1"}, "got a date called"),
        ({"due.third": DUE}, "unknown lab"),
    ):
        answer = browser.ask("POST", "/schedule/dates", wrong)
        assert answer.status in (404, 422) and why in answer.text
    assert running.server.course.store.dates.calendar().rules == rules


def test_a_form_from_before_somebody_else_changed_the_dates_is_refused(
    running: Any, browser: Any
) -> None:
    """Sent as it is, it would take back what the other has set, or move every date twice."""
    browser.log_in(running.staff.token)

    def seen(path: str, form: str) -> str:
        field = r'\s*<input type="hidden" name="seen" value="([0-9a-f]+)"'
        match = re.search(f'action="{form}">{field}', browser.get(path).text)
        assert match, path
        return match[1]

    forms = {
        "/labs/01_first/dates": ("/labs", {"due": DUE, "attempts": "3"}),
        "/schedule/dates": ("/schedule", {"due.01_first": DUE}),
        "/schedule/shift": ("/schedule", {"weeks": "1"}),
    }
    stale = {path: {**form, "seen": seen(at, path)} for path, (at, form) in forms.items()}
    running.staff.send(
        "PUT", "schedule", body=b"lab,late_until\nfirst,2031-04-01T12:00:00+02:00\n", dry_run=False
    )["changes"]
    held = running.staff.text("schedule")
    for path, form in stale.items():
        refused = browser.ask("POST", path, form)
        assert refused.status == 409 and "after the page was loaded" in refused.text, path
    assert running.staff.text("schedule") == held
    for path, (at, form) in forms.items():
        fresh = {**form, "seen": seen(at, path)}
        assert browser.ask("POST", path, fresh).status == 303, path
        twice = browser.ask("POST", path, fresh)  # a double click changes nothing more
        assert twice.status == (409 if path.endswith("shift") else 303), path


def test_labs_are_called_by_the_titles_of_their_notebooks(
    running: Any, browser: Any, labs: Path
) -> None:
    ada = running.enroll("ada")
    running.wait(int(ada.submit("first", b'{"cells": []}')["id"]))
    source = '# %% [markdown]\n# # Rings, & trees\n# %% question="scale" points="4"\n'
    (labs / "01_first" / "lab.py").write_text(source + "def scale(): ...\n")
    assert [lab["title"] for lab in ada.labs()] == ["Rings, & trees", "02_second"]
    seen = "Rings, &amp; trees"
    for who, paths in (
        (ada, ("/labs", "/standing", "/submissions")),
        (running.staff, ("/labs", "/gradebook", "/schedule", "/learners/ada", "/today", "/rule")),
        (running.staff, ("/labs/first/numbers", "/labs/first/similarity", "/submissions")),
    ):
        browser.log_in(who.token)
        for path in paths:
            assert seen in browser.get(path).text, path
    (labs / "01_first" / "lab.py").write_text("def broken(:")
    assert ada.labs()[0]["title"] == "01_first"
