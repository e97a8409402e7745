"""The answers that people mark, of all learners at once.

A grading never changes, so what its report says of such answers is read once and kept; what is read
anew are the marks. Of a page that shows one answer after another only the first reads the reports.
"""

import json
from collections.abc import Collection, Iterator
from typing import Any

import sqlalchemy as sa

from autograder.records import ManualAnswer, Report
from autograder.service.manual import Mark, with_mark
from autograder.service.schema import marks, reports, submissions

Given = tuple[ManualAnswer, ...]

# Six hundred learners with an answer of a page each in sixteen labs are a third of it.
_MOST_CHARS = 64 << 20

_AT_ONCE = 500  # fewer than any database takes values in a statement


class Answers:
    """What was read of gradings so far, up to a limit."""

    def __init__(self, most_chars: int = _MOST_CHARS) -> None:
        self._kept: dict[int, Given] = {}
        self._chars = 0
        self._most_chars = most_chars

    def of_lab(self, connection: sa.Connection, lab: str) -> Iterator[tuple[int, Given]]:
        """Yield the answers of each learner's latest graded submission, with its id."""
        graded = (submissions.c.lab == lab) & submissions.c.grading_id.is_not(None)
        latest = sa.select(sa.func.max(submissions.c.id)).where(graded)
        chosen = submissions.c.id.in_(latest.group_by(submissions.c.person_id))
        query = sa.select(submissions.c.id, submissions.c.grading_id).where(chosen)
        rows = list(connection.execute(query.order_by(submissions.c.id)))
        found = self._read(connection, [row.grading_id for row in rows])
        given = _marks(connection, chosen)
        for row in rows:
            answers = found.get(row.grading_id, ())
            if answers:
                theirs = given.get(row.id, {})
                yield row.id, tuple(with_mark(answer, theirs) for answer in answers)

    def _read(self, connection: sa.Connection, gradings: Collection[int]) -> dict[int, Given]:
        kept = self._kept
        found = {number: kept[number] for number in gradings if number in kept}
        columns = sa.select(reports.c.grading_id, reports.c.report)
        missing = [number for number in gradings if number not in found]
        for begin in range(0, len(missing), _AT_ONCE):
            some = missing[begin : begin + _AT_ONCE]
            for number, text in connection.execute(columns.where(reports.c.grading_id.in_(some))):
                manual = {"lab": "", "manual": json.loads(text).get("manual", ())}
                found[number] = Report.from_dict(manual).manual
                self._keep(number, found[number])
        return found

    def _keep(self, number: int, answers: Given) -> None:
        self._chars += sum(len(answer.answer) + len(answer.rubric) for answer in answers)
        if self._chars > self._most_chars:  # others still read the old one to its end
            self._kept, self._chars = {}, 0
        self._kept[number] = answers


def _marks(
    connection: sa.Connection, chosen: sa.ColumnElement[bool]
) -> dict[int, dict[tuple[str, str], Mark]]:
    columns: tuple[sa.ColumnElement[Any], ...] = (
        marks.c.submission_id,
        marks.c.question,
        marks.c.answer_sha256,
        marks.c.points,
        marks.c.comment,
        marks.c["items"],
    )
    query = sa.select(*columns).join_from(marks, submissions).where(chosen).order_by(marks.c.id)
    found: dict[int, dict[tuple[str, str], Mark]] = {}
    for number, question, digest, points, comment, items in connection.execute(query):
        mark = Mark(points, comment, tuple(json.loads(items)))
        found.setdefault(number, {})[question, digest] = mark
    return found
