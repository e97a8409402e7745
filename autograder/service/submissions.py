"""Every submission ever made, what was found in it, and what is published of it.

Nothing here is overwritten: a grading adds a row, a mark adds a row, and a submission points to the
grading that counts. Its totals are kept beside it for lists, and made anew in the transaction that
publishes a grading or adds a mark.
"""

import hashlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import sqlalchemy as sa

from autograder.records import Report
from autograder.service import grades
from autograder.service.database import Database
from autograder.service.errors import OutOfRoom, Refused
from autograder.service.manual import Mark, question_of
from autograder.service.roster import Person
from autograder.service.schema import (
    GRADED,
    GRADING,
    HELD,
    PARKED,
    STORED,
    lines,
    notebooks,
    people,
    submissions,
)

# SQLite's largest integer: a larger id cannot exist, and binding it would raise.
_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Entry:
    """What is known of a submission, without its notebook and its report.

    `score`, `max_score` and `pending` (questions that wait for a person) are those of the grading
    that is published; while there is none, `score` is None.
    """

    id: int
    person_id: int
    learner: str
    lab: str
    sha256: str
    state: str
    reason: str | None
    submitted_at: float
    finished_at: float | None
    score: float | None
    max_score: float | None
    pending: int
    tries: int

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to it by itself."""
        return self.state in (GRADED, PARKED)


@dataclass(frozen=True)
class Receipt:
    """What the server answers for once it has stored a submission; `is_new` unless it had it."""

    id: int
    lab: str
    sha256: str
    submitted_at: float
    is_new: bool


_ENTRY = (
    submissions.c.id,
    submissions.c.person_id,
    people.c.login.label("learner"),
    submissions.c.lab,
    submissions.c.sha256,
    # Held back or not is for staff to know, who are told why.
    sa.case((submissions.c.state == HELD, STORED), else_=submissions.c.state).label("state"),
    submissions.c.reason,
    submissions.c.submitted_at,
    submissions.c.finished_at,
    submissions.c.score,
    submissions.c.max_score,
    submissions.c.pending,
    submissions.c.tries,
)
_RECEIPT = (submissions.c.id, submissions.c.lab, submissions.c.sha256, submissions.c.submitted_at)


def is_id(number: int) -> bool:
    """Return whether a row can have this number."""
    return 0 < number <= _LARGEST_ID


class Ledger:
    """Submissions, their gradings and their marks."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def add(
        self,
        person: Person,
        lab: str,
        notebook: bytes,
        *,
        retry_key: str | None = None,
        most_bytes: int | None = None,
    ) -> Receipt:
        """Store a submission: when this returns, it is on the disk.

        One that is there already is not stored again: under the same `retry_key`, or the same
        bytes of the same lab while they wait.

        Raises:
            Refused: 422, the key was used for something else.
            OutOfRoom: all of this person's notebooks would be larger than `most_bytes`.
        """
        digest = hashlib.sha256(notebook).hexdigest()
        with self._database.write() as connection:
            connection.execute(
                sa.select(lines.c.next_id).where(lines.c.person_id == person.id).with_for_update()
            )
            found = _known(connection, person, lab, digest, retry_key)
            if found is not None:
                return found
            kept = _kept_bytes(connection, person)
            if most_bytes is not None and kept + len(notebook) > most_bytes:
                raise OutOfRoom(kept)
            return self._insert(connection, person, lab, notebook, digest, retry_key)

    def _insert(
        self,
        connection: sa.Connection,
        person: Person,
        lab: str,
        notebook: bytes,
        digest: str,
        retry_key: str | None,
    ) -> Receipt:
        now = self._clock()
        row = {
            "person_id": person.id,
            "lab": lab,
            "sha256": digest,
            "size_bytes": len(notebook),
            "submitted_at": now,
            "waiting_since": now,
            "retry_key": retry_key,
            "state": STORED,
        }
        number = grades.inserted(connection, submissions, row)
        connection.execute(notebooks.insert().values(submission_id=number, notebook=notebook))
        theirs = lines.c.person_id == person.id
        first = sa.func.coalesce(lines.c.next_id, number)
        connection.execute(lines.update().where(theirs).values(next_id=first))
        return Receipt(number, lab, digest, now, True)

    def get(self, submission_id: int) -> Entry | None:
        """Return the submission of that id, or None."""
        if not is_id(submission_id):
            return None
        return next(self.entries(submissions.c.id == submission_id), None)

    def all(self, *, person_id: int | None = None) -> list[Entry]:
        """Return every submission, or one person's, the newest first."""
        return list(self.entries(*_of(person_id)))

    def page(
        self, number: int, size: int, *, person_id: int | None = None
    ) -> tuple[list[Entry], int]:
        """Return a page of submissions, the newest first, and how many pages there are."""
        conditions = _of(person_id)
        with self._database.read() as connection:
            count = sa.select(sa.func.count()).select_from(submissions).where(*conditions)
            total = connection.scalar(count) or 0
        entries = self.entries(*conditions, limit=size, offset=(number - 1) * size)
        return list(entries), pages_of(total, size)

    def of_people(self, person_ids: Collection[int]) -> list[Entry]:
        """Return every submission of these people, the newest first."""
        return list(self.entries(submissions.c.person_id.in_(person_ids)))

    def parked(self) -> list[Entry]:
        """Return what waits for staff, the newest first."""
        return list(self.entries(submissions.c.state == PARKED))

    def entries(
        self,
        *conditions: sa.ColumnElement[bool],
        limit: int | None = None,
        offset: int | None = None,
    ) -> Iterator[Entry]:
        """Yield the submissions that meet the conditions, the newest first."""
        query = sa.select(*_ENTRY).join_from(submissions, people).where(*conditions)
        query = query.order_by(submissions.c.id.desc()).limit(limit).offset(offset)
        with self._database.read() as connection:
            for row in connection.execute(query):
                yield Entry(*tuple(row))

    def labs(self) -> list[str]:
        """Return the labs of which anybody has submitted, in order."""
        query = sa.select(submissions.c.lab).distinct().order_by(submissions.c.lab)
        with self._database.read() as connection:
            return list(connection.scalars(query))

    def notebook(self, submission_id: int) -> bytes | None:
        """Return what was submitted, byte by byte."""
        query = sa.select(notebooks.c.notebook).where(notebooks.c.submission_id == submission_id)
        with self._database.read() as connection:
            found: bytes | None = connection.scalar(query)
        return found

    def report(self, submission_id: int) -> Report | None:
        """Return the report that is published, with the marks that people gave, or None."""
        with self._database.read() as connection:
            return grades.published(connection, submission_id)

    def mark(
        self, submission_id: int, question: str, points: str, comment: str, marker: Person
    ) -> bool:
        """Add a mark for an answer of a graded submission; False if it is not graded.

        Raises:
            Refused: 404, there is no such answer; 422, the points are none from 0 to its points.
        """
        if not is_id(submission_id):
            return False
        with self._database.write() as connection:
            report = grades.published(connection, submission_id)
            if report is None:
                return False
            answer = question_of(report, question)
            mark = Mark.read(points, comment, answer)
            grades.add_mark(connection, submission_id, answer, mark, marker, self._clock())
        return True


