"""Submissions and their queue: stored, grading, then graded or failed; never lost, never twice.

A worker *claims* a waiting submission for a limited time (a lease) and renews the claim while it
works: the oldest one of whoever has waited longest for a grade, so that a learner who submits sixty
at once keeps nobody waiting. A claim whose time ran out belongs to a server that is gone, and is
taken again. Only the holder of the claim can finish it, so a worker that comes back late changes
nothing.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.roster import Person
from autograder.service.schema import people, submissions

STORED, GRADING, GRADED, FAILED = "stored", "grading", "graded", "failed"

# SQLite's largest integer: a larger id cannot exist, and binding it would raise.
_LARGEST_ID = 2**63 - 1


@dataclass(frozen=True)
class Entry:
    """What is known of a submission, without its notebook. `report` is a Report's `to_dict`."""

    id: int
    person_id: int
    learner: str
    lab: str
    state: str
    reason: str | None
    submitted_at: float
    finished_at: float | None
    attempts: int
    score: float | None
    max_score: float | None

    @property
    def is_final(self) -> bool:
        """Whether nothing more will happen to it."""
        return self.state in (GRADED, FAILED)


@dataclass(frozen=True)
class Claim:
    """A submission that this worker may grade until its lease ends."""

    id: int
    lab: str
    notebook: bytes
    attempts: int
    crashes: int


@dataclass(frozen=True)
class Revised:
    """A report with the grade that it says."""

    score: float
    max_score: float
    report: str


_ENTRY = (
    submissions.c.id,
    submissions.c.person_id,
    people.c.name.label("learner"),
    submissions.c.lab,
    submissions.c.state,
    submissions.c.reason,
    submissions.c.submitted_at,
    submissions.c.finished_at,
    submissions.c.attempts,
    submissions.c.score,
    submissions.c.max_score,
)


def _served(now: float) -> sa.ColumnElement[float]:
    """Return when the person of a submission was served last: now if one is graded, 0 if never."""
    theirs = submissions.alias("theirs")
    graded_now = (theirs.c.state == GRADING) & (theirs.c.lease_until >= now)
    when = sa.case((graded_now, now), else_=sa.func.coalesce(theirs.c.finished_at, 0.0))
    last = sa.select(sa.func.max(when)).where(theirs.c.person_id == submissions.c.person_id)
    return last.correlate(submissions).scalar_subquery()


def _is_id(number: int) -> bool:
    return 0 < number <= _LARGEST_ID


