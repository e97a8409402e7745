"""A term's plan in the next: dates moved by the clock, the rule, comments; never a person."""

import io
import json
import sqlite3
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx
import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.database import schema
from autograder.service.database.backups import _head, backup
from autograder.service.errors import Refused, ServerError
from autograder.service.records.grades import course_rule, kept_comments
from autograder.service.records.people import Edit
from autograder.service.records.rules import Rules
from autograder.service.records.store import Store
from autograder.service.records.terms.plans import Move, current_plan, plan_of

ZURICH = "Europe/Zurich"  # where clocks go forward on 30 March 2031 and 28 March 2032, at 02:00
OPENS, DUE, LATE = (
    "2031-02-17T08:00:00+01:00",
    "2031-04-07T12:00:00+02:00",
    "2031-04-14T12:00:00+02:00",
)
MANUAL = (
    '# %% [markdown] question="why" points="2" manual="true" rubric1="2: Names the unit"\n# Why?\n'
)
TEXTS = ("Which\tunit? \\ N", "See \u201cunits\u201d.")


@pytest.fixture
def labs(labs: Path) -> Path:
    """Return the labs, the first with a question for people."""
    (labs / "01_first" / "lab.py").write_text(MANUAL)
    return labs


def fill(store: Store) -> None:
    """Give a course a term: dates of three labs, a rule, comments, a learner."""
    staff = store.roster.find("instructor") or store.roster.add("instructor", "instructor")
    ada = store.roster.add("ada", "learner", name="Ada Secret")
    store.submissions.add(ada, "01_first", b'{"cells": []}')
    rules = Rules(opens=OPENS, due=DUE, late_until=LATE, penalty_per_day=0.25, attempts=3)
    for lab in ("01_first", "09_gone"):
        store.dates.set_rules(lab, Rules.read({**rules.to_dict(), "held": True}), staff)
    store.dates.set_rules("02_second", Rules(due=DUE, solutions=True, late_until=LATE), staff)
    weights = {"01_first": 2.0, "09_gone": 3.0}
    rule = {"drop_lowest": 1, "weights": weights}
    course_rule.put(Edit(store.database, lambda: 0.0, staff), rule, weights)
    for lab, question, item in (
        *(("01_first", "why", "Names the unit"), ("01_first", "why", "Says how")),
        *(("01_first", "gone", ""), ("09_gone", "why", "")),
    ):
        for text in TEXTS:
            kept_comments.keep(Edit(store.database, lambda: 0.0, staff), lab, question, item, text)
    with store.database.write() as connection:
        used = Counter({("why", " ".join(TEXTS[1].split())): 2})
        kept_comments.count_uses(connection, "01_first", used)


@pytest.fixture
def old(tmp_path: Path, database_url: Any) -> Path:
    """Return a backup of a term, once from each database."""
    folder = tmp_path / "old"
    folder.mkdir()
    url = database_url if isinstance(database_url, str) else ""
    store = Store(url or f"sqlite:///{folder}/course.sqlite3")
    fill(store)
    store.close()
    backup(folder, tmp_path / "old.backup", url)
    return tmp_path / "old.backup"


def where(who: Connection) -> list[str]:
    return ["--server", who.server, "--token", who.token]


def audit(running: Any, action: str) -> int:
    log = schema.audit_log.c.action
    rows = running.server.course.store.database.rows(schema.audit_log.select().where(log == action))
    return len(rows)


