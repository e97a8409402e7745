"""What a caller may see of a submission: staff everything, a learner no value of a hidden check.

Pure functions from entries and reports to plain data.
"""

from dataclasses import replace
from typing import Any

from autograder.records import CheckResult, Report
from autograder.service import learner_drafts
from autograder.service.course import Course
from autograder.service.errors import Refused
from autograder.service.gradebook import Row
from autograder.service.learner_drafts import Draft
from autograder.service.roster import Person, Session
from autograder.service.schema import STORED
from autograder.service.submissions import Entry, Receipt, Submissions
from autograder.service.times import iso

PARKED_MESSAGE = (
    "Grading ended twice without a result. Your work is stored, and staff will grade it again."
)


_COUNTS = ("score", "max_score", "pending", "late_days")
_SUMMARY = ("id", "learner", "lab", "state", "sha256", "score", "raw_score", "late_days")


def entry_for(person: Person, submissions: Submissions, submission_id: int) -> Entry:
    """Return the submission if `person` may see it.

    Raises:
        Refused: 404, it does not exist or is another learner's; the answer does not say which.
    """
    entry = submissions.get(submission_id)
    if entry is None or not (person.is_staff or entry.person_id == person.id):
        raise Refused(404, f"submission {submission_id}: there is none of that number for you.")
    return entry


def report_for(person: Person, submissions: Submissions, entry: Entry) -> Report | None:
    """Return the report on `entry` as `person` may see it, or None while there is none."""
    report = submissions.report(entry.id)
    return report if report is None or person.is_staff else for_learner(report)


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


def summary(entry: Entry) -> dict[str, Any]:
    """Return what the API says of a submission; `score` and `max_score` are null until graded.

    While it is graded again they are those that are published.
    """
    said = {name: getattr(entry, name) for name in (*_SUMMARY, "max_score", "pending")}
    times = {name: iso(getattr(entry, name)) for name in ("submitted_at", "finished_at")}
    return {"login": entry.learner, **said, **times}


def receipt(receipt: Receipt, url: str, checks: tuple[int, int] | None) -> dict[str, Any]:
    """Return what a learner is given for a submission that is stored; `url` is the server's.

    `checks` is how many run in the notebook and how many more at submission, if that is known.
    """
    counted = None if checks is None else {"here": checks[0], "at_submission": checks[1]}
    return {
        "id": receipt.id,
        "lab": receipt.lab,
        "state": STORED,
        "sha256": receipt.sha256,
        "submitted_at": iso(receipt.submitted_at),
        "late_days": receipt.late_days,
        "checks": counted,
        "url": f"{url}/submissions/{receipt.id}",
    }


def gradebook_row(row: Row) -> dict[str, Any]:
    """Return a learner and what counts of each lab."""
    person = row.person
    labs = {
        lab: {name: getattr(entry, name) for name in _COUNTS} | {"submission": entry.id}
        for lab, entry in row.labs.items()
    }
    return {"login": person.login, "name": person.name, "section": person.section, "labs": labs}


def labs_for(person: Person, course: Course) -> list[dict[str, Any]]:
    """Return every lab with the dates that hold for `person`, and the attempts that they have."""
    dates, used = course.dates.calendar(person.id), course.submissions.attempts(person.id)
    found = []
    for name in course.catalog.names:
        rules = dates.of(name, person.id)
        left = None if rules.attempts is None else max(0, rules.attempts - used.get(name, 0))
        found.append({"name": name, **rules.to_dict(), "attempts_left": left})
    return found


def drafts_for(person: Person, course: Course) -> dict[str, tuple[Draft, str | None]]:
    """Return a person's drafts by lab, each with why it cannot be handed in now, or None."""
    kept = learner_drafts.of_person(course.database, person.id)
    if not kept:
        return {}
    dates, used = course.dates.calendar(person.id), course.submissions.attempts(person.id)
    found: dict[str, tuple[Draft, str | None]] = {}
    for draft in kept:
        rules, now = dates.of(draft.lab, person.id), course.dates.clock()
        refusal = None if person.is_staff else rules.refusal(now, used.get(draft.lab, 0))
        found[draft.lab] = (draft, refusal)
    return found


def solution(person: Person, course: Course, lab: str, question: str) -> dict[str, Any]:
    """Return the solution of a question, from the lab's source on the server.

    Raises:
        Refused: 403, the lab's staff give it to learners later or never; 404, no such question.
    """
    refusal = course.dates.solutions_refusal(lab, person.id)
    if refusal and not person.is_staff:
        raise Refused(403, f"{lab}: {refusal}.")
    text = course.catalog.solution_of(lab, question)
    if text is None:
        raise Refused(404, f"{lab}: there is no question called {question[:100]!r}.")
    return {"lab": lab, "question": question, "solution": text}


def session(session: Session) -> dict[str, Any]:
    """Return what a person is told of a browser that is logged in as them."""
    times = {"began": iso(session.created_at), "ends": iso(session.expires_at)}
    return {"key": session.key, **times, "browser": session.agent}
