"""Consistency: a sample of a question's answers that two people mark, and how far they differ.

The first mark of an answer is any other, and counts. Who has not given it is asked for a second,
without seeing the first (`marking.Desk`), which counts nowhere until staff take it.
"""

import json
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Records
from autograder.service.database.schema import people, pile, second_marks
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.grades import gradings
from autograder.service.records.marking.marking import in_sample, second_waits
from autograder.service.records.marks import Mark, answer_digest, question_of
from autograder.service.records.people import Person
from autograder.service.records.submissions.submissions import is_id

_MOST = 500  # answers of a sample


@dataclass(frozen=True)
class Pair:
    """An answer that two people have marked; `first_points` is None where they were taken back."""

    submission_id: int
    first_by: str | None
    first_points: float | None
    second_by: str | None
    second_points: float
    comment: str
    decided: bool

    @property
    def difference(self) -> float:
        """The points between the two."""
        return round(abs(self.second_points - (self.first_points or 0.0)), 6)


@dataclass(frozen=True)
class Agreement:
    """How a question's sample stands: `waiting` of its answers have one mark or none."""

    sampled: int
    waiting: int
    pairs: list[Pair]  # those that differ most first

    @property
    def mean_difference(self) -> float | None:
        """The mean absolute difference of the pairs, or None where there is none."""
        differences = [pair.difference for pair in self.pairs]
        return round(sum(differences) / len(differences), 6) if differences else None


@dataclass(frozen=True)
class Sample:
    """A question's sample as somebody who marks finds it.

    So many of its answers wait for a second mark of `yours`, and so many pairs differ `undecided`.
    """

    lab: str
    question: str
    answers: int
    yours: int
    undecided: int