def test_a_backup_becomes_the_next_term_once(
    running: Any, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, staff = running.server.course.store, running.staff
    command = ["term", "import", str(old), "--start", "2032-02-16", "--zone", ZURICH]
    command += where(staff)
    before = current_plan(store.database)
    assert main([*command, "--dry-run"]) == 1  # some of it has no place here
    said = capsys.readouterr()
    assert "Would be: labs: 2 added, 0 changed, 0 unchanged; comments: 2 added." in said.out
    assert "01_first: due: None -> 2032-04-05T12:00:00+02:00" in said.out
    assert current_plan(store.database) == before and audit(running, "import term") == 0
    assert main(command) == 1
    again = capsys.readouterr()
    assert again.out == said.out.replace("Would be: ", "") and again.err == said.err
    assert again.err.splitlines() == [
        "09_gone: this server has no such lab: what the term says of it is left out",
        "01_first: gone: the lab asks people no such question: 2 comments are left out",
        "01_first: why: its rubric has no item 'Says how': 2 comments are left out",
    ]
    rules = store.dates.calendar().rules
    assert rules["01_first"] == Rules(
        opens="2032-02-16T08:00:00+01:00",
        due="2032-04-05T12:00:00+02:00",
        late_until="2032-04-12T12:00:00+02:00",
        penalty_per_day=0.25,
        attempts=3,
    )
    assert set(rules) == {"01_first", "02_second"} and rules["02_second"].solutions
    kept = kept_comments.of_question(store.database, "01_first", "why")
    assert [comment.text for comment in kept] == ["See \u201cunits\u201d.", "Which unit? \\ N"]
    assert running.server.course.rule().to_dict() == {"drop_lowest": 1, "weights": {"01_first": 2}}
    assert audit(running, "import term") == 1
    assert main(command) == 1
    assert "0 added, 0 changed, 2 unchanged; comments: 0 added." in capsys.readouterr().out
    assert audit(running, "import term") == 1 and audit(running, "dates") == 2
    assert store.roster.find("ada") is None


def test_a_plan_has_nobody_in_it_and_goes_in_as_it_came_out(
    running: Any, old: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = json.dumps(plan_of(old))
    assert not any(name in text for name in ("ada", "Secret", "instructor", "held", "sha256"))
    file = tmp_path / "term.json"
    file.write_text(text)
    how = ["--weeks", "0", "--zone", ZURICH, *where(running.staff)]
    assert main(["term", "import", str(file), *how]) == 1
    capsys.readouterr()
    assert main(["term", "show", *where(running.staff)]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown == running.staff.get("term")
    assert shown["labs"]["01_first"] == plan_of(old)["labs"]["01_first"]
    taken = running.staff.send(
        "POST", "term", body={"term": shown, "weeks": 0, "zone": ZURICH}, dry_run=False
    )
    counts = {"added": 0, "changed": 0, "unchanged": 2, "changes": [], "rule": None}
    assert taken == {**counts, "comments": 0, "problems": []}


@pytest.mark.parametrize(
    ("text", "days", "zone", "expected"),
    [
        ("2031-03-24T12:00:00+01:00", 7, ZURICH, "2031-03-31T12:00:00+02:00"),
        ("2031-10-20T23:59:00+02:00", 7, ZURICH, "2031-10-27T23:59:00+01:00"),
        ("2031-03-24T11:00:00Z", 7, ZURICH, "2031-03-31T12:00:00+02:00"),
        ("2031-03-24T12:00:00+01:00", 7, "UTC", "2031-03-31T11:00:00+00:00"),
        ("2031-03-23T02:30:00+01:00", 7, ZURICH, "2031-03-30T03:30:00+02:00"),  # skipped
        ("2031-10-19T02:30:00+02:00", 7, ZURICH, "2031-10-26T02:30:00+02:00"),  # comes twice
        ("2031-03-31T12:00:00+02:00", -7, ZURICH, "2031-03-24T12:00:00+01:00"),
    ],
)
def test_clocks_keep_their_time_where_summer_time_begins(
    text: str, days: int, zone: str, expected: str
) -> None:
    moved = Move(days, ZoneInfo(zone)).move_dates(Rules(due=text)).due
    assert moved == expected


def test_the_first_lab_opens_on_the_day_of_the_start() -> None:
    first = [Rules(opens=OPENS), Rules(opens="2031-02-16T23:30:00Z"), Rules(due=DUE)]
    body = {"start": "2032-02-29", "zone": ZURICH}
    move = Move.read(body, first)  # 00:30 of the 17th, there
    for rules in first[:2]:
        moved = move.move_dates(rules).opens
        assert moved and moved.startswith("2032-02-29T")
    with pytest.raises(Refused, match="no lab of it opens at a date"):
        Move.read(body, first[2:])
    with pytest.raises(Refused, match="there is no lab in the plan"):
        Move.read(body, [])


WEEK = {"weeks": 1, "zone": ZURICH}
EMPTY: dict[str, Any] = {"labs": {}, "rule": {"drop_lowest": 0, "weights": {}}, "comments": []}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"zone": "Europe/Zürich"}, "zone: got 'Europe/Z"),
        ({"zone": None}, "expected the name of a zone"),
        ({"zone": "../../etc/passwd"}, "expected the name of a zone"),
        ({"weeks": None}, "either the day of its start or a number of weeks"),
        ({"start": "2032-02-16"}, "either the day of its start or a number of weeks"),
        ({"weeks": True}, "weeks: got 'True'"),
        ({"weeks": 521}, "expected -520 to 520"),
        ({"weeks": 1.5}, "weeks: got '1.5'"),
        ({"weeks": None, "start": "soon"}, "no lab of it opens"),
        ({"term": None}, "this is no plan"),
        ({"term": []}, "this is no plan"),
        ({"term": {**EMPTY, "people": []}}, "this is no plan"),
        ({"term": {**EMPTY, "labs": []}}, "this is no plan"),
        ({"term": {**EMPTY, "labs": {"x": 1}}}, "expected the rules of a lab"),
        ({"term": {**EMPTY, "labs": {"x": {"due": "noon"}}}}, "term: x: lab: due: got 'noon'"),
        ({"term": {**EMPTY, "labs": {"x": {"king": 1}}}}, "term: x: lab: king"),
        ({"term": {**EMPTY, "rule": {}}}, "rule: expected"),
        ({"term": {**EMPTY, "rule": {"drop_lowest": -1, "weights": {}}}}, "rule: drop_lowest"),
        ({"term": {**EMPTY, "comments": ["x"]}}, "comments: got 'x'"),
        ({"term": {**EMPTY, "comments": [{"lab": 1}]}}, "comments: got"),
        (
            {"term": {**EMPTY, "comments": [dict.fromkeys(("lab", "question", "item"), "x")]}},
            "comments: got",
        ),
    ],
)
def test_nonsense_is_one_line_and_nothing_is_taken(
    running: Any, change: dict[str, Any], why: str
) -> None:
    good = {**EMPTY, "labs": {"01_first": {"due": DUE}}}
    term = change.get("term", good)
    if isinstance(term, dict) and isinstance(term.get("labs"), dict):
        term = {**term, "labs": {"01_first": {"due": DUE}, **term["labs"]}}
    with pytest.raises(ServerError) as refused:
        running.staff.send("POST", "term", body={**WEEK, **change, "term": term}, dry_run=False)
    assert refused.value.status == 422 and why in str(refused.value)
    assert "\n" not in str(refused.value)
    assert running.server.course.store.dates.calendar().rules == {}


