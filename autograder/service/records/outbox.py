"""Grades on their way to learning platforms: what is still to be sent, and how sending went.

`touch` adds a row in the transaction that changes a score, so that nothing gets between the two. A
row says whose score of which lab, not which: what is sent is what counts then. It goes when the
platform has taken it; until then it is tried again, later and later, for ever.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Records
from autograder.service.database.schema import lti_labs, lti_outbox, lti_people, people, submissions
from autograder.service.records import audit_log
from autograder.service.records.people import LEARNER
from autograder.service.times import iso

_LEASE_S = 120.0  # longer than one sending, with its token and its line item, can take
_MOST_S = 3600.0
_MOST_SHOWN = 100
_SAME_COURSE = (lti_labs.c.platform == lti_people.c.platform) & (
    lti_labs.c.context == lti_people.c.context
)


@dataclass(frozen=True)
class Due:
    """A grade to be sent: whose, where to, and the rows that say so."""

    rows: tuple[int, ...]
    platform: str
    person_id: int
    login: str
    subject: str
    context: str
    lab: str
    lineitem: str
    lineitems: str
    tries: int


def touch(connection: sa.Connection, *which: sa.ColumnElement[bool]) -> None:
    """Have the grades sent that these submissions may have changed, where a platform wants them."""
    theirs = (submissions.c.person_id == lti_people.c.person_id) & (
        submissions.c.lab == lti_labs.c.lab
    )
    graded = sa.exists().where(theirs, submissions.c.score.is_not(None), *which)
    whose = lti_people.c.person_id.in_(sa.select(submissions.c.person_id).where(*which))
    _add(connection, graded, whose)  # `whose` is for an index, else all are read


def touch_people(
    connection: sa.Connection, lab: str, person_ids: "Collection[int] | sa.Select[tuple[int]]"
) -> None:
    """Have the grades of these people in a lab sent, whether they have handed it in or not."""
    _add(connection, lti_people.c.person_id.in_(person_ids), lti_labs.c.lab == lab)


def _add(connection: sa.Connection, *which: sa.ColumnElement[bool]) -> None:
    columns = (lti_people.c.platform, lti_people.c.person_id, lti_labs.c.lab)
    rows = sa.select(*columns, sa.literal(0.0), sa.literal(0), sa.literal(""))
    rows = rows.select_from(lti_people).join(lti_labs, _SAME_COURSE).join(people)
    rows = rows.where(people.c.role == LEARNER, *which)
    names = ("platform", "person_id", "lab", "not_before", "tries", "problem")
    connection.execute(lti_outbox.insert().from_select(names, rows))


@dataclass(frozen=True)
class Outbox(Records):
    """The rows that wait, for whoever sends them; `again_s` is the first pause after a failure."""

    again_s: float

    def take(self, platforms: Collection[str]) -> Due | None:
        """Return the next grade that is due for one of these platforms, for this caller alone."""
        now = self.clock()
        ready = (lti_outbox.c.not_before <= now) & lti_outbox.c.platform.in_(platforms)
        query = sa.select(lti_outbox).where(ready)
        query = query.order_by(lti_outbox.c.not_before, lti_outbox.c.id).limit(1)
        first = self.database.first(query)
        if first is None:
            return None
        with self.database.write() as connection:
            still = sa.select(lti_outbox.c.id).where(ready, lti_outbox.c.id == first.id)
            if connection.scalar(still.with_for_update()) is None:  # another server was faster
                return None
            names = ("platform", "person_id", "lab")
            same = [lti_outbox.c[name] == getattr(first, name) for name in names]
            leased = lti_outbox.update().where(*same).values(not_before=now + _LEASE_S)
            rows = tuple(connection.scalars(leased.returning(lti_outbox.c.id)))
            target = connection.execute(_target(first)).mappings().one()
        return Due(rows=rows, tries=first.tries, **target)

    def note_sent(self, due: Due, after: dict[str, Any] | None) -> None:
        """Forget what has been sent; the audit log keeps it. None: there was nothing to send."""
        with self.database.write() as connection:
            connection.execute(lti_outbox.delete().where(lti_outbox.c.id.in_(due.rows)))
            subject = f"{due.lab}: {due.login}"
            if after is not None:
                by = due.platform
                audit_log.write(connection, self.clock(), by, "sent", subject, after=after)

    def note_failure(self, due: Due, problem: str, *, everything: bool) -> None:
        """Try it again later; `everything` of the platform, if that is what does not answer."""
        later = self.clock() + min(_MOST_S, self.again_s * 2 ** min(due.tries, 20))
        which = lti_outbox.c.id.in_(due.rows)
        if everything:
            which |= (lti_outbox.c.platform == due.platform) & (lti_outbox.c.not_before < later)
        values = {"tries": due.tries + 1, "not_before": later, "problem": problem[:500]}
        with self.database.write() as connection:
            connection.execute(lti_outbox.update().where(which).values(values))

    def lineitem(self, due: Due, url: str) -> None:
        """Write down where the grades of a lab go; empty: to be found anew."""
        here = (lti_labs.c.platform == due.platform) & (lti_labs.c.context == due.context)
        with self.database.write() as connection:
            update = lti_labs.update().where(here, lti_labs.c.lab == due.lab)
            connection.execute(update.values(lineitem=url))

    def retry_now(self) -> None:
        """Have everything sent now that waits for its next try."""
        with self.database.write() as connection:
            connection.execute(lti_outbox.update().values(not_before=self.clock()))

    def describe_waiting(self) -> dict[str, Any]:
        """Return how many grades wait, and those that could not be sent, as plain data."""
        columns = (lti_outbox.c.platform, people.c.login, lti_outbox.c.lab)
        last = (lti_outbox.c.tries, lti_outbox.c.problem, lti_outbox.c.not_before)
        query = sa.select(*columns, *last).join_from(lti_outbox, people)
        query = query.where(lti_outbox.c.problem != "").order_by(lti_outbox.c.id)
        with self.database.read() as connection:
            count = connection.scalar(sa.select(sa.func.count()).select_from(lti_outbox))
            rows = connection.execute(query.limit(_MOST_SHOWN)).mappings()
            failing = [{**row, "not_before": iso(row["not_before"])} for row in rows]
        return {"waiting": count or 0, "failing": failing}


def _target(row: Any) -> "sa.Select[Any]":
    """Return whose grade it is and where it goes, as a `Due` calls it."""
    whose = (lti_people.c.platform, lti_people.c.person_id, people.c.login, lti_people.c.subject)
    where = (lti_people.c.context, lti_labs.c.lab, lti_labs.c.lineitem, lti_labs.c.lineitems)
    query = sa.select(*whose, *where).select_from(lti_people).join(people)
    return query.join(lti_labs, _SAME_COURSE).where(
        lti_people.c.platform == row.platform,
        lti_people.c.person_id == row.person_id,
        lti_labs.c.lab == row.lab,
    )
