"""People and the tokens that speak for them."""

import hmac
import re
import unicodedata
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Records, insert_row
from autograder.service.database.schema import lines, people, tokens
from autograder.service.errors import Refused
from autograder.service.records import audit_log, stale_totals
from autograder.service.tokens import digest, key_of, matches, new_token

LEARNER, ASSISTANT, INSTRUCTOR = "learner", "assistant", "instructor"
STAFF = (ASSISTANT, INSTRUCTOR)
FORMER = "former"  # who has left: their work stays, and nothing lets them in

# Letters and digits of any script, and what stands inside names; first and last a letter, digit
# or dot. So no login is a spreadsheet formula, an option of a command, or markup.
_LOGIN = re.compile(r"\w(?:[\w .,'@+-]{0,98}[\w.])?")

# Compared against where no row was found, so that a wrong key takes the time of a wrong secret.
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Person:
    """Somebody who may ask, known by `login`; `role` is a learner's, or one of STAFF."""

    id: int
    login: str
    name: str
    role: str
    email: str = ""
    section: str = ""

    @property
    def is_staff(self) -> bool:
        """Whether this person sees everybody's work."""
        return self.role in STAFF

    @property
    def is_instructor(self) -> bool:
        """Whether this person runs the course: people, dates, what is published."""
        return self.role == INSTRUCTOR


@dataclass(frozen=True)
class Edit(Records):
    """What somebody changes in a course: where it is kept, its clock, and who."""

    by: Person

    @property
    def now(self) -> float:
        """The time, in a transaction after its turn has come: lines of the log stand in order."""
        return self.clock()

    def log(self, connection: sa.Connection, action: str, subject: str, *states: Any) -> None:
        """Write a line of the audit log: what was before, and what is after, if it says so."""
        audit_log.write(connection, self.now, self.by.login, action, subject, *states)


@dataclass(frozen=True)
class Session:
    """A browser that is logged in; `key` names it and opens nothing."""

    key: str
    created_at: float | None
    expires_at: float | None
    agent: str


PERSON = tuple(people.c[field.name] for field in fields(Person))

_AT_ONCE = 500  # a statement of SQLite's has a limit


def batches(person_ids: Collection[int]) -> Iterator[list[int]]:
    """Yield people in order, so that two who lock them wait in no circle; some at a time."""
    ordered = sorted(set(person_ids))
    return (ordered[start : start + _AT_ONCE] for start in range(0, len(ordered), _AT_ONCE))


def add_person(connection: sa.Connection, row: Mapping[str, Any]) -> int:
    """Write a person down, with a line in the queue; return the id."""
    number = insert_row(connection, people, {**row, "login_key": login_key(row["login"])})
    connection.execute(lines.insert().values(person_id=number))
    stale_totals.name(connection, [number])
    return number


def login_of(text: str) -> str:
    """Return a login, its spaces and signs in their usual form.

    Raises:
        Refused: 422, it cannot be one.
    """
    login = unicodedata.normalize("NFC", " ".join(text.split()))
    if not _LOGIN.fullmatch(login):
        raise Refused(
            422,
            f"enroll: this cannot be a name: got {login[:100]!r}, expected 1 to 100 letters, "
            "digits, spaces and . , ' @ + -, the first and last of them a letter or digit.",
        )
    return login


def require_printable(text: str, what: str, most: int) -> str:
    """Return a text that is kept as it was given; exports see to it that it is no formula.

    Raises:
        Refused: 422, it is empty, too long, or has signs that cannot be shown.
    """
    text = text.strip()
    if 0 < len(text) <= most and text.isprintable():
        return text
    expected = f"1 to {most} characters that can be shown"
    raise Refused(422, f"{what}: got {text[:60]!r}, expected {expected}.")


def _say_instead(held: Person, role: str) -> str:
    """Return what replaces the token of who has a login that was to be enrolled in a role."""
    if held.role == role:
        return " Add --renew to replace its token."
    if held.role == LEARNER:
        return " It is a learner's: a roster with the column role changes that."
    return f" It is of the staff: say staff add {held.login} --role {held.role} --renew."


def login_key(login: str) -> str:
    """Return what logins have in common that people would read as the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", login).casefold())


def name_contains(search: str) -> sa.ColumnElement[bool]:
    """Return whether somebody's login, name or email has a text in it."""
    texts = (people.c.login, people.c.name, people.c.email)
    return sa.or_(*(text.icontains(search, autoescape=True) for text in texts))


