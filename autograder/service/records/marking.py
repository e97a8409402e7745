"""Answers that people mark, one question at a time: each learner's latest graded submission.

Which answers a grading holds is written beside it, so that neither a list of what waits nor the
way from one answer to the next reads a report.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.records import ManualAnswer
from autograder.service.database.database import Database
from autograder.service.database.schema import answers, marks, submissions
from autograder.service.records.marks import NOTHING, question_of
from autograder.service.records.submissions import Entry, Submissions

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


_WRITTEN = answers.c.answer_sha256 != NOTHING


def _marked(*columns: sa.ColumnElement[Any]) -> sa.Select[Any]:
    query: sa.Select[Any] = sa.select(*columns).join_from(
        submissions, answers, answers.c.grading_id == submissions.c.grading_id
    )
    query = query.join(marks, marks.c.id == _LAST_MARK, isouter=True)
    return query.where(submissions.c.id.in_(_LATEST))


@dataclass(frozen=True)
class Pile:
    """The answers to one question: how many wait, were written, and were not attempted."""

    lab: str
    question: str
    waiting: int
    written: int
    not_attempted: int


def waiting(database: Database) -> list[Pile]:
    """Return the pile of every question with an answer that waits, or that nobody wrote."""
    question = (submissions.c.lab, answers.c.question)
    unmarked = marks.c.points.is_(None)
    counts = (
        sa.func.sum(sa.case((_WRITTEN & unmarked, 1), else_=0)),
        sa.func.sum(sa.case((_WRITTEN, 1), else_=0)),
        sa.func.sum(sa.case((~_WRITTEN & unmarked, 1), else_=0)),
    )
    query = _marked(*question, *counts).group_by(*question).having(counts[0] + counts[2] > 0)
    return [Pile(*row) for row in database.rows(query.order_by(*question))]


def _answers(
    database: Database, lab: str, question: str, written: bool
) -> list[tuple[int, float | None, str | None]]:
    """Return (submission, points, comment) of each learner's latest graded answer, in order.

    Args:
        written: those with something in them; else those that were not attempted.
    """
    query = _marked(submissions.c.id, marks.c.points, marks.c.comment)
    which = _WRITTEN if written else ~_WRITTEN
    query = query.where(submissions.c.lab == lab, answers.c.question == question, which)
    return [tuple(row) for row in database.rows(query.order_by(submissions.c.id))]


@dataclass(frozen=True)
class Desk:
    """One answer, with what stands before and after it, and the comments given most often."""

    entry: Entry
    answer: ManualAnswer
    comments: list[str]
    before: int | None
    after: int | None
    place: int
    total: int
    left: int


def desk(
    all_submissions: Submissions, lab: str, question: str, at: int, written: bool = True
) -> Desk | None:
    """Return the answer of submission `at`, or the first that waits; None where there is none.

    Args:
        written: walk the answers that were written, else those that were not attempted.
    """
    rows = _answers(all_submissions.database, lab, question, written)
    if not rows:
        return None
    numbers = [number for number, _, _ in rows]
    open_ = [number for number, points, _ in rows if points is None]
    place = numbers.index(at if at in numbers else open_[0] if open_ else numbers[0])
    entry, report = all_submissions.get(numbers[place]), all_submissions.report(numbers[place])
    assert entry is not None and report is not None  # nothing is ever taken away
    answer = question_of(report, question)
    comments = Counter(comment for _, _, comment in rows if comment)
    return Desk(
        entry,
        answer,
        [text for text, _ in comments.most_common(_MOST_COMMENTS)],
        numbers[place - 1] if place else None,
        numbers[place + 1] if place + 1 < len(numbers) else None,
        place + 1,
        len(numbers),
        len(open_),
    )


def next_waiting(
    all_submissions: Submissions, lab: str, question: str, at: int, written: bool = True
) -> int | None:
    """Return the next submission whose answer waits, after `at` or from the first; or None."""
    rows = _answers(all_submissions.database, lab, question, written)
    open_ = [number for number, points, _ in rows if points is None]
    return next((number for number in open_ if number > at), open_[0] if open_ else None)
