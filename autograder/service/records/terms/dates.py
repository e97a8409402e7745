"""The dates of a lab as staff set them, for everybody and for one learner."""

from dataclasses import dataclass

import sqlalchemy as sa

from autograder.service.database.database import Records
from autograder.service.database.schema import (
    accommodations,
    decisions,
    extensions,
    lab_rules,
    submissions,
)
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.calendar import Calendar, calendar
from autograder.service.records.outbox import touch, touch_people
from autograder.service.records.people import Person
from autograder.service.records.rules import Rules
from autograder.service.records.standings.standings import restand, restand_lab, restand_people


def put_rules(
    connection: sa.Connection, now: float, lab: str, before: Rules, rules: Rules, by: Person
) -> None:
    """Write down what holds for a lab instead of what did, who says so, and whom it concerns."""
    connection.execute(lab_rules.delete().where(lab_rules.c.lab == lab))
    connection.execute(lab_rules.insert().values(lab=lab, **rules.to_dict()))
    held = (before.to_dict(), rules.to_dict())
    audit_log.write(connection, now, by.login, "dates", lab, *held)
    if before.held != rules.held:
        action = "grades held back" if rules.held else "grades released"
        audit_log.write(connection, now, by.login, action, lab)
    touch(connection, submissions.c.lab == lab)
    decided = sa.select(decisions.c.person_id).where(decisions.c.lab == lab)
    touch_people(connection, lab, decided)
    restand_lab(connection, lab)


@dataclass(frozen=True)
class Dates(Records):
    """What staff set, with a line in the audit log for each change."""

    def calendar(self, *person_ids: int) -> Calendar:
        """Return what holds now, for everybody or for these people."""
        with self.database.read() as connection:
            return calendar(connection, *person_ids)

    def solutions_refusal(self, lab: str, person_id: int) -> str | None:
        """Return why this learner cannot have the solutions of a lab now, or None."""
        return self.calendar(person_id).of(lab, person_id).solutions_refusal(self.clock())

    def set_rules(self, lab: str, rules: Rules, by: Person) -> None:
        """Let these rules hold for a lab, instead of those that held."""
        with self.database.write() as connection:
            before = calendar(connection).rules.get(lab, Rules())
            put_rules(connection, self.clock(), lab, before, rules, by)

    def extend(self, lab: str, learner: Person, due: str | None, by: Person) -> Rules:
        """Give a learner until `due`, or take that back; return what holds for them now.

        Raises:
            Refused: 422, the lab has no due date, or `due` is not after it.
        """
        key = (extensions.c.lab == lab) & (extensions.c.person_id == learner.id)
        with self.database.write() as connection:
            rules = calendar(connection).rules.get(lab, Rules())
            if due is not None and (refusal := rules.extension_refusal(due)):
                raise Refused(422, f"extension: due: got {due}: {refusal}.")
            before = connection.scalar(sa.select(extensions.c.due).where(key))
            connection.execute(extensions.delete().where(key))
            if due is not None:
                row = {"lab": lab, "person_id": learner.id, "due": due}
                connection.execute(extensions.insert().values(row))
            subject = f"{lab}: {learner.login}"
            audit_log.write(connection, self.clock(), by.login, "extension", subject, before, due)
            theirs = submissions.c.person_id == learner.id
            touch(connection, theirs, submissions.c.lab == lab)
            restand(connection, lab, learner.id)
            return calendar(connection, learner.id).of(lab, learner.id)

    def stretch(self, learner: Person, factor: object, by: Person) -> None:
        """Give a learner so many times the time of every lab that has an opening and a due date.

        Raises:
            Refused: 422, the factor is none from 1 (as everybody) to 10.
        """
        if isinstance(factor, bool) or not isinstance(factor, int | float) or not 1 <= factor <= 10:
            raise Refused(422, f"time: factor: got {str(factor)[:40]!r}, expected 1 to 10.")
        mine = accommodations.c.person_id == learner.id
        with self.database.write() as connection:
            before = connection.scalar(sa.select(accommodations.c.factor).where(mine))
            connection.execute(accommodations.delete().where(mine))
            if factor > 1:
                row = {"person_id": learner.id, "factor": float(factor)}
                connection.execute(accommodations.insert().values(row))
            held = (before or 1, factor)
            audit_log.write(connection, self.clock(), by.login, "time", learner.login, *held)
            touch(connection, submissions.c.person_id == learner.id)
            restand_people(connection, learner.id)