class Ledger:
    """Every submission ever made."""

    def __init__(self, engine: sa.Engine, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._clock = clock

    def add(self, person: Person, lab: str, notebook: bytes) -> int:
        """Store a submission and return its id: when this returns, it is on the disk."""
        row = {
            "person_id": person.id,
            "lab": lab,
            "notebook": notebook,
            "sha256": hashlib.sha256(notebook).hexdigest(),
            "submitted_at": self._clock(),
            "state": STORED,
        }
        with self._engine.begin() as connection:
            key = connection.execute(submissions.insert().values(row)).inserted_primary_key
        assert key is not None
        return int(key[0])

    def kept_bytes(self, person: Person) -> int:
        """Return the size of all notebooks that are kept of a person."""
        size = sa.func.coalesce(sa.func.sum(sa.func.length(submissions.c.notebook)), 0)
        with self._engine.connect() as connection:
            query = sa.select(size).where(submissions.c.person_id == person.id)
            return int(connection.scalar(query) or 0)

    def get(self, submission_id: int) -> Entry | None:
        """Return the submission of that id, or None."""
        if not _is_id(submission_id):
            return None
        found = self._entries(submissions.c.id == submission_id)
        return found[0] if found else None

    def all(self, *, person_id: int | None = None) -> list[Entry]:
        """Return every submission, or one person's, the newest first."""
        return self._entries(*([] if person_id is None else [submissions.c.person_id == person_id]))

    def _entries(self, *conditions: sa.ColumnElement[bool]) -> list[Entry]:
        query = sa.select(*_ENTRY).join_from(submissions, people).where(*conditions)
        with self._engine.connect() as connection:
            return [
                Entry(*row) for row in connection.execute(query.order_by(submissions.c.id.desc()))
            ]

    def report(self, submission_id: int) -> str | None:
        """Return the JSON of a submission's report, or None while there is none."""
        found: str | None = self._one(submissions.c.report, submission_id)
        return found

    def notebook(self, submission_id: int) -> bytes | None:
        """Return what was submitted, byte by byte."""
        found: bytes | None = self._one(submissions.c.notebook, submission_id)
        return found

    def _one(self, column: sa.Column[Any], submission_id: int) -> Any:
        with self._engine.connect() as connection:
            return connection.scalar(sa.select(column).where(submissions.c.id == submission_id))

    def claim(self, owner: str, lease_s: float) -> Claim | None:
        """Take the next submission that waits, or whose lease ran out; None if there is none.

        The next is the oldest of the person who was served least recently.
        """
        now = self._clock()
        orphaned = (submissions.c.state == GRADING) & (submissions.c.lease_until < now)
        next_one = (
            sa.select(submissions.c.id)
            .where((submissions.c.state == STORED) | orphaned)
            .order_by(_served(now), submissions.c.id)
            .limit(1)
            .with_for_update(skip_locked=True)  # PostgreSQL; SQLite has one writer anyway
        )
        take = (
            submissions.update()
            .where(submissions.c.id == next_one.scalar_subquery())
            .values(
                state=GRADING,
                lease_owner=owner,
                lease_until=now + lease_s,
                attempts=submissions.c.attempts + 1,
            )
            .returning(*(submissions.c[name] for name in Claim.__dataclass_fields__))
        )
        with self._engine.begin() as connection:
            row = connection.execute(take).first()
        return Claim(*row) if row else None

    def renew(self, submission_id: int, owner: str, lease_s: float) -> bool:
        """Lengthen a claim; False says that it is no longer `owner`'s."""
        return self._update(submission_id, owner, lease_until=self._clock() + lease_s)

    def finish(
        self, submission_id: int, owner: str, *, score: float, max_score: float, report: str
    ) -> bool:
        """Write the grade; False says that the claim was lost, and nothing was written."""
        grade = {"score": score, "max_score": max_score, "report": report, "reason": None}
        return self._end(submission_id, owner, GRADED, grade)

    def fail(
        self, submission_id: int, owner: str, *, reason: str, max_score: float, report: str
    ) -> bool:
        """Give up on a submission for good, saying why."""
        grade = {"score": 0.0, "max_score": max_score, "report": report, "reason": reason}
        return self._end(submission_id, owner, FAILED, grade)

    def _end(self, submission_id: int, owner: str, state: str, grade: dict[str, Any]) -> bool:
        done = {"state": state, "finished_at": self._clock(), "lease_owner": None}
        return self._update(submission_id, owner, **done, **grade, lease_until=None)

    def put_back(self, submission_id: int, owner: str, *, crashed: bool, reason: str = "") -> bool:
        """Let another attempt have it. A crash is counted against it; a shutdown is not."""
        columns = submissions.c
        counts: dict[str, Any] = {"crashes": columns.crashes + 1}
        if not crashed:
            counts = {"attempts": columns.attempts - 1}
        free = {"state": STORED, "lease_owner": None, "lease_until": None, "reason": reason or None}
        return self._update(submission_id, owner, **free, **counts)

    def _update(self, submission_id: int, owner: str, **values: Any) -> bool:
        held = (
            (submissions.c.id == submission_id)
            & (submissions.c.lease_owner == owner)
            & (submissions.c.state == GRADING)
        )
        with self._engine.begin() as connection:
            return connection.execute(submissions.update().where(held).values(values)).rowcount == 1

    def revise(self, submission_id: int, revision: Callable[[str], Revised]) -> bool:
        """Replace the report of a graded submission by what `revision` makes of it.

        One transaction, so that two people who grade at once lose nothing; False if it is not
        graded. What `revision` raises changes nothing.
        """
        if not _is_id(submission_id):
            return False
        graded = (submissions.c.id == submission_id) & (submissions.c.state == GRADED)
        touch = submissions.update().where(graded).values(state=GRADED)
        with self._engine.begin() as connection:
            if connection.execute(touch).rowcount != 1:  # takes the write lock before the reading
                return False
            text = connection.scalar(sa.select(submissions.c.report).where(graded))
            new = revision(text or "{}")
            values = {"score": new.score, "max_score": new.max_score, "report": new.report}
            connection.execute(submissions.update().where(graded).values(values))
        return True

    def free_orphans(self, node: str) -> int:
        """Free the claims of a server of `node` that was killed; return how many there were.

        For a caller that knows no such server to live: it holds the data directory's lock.
        """
        theirs = (submissions.c.state == GRADING) & submissions.c.lease_owner.startswith(
            f"{node}/", autoescape=True
        )
        free = {"state": STORED, "lease_owner": None, "lease_until": None}
        with self._engine.begin() as connection:
            return connection.execute(submissions.update().where(theirs).values(free)).rowcount

    def regrade(self, submission_id: int) -> bool:
        """Send a finished submission through the queue again; False if it is not finished."""
        if not _is_id(submission_id):
            return False
        finished = submissions.c.state.in_((GRADED, FAILED))
        again = {"state": STORED, "attempts": 0, "crashes": 0, "reason": None}
        update = submissions.update().where(submissions.c.id == submission_id, finished)
        with self._engine.begin() as connection:
            return connection.execute(update.values(again)).rowcount == 1
