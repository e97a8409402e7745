"""An open database: reading that waits for nobody, and writing that takes turns.

SQLite has one writer at a time. Writers of this process queue for it at a lock, which is fair and
wakes at once; SQLite's own waiting sleeps in between and lets some starve. A writer takes the
database before it reads (BEGIN IMMEDIATE), so that what it read still holds when it writes.
"""

import logging
import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import sqlalchemy as sa

from autograder.service.errors import Refused, StartError

# How long SQLite waits for another process before it gives up, and how often we ask it to.
_BUSY_MS = 10_000
_BUSY_TRIES = 3
_AGAIN_S = 5

# Requests are served by 40 threads, and each worker has two.
_POOL = 20
_POOL_MORE = 60
_POOL_OF_MANY = 5  # kept open by one of several courses in schemas of their own
_IDLE_S = 1.0  # a connection that rested longer is asked whether it still works

# What SQLAlchemy has compiled, for all engines, and by server the dialect that it has it for: to
# compile a statement takes longer than to run it, and each course would do it anew.
_COMPILED: sa.util.LRUCache[Any, Any] = sa.util.LRUCache(1_000)
_DIALECTS: dict[tuple[Any, ...], sa.Dialect] = {}

log = logging.getLogger(__name__)


class Database:
    """One engine; `read` and `write` give a connection inside a transaction.

    Whoever connects first gets a StartError where PostgreSQL's database is not in UTF-8.
    """

    def __init__(self, url: str | sa.URL, *, busy_ms: int = _BUSY_MS) -> None:
        url = sa.engine.make_url(url)
        pool = _POOL_OF_MANY if "search_path" in str(url.query.get("options")) else _POOL
        sqlite = url.get_backend_name() == "sqlite"
        if url.drivername == "postgresql":
            url = url.set(drivername="postgresql+psycopg")
        options: dict[str, Any] = {"pool_size": pool, "max_overflow": _POOL_MORE}
        options["hide_parameters"] = True  # an error that is logged says nothing of a person
        options["execution_options"] = {"compiled_cache": _COMPILED}
        if not sqlite:  # whatever PGCLIENTENCODING says
            options["connect_args"] = {"client_encoding": "UTF8"}
        self.engine = sa.create_engine(url, **options)
        _share_dialect(self.engine)
        self._writer = self.engine.execution_options(writes=True)
        self._of_one_query = self.engine
        self._turn: AbstractContextManager[Any] = threading.Lock() if sqlite else nullcontext()
        if sqlite:
            sa.event.listen(self.engine, "connect", partial(_prepare_sqlite, busy_ms))
            sa.event.listen(self.engine, "begin", _begin_sqlite)
        else:  # one query sees one state without the way there and back of BEGIN and of ROLLBACK
            self._of_one_query = self.engine.execution_options(isolation_level="AUTOCOMMIT")
            sa.event.listen(self.engine, "connect", _require_utf8, insert=True)  # asks first
            sa.event.listen(self.engine, "checkin", _note_return)
            sa.event.listen(self.engine, "checkout", partial(_ping_idle, self.engine.dialect))

    @contextmanager
    def read(self) -> Iterator[sa.Connection]:
        """Give a connection that sees one state of the database; a writer does not hold it up."""
        with self.engine.connect() as connection:
            yield connection

    def rows(self, query: sa.Select[Any]) -> list[Any]:
        """Return the rows of a query."""
        with self._of_one_query.connect() as connection:
            return list(connection.execute(query))

    def first(self, query: sa.Select[Any]) -> Any:
        """Return the first row of a query, or None."""
        with self._of_one_query.connect() as connection:
            return connection.execute(query).first()

    def scalar(self, query: sa.Select[Any]) -> Any:
        """Return the first value of the first row of a query, or None."""
        with self._of_one_query.connect() as connection:
            return connection.scalar(query)

    @contextmanager
    def write(self) -> Iterator[sa.Connection]:
        """Give a connection whose changes are on the disk when the `with` ends, or none of them.

        Raises:
            Refused: 503, another process keeps the database busy.
        """
        with self._turn, self._begin() as connection:
            yield connection
            connection.commit()

    def _begin(self) -> sa.Connection:
        for attempt in range(1, _BUSY_TRIES + 1):
            connection = self._writer.connect()
            try:
                connection.begin()
            except sa.exc.OperationalError as error:
                connection.close()
                log.warning(
                    "database: busy, attempt %d of %d: %s", attempt, _BUSY_TRIES, error.orig
                )
                cause = error
            else:
                return connection
        message = f"the database is busy. Try again in {_AGAIN_S} s."
        raise Refused(503, message, headers={"Retry-After": str(_AGAIN_S)}) from cause

    def close(self) -> None:
        """Close every connection."""
        self.engine.dispose()


def insert_row(connection: sa.Connection, table: sa.Table, row: Mapping[str, Any]) -> int:
    """Return the id of a row that is newly written."""
    key = connection.execute(table.insert().values(row)).inserted_primary_key
    assert key is not None
    return int(key[0])


@dataclass(frozen=True)
class Records:
    """What is asked of a database, and changed in it by the course's clock."""

    database: Database
    clock: Callable[[], float]


def _share_dialect(engine: sa.Engine) -> None:
    """Give an engine the dialect of another of this server, user and options, once one is there.

    What a dialect knows of the server it asks at the first connection.
    """
    url, dialect = engine.url, engine.dialect
    server = (url.drivername, url.username, url.host, url.port, str(url.query))
    if server in _DIALECTS:
        engine.dialect = _DIALECTS[server]
    else:
        sa.event.listen(engine, "connect", lambda *_: _DIALECTS.setdefault(server, dialect))


def _require_utf8(connection: Any, _record: Any) -> None:
    """Raise unless a database of PostgreSQL is in UTF-8; of SQL_ASCII psycopg gives bytes.

    Raises:
        StartError: its encoding is another.
    """
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        connection.close()
        problem = f"its encoding cannot hold every name: got {encoding}, expected UTF8"
        step = "Make one of that encoding: `createdb -E UTF8 -T template0 NAME`."
        raise StartError(f"database: {problem}. {step}")


def _note_return(_connection: Any, record: Any) -> None:
    record.info["returned_s"] = time.monotonic()


def _ping_idle(dialect: sa.Dialect, connection: Any, record: Any, _proxy: Any) -> None:
    """Have a connection made anew that broke while nobody used it, as when the database restarts.

    One that was used a moment ago is not asked: that is a way there and back for each request.
    """
    if time.monotonic() - record.info.get("returned_s", math.inf) > _IDLE_S:
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise sa.exc.DisconnectionError from error


def _prepare_sqlite(busy_ms: int, connection: Any, _record: Any) -> None:
    """Make commits durable and readers free of writers; transactions begin as `_begin_sqlite`."""
    connection.isolation_level = None
    connection.execute(f"PRAGMA busy_timeout={busy_ms}")
    _keep_journal_ahead(connection, busy_ms)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _keep_journal_ahead(connection: Any, busy_ms: int) -> None:
    """Write changes ahead (WAL). Where two connections say so at once SQLite lets none wait."""
    ends_s = time.monotonic() + busy_ms / 1e3
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if time.monotonic() > ends_s:
                raise
            time.sleep(0.01)


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