def test_dates_that_leave_the_calendar_or_cross_are_refused_whole(running: Any) -> None:
    labs = {"01_first": {"due": DUE}, "02_second": {"due": "9999-12-28T12:00:00+00:00"}}
    crossing = {"opens": "2031-10-26T02:50:00+02:00", "due": "2031-10-26T02:10:00+01:00"}
    for second in (labs["02_second"], crossing):
        term = {**EMPTY, "labs": {**labs, "02_second": second}}
        with pytest.raises(ServerError) as refused:
            running.staff.send("POST", "term", body={"term": term, **WEEK}, dry_run=False)
        assert refused.value.status == 422 and "term: 02_second: " in str(refused.value)
    assert running.server.course.store.dates.calendar().rules == {}


def test_a_zone_without_the_first_date_of_a_term_is_refused(running: Any) -> None:
    term = {**EMPTY, "labs": {"01_first": {"opens": "0001-01-01T00:00:00+00:00"}}}
    with pytest.raises(ServerError) as refused:
        body = {"term": term, "start": "2032-02-16", "zone": "America/New_York"}
        running.staff.send("POST", "term", body=body, dry_run=True)
    assert refused.value.status == 422 and "no such date" in str(refused.value)


def test_dates_that_are_here_change_and_what_is_held_back_stays_so(running: Any) -> None:
    store, staff = running.server.course.store, running.staff
    by = store.roster.find("instructor")
    store.dates.set_rules("01_first", Rules(due=DUE, held=True, attempts=2), by)
    term = {**EMPTY, "labs": {"01_first": {"due": DUE}}}
    taken = staff.send("POST", "term", body={"term": term, **WEEK}, dry_run=False)
    due = {"due": "2031-04-14T12:00:00+02:00", "attempts": None}
    assert taken["changes"] == [
        {"lab": "01_first", "before": {"due": DUE, "attempts": 2}, "after": due}
    ]
    assert taken["changed"] == 1 and store.dates.calendar().rules["01_first"].held


