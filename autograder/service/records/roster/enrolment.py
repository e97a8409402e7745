"""Many people at once: who is here, tokens and links for a whole roster, who has left.

Whoever has left keeps their place in the records, with the role FORMER: no way in, no line in the
gradebook, and everything back when a roster or an enrolment names them again.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.schema import accommodations, people, tokens
from autograder.service.errors import Refused
from autograder.service.records import audit_log
from autograder.service.records.people import (
    FORMER,
    LEARNER,
    PERSON,
    Edit,
    Person,
    Roster,
    login_of,
    name_contains,
    require_printable,
)
from autograder.service.records.standings.standings import restand_people
from autograder.service.times import date, moment
from autograder.service.tokens import digest, key_of, new_token

PAGE_ROWS = 50

# What is made for many: a token for programs, or a link that logs one browser in.
KINDS = {"token": "bearer", "link": "code"}

_HAS_TOKEN = sa.exists().where(tokens.c.person_id == people.c.id, tokens.c.kind == "bearer")


@dataclass(frozen=True)
class Member:
    """Somebody of the course, whether they have a token, and their factor on time."""

    person: Person
    has_token: bool
    factor: float | None


def members(
    database: Database, *, search: str = "", role: str = "", after: str = ""
) -> list[Member]:
    """Return the next people by login, those behind the login `after`; `PAGE_ROWS` at most."""
    query = sa.select(*PERSON, _HAS_TOKEN, accommodations.c.factor)
    query = query.join_from(people, accommodations, isouter=True).where(people.c.login > after)
    query = query.where(people.c.role == role if role else people.c.role != FORMER)
    if search:
        query = query.where(name_contains(search))
    rows = database.rows(query.order_by(people.c.login).limit(PAGE_ROWS))
    return [Member(Person(*row[:-2]), row[-2], row[-1]) for row in rows]


def counts(database: Database) -> dict[str, int]:
    """Return how many people have each role."""
    query = sa.select(people.c.role, sa.func.count()).group_by(people.c.role)
    return {row[0]: row[1] for row in database.rows(query)}


def give_many(
    edit: Edit, *, kind: str, ends: float, section: str = "", renew: bool = False
) -> list[tuple[Person, str]]:
    """Return the learners, or those of a section, each with a new token or link; in one step.

    Args:
        kind: one of KINDS. A token ends the old one and all that came of it.
        ends: until when they are good.
        renew: give a token to those too who have one.

    Raises:
        Refused: 422, there is no such kind, or no learner in the section.
    """
    if kind not in KINDS:
        raise Refused(422, f"tokens: got {kind[:40]!r}, expected one of {', '.join(KINDS)}.")
    whom = people.c.role == LEARNER
    whom &= people.c.section == section if section else sa.true()
    if section and edit.database.first(sa.select(people.c.id).where(whom).limit(1)) is None:
        raise Refused(422, f"tokens: section: got {section[:60]!r}, and no learner is in it.")
    whom &= sa.true() if renew or kind == "link" else ~_HAS_TOKEN
    with edit.database.write() as connection:
        query = sa.select(*PERSON).where(whom).order_by(people.c.login)
        learners = [Person(*row) for row in connection.execute(query)]
        new_tokens = _fresh(set(connection.scalars(sa.select(tokens.c.key))), len(learners))
        if kind == "token":
            chosen = sa.select(people.c.id).where(whom)
            connection.execute(tokens.delete().where(tokens.c.person_id.in_(chosen)))
        if learners:
            alike = {"kind": KINDS[kind], "created_at": edit.now, "expires_at": ends}
            rows = [
                {**alike, "person_id": who.id, "key": key_of(token), "digest": digest(token)}
                for who, token in zip(learners, new_tokens, strict=True)
            ]
            connection.execute(tokens.insert(), rows)
        logins = (person.login for person in learners)
        audit_log.write_each(connection, edit.now, edit.by.login, kind, logins)
    return list(zip(learners, new_tokens, strict=True))


def _fresh(taken: set[str], count: int) -> list[str]:
    """Return new tokens with keys of their own: of 50,000, two would often share one."""
    new_tokens: list[str] = []
    while len(new_tokens) < count:
        token = new_token()
        if key_of(token) not in taken:
            taken.add(key_of(token))
            new_tokens.append(token)
    return new_tokens


def remove(edit: Edit, person: Person) -> None:
    """Remove somebody from the course; their work and grades stay on record.

    Raises:
        Refused: 409, it is who asks, or they have left before.
    """
    if person.id == edit.by.id:
        raise Refused(409, "remove: this is you: somebody else can remove you.")
    is_person = (people.c.id == person.id) & (people.c.role != FORMER)
    with edit.database.write() as connection:
        changed = connection.execute(people.update().where(is_person).values(role=FORMER))
        if not changed.rowcount:
            raise Refused(409, f"remove: {person.login}: has left the course already.")
        connection.execute(tokens.delete().where(tokens.c.person_id == person.id))
        edit.log(connection, "role", person.login, person.role, FORMER)
        restand_people(connection, person.id)


def enroll(
    roster: Roster, body: Mapping[str, Any], lives_s: float, *, role: str = LEARNER, by: str = ""
) -> tuple[Person, str, float]:
    """Return the person whom a request's JSON names, a new token of theirs, and when it ends.

    Somebody of the roster who has no token yet gets their first; `renew` gives another. Without
    `expires` it lives for `lives_s`. `by` is who enrols them.

    Raises:
        Refused: 409, the login is taken, and `renew` is false or it is not quite the same; 422,
            something is malformed.
    """
    login = body.get("login", body.get("name"))
    name, renew = body.get("name", login), body.get("renew", False)
    if not (isinstance(login, str) and isinstance(name, str) and isinstance(renew, bool)):
        expected = '{"login": "...", "name": "...", "renew": false, "expires": "..."}'
        raise Refused(422, f"enroll: expected {expected}.")
    expires = date(body.get("expires"), "enroll: expires")
    ends = time.time() + lives_s if expires is None else moment(expires)
    if ends <= time.time():
        expected = "a time to come with its zone"
        raise Refused(422, f"enroll: expires: got {expires!r}, expected {expected}.")
    login, name = login_of(login), require_printable(name, "enroll: name", 100)
    person = roster.find(login)
    if person is not None and person.role == FORMER and person.login == login:
        person = _take_back(roster, person, role, by)
    if person is None or person.login != login or person.role != role:
        person = roster.add(login, role, name=name, by=by)
    elif not renew and roster.has_token(person):
        person = roster.add(login, role, name=name)  # which says that it is taken
    return person, roster.give_token(person, "bearer", expires_at=ends, by=by), ends


def _take_back(roster: Roster, person: Person, role: str, by: str) -> Person:
    """Return somebody who had left, now with a role again."""
    with roster.database.write() as connection:
        is_person = people.c.id == person.id
        connection.execute(people.update().where(is_person).values(role=role))
        audit_log.write(connection, roster.clock(), by, "role", person.login, person.role, role)
        restand_people(connection, person.id)
    return replace(person, role=role)
