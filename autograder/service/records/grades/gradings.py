"""What is published of a submission: a grading and the marks of people, added and never changed.

Functions of a connection, for `submissions` and `claims` to call inside their transactions. The
totals that lists show are written beside the submission whenever a grading or a mark is added.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import sqlalchemy as sa

from autograder.records import ManualAnswer, Report
from autograder.service.database.database import insert_row
from autograder.service.database.schema import (
    answers,
    gradings,
    marks,
    regrades,
    regradings,
    reports,
    submissions,
    team_copies,
)
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.grades import kept_comments
from autograder.service.records.marks import (
    Mark,
    Marks,
    alike_digest,
    answer_digest,
    apply_marks,
    count_pending,
    question_of,
    without_marks,
)
from autograder.service.records.outbox import touch
from autograder.service.records.people import Person
from autograder.service.records.roster import teams
from autograder.service.records.standings import leaderboard, standings, tries


def publish(connection: sa.Connection, submission_id: int, report: Report, now: float) -> None:
    """Add a grading, and let it be the one that counts; in a batch, once that is published."""
    report, this_submission = without_marks(report), submissions.c.id == submission_id
    waiting = sa.select(regradings.c.batch, regrades.c.question).join_from(regradings, regrades)
    waiting = waiting.where(regradings.c.submission_id == submission_id, regradings.c.open)
    batches = list(connection.execute(waiting))
    for batch, question in batches:
        number = _grading(
            connection, submission_id, _draft(connection, submission_id, report, question), now
        )
        mine = (regradings.c.batch == batch) & (regradings.c.submission_id == submission_id)
        connection.execute(regradings.update().where(mine).values(open=False, grading_id=number))
    if not batches:
        before = connection.scalar(sa.select(submissions.c.score).where(this_submission))
        number = _grading(connection, submission_id, report, now)
        connection.execute(submissions.update().where(this_submission).values(grading_id=number))
        _carry_over(connection, submission_id, report)
    total(connection, submission_id)
    after = connection.scalar(sa.select(submissions.c.score).where(this_submission))
    if not batches and before not in (None, after):
        subject = f"submission {submission_id}"
        audit_log.write(connection, now, "grading", "regraded", subject, before, after)


def _grading(connection: sa.Connection, submission_id: int, report: Report, now: float) -> int:
    row = {
        "submission_id": submission_id,
        "finished_at": now,
        "score": report.score,
        "max_score": report.max_score,
    }
    number = insert_row(connection, gradings, row)
    text = json.dumps(report.to_dict())
    connection.execute(reports.insert().values(grading_id=number, report=text))
    _note_answers(connection, number, report)
    leaderboard.note(connection, number, report)
    tries.note(connection, number, report)
    return number


def _note_answers(connection: sa.Connection, grading_id: int, report: Report) -> None:
    """Write down which answers of a grading people mark."""
    rows = {
        answer.question: {
            "grading_id": grading_id,
            "question": answer.question,
            "answer_sha256": answer_digest(answer),
            "alike": alike_digest(answer.answer),
        }
        for answer in report.manual
    }
    if rows:
        connection.execute(answers.insert(), list(rows.values()))


def _draft(
    connection: sa.Connection, submission_id: int, report: Report, question: str | None
) -> Report:
    """Return `report`, or the published one with `question` as it is in `report`."""
    held = None if question is None else read_published(connection, submission_id)
    if held is None:
        return report
    results = [r for r in held.results if r.question != question]
    manual = [m for m in held.manual if m.question != question]
    results += [r for r in report.results if r.question == question]
    manual += [m for m in report.manual if m.question == question]
    order = {r.question: n for n, r in reversed(list(enumerate((*held.results, *report.results))))}
    results.sort(key=lambda r: order[r.question])
    return without_marks(replace(held, results=tuple(results), manual=tuple(manual)))


def _carry_over(connection: sa.Connection, submission_id: int, report: Report) -> None:
    """Give answers that this learner has handed in before the marks that they have."""
    this, other = submissions.alias(), submissions.alias()
    query = sa.select(marks).select_from(other)  # of a team's, whoever handed it in
    query = query.join(team_copies, team_copies.c.submission_id == other.c.id, isouter=True)
    origin = sa.func.coalesce(team_copies.c.origin_id, other.c.id)
    query = query.join(marks, marks.c.submission_id == origin)
    query = query.join(
        this, (this.c.person_id == other.c.person_id) & (this.c.lab == other.c.lab)
    ).where(this.c.id == submission_id)
    for answer in report.manual:
        key = (marks.c.question == answer.question) & (
            marks.c.answer_sha256 == answer_digest(answer)
        )
        row = connection.execute(query.where(key).order_by(marks.c.id.desc()).limit(1)).first()
        if row is not None and row.submission_id != submission_id and row.points is not None:
            copy = {**row._mapping, "submission_id": submission_id}
            del copy["id"]
            connection.execute(marks.insert().values(copy))


def total(connection: sa.Connection, *submission_ids: int) -> str:
    """Write down what the gradings that count and the marks come to, also for the whole lab.

    The submissions are of one lab, which is returned.
    """
    for number in submission_ids:
        write_totals(connection, number)
    owner = sa.select(submissions.c.person_id, submissions.c.lab)
    rows = connection.execute(owner.where(submissions.c.id.in_(submission_ids))).all()
    lab, owners = str(rows[0].lab), [row.person_id for row in rows]
    for number in submission_ids:
        owners += teams.follow(connection, number)
    standings.restand(connection, lab, *owners)
    return lab


def write_totals(connection: sa.Connection, submission_id: int) -> None:
    """Write down what the gradings that count, or are to count, and the marks come to."""
    this_submission = submissions.c.id == submission_id
    number = connection.scalar(sa.select(submissions.c.grading_id).where(this_submission))
    now = _totals(connection, submission_id, number)
    if now:
        differs = sa.or_(*(submissions.c[n].is_distinct_from(value) for n, value in now.items()))
        changed = connection.execute(
            submissions.update().where(this_submission, differs).values(now)
        )
        if changed.rowcount:
            touch(connection, this_submission)
    mine = (regradings.c.submission_id == submission_id) & regrades.c.published_at.is_(None)
    waiting = (
        sa.select(regradings.c.batch, regradings.c.grading_id)
        .join_from(regradings, regrades)
        .where(mine)
    )
    for batch, grading_id in list(connection.execute(waiting)):
        values = {"before": now.get("score"), **_totals(connection, submission_id, grading_id)}
        is_regrading = (regradings.c.submission_id == submission_id) & (regradings.c.batch == batch)
        connection.execute(regradings.update().where(is_regrading).values(values))


def _totals(
    connection: sa.Connection, submission_id: int, grading_id: int | None
) -> dict[str, Any]:
    report = with_marks(connection, submission_id, grading_id)
    if report is None:
        return {}
    return {"score": report.score, "max_score": report.max_score, "pending": count_pending(report)}


def read_published(connection: sa.Connection, submission_id: int) -> Report | None:
    """Return the report that is published, with the marks that people gave, or None."""
    this_submission = submissions.c.id == submission_id
    number = connection.scalar(sa.select(submissions.c.grading_id).where(this_submission))
    return with_marks(connection, submission_id, number)


def with_marks(
    connection: sa.Connection, submission_id: int, grading_id: int | None
) -> Report | None:
    """Return the report of a grading, with the marks that people gave, or None."""
    text = connection.scalar(sa.select(reports.c.report).where(reports.c.grading_id == grading_id))
    if text is None:
        return None
    columns = (marks.c.question, marks.c.answer_sha256, marks.c.points, marks.c.comment)
    origin = teams.origin_of(connection, submission_id)
    query = sa.select(*columns, marks.c["items"]).where(marks.c.submission_id == origin)
    last_marks: Marks = {
        (row[0], row[1]): Mark(row[2], row[3], tuple(json.loads(row[4])))
        for row in connection.execute(query.order_by(marks.c.id))
    }
    return apply_marks(Report.from_dict(json.loads(text)), last_marks)


def lock_report(connection: sa.Connection, submission_id: int) -> Report:
    """Return the published report of a submission, which nobody else changes until the end.

    Raises:
        Refused: 409, it is not graded.
    """
    origin = teams.origin_of(connection, submission_id)  # copies change after their originals
    locked = sa.select(submissions.c.id).where(submissions.c.id == origin)
    connection.execute(locked.with_for_update(key_share=True))
    report = read_published(connection, submission_id)
    if report is None:
        raise Refused(409, f"submission {submission_id}: it is not graded yet.")
    return report


def mark(
    connection: sa.Connection,
    submission_ids: Collection[int],
    marks: Mapping[str, Any],
    marker: Person,
    now: float,
) -> None:
    """Add the same marks to graded submissions of one lab, as `Submissions.mark` says."""
    ordered = sorted({teams.origin_of(connection, number) for number in submission_ids})
    uses = Counter[tuple[str, str]]()
    for number in ordered:
        report = lock_report(connection, number)
        for question, body in marks.items():
            answer = question_of(report, question)
            new = Mark.read(body, answer)
            add_mark(connection, number, answer, new, marker.id, now)
            before = {"points": answer.score, "comment": answer.comment}
            after = {"points": new.points, "comment": new.comment, "items": new.items}
            subject = f"submission {number}: {question}"
            audit_log.write(connection, now, marker.login, "mark", subject, before, after)
            fresh = {*new.comment.splitlines()} - {*answer.comment.splitlines()}
            uses.update((question, line) for line in fresh)
    lab = total(connection, *ordered)
    kept_comments.count_uses(connection, lab, uses)


def add_mark(
    connection: sa.Connection,
    submission_id: int,
    answer: ManualAnswer,
    mark: Mark,
    marker_id: int | None,
    now: float,
) -> None:
    """Write down what a person gave for an answer; totals are made anew by whoever calls."""
    row = {
        "submission_id": submission_id,
        "question": answer.question,
        "answer_sha256": answer_digest(answer),
        "points": mark.points,
        "comment": mark.comment,
        "items": json.dumps(mark.items),
        "marked_by": marker_id,
        "marked_at": now,
    }
    connection.execute(marks.insert().values(row))
