"""Who grades what now: submissions that wait, are claimed for a while, and end graded or parked.

A worker *claims* a waiting submission for a limited time (a lease) and renews the claim while it
works: the oldest one of whoever has waited longest for a grade, so that a learner who submits sixty
at once keeps nobody waiting. A claim whose time ran out belongs to a server that is gone, and is
taken again. Only the holder of the claim can end it, so a worker that comes back late changes
nothing.

`line_up` keeps one line a person, so that a claim reads the first entry of an index however many
submissions wait; every change of a state calls it in the same transaction.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.records import Report
from autograder.service.database.database import Records
from autograder.service.database.schema import (
    GRADED,
    GRADING,
    HELD,
    PARKED,
    STORED,
    lines,
    notebooks,
    submissions,
)
from autograder.service.records import audit_log
from autograder.service.records.grades.gradings import publish
from autograder.service.records.people import batches
from autograder.service.records.roster.teams import NO_COPY, origin_of
from autograder.service.records.submissions.submissions import is_id

_AT_ONCE = 500  # lines and submissions that one transaction moves
_REASON_CHARS = 2_000  # in a row that lists read


@dataclass(frozen=True)
class Claim:
    """A submission that this worker may grade until its lease ends."""

    id: int
    lab: str
    notebook: bytes
    tries: int
    kills: int


@dataclass(frozen=True)
class Waiting:
    """What is still to be graded; `oldest_s` is how long the first of it has waited."""

    waiting: int
    grading: int
    parked: int
    oldest_s: float


def _in_state(*states: str) -> sa.ColumnElement[bool]:
    """Say states in the statement itself.

    What PostgreSQL prepares for any state reads all submissions, for so many may have it.
    """
    named: list[Any] = [sa.bindparam(None, state, literal_execute=True) for state in states]
    column = submissions.c.state
    return column == named[0] if len(named) == 1 else sa.or_(*(column == name for name in named))


def line_up(connection: sa.Connection, *person_ids: int) -> None:
    """Bring the lines of these people up to date with their submissions.

    Who is being graded for now counts as served later than anybody.
    """
    for some in batches(person_ids):
        _line_up(connection, some)


def _line_up(connection: sa.Connection, person_ids: Sequence[int]) -> None:
    theirs = lines.c.person_id.in_(person_ids)
    locked = sa.select(lines.c.person_id).where(theirs).order_by(lines.c.person_id)
    connection.execute(locked.with_for_update())
    mine = submissions.c.person_id == lines.c.person_id
    first = sa.select(sa.func.min(submissions.c.id)).where(mine, _in_state(STORED))
    last = sa.select(sa.func.max(submissions.c.finished_at)).where(mine)
    graded_now = sa.exists().where(mine, _in_state(GRADING))
    served = sa.func.coalesce(last.scalar_subquery(), 0.0)
    values: dict[str, Any] = {
        "next_id": first.scalar_subquery(),
        "served_at": sa.case((graded_now, math.inf), else_=served),
    }
    connection.execute(lines.update().where(theirs).values(values))


@dataclass(frozen=True)
class Claims(Records):
    """The queue, as the database holds it."""

    def claim(self, owner: str, lease_s: float, *, avoid: Collection[str] = ()) -> Claim | None:
        """Take the next submission that waits, or whose lease ran out; None if there is none.

        The next is the oldest of the person who was served least recently. Those of the labs in
        `avoid` are put aside (`release` brings them back).
        """
        while any(there := self._has_work()):
            row = self._next(owner, lease_s, avoid, overdue=there.overdue)
            if row is None or row.lab not in avoid:
                return None if row is None else self._claim(row)
        return None

    def _next(self, owner: str, lease_s: float, avoid: Collection[str], *, overdue: bool) -> Any:
        """Return the next submission; it is `owner`'s now, or put aside if its lab is to be."""
        with self.database.write() as connection:
            if overdue:
                _take_back(connection, submissions.c.lease_until < self.clock())
            row = connection.execute(_NEXT).first()
            if row is not None and row.lab in avoid:
                _put_aside(connection, row.lab)
            elif row is not None:
                values = {"lease_owner": owner, "lease_until": self.clock() + lease_s}
                _update(connection, submissions.c.id == row.id, state=GRADING, **values)
            return row

    def _claim(self, row: Any) -> Claim:
        query = sa.select(notebooks.c.notebook).where(notebooks.c.submission_id == row.id)
        notebook: bytes = self.database.scalar(query)
        return Claim(row.id, row.lab, notebook, row.tries, row.kills)

    def _has_work(self) -> Any:
        """Return whether any `waits`, or is `overdue`, without a writer's turn."""
        waits = sa.exists().where(lines.c.next_id.is_not(None))
        late = submissions.c.lease_until < self.clock()
        overdue = sa.exists().where(_in_state(GRADING), late)
        query: Any = sa.select(waits.label("waits"), overdue.label("overdue"))
        return self.database.first(query)

    def renew(self, submission_id: int, owner: str, lease_s: float) -> bool:
        """Lengthen a claim; False says that it is no longer `owner`'s."""
        values = {"lease_until": self.clock() + lease_s}
        with self.database.write() as connection:
            held = _is_held_by(submission_id, owner)
            return connection.execute(submissions.update().where(held).values(values)).rowcount == 1

    def finish(self, submission_id: int, owner: str, report: Report) -> bool:
        """Add a grading and publish it; False says that the claim was lost, and nothing was."""
        with self.database.write() as connection:
            now = self.clock()
            ended = {"state": GRADED, "tries": 0, "kills": 0, "finished_at": now}
            if not _let_go(connection, submission_id, owner, ended):
                return False
            publish(connection, submission_id, report, now)
        return True

    def park(self, submission_id: int, owner: str, reason: str) -> bool:
        """Put a submission aside for staff, saying why. What is published of it stays."""
        tries = submissions.c.tries + 1
        ended = {"state": PARKED, "tries": tries, "finished_at": self.clock()}
        return self._put_back(submission_id, owner, **ended, reason=reason)

    def put_back(self, submission_id: int, owner: str) -> bool:
        """Give it back for another worker; nothing is counted against it."""
        return self._put_back(submission_id, owner)

    def count_try(self, submission_id: int, owner: str, reason: str) -> bool:
        """Put it back, and count a grader that failed over it."""
        return self._put_back(submission_id, owner, tries=submissions.c.tries + 1, reason=reason)

    def count_kill(self, submission_id: int, owner: str, reason: str) -> bool:
        """Put it back, and count a grader that somebody killed."""
        return self._put_back(submission_id, owner, kills=submissions.c.kills + 1, reason=reason)

    def hold(self, submission_id: int, owner: str) -> bool:
        """Put it aside until its lab can be graded; what was counted against it was not its own."""
        return self._put_back(submission_id, owner, state=HELD, tries=0)

    def _put_back(self, submission_id: int, owner: str, **values: Any) -> bool:
        with self.database.write() as connection:
            return _let_go(connection, submission_id, owner, {"state": STORED, **values})

    def free_orphans(self, node: str) -> int:
        """Free the claims of a server of `node` that was killed; return how many there were.

        For a caller that knows no such server to live: it holds the data directory's lock.
        """
        with self.database.write() as connection:
            ours = submissions.c.lease_owner.startswith(f"{node}/", autoescape=True)
            return _take_back(connection, ours)

    def release(self, except_of: Collection[str], most: int | None = None) -> int:
        """Put what is held into the queue again, but for some labs; return how many there were.

        With `most`, only so many, the first that were handed in.
        """
        released = 0
        while most is None or released < most:
            batch = self._release(except_of, min(_AT_ONCE, most or _AT_ONCE))
            released += batch
            if not batch:
                break
        return released

    def _release(self, except_of: Collection[str], most: int) -> int:
        held = _in_state(HELD) & submissions.c.lab.not_in(list(except_of))
        query = sa.select(submissions.c.id).where(held).order_by(submissions.c.id).limit(most)
        if self.database.first(query) is None:
            return 0
        with self.database.write() as connection:
            ids = connection.scalars(query.with_for_update(skip_locked=True)).all()
            return len(_update(connection, submissions.c.id.in_(ids), state=STORED))

    def retry_parked(self) -> int:
        """Send everything that is parked through the queue again; return how many there were."""
        with self.database.write() as connection:
            return len(send_again(connection, _in_state(PARKED), self.clock()))

    def regrade(self, submission_id: int, *, by: str = "") -> bool:
        """Send a finished submission through the queue again; False if it is not finished.

        What is published of it stays until another grading is.
        """
        if not is_id(submission_id):
            return False
        with self.database.write() as connection:
            submission_id = origin_of(connection, submission_id)
            which = (submissions.c.id == submission_id) & FINISHED
            sent = send_again(connection, which, self.clock())
            if sent and by:
                subject = f"submission {submission_id}"
                audit_log.write(connection, self.clock(), by, "regrade", subject)
            return bool(sent)

    def waiting(self) -> Waiting:
        """Return how much is still to be graded."""
        states = (STORED, HELD, GRADING, PARKED)
        query = sa.select(
            submissions.c.state, sa.func.count(), sa.func.min(submissions.c.waiting_since)
        )
        query = query.where(_in_state(*states)).group_by(submissions.c.state)
        by_state = {state: (count, since) for state, count, since in self.database.rows(query)}
        count = {state: by_state.get(state, (0, 0.0))[0] for state in states}
        since = [by_state[state][1] for state in (STORED, HELD, GRADING) if state in by_state]
        oldest_s = max(0.0, self.clock() - min(since)) if since else 0.0
        return Waiting(count[STORED] + count[HELD], count[GRADING], count[PARKED], oldest_s)


