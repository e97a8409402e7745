"""Whose course total is to be worked out anew: named by whoever changes what counts for them.

`reports.everybodys_totals` works them out, some at a time. Writers lock the row of a learner, also
one that is there, and whoever works totals out takes only rows that nobody has locked: so a learner
whose change is not written yet stays named, and nobody waits in a circle.
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
    """Note that the totals of these people are to be worked out anew."""
    if rows := [{"person": person} for person in sorted(set(person_ids))]:
        connection.execute(_NAME, rows)


def take(connection: sa.Connection, most: int) -> set[int]:
    """Return `most` of those who are named, and take them off the list.

    Those who are being changed just now stay on it; they are returned only where fewer than
    `most` others are left.
    """
    named = sa.select(stale_totals.c.person_id)
    free = named.limit(most).with_for_update(skip_locked=True).cte()
    taken = stale_totals.delete().where(stale_totals.c.person_id.in_(sa.select(free)))
    people = set(connection.scalars(taken.returning(stale_totals.c.person_id)))
    if len(people) < most:
        people |= set(connection.scalars(named.limit(most)))
    return people


def count_named(connection: sa.Connection, most: int) -> int:
    """Return how many are named, counted up to `most`."""
    some = sa.select(stale_totals.c.person_id).limit(most).subquery()
    return connection.scalar(sa.select(sa.func.count()).select_from(some)) or 0


def basis(connection: sa.Connection) -> str:
    """Return what the totals were worked out from, as `put_basis` wrote it; at first "{}"."""
    return connection.scalar(sa.select(totals_basis.c.basis)) or "{}"


def lock(connection: sa.Connection, *, wait: bool = True) -> bool:
    """Keep others from working totals out, or removing a learner, until the end.

    Returns: False where somebody else does one of these now, and `wait` is not asked for.
    """
    connection.execute(_FIRST)
    row = sa.select(totals_basis.c.id).with_for_update(skip_locked=not wait)
    return connection.scalar(row) is not None


def put_basis(connection: sa.Connection, text: str) -> None:
    """Write down what the totals are worked out from, once it is locked."""
    connection.execute(totals_basis.update().values(basis=text))
