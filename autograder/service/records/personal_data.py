"""All that a course holds of one learner: to be given to them, and to be removed on request.

Which rows those are follows from the tables' foreign keys, so a table that is added later is not
forgotten: a row is somebody's if it must name them, or something of theirs.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from autograder.service.database.schema import (
    audit_log,
    best_times,
    course_totals,
    lines,
    metadata,
    people,
    pile,
    stale_totals,
    standings,
    submissions,
    sums,
    tokens,
)
from autograder.service.errors import Refused
from autograder.service.records import audit_log as log
from autograder.service.records.people import STAFF, Person
from autograder.service.records.roster.teams import hand_over
from autograder.service.records.stale_totals import lock
from autograder.service.records.standings.standings import drop_person, restand, restand_people
from autograder.service.records.submissions.claims import line_up

# Keys, and what is made of the rest.
_NOT_GIVEN = (tokens, lines, standings, pile, sums, best_times, course_totals, stale_totals)


def copy(connection: sa.Connection, person: Person) -> Iterator[str]:
    """Yield the rows of a learner as JSON, piece by piece: an object of lists by table."""
    before = "{"
    for table in metadata.sorted_tables:
        condition = _whose(table, person.id)
        if condition is None or table in _NOT_GIVEN:
            continue
        yield f"{before}\n{json.dumps(table.name)}: ["
        for number, row in enumerate(connection.execute(sa.select(table).where(condition))):
            yield ("," if number else "") + "\n" + json.dumps(dict(row._mapping), default=_text)
        yield "]"
        before = ","
    yield "\n}\n"


def remove(connection: sa.Connection, person: Person, clock: Callable[[], float], by: str) -> None:
    """Remove a learner and all that is theirs; the audit log keeps its lines without the login.

    Raises:
        Refused: 409, they are staff: others' marks are by them.
    """
    if person.role in STAFF:
        raise Refused(409, f"person: {person.login} is {person.role}: only learners are removed.")
    mine = sa.select(submissions.c.id).where(submissions.c.person_id == person.id)
    locked = mine.order_by(submissions.c.id).with_for_update(key_share=True)
    for number in connection.scalars(locked).all():
        about = f"submission {number}"
        theirs = audit_log.c.subject.startswith(f"{about}:") | (audit_log.c.subject == about)
        _rewrite(connection, theirs, before=None, after=None)  # comments name people
    others = _list_marked_by(connection, person.id)
    heirs = hand_over(connection, person.id)
    line_up(connection, *(heir for _, heir in heirs))
    drop_person(connection, person.id)
    lock(connection)
    for table in reversed(metadata.sorted_tables):
        for column in table.c:
            if column.nullable and any(key.column.table is people for key in column.foreign_keys):
                chosen = table.update().where(column == person.id)
                connection.execute(chosen.values({column.name: None}))
        condition = _whose(table, person.id)
        if condition is not None:
            connection.execute(table.delete().where(condition))
    restand_people(connection, *others)
    for lab, heir in heirs:
        restand(connection, lab, heir)
    called = f"person {person.id}"
    subject, login = audit_log.c.subject, person.login
    _rewrite(connection, audit_log.c.who == login, who=called)
    _rewrite(connection, subject == login, subject=called)
    ends = subject.endswith(f": {login}", autoescape=True)
    without = sa.func.substr(subject, 1, sa.func.length(subject) - len(login))
    _rewrite(connection, ends, subject=without + called)
    log.write(connection, clock(), by, "remove", called)


def _list_marked_by(connection: sa.Connection, person_id: int) -> set[int]:
    """Return the others whom a person has marked when they were on the staff."""
    query = sa.select(standings.c.person_id).join(
        pile, pile.c.submission_id == standings.c.latest_id
    )
    return {*connection.scalars(query.where(pile.c.marked_by == person_id))} - {person_id}


def _rewrite(connection: sa.Connection, which: sa.ColumnElement[bool], **values: Any) -> None:
    connection.execute(audit_log.update().where(which).values(values))


def _whose(table: sa.Table, person_id: int) -> sa.ColumnElement[bool] | None:
    """Return which rows of a table are a person's, or None where none can be."""
    if table is people:
        return people.c.id == person_id
    conditions = []
    for column in table.c:
        for key in column.foreign_keys:
            parent = _whose(key.column.table, person_id)
            if parent is not None and not column.nullable:
                conditions.append(column.in_(sa.select(key.column).where(parent)))
    return sa.or_(*conditions) if conditions else None


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
