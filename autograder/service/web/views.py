"""What a caller may see of a submission: staff everything, a learner no value of a hidden check.

Pure functions from entries and reports to plain data.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from autograder.records import CheckResult, Report
from autograder.service.database.schema import STORED
from autograder.service.records.people import Session
from autograder.service.records.submissions.intake import Receipt
from autograder.service.records.submissions.submissions import Entry
from autograder.service.reports.gradebook import Row
from autograder.service.times import iso

PARKED_MESSAGE = (
    "Grading ended twice without a result. Your work is stored, and staff will grade it again."
)


Teams = Mapping[int, tuple[str, str]]
"""Of submissions that are a team's, the team and the name of who handed it in (`handed_in_by`)."""

_COUNTS = ("score", "max_score", "pending", "late_days")
_SUMMARY = "id learner lab state sha256 score raw_score late_days held_back max_score pending"


def for_learner(report: Report) -> Report:
    """Return `report` without what only staff may see.

    The details of every check go. Of a hidden check the property in words is left and its output,
    which holds the hint and no input or value (`CheckResult`). The seed would let hidden inputs be
    drawn again, and a rubric says what the answer is.
    """
    results = tuple(_without_secrets(result) for result in report.results)
    manual = tuple(replace(answer, rubric=()) for answer in report.manual)
    return replace(report, results=results, manual=manual, seed="")


def _without_secrets(result: CheckResult) -> CheckResult:
    if result.hidden:  # its name is staff's; a property without words stays unsaid
        result = replace(result, name="hidden check", title=result.title or "a hidden check")
    return replace(result, detail="")


def summary(entry: Entry, teams: Teams) -> dict[str, Any]:
    """Return what the API says of a submission; `score` and `max_score` are null until graded.

    While it is graded again they are those that are published. `team` is null where it is nobody
    else's.
    """
    values = {name: getattr(entry, name) for name in _SUMMARY.split()}
    times = {name: iso(getattr(entry, name)) for name in ("submitted_at", "finished_at")}
    return {"login": entry.learner, **values, **times, "team": _team(entry.id, teams)}


def _team(submission_id: int, teams: Teams) -> dict[str, str] | None:
    """Return the team whose submission this is, and the name of who handed it in."""
    if submission_id not in teams:
        return None
    name, by = teams[submission_id]
    return {"name": name, "handed_in_by": by}


def receipt(receipt: Receipt, url: str, checks: tuple[int, int] | None) -> dict[str, Any]:
    """Return what a learner is given for a submission that is stored; `url` is the server's.

    `checks` is how many run in the notebook and how many more at submission, if that is known.
    """
    counted = None if checks is None else {"here": checks[0], "at_submission": checks[1]}
    values = {**vars(receipt), "submitted_at": iso(receipt.submitted_at), "state": STORED}
    del values["is_new"]
    return {**values, "checks": counted, "url": f"{url}/submissions/{receipt.id}"}


def gradebook_row(row: Row, teams: Teams) -> dict[str, Any]:
    """Return a learner and what counts of each lab."""
    person = row.person
    labs = {
        lab: {name: getattr(entry, name) for name in _COUNTS}
        | {"submission": entry.id or None}
        | ({"team": team} if (team := _team(entry.id, teams)) else {})
        | ({"decision": entry.decision} if entry.decision else {})
        for lab, entry in row.labs.items()
    }
    who = {name: getattr(person, name) for name in ("login", "name", "section")}
    return {**who, "labs": labs, "total": row.course.share, "dropped": row.course.dropped}


def session(session: Session) -> dict[str, Any]:
    """Return what a person is told of a browser that is logged in as them."""
    times = {"began": iso(session.created_at), "ends": iso(session.expires_at)}
    return {"key": session.key, **times, "browser": session.agent}