@dataclass(frozen=True)
class Roster(Records):
    """Who takes the course, who runs it, and by which tokens they are known."""

    def add(self, login: str, role: str, *, name: str = "", by: str = "") -> Person:
        """Return the person newly written down; without a `name` they are called by their login.

        `by` is the login of whoever adds them; without it nothing is written to the audit log.

        Raises:
            Refused: 409, somebody has that login, or one that differs only by case.
        """
        row = {"login": login, "name": name or login, "role": role, "created_at": self.clock()}
        try:
            with self.database.write() as connection:
                number = add_person(connection, row)
                if by:
                    audit_log.write(connection, self.clock(), by, "role", login, after=role)
        except sa.exc.IntegrityError as error:
            held = self.find(login)
            same = held is None or held.login == login
            whose = "" if held is None or same else f", which is {held.login!r} here"
            message = f"enroll: the login is taken: got {login!r}{whose}."
            step = _say_instead(held, role) if held is not None and same else ""
            raise Refused(409, message + step) from error
        return Person(number, login, name or login, role)

    def find(self, login: str) -> Person | None:
        """Return the person of that login, whatever its case, or None."""
        query = sa.select(*PERSON).order_by((people.c.login == login).desc()).limit(1)
        query = query.where((people.c.login == login) | (people.c.login_key == login_key(login)))
        row = self.database.first(query)
        return Person(*row) if row else None

    def has_token(self, person: Person) -> bool:
        """Return whether the person has a bearer token, expired or not."""
        mine = (tokens.c.person_id == person.id) & (tokens.c.kind == "bearer")
        return self.database.first(sa.select(tokens.c.key).where(mine)) is not None

    def learners(self, *, after: str = "", most: int | None = None) -> list[Person]:
        """Return the learners by login, or the next `most` behind the login `after`."""
        query = sa.select(*PERSON).where(people.c.role == LEARNER, people.c.login > after)
        rows = self.database.rows(query.order_by(people.c.login).limit(most))
        return [Person(*row) for row in rows]

    def sections(self) -> list[str]:
        """Return the sections that there are."""
        query = sa.select(people.c.section).distinct().order_by(people.c.section)
        return [row[0] for row in self.database.rows(query.where(people.c.section != ""))]

    def give_token(
        self,
        person: Person,
        kind: str,
        *,
        expires_at: float | None = None,
        lives_s: float | None = None,
        token: str | None = None,
        agent: str = "",
        by: str = "",
    ) -> str:
        """Return a token of `kind` for `person`; only its digest is kept.

        `kind` is "bearer" (programs), "session" (a browser's cookie) or "code" (one login). A new
        bearer token ends the person's old one and all that came of it; none of these outlives it.
        `agent` is the browser of a session, `by` the login of whoever gives a bearer token.
        """
        token = token or new_token()
        now = self.clock()
        if lives_s is not None:
            expires_at = now + lives_s
        row = {"key": key_of(token), "person_id": person.id, "kind": kind, "digest": digest(token)}
        mine = tokens.c.person_id == person.id
        with self.database.write() as connection:
            connection.execute(tokens.delete().where(tokens.c.expires_at < now))
            if kind == "bearer":  # of two at once the later one stays
                owner = sa.select(people.c.id).where(people.c.id == person.id)
                connection.execute(owner.with_for_update())
                connection.execute(tokens.delete().where(mine))
            else:
                bearers = sa.select(tokens.c.expires_at).where(mine, tokens.c.kind == "bearer")
                ends = [e for e in (expires_at, connection.scalar(bearers)) if e is not None]
                expires_at = min(ends, default=None)
            dates = {"expires_at": expires_at, "created_at": now, "agent": agent[:200]}
            connection.execute(tokens.insert().values(**row, **dates))
            if by:
                audit_log.write(connection, now, by, "token", person.login)
        return token

    def owner(self, token: str, kind: str) -> Person | None:
        """Return whom `token` speaks for, or None."""
        columns = (*PERSON, tokens.c.digest, tokens.c.expires_at)
        query = sa.select(*columns).join_from(tokens, people)
        query = query.where(tokens.c.key == key_of(token)[:8], tokens.c.kind == kind)
        query = query.where(people.c.role != FORMER)
        row = self.database.first(query)
        if row is None:
            hmac.compare_digest(digest(token), _NOBODY)
            return None
        expired = row.expires_at is not None and row.expires_at < self.clock()
        return Person(*row[: len(PERSON)]) if matches(token, row.digest) and not expired else None

    def spend(self, token: str, kind: str) -> Person | None:
        """Return whom `token` speaks for and end its life, or None: one of two callers wins."""
        person = self.owner(token, kind)
        if person is None:
            return None
        deletion = tokens.delete().where(tokens.c.key == key_of(token), tokens.c.kind == kind)
        with self.database.write() as connection:
            return person if connection.execute(deletion).rowcount == 1 else None

    def sessions(self, person: Person) -> list[Session]:
        """Return the sessions of a person that live, the newest first."""
        columns = (tokens.c.key, tokens.c.created_at, tokens.c.expires_at, tokens.c.agent)
        mine = (tokens.c.person_id == person.id) & (tokens.c.kind == "session")
        alive = tokens.c.expires_at.is_(None) | (tokens.c.expires_at >= self.clock())
        query = sa.select(*columns).where(mine, alive).order_by(tokens.c.created_at.desc())
        return [Session(*row) for row in self.database.rows(query)]

    def end_session(self, person: Person, key: str) -> bool:
        """End a session of this person; False if there is none of that key."""
        mine = (tokens.c.person_id == person.id) & (tokens.c.kind == "session")
        with self.database.write() as connection:
            ended = connection.execute(tokens.delete().where(mine, tokens.c.key == key[:8]))
            return ended.rowcount == 1