def test_a_full_list_of_comments_is_said_and_the_rest_taken(running: Any) -> None:
    store = running.server.course.store
    by = store.roster.find("instructor")
    for number in range(199):
        edit = Edit(store.database, store.clock, by)
        kept_comments.keep(edit, "01_first", "why", "", f"no. {number}")
    said = [{"lab": "01_first", "question": "why", "item": "", "text": t} for t in ("a", "b", "c")]
    taken = running.staff.send(
        "POST", "term", body={"term": {**EMPTY, "comments": said}, **WEEK}, dry_run=False
    )
    assert taken["comments"] == 1
    reason = "why: its list of comments is full: 2 comments are left out"
    assert taken["problems"] == [{"lab": "01_first", "reason": reason}]


def test_what_is_no_archive_is_refused_by_name(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = tmp_path / "course.backup"
    backup(tmp_path / "data", whole)
    data = whole.read_bytes()
    for name, content, why in (
        ("cut", data[:-1], "is damaged, or no backup"),
        ("other", data[:200] + b"x" + data[201:], "is damaged, or no backup"),
        ("text", b"hello", "is damaged, or no backup"),
        ("empty", b"", "is damaged, or no backup"),
        ("deep.json", b'{"labs": ' + b"[" * 100_000, "is damaged, or no plan"),
        ("half.json", b'{"labs": ', "is damaged, or no plan"),
        ("latin.json", b'{"labs": "\xff"}', "is damaged, or no plan"),
        (
            "db",
            (tmp_path / "data/course.sqlite3").read_bytes(),
            "autograder backup --data DIR FILE",
        ),
        ("newer", newer(whole, tmp_path), "got layout '99', expected at most"),
        ("nowhere", None, "No such file"),
    ):
        file = tmp_path / name
        if content is not None:
            file.write_bytes(content)
        how = ["--weeks", "1", "--zone", "UTC", *where(running.staff)]
        assert main(["term", "import", str(file), *how]) == 2
        said = capsys.readouterr().err
        assert why in said and str(file) in said and said.count("\n") == 1
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def newer(whole: Path, folder: Path) -> bytes:
    """Return a backup as a later release might write it."""
    packed = zipfile.ZipFile(io.BytesIO(whole.read_bytes().partition(b"\n")[2]))
    database = folder / "newer.sqlite3"
    database.write_bytes(packed.read("course.sqlite3"))
    connection = sqlite3.connect(database)
    connection.execute("UPDATE facts SET value = '99' WHERE name = 'schema'")
    connection.commit()
    connection.close()
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.write(database, "course.sqlite3")
    written.seek(0)
    return _head(written) + written.getvalue()


def test_only_instructors_see_and_take_plans(running: Any, browse: Any) -> None:
    ada = running.enroll("ada")
    body = {"login": "grace", "role": "assistant"}
    grace = Connection(ada.server, running.staff.send("POST", "staff", body=body)["token"])
    for who in (ada, grace):
        for ask in (
            lambda w=who: w.get("term"),
            lambda w=who: w.send("POST", "term", body={"term": EMPTY, **WEEK}, dry_run=True),
        ):
            with pytest.raises(ServerError) as refused:
                ask()
            assert refused.value.status == 403
        browser = browse(ada.server)
        browser.log_in(who.token)
        assert browser.get("/term").status == browser.get("/term.json").status == 403


def test_a_backup_on_the_page_is_refused_in_a_sentence(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    for content, why in (
        (b"course backup 1 sha256 \xff\xfe", "no text in UTF-8"),
        (b"hello", "is not JSON"),
        (b"", "choose the file"),
        (b'{"labs": {}, "labs": {}}', "given twice"),
    ):
        how: dict[str, Any] = {"data": {"weeks": "1", "zone": "UTC"}, "files": {"file": content}}
        headers = {"Cookie": browser.cookie}
        answer = httpx.post(f"{running.staff.server}/term", headers=headers, **how)
        assert answer.status_code == 422 and why in answer.text
