"""What a course holds of a learner: given to them, and removed with nothing left of it."""

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.cli import main
from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.database.schema import counts, metadata, pile
from autograder.service.records import audit_log
from autograder.service.records.marking import assignments
from autograder.service.records.marking.assignments import Assignment
from autograder.service.records.people import Edit
from autograder.service.records.roster.roster import take
from autograder.service.records.rules import Rules
from autograder.service.records.standings.standings import MARKED
from autograder.service.records.store import Store, sqlite_url
from tests.autograder.service.recount import recount

CHECK = CheckResult("c", "sum", Outcome.INCORRECT, 0, 1, "No.")


def filled(store: Store) -> None:
    """Let two learners hand in, be graded, marked and extended, and draft something."""
    staff = store.roster.add("staff", "instructor")
    due = "2030-01-01T00:00:00+00:00"
    store.dates.set_rules("lab", Rules.read({"due": due, "late_until": due}), staff)
    for login in ("Ada", "Bob"):
        person = store.roster.add(login, "learner", by="staff")
        store.roster.give_token(person, "bearer", by="staff")
        code = f'"by {login}"'.encode()
        number = store.submissions.add(person, "lab", code, retry_key="k").id
        claim = store.claims.claim("a", 100)
        assert claim
        answer = ManualAnswer("why", 2.0, (), f"I am {login}")
        report = Report("lab", (CHECK,), manual=(answer,)).with_totals()
        store.claims.finish(claim.id, "a", report)
        store.submissions.mark(number, {"why": {"points": 1, "comment": f"Dear {login}"}}, staff)
        store.dates.extend("lab", person, "2031-01-01T00:00:00+00:00", staff)


def everything(store: Store) -> str:
    tables = [store.database.rows(table.select()) for table in metadata.sorted_tables]
    return "\n".join(str(tuple(row)) for rows in tables for row in rows)


@pytest.fixture
def course(tmp_path: Path) -> Any:
    store = Store(sqlite_url(tmp_path), clock=lambda: 1e9)
    filled(store)
    yield store
    store.close()


def test_a_copy_has_what_is_theirs_and_nothing_of_others(course: Any, tmp_path: Path) -> None:
    asked = ["person", "Ada", "--data", str(tmp_path), "-o", str(tmp_path / "ada.json")]
    assert main(asked) == 0
    found = json.loads((tmp_path / "ada.json").read_text("utf-8"))
    assert found["notebooks"] == [{"submission_id": 1, "notebook": '"by Ada"'}]
    assert "I am Ada" in found["reports"][0]["report"] and found["people"][0]["login"] == "Ada"
    assert found["marks"][0]["comment"] == "Dear Ada" and found["extensions"][0]["lab"] == "lab"
    assert "Bob" not in str(found) and "tokens" not in found


def test_a_learner_is_removed_with_nothing_left(course: Any, tmp_path: Path, capsys: Any) -> None:
    before = everything(course)
    assert "Ada" in before
    assert main(["person", "Ada", "--data", str(tmp_path), "--remove"]) == 0
    assert "removed" in capsys.readouterr().out
    after = everything(course)
    assert "I am Bob" in after and "Dear Bob" in after
    assert "Ada" not in after
    line = audit_log.read(course.database, 1)[0]
    assert (line["who"], line["action"], line["subject"]) == ("command line", "remove", "person 2")
    numbers = course.database.rows(sa.select(counts.c.kind, counts.c.number))
    assert {row.number for row in numbers} == {1}
    assert main(["person", "Ada", "--data", str(tmp_path), "--remove"]) == 2
    assert "nobody is called 'Ada'" in capsys.readouterr().err


def test_staff_are_not_removed(course: Any, tmp_path: Path, capsys: Any) -> None:
    before = everything(course)
    assert main(["person", "staff", "--data", str(tmp_path), "--remove"]) == 2
    assert "only learners are removed" in capsys.readouterr().err
    assert everything(course) == before


def test_marks_of_somebody_who_left_the_staff_count_as_nobodys(course: Any, tmp_path: Path) -> None:
    by = course.roster.find("staff")
    eve = course.roster.add("Eve", "assistant")
    course.submissions.mark(2, {"why": {"points": 2}}, eve)
    edit = Edit(course.database, lambda: 1e9, by)
    assignments.assign(edit, eve, Assignment("lab", "", ""), remove=False)
    course.second_marks.draw("lab", "why", 9, by)
    course.second_marks.give(1, "why", {"points": 2}, eve)
    take(edit, b"login,role\nEve,learner\n", dry_run=False)
    assert main(["person", "Eve", "--data", str(tmp_path), "--remove"]) == 0
    assert "Eve" not in everything(course) and str(course.submissions.report(2)).count("2.0") > 1
    marked = sa.select(counts.c.words, counts.c.number).where(counts.c.kind == MARKED)
    assert [tuple(row) for row in course.database.rows(marked)] == [(str(by.id), 1)]
    kept = [course.database.rows(sa.select(table)) for table in (counts, pile)]
    with course.database.write() as connection:
        recount(connection)
    anew = [course.database.rows(sa.select(table)) for table in (counts, pile)]
    assert [sorted(map(str, rows)) for rows in kept] == [sorted(map(str, rows)) for rows in anew]