FINISHED = _in_state(GRADED, PARKED)


def send_again(connection: sa.Connection, which: sa.ColumnElement[bool], now: float) -> list[Any]:
    """Send submissions through the queue again; return the id and the score of each."""
    fresh = {"state": STORED, "reason": None, "tries": 0, "kills": 0}
    return _update(connection, which, **fresh, waiting_since=now)


def _update(connection: sa.Connection, which: sa.ColumnElement[bool], **values: Any) -> list[Any]:
    columns = (submissions.c.person_id, submissions.c.id, submissions.c.score)
    update = submissions.update().where(which, NO_COPY).values(values)
    rows = list(connection.execute(update.returning(*columns)))
    if rows:
        line_up(connection, *{row.person_id for row in rows})
    return rows


def _put_aside(connection: sa.Connection, lab: str) -> None:
    """Have many who wait with a lab wait for the lab.

    Lines that others hold are left: servers that all do so would wait for each other in a circle.
    """
    waiting = _in_state(STORED) & (submissions.c.lab == lab)
    whose = lines.c.person_id.in_(sa.select(submissions.c.person_id).where(waiting))
    free = sa.select(lines.c.person_id).where(whose).order_by(lines.c.person_id).limit(_AT_ONCE)
    people = connection.scalars(free.with_for_update(skip_locked=True)).all()
    _update(connection, waiting & submissions.c.person_id.in_(people), state=HELD)


