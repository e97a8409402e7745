"""Whose course total is to be worked out anew: named by whoever changes what counts for them.

`reports.everybodys_totals` works them out once somebody wants to see them. Writers lock the row of
a learner, also one that is there, and whoever works totals out takes only rows that nobody has
locked: so a learner whose change is not written yet stays named, and nobody waits in a circle.
These rows are locked last of all that a transaction locks.
"""

from collections.abc import Iterable

import sqlalchemy as sa

from autograder.service.database.schema import stale_totals, totals_basis

_NAME = sa.text(
    "INSERT INTO stale_totals (person_id) VALUES (:person) "
    "ON CONFLICT (person_id) DO UPDATE SET person_id = excluded.person_id"
)
_FIRST = sa.text("INSERT INTO totals_basis (id, basis) VALUES (1, '{}') ON CONFLICT DO NOTHING")


def name(connection: sa.Connection, person_ids: Iterable[int]) -> None:
    """Let the totals of these people be worked out anew."""
    if rows := [{"person": person} for person in sorted(set(person_ids))]:
        connection.execute(_NAME, rows)


def take(connection: sa.Connection) -> set[int]:
    """Return who is named; but for those who are being changed just now, they are no more."""
    free = sa.select(stale_totals.c.person_id).with_for_update(skip_locked=True)
    taken = stale_totals.delete().where(stale_totals.c.person_id.in_(free))
    people = set(connection.scalars(taken.returning(stale_totals.c.person_id)))
    return people | set(connection.scalars(sa.select(stale_totals.c.person_id)))


def any_named(connection: sa.Connection) -> bool:
    """Return whether anybody is named."""
    query = sa.select(stale_totals.c.person_id).limit(1)
    return connection.scalar(query) is not None


def basis(connection: sa.Connection) -> str:
    """Return what the totals were worked out from, as `put_basis` wrote it; at first "{}"."""
    return connection.scalar(sa.select(totals_basis.c.basis)) or "{}"


def lock(connection: sa.Connection) -> None:
    """Let nobody else work totals out, or remove a learner, until the end."""
    connection.execute(_FIRST)
    connection.execute(sa.select(totals_basis.c.id).with_for_update())


def put_basis(connection: sa.Connection, text: str) -> None:
    """Write down what the totals are worked out from, once it is locked."""
    connection.execute(totals_basis.update().values(basis=text))
