"""Answers that people mark, one question at a time: each learner's latest graded submission.

Which answers a grading holds is written beside it, so that neither a list of what waits nor the
way from one answer to the next reads a report.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.records import ManualAnswer
from autograder.service.database import Database
from autograder.service.manual import question_of
from autograder.service.schema import answers, marks, submissions
from autograder.service.submissions import Entry, Submissions

_MOST_COMMENTS = 20

_GRADED = submissions.c.grading_id.is_not(None)
_LATEST = (  # of each learner and lab
    sa.select(sa.func.max(submissions.c.id))
    .where(_GRADED)
    .group_by(submissions.c.person_id, submissions.c.lab)
)
_OLDER = marks.alias()
_LAST_MARK = (
    sa.select(sa.func.max(_OLDER.c.id))
    .where(
        _OLDER.c.submission_id == submissions.c.id,
        _OLDER.c.question == answers.c.question,
        _OLDER.c.answer_sha256 == answers.c.answer_sha256,
    )
    .scalar_subquery()
)


def _marked(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    query: sa.Select[Any] = sa.select(*columns).join_from(
        submissions, answers, answers.c.grading_id == submissions.c.grading_id
    )
    query = query.join(marks, marks.c.id == _LAST_MARK, isouter=True)
    return query.where(submissions.c.id.in_(_LATEST))


def waiting(database: Database) -> list[tuple[str, str, int, int]]:
    """Return (lab, question, answers that wait, answers) for every question that waits."""
    question = (submissions.c.lab, answers.c.question)
    total, given = sa.func.count(), sa.func.count(marks.c.points)
    query = _marked(*question, total - given, total).group_by(*question).having(total > given)
    return [tuple(row) for row in database.rows(query.order_by(*question))]


def _answers(
    database: Database, lab: str, question: str
) -> list[tuple[int, float | None, str | None]]:
    """Return (submission, points, comment) of each learner's latest graded answer, in order."""
    query = _marked(submissions.c.id, marks.c.points, marks.c.comment)
    query = query.where(submissions.c.lab == lab, answers.c.question == question)
    return [tuple(row) for row in database.rows(query.order_by(submissions.c.id))]


@dataclass(frozen=True)
class Desk:
    """One answer, with what stands before and after it, and the comments given most often."""

    entry: Entry
    answer: ManualAnswer
    rubric: list[str]
    comments: list[str]
    before: int | None
    after: int | None
    place: int
    total: int
    left: int


def desk(all_submissions: Submissions, lab: str, question: str, at: int) -> Desk | None:
    """Return the answer of submission `at`, or the first that waits; None where there is none."""
    found = _answers(all_submissions.database, lab, question)
    if not found:
        return None
    numbers = [number for number, _, _ in found]
    open_ = [number for number, points, _ in found if points is None]
    place = numbers.index(at if at in numbers else open_[0] if open_ else numbers[0])
    entry, report = all_submissions.get(numbers[place]), all_submissions.report(numbers[place])
    assert entry is not None and report is not None  # nothing is ever taken away
    answer = question_of(report, question)
    said = Counter(comment for _, _, comment in found if comment)
    return Desk(
        entry,
        answer,
        [item.strip() for item in answer.rubric.split(";") if item.strip()],
        [text for text, _ in said.most_common(_MOST_COMMENTS)],
        numbers[place - 1] if place else None,
        numbers[place + 1] if place + 1 < len(numbers) else None,
        place + 1,
        len(numbers),
        len(open_),
    )


def next_waiting(all_submissions: Submissions, lab: str, question: str, at: int) -> int | None:
    """Return the next submission whose answer waits, after `at` or from the first; or None."""
    found = _answers(all_submissions.database, lab, question)
    open_ = [number for number, points, _ in found if points is None]
    return next((number for number in open_ if number > at), open_[0] if open_ else None)