def _take_back(connection: sa.Connection, whose: sa.ColumnElement[bool]) -> int:
    free = {"state": STORED, "lease_owner": None, "lease_until": None}
    return len(_update(connection, _in_state(GRADING) & whose, **free))


def _let_go(
    connection: sa.Connection, submission_id: int, owner: str, values: dict[str, Any]
) -> bool:
    """End a claim; False says that it was lost."""
    reason = (values.get("reason") or "")[:_REASON_CHARS] or None
    free = {**values, "reason": reason, "lease_owner": None, "lease_until": None}
    update = submissions.update().where(_is_held_by(submission_id, owner)).values(free)
    person_id = connection.scalar(update.returning(submissions.c.person_id))
    if person_id is not None:
        line_up(connection, person_id)
    return person_id is not None


def _is_held_by(submission_id: int, owner: str) -> sa.ColumnElement[bool]:
    return (
        (submissions.c.id == submission_id)
        & (submissions.c.lease_owner == owner)
        & _in_state(GRADING)
    )


# PostgreSQL locks the line and passes over those that are locked; SQLite has one writer anyway.
_NEXT = (
    sa.select(*(submissions.c[name] for name in ("id", "lab", "tries", "kills")))
    .join_from(lines, submissions, submissions.c.id == lines.c.next_id)
    .where(lines.c.next_id.is_not(None))
    .order_by(lines.c.served_at, lines.c.next_id)
    .limit(1)
    .with_for_update(skip_locked=True, of=lines)
)