def _known(
    connection: sa.Connection, person: Person, lab: str, digest: str, retry_key: str | None
) -> Receipt | None:
    mine = sa.select(*_RECEIPT).where(submissions.c.person_id == person.id)
    if retry_key is not None:
        row = connection.execute(mine.where(submissions.c.retry_key == retry_key)).first()
        if row is not None and (row.lab, row.sha256) != (lab, digest):
            problem = "this Idempotency-Key was sent before with another lab or notebook"
            raise Refused(422, f"submit: {problem}. Send a new key.")
        if row is not None:
            return Receipt(*row, is_new=False)
    waiting = submissions.c.state.in_((STORED, HELD, GRADING))
    same = mine.where(waiting, submissions.c.lab == lab, submissions.c.sha256 == digest)
    row = connection.execute(same).first()
    return None if row is None else Receipt(*row, is_new=False)


def _kept_bytes(connection: sa.Connection, person: Person) -> int:
    size = sa.func.coalesce(sa.func.sum(submissions.c.size_bytes), 0)
    return int(connection.scalar(sa.select(size).where(submissions.c.person_id == person.id)) or 0)


def _of(person_id: int | None) -> list[sa.ColumnElement[bool]]:
    return [] if person_id is None else [submissions.c.person_id == person_id]


def pages_of(total: int, size: int) -> int:
    """Return how many pages of `size` hold `total` things; an empty list has one."""
    return max(1, -(-total // size))
