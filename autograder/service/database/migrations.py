"""From the layout of an older release to today's, one transaction a step.

The database says its layout in `facts`. A step is a function that changes the layout by one; what
a transaction of it did not reach has not happened, so a server that is killed in between starts
the step anew.
"""

import functools
import logging
import secrets
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from autograder.service.database import schema
from autograder.service.database.database import Database
from autograder.service.errors import StartError

log = logging.getLogger(__name__)


def prepare(database: Database, *, allowed: bool = True) -> None:
    """Make the tables in an empty database; bring those of an older release to today's layout.

    Of two servers that start at once, one does the work and the other waits for it.

    Raises:
        StartError: the layout is unknown, or older and migrating is not `allowed`.
    """
    with database.read() as connection:
        version = _version(connection)
    while version != str(schema.VERSION):
        if version is not None and not allowed:
            older = f"got version {version}, expected {schema.VERSION}"
            raise StartError(
                f"the database is an older release's: {older}. Run: autograder migrate"
            )
        with database.write() as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))
            version = _step(connection, _version(connection))


_LOCK = 0x636F757273  # any number that nobody else locks in this database


def _step(connection: sa.Connection, layout: str | None) -> str:
    """Do what comes next, and return the layout that there is then."""
    if layout == str(schema.VERSION):
        return layout
    if layout is None:
        for statement in _layout_of_today(connection.dialect.name, connection.dialect.driver):
            connection.exec_driver_sql(statement)
        _write_fact(connection, schema.COOKIE_KEY, secrets.token_hex(32))
        version = schema.VERSION
    elif layout in map(str, _STEPS):
        version = int(layout) + 1
        log.warning("database: from layout %s to %d", layout, version)
        schema.metadata.create_all(connection)  # the tables that are missing, as they are today
        _STEPS[int(layout)](connection)
    else:
        raise StartError(
            f"serve: the database has another layout: got version {layout}, expected "
            f"{schema.VERSION}. Give another --data directory, or the release that wrote it."
        )
    _write_fact(connection, "schema", str(version))
    return str(version)


@functools.cache
def _layout_of_today(database: str, driver: str) -> tuple[str, ...]:
    """Return what makes the tables and their indexes; to write it takes longer than to run it."""
    dialect = sa.engine.make_url(f"{database}+{driver}://").get_dialect()()
    statements: list[str] = []

    def note(ddl: Any, *_: Any) -> None:
        statements.append(str(ddl.compile(dialect=dialect)))

    engine = sa.create_mock_engine(f"{database}+{driver}://", note)
    schema.metadata.create_all(engine, checkfirst=False)
    return tuple(statements)


def _version(connection: sa.Connection) -> str | None:
    return fact(connection, "schema") if sa.inspect(connection).has_table("facts") else None


def fact(connection: sa.Connection, name: str) -> str | None:
    """Return what the database says of itself under a name, or None."""
    facts = schema.facts
    value: str | None = connection.scalar(sa.select(facts.c.value).where(facts.c.name == name))
    return value


def _write_fact(connection: sa.Connection, name: str, value: str) -> None:
    facts = schema.facts
    connection.execute(facts.delete().where(facts.c.name == name))
    connection.execute(facts.insert().values(name=name, value=value))


# From the layouts that a course of the last development version may have; missing tables are made
# by `_step`.
_STEPS: dict[int, Callable[[sa.Connection], None]] = {
    15: lambda _: None,  # course totals, which whoever wants the first one fills
}
