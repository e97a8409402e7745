"""The store: the one place that opens the database.

SQLite in write-ahead mode, every commit on the disk before it is acknowledged; PostgreSQL by
giving its URL. What is asked of it lives in `roster` (people and tokens) and `ledger`
(submissions and their queue).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from autograder.service import schema
from autograder.service.errors import StartError
from autograder.service.ledger import Ledger
from autograder.service.roster import Roster

_FILE = "course.sqlite3"

# A writer waits this long for another before it gives up; writes here take milliseconds.
_BUSY_MS = 20_000


class Store:
    """An open database: `.roster` and `.ledger` over one engine."""

    def __init__(self, url: str, *, clock: Callable[[], float] = time.time) -> None:
        self._engine = _open(url)
        self.roster = Roster(self._engine, clock)
        self.ledger = Ledger(self._engine, clock)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def sqlite_url(data_dir: Path) -> str:
    """Return the URL of the database that a data directory holds."""
    return f"sqlite:///{data_dir / _FILE}"


@contextmanager
def existing(data_dir: Path) -> Iterator[Store]:
    """Open the database of a data directory that a server has made.

    Raises:
        StartError: there is none.
    """
    if not (data_dir / _FILE).is_file():
        raise StartError(f"export: no course in {data_dir}: expected a file {_FILE}. Check --data.")
    store = Store(sqlite_url(data_dir))
    try:
        yield store
    finally:
        store.close()


def _open(url: str) -> sa.Engine:
    try:
        engine = sa.create_engine(url, pool_pre_ping=not url.startswith("sqlite"))
        if engine.dialect.name == "sqlite":
            sa.event.listen(engine, "connect", _prepare_sqlite)
        with engine.begin() as connection:
            schema.metadata.create_all(connection)
            _check_version(connection)
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        cause = str(error).splitlines()[0]
        message = f"serve: the database cannot be opened: {url}: {cause}. Check the path."
        raise StartError(message) from error
    return engine


def _prepare_sqlite(connection: Any, _record: Any) -> None:
    """Make commits durable and readers free of writers."""
    for pragma in (
        f"busy_timeout={_BUSY_MS}",
        "journal_mode=WAL",
        "synchronous=FULL",
        "foreign_keys=ON",
    ):
        connection.execute(f"PRAGMA {pragma}")


def _check_version(connection: sa.Connection) -> None:
    facts = schema.facts
    found = connection.scalar(sa.select(facts.c.value).where(facts.c.name == "schema"))
    if found is None:
        connection.execute(facts.insert().values(name="schema", value=str(schema.VERSION)))
    elif found != str(schema.VERSION):
        raise StartError(
            f"serve: the database has another layout: got version {found}, expected "
            f"{schema.VERSION}. Give another --data directory, or the release that wrote it."
        )
