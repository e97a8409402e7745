"""People and the tokens that speak for them."""

import hmac
from collections.abc import Callable
from dataclasses import dataclass

import sqlalchemy as sa

from autograder.service.errors import Refused
from autograder.service.schema import people, tokens
from autograder.service.tokens import digest, key_of, matches, new_token

STAFF = "staff"
LEARNER = "learner"

# Compared against where no row was found, so that a wrong key takes the time of a wrong secret.
_NOBODY = "0" * 64


@dataclass(frozen=True)
class Person:
    """Somebody who may ask; `role` is "staff" or "learner"."""

    id: int
    name: str
    role: str

    @property
    def is_staff(self) -> bool:
        """Whether this person sees everybody's work."""
        return self.role == STAFF


class Roster:
    """Who takes the course, who runs it, and by which tokens they are known."""

    def __init__(self, engine: sa.Engine, clock: Callable[[], float]) -> None:
        self._engine = engine
        self._clock = clock

    def add(self, name: str, role: str) -> Person:
        """Return the person newly written down.

        Raises:
            Refused: 409, somebody has that name.
        """
        row = {"name": name, "role": role, "created_at": self._clock()}
        try:
            with self._engine.begin() as connection:
                key = connection.execute(people.insert().values(row)).inserted_primary_key
        except sa.exc.IntegrityError as error:
            message = f"enroll: the name is taken: got {name!r}. Add --renew to replace its token."
            raise Refused(409, message) from error
        assert key is not None
        return Person(key[0], name, role)

    def find(self, name: str) -> Person | None:
        """Return the person of that name, or None."""
        query = sa.select(people.c.id, people.c.name, people.c.role).where(people.c.name == name)
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        return Person(*row) if row else None

    def everybody(self, role: str) -> list[Person]:
        """Return all who have `role`, by name."""
        query = sa.select(people.c.id, people.c.name, people.c.role)
        query = query.where(people.c.role == role).order_by(people.c.name)
        with self._engine.connect() as connection:
            return [Person(*row) for row in connection.execute(query)]

    def give_token(
        self, person: Person, kind: str, *, lives_s: float | None = None, token: str | None = None
    ) -> str:
        """Return a token of `kind` for `person`; only its digest is kept.

        `kind` is "bearer" (programs), "session" (a browser's cookie) or "code" (one login). A new
        bearer token replaces the person's old one.
        """
        token = token or new_token()
        expires_at = None if lives_s is None else self._clock() + lives_s
        row = {"key": key_of(token), "person_id": person.id, "kind": kind}
        with self._engine.begin() as connection:
            if kind == "bearer":
                old = (tokens.c.person_id == person.id) & (tokens.c.kind == kind)
                connection.execute(tokens.delete().where(old))
            connection.execute(tokens.delete().where(tokens.c.expires_at < self._clock()))
            connection.execute(
                tokens.insert().values(**row, digest=digest(token), expires_at=expires_at)
            )
        return token

    def owner(self, token: str, kind: str) -> Person | None:
        """Return whom `token` speaks for, or None."""
        columns = (people.c.id, people.c.name, people.c.role, tokens.c.digest, tokens.c.expires_at)
        query = sa.select(*columns).join_from(tokens, people)
        query = query.where(tokens.c.key == key_of(token)[:8], tokens.c.kind == kind)
        with self._engine.connect() as connection:
            row = connection.execute(query).first()
        if row is None:
            hmac.compare_digest(digest(token), _NOBODY)
            return None
        expired = row.expires_at is not None and row.expires_at < self._clock()
        return (
            Person(row.id, row.name, row.role)
            if matches(token, row.digest) and not expired
            else None
        )

    def spend(self, token: str, kind: str) -> Person | None:
        """Return whom `token` speaks for and end its life, or None: one of two callers wins."""
        person = self.owner(token, kind)
        if person is None:
            return None
        gone = tokens.delete().where(tokens.c.key == key_of(token), tokens.c.kind == kind)
        with self._engine.begin() as connection:
            return person if connection.execute(gone).rowcount == 1 else None
