"""The rules of labs and the extensions of learners, as the database keeps them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

import sqlalchemy as sa

from autograder.service import audit_log
from autograder.service.database import Database
from autograder.service.errors import Refused
from autograder.service.outbox import touch
from autograder.service.policy import Rules
from autograder.service.roster import Person
from autograder.service.schema import extensions, lab_rules, submissions

_COLUMNS = [lab_rules.c[field.name] for field in fields(Rules)]


@dataclass(frozen=True)
class Calendar:
    """What holds for whom: the rules by lab, and later due dates by (lab, person)."""

    rules: Mapping[str, Rules]
    later: Mapping[tuple[str, int], str]

    def of(self, lab: str, person_id: int) -> Rules:
        """Return the rules that hold for one learner."""
        return self.rules.get(lab, Rules()).extended(self.later.get((lab, person_id)))


def calendar(connection: sa.Connection, person_id: int | None = None) -> Calendar:
    """Return the rules and the extensions of everybody, or of one person."""
    rules = {row[0]: Rules(*row[1:]) for row in connection.execute(_RULES)}
    chosen = sa.select(extensions.c.lab, extensions.c.person_id, extensions.c.due)
    if person_id is not None:
        chosen = chosen.where(extensions.c.person_id == person_id)
    return Calendar(rules, {(row[0], row[1]): row[2] for row in connection.execute(chosen)})


_RULES = sa.select(lab_rules.c.lab, *_COLUMNS)


@dataclass(frozen=True)
class Dates:
    """What staff set, with a line in the audit log for each change."""

    database: Database
    clock: Callable[[], float]

    def calendar(self, person_id: int | None = None) -> Calendar:
        """Return what holds now, for everybody or for one person."""
        with self.database.read() as connection:
            return calendar(connection, person_id)

    def solutions_refusal(self, lab: str, person_id: int) -> str | None:
        """Return why this learner cannot have the solutions of a lab now, or None."""
        return self.calendar(person_id).of(lab, person_id).solutions_refusal(self.clock())

    def set_rules(self, lab: str, rules: Rules, by: Person) -> None:
        """Let these rules hold for a lab, instead of those that held."""
        with self.database.write() as connection:
            before = calendar(connection).rules.get(lab, Rules())
            connection.execute(lab_rules.delete().where(lab_rules.c.lab == lab))
            connection.execute(lab_rules.insert().values(lab=lab, **rules.to_dict()))
            held = (before.to_dict(), rules.to_dict())
            audit_log.write(connection, self.clock(), by.login, "dates", lab, *held)
            touch(connection, submissions.c.lab == lab)

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
            return calendar(connection, learner.id).of(lab, learner.id)
