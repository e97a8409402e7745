"""People and the tokens that speak for them."""

import hmac
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from autograder.service.database import Database
from autograder.service.errors import Refused
from autograder.service.schema import lines, people, tokens
from autograder.service.tokens import digest, key_of, matches, new_token

STAFF = "staff"
LEARNER = "learner"

# Compared against where no row was found, so that a wrong key takes the time of a wrong secret.
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Person:
    """Somebody who may ask, known by `login`; `role` is "staff" or "learner"."""

    id: int
    login: str
    name: str
    role: str

    @property
    def is_staff(self) -> bool:
        """Whether this person sees everybody's work."""
        return self.role == STAFF


_PERSON = (people.c.id, people.c.login, people.c.name, people.c.role)


def login_key(login: str) -> str:
    """Return what logins have in common that people would read as the same."""
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", login).casefold())


class Roster:
    """Who takes the course, who runs it, and by which tokens they are known."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        self._database = database
        self._clock = clock

    def add(self, login: str, role: str, *, name: str = "") -> Person:
        """Return the person newly written down; without a `name` they are called by their login.

        Raises:
            Refused: 409, somebody has that login, or one that differs only by case.
        """
        row = {
            "login": login,
            "login_key": login_key(login),
            "name": name or login,
            "role": role,
            "created_at": self._clock(),
        }
        try:
            with self._database.write() as connection:
                key = connection.execute(people.insert().values(row)).inserted_primary_key
                assert key is not None
                connection.execute(lines.insert().values(person_id=key[0]))
        except sa.exc.IntegrityError as error:
            held = self.find(login)
            same = held is None or held.login == login
            known = "" if held is None or same else f", which is {held.login!r} here"
            message = f"enroll: the login is taken: got {login!r}{known}."
            again = " Add --renew to replace its token." if same else ""
            raise Refused(409, message + again) from error
        return Person(key[0], login, name or login, role)

    def find(self, login: str) -> Person | None:
        """Return the person of that login, whatever its case, or None."""
        query = sa.select(*_PERSON).order_by((people.c.login == login).desc()).limit(1)
        query = query.where((people.c.login == login) | (people.c.login_key == login_key(login)))
        with self._database.read() as connection:
            row = connection.execute(query).first()
        return Person(*row) if row else None

    def everybody(self, role: str, *, limit: int | None = None, offset: int = 0) -> list[Person]:
        """Return all who have `role`, by login, or some of them."""
        query = sa.select(*_PERSON).where(people.c.role == role).order_by(people.c.login)
        with self._database.read() as connection:
            return [Person(*row) for row in connection.execute(query.limit(limit).offset(offset))]

    def count(self, role: str) -> int:
        """Return how many have `role`."""
        query = sa.select(sa.func.count()).select_from(people).where(people.c.role == role)
        with self._database.read() as connection:
            return int(connection.scalar(query) or 0)

    def give_token(
        self,
        person: Person,
        kind: str,
        *,
        expires_at: float | None = None,
        lives_s: float | None = None,
        token: str | None = None,
    ) -> str:
        """Return a token of `kind` for `person`; only its digest is kept.

        `kind` is "bearer" (programs), "session" (a browser's cookie) or "code" (one login). A new
        bearer token ends the person's old one and all that came of it; none of these outlives it.
        """
        token = token or new_token()
        now = self._clock()
        if lives_s is not None:
            expires_at = now + lives_s
        row = {"key": key_of(token), "person_id": person.id, "kind": kind, "digest": digest(token)}
        mine = tokens.c.person_id == person.id
        with self._database.write() as connection:
            if kind == "bearer":
                connection.execute(tokens.delete().where(mine))
            else:
                bearers = sa.select(tokens.c.expires_at).where(mine, tokens.c.kind == "bearer")
                ends = [e for e in (expires_at, connection.scalar(bearers)) if e is not None]
                expires_at = min(ends, default=None)
            connection.execute(tokens.delete().where(tokens.c.expires_at < now))
            connection.execute(tokens.insert().values(**row, expires_at=expires_at))
        return token

    def owner(self, token: str, kind: str) -> Person | None:
        """Return whom `token` speaks for, or None."""
        columns = (*_PERSON, tokens.c.digest, tokens.c.expires_at)
        query = sa.select(*columns).join_from(tokens, people)
        query = query.where(tokens.c.key == key_of(token)[:8], tokens.c.kind == kind)
        with self._database.read() as connection:
            row = connection.execute(query).first()
        if row is None:
            hmac.compare_digest(digest(token), _NOBODY)
            return None
        expired = row.expires_at is not None and row.expires_at < self._clock()
        return Person(*row[:4]) if matches(token, row.digest) and not expired else None

    def spend(self, token: str, kind: str) -> Person | None:
        """Return whom `token` speaks for and end its life, or None: one of two callers wins."""
        person = self.owner(token, kind)
        if person is None:
            return None
        gone = tokens.delete().where(tokens.c.key == key_of(token), tokens.c.kind == kind)
        with self._database.write() as connection:
            return person if connection.execute(gone).rowcount == 1 else None