@dataclass(frozen=True)
class SecondMarks(Records):
    """The samples of a course."""

    def samples(self, by: Person) -> list[Sample]:
        """Return the sample of every question that has one."""
        column = second_marks.c
        here = (pile.c.submission_id == column.submission_id) & (pile.c.question == column.question)
        anew = column.points.is_(None) & ~pile.c.waits & pile.c.marked_by.is_distinct_from(by.id)
        differs = column.points.is_distinct_from(column.first_points)
        undecided = column.points.is_not(None) & ~column.decided & differs
        sums = (sa.func.sum(sa.case((which, 1), else_=0)) for which in (anew, undecided))
        query = sa.select(column.lab, column.question, sa.func.count(), *sums)
        query = query.join_from(second_marks, pile, here, isouter=True)
        query = query.group_by(column.lab, column.question).order_by(column.lab, column.question)
        return [Sample(*row) for row in self.database.rows(query)]

    def agreement(self, lab: str, question: str) -> Agreement:
        """Return how the sample of a question stands."""
        first, second, column = people.alias(), people.alias(), second_marks.c
        query = sa.select(
            *(column.submission_id, first.c.login, column.first_points, second.c.login),
            *(column.points, column.comment, column.decided),
        )
        query = query.join_from(second_marks, first, first.c.id == column.first_by, isouter=True)
        query = query.join(second, second.c.id == column.marked_by, isouter=True)
        mine = query.where(column.lab == lab, column.question == question)
        rows = self.database.rows(mine.order_by(column.submission_id))
        pairs = [Pair(*row) for row in rows if row.points is not None]
        pairs.sort(key=lambda pair: -pair.difference)
        return Agreement(len(rows), len(rows) - len(pairs), pairs)

    def draw(self, lab: str, question: str, size: Any, by: Person) -> int:
        """Put so many more of the written answers into the sample, by chance; return how many.

        Raises:
            Refused: 422, the size is not a number that can be drawn.
        """
        if isinstance(size, str) and size.isascii() and size.isdigit():
            size = int(size)
        if not isinstance(size, int) or isinstance(size, bool) or not 0 < size <= _MOST:
            raise Refused(422, f"sample: got {str(size)[:40]!r}, expected 1 to {_MOST} answers.")
        columns = (pile.c.submission_id, pile.c.question, pile.c.lab)
        query = sa.select(*columns).where(
            pile.c.lab == lab, pile.c.question == question, pile.c.written, ~in_sample()
        )
        with self.database.write() as connection:
            rows = connection.execute(query.order_by(sa.func.random()).limit(size)).mappings().all()
            if rows:
                connection.execute(second_marks.insert(), [dict(row) for row in rows])
                where, now = f"{lab}: {question}", self.clock()
                audit_log.write(connection, now, by.login, "sample", where, after=len(rows))
        return len(rows)

    def give(self, number: int, question: str, body: Any, by: Person) -> None:
        """Give an answer of a sample its second mark, which does not count.

        Raises:
            Refused: 409, it is not graded, or waits for no second mark of this person; 422, the
                mark is malformed or has no points.
        """
        with self.database.write() as connection:
            report = gradings.lock_report(connection, number if is_id(number) else 0)
            answer = question_of(report, question)
            bare = Mark.read({"items": (), "comment": "", "points": None, **_object(body)}, answer)
            if bare.points is None:
                raise Refused(422, "second mark: got no points, expected some.")
            is_answer = (pile.c.submission_id == number) & (pile.c.question == question)
            first = sa.select(pile.c.marked_by).where(is_answer, second_waits(by.id))
            row = connection.execute(first).first()
            if row is None:
                refusal = "it waits for no second mark of yours"
                raise Refused(409, f"second mark: submission {number}: {question}: {refusal}.")
            self._change(
                connection,
                (number, question),
                answer_sha256=answer_digest(answer),
                first_points=answer.score,
                first_by=row.marked_by,
                points=bare.points,
                items=json.dumps(bare.items),
                comment=bare.comment,
                marked_by=by.id,
            )
            after = {"points": bare.points, "comment": bare.comment, "items": bare.items}
            self._log(connection, "second mark", (number, question), by, after)

    def decide(self, number: int, question: str, take: object, by: Person) -> None:
        """Keep the first mark, or give the answer the second one's points, items and comment.

        Raises:
            Refused: 404, it has no two marks; 409, the answer is another now; 422, `take` is
                neither "first" nor "second".
        """
        if take not in ("first", "second"):
            raise Refused(422, f'decide: got {str(take)[:40]!r}, expected "first" or "second".')
        column = second_marks.c
        query = sa.select(second_marks).where(
            column.submission_id == number, column.question == question, column.points.is_not(None)
        )
        with self.database.write() as connection:
            report = gradings.lock_report(connection, number if is_id(number) else 0)
            row = connection.execute(query).first()
            if row is None:
                raise Refused(404, f"decide: submission {number}: {question}: has no two marks.")
            if answer_digest(question_of(report, question)) != row.answer_sha256:
                raise Refused(409, f"decide: submission {number}: the answer is another now.")
            if take == "second":
                body = {
                    "points": row.points,
                    "comment": row.comment,
                    "items": json.loads(row._mapping["items"]),
                }
                gradings.mark(connection, [number], {question: body}, by, self.clock())
            self._change(connection, (number, question), decided=True)
            self._log(connection, "decide", (number, question), by, take)

    def _change(self, connection: sa.Connection, which: tuple[int, str], **values: object) -> None:
        is_mark = (second_marks.c.submission_id == which[0]) & (second_marks.c.question == which[1])
        connection.execute(second_marks.update().where(is_mark).values(values))

    def _log(
        self, connection: sa.Connection, what: str, which: tuple[int, str], by: Person, after: Any
    ) -> None:
        subject = f"submission {which[0]}: {which[1]}"
        audit_log.write(connection, self.clock(), by.login, what, subject, after=after)


def _object(body: Any) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise Refused(422, 'second mark: expected {"points": 1.5, "items": [], "comment": "..."}.')
    return body
