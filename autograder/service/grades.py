"""What is published of a submission: a grading and the marks of people, added and never changed.

Functions of a connection, for `ledger` and `claims` to call inside their transactions. The totals
that lists show are written beside the submission whenever a grading or a mark is added.
"""

import json
from typing import Any

import sqlalchemy as sa

from autograder.records import ManualAnswer, Report
from autograder.service.manual import Mark, Marks, answer_digest, marked, pending, unmarked
from autograder.service.roster import Person
from autograder.service.schema import gradings, marks, reports, submissions


def publish(connection: sa.Connection, submission_id: int, report: Report, now: float) -> None:
    """Add a grading, and let it be the one that counts."""
    report = unmarked(report)
    row = {
        "submission_id": submission_id,
        "finished_at": now,
        "score": report.score,
        "max_score": report.max_score,
    }
    number = inserted(connection, gradings, row)
    text = json.dumps(report.to_dict())
    connection.execute(reports.insert().values(grading_id=number, report=text))
    chosen = submissions.update().where(submissions.c.id == submission_id)
    connection.execute(chosen.values(grading_id=number))
    total(connection, submission_id)


def total(connection: sa.Connection, submission_id: int) -> None:
    """Write down what the published report and the marks come to."""
    report = published(connection, submission_id)
    assert report is not None
    totals = {"score": report.score, "max_score": report.max_score, "pending": pending(report)}
    update = submissions.update().where(submissions.c.id == submission_id)
    connection.execute(update.values(totals))


def published(connection: sa.Connection, submission_id: int) -> Report | None:
    """Return the report that is published, with the marks that people gave, or None."""
    query = sa.select(reports.c.report).join_from(
        submissions, reports, submissions.c.grading_id == reports.c.grading_id
    )
    text = connection.scalar(query.where(submissions.c.id == submission_id))
    if text is None:
        return None
    given = sa.select(marks.c.question, marks.c.answer_sha256, marks.c.points, marks.c.comment)
    given = given.where(marks.c.submission_id == submission_id).order_by(marks.c.id)
    found: Marks = {(row[0], row[1]): Mark(row[2], row[3]) for row in connection.execute(given)}
    return marked(Report.from_dict(json.loads(text)), found)


def add_mark(
    connection: sa.Connection,
    submission_id: int,
    answer: ManualAnswer,
    mark: Mark,
    marker: Person,
    now: float,
) -> None:
    """Add what a person gave for an answer."""
    row = {
        "submission_id": submission_id,
        "question": answer.question,
        "answer_sha256": answer_digest(answer),
        "points": mark.points,
        "comment": mark.comment,
        "marked_by": marker.id,
        "marked_at": now,
    }
    connection.execute(marks.insert().values(row))
    total(connection, submission_id)


def inserted(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> int:
    """Return the id of a row that is newly written."""
    key = connection.execute(table.insert().values(row)).inserted_primary_key
    assert key is not None
    return int(key[0])
