"""The answers that people mark, of all learners at once.

Which answers a grading holds is written beside it, so that neither a list of what waits nor the
way from one answer to the next reads a report.
"""

from typing import Any

import sqlalchemy as sa

from autograder.service.schema import answers, marks, submissions

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


def waiting(connection: sa.Connection) -> list[tuple[str, str, int, int]]:
    """Return (lab, question, answers that wait, answers) for every question that waits."""
    question = (submissions.c.lab, answers.c.question)
    total, given = sa.func.count(), sa.func.count(marks.c.points)
    query = _marked(*question, total - given, total).group_by(*question).having(total > given)
    return [tuple(row) for row in connection.execute(query.order_by(*question))]


def of_question(
    connection: sa.Connection, lab: str, question: str
) -> list[tuple[int, float | None, str | None]]:
    """Return (submission, points, comment) of each learner's latest graded answer, in order."""
    query = _marked(submissions.c.id, marks.c.points, marks.c.comment)
    query = query.where(submissions.c.lab == lab, answers.c.question == question)
    return [tuple(row) for row in connection.execute(query.order_by(submissions.c.id))]
