"""The store: the one place that opens the database.

SQLite in write-ahead mode, every commit on the disk before it is acknowledged; PostgreSQL by
giving its URL. What is asked of it lives in `roster` (people and tokens), `submissions` (with their
gradings and marks) and `claims` (who grades what now).
"""

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import sqlalchemy as sa

from autograder.service.database import migrations
from autograder.service.database.database import Database
from autograder.service.database.schema import COOKIE_KEY
from autograder.service.errors import StartError
from autograder.service.records.marking.regrade_requests import RegradeRequests
from autograder.service.records.marking.regrades import Regrades
from autograder.service.records.marking.second_marks import SecondMarks
from autograder.service.records.people import Roster
from autograder.service.records.submissions.claims import Claims
from autograder.service.records.submissions.submissions import Submissions
from autograder.service.records.terms.schedule import Dates

_FILE = "course.sqlite3"


class Store:
    """An open database: `.roster`, `.submissions` and `.claims` over one engine.

    `cookie_key` is a secret that every server of this database has.

    A database of an older release is brought to today's layout first, unless `migrate` is false.

    Raises:
        StartError: it cannot be opened, or has a layout that this release cannot read.
    """

    def __init__(
        self, url: str | sa.URL, *, clock: Callable[[], float] = time.time, migrate: bool = True
    ) -> None:
        try:
            self.database = Database(url)
        except (sa.exc.SQLAlchemyError, ImportError, ValueError) as error:
            raise StartError(_cannot_open(url, error)) from error
        try:
            migrations.prepare(self.database, allowed=migrate)
        except sa.exc.SQLAlchemyError as error:
            self.close()
            raise StartError(_cannot_open(url, error)) from error
        except BaseException:
            self.close()
            raise
        with self.database.read() as connection:
            self.cookie_key = migrations.fact(connection, COOKIE_KEY) or ""
        self.clock = clock
        self.roster = Roster(self.database, clock)
        self.submissions = Submissions(self.database, clock)
        self.claims = Claims(self.database, clock)
        self.dates = Dates(self.database, clock)
        self.regrades = Regrades(self.database, clock)
        self.requests = RegradeRequests(self.database, clock)
        self.second_marks = SecondMarks(self.database, clock)

    def close(self) -> None:
        """Close every connection."""
        self.database.close()


def sqlite_url(data_dir: Path) -> sa.URL:
    """Return the URL of the database that a data directory holds, whatever its name."""
    return sa.URL.create("sqlite", database=str(data_dir / _FILE))


def require_course(data_dir: Path, url: str = "") -> None:
    """Raise unless a server has made this data directory; its database may be at `url` instead.

    Raises:
        StartError: no server has made it.
    """
    if not (data_dir.is_dir() if url else (data_dir / _FILE).is_file()):
        expected = "a directory" if url else f"a file {_FILE}"
        more = "" if url else " A course on PostgreSQL has none: say --database, or ask its server."
        raise StartError(f"no course in {data_dir}: expected {expected}. Check --data.{more}")


@contextmanager
def existing(data_dir: Path, *, migrate: bool = False) -> Iterator[Store]:
    """Open the database of a data directory that a server has made.

    Raises:
        StartError: there is none, or it is an older release's and `migrate` is false.
    """
    require_course(data_dir)
    with closing(Store(sqlite_url(data_dir), migrate=migrate)) as store:
        yield store


def _cannot_open(url: str | sa.URL, error: Exception) -> str:
    """Return what an operator is told, without the password that a URL may hold."""
    try:
        address = sa.engine.make_url(url)
    except (sa.exc.ArgumentError, ValueError):
        return "serve: --database: this is no URL. Expected e.g. postgresql://USER@HOST/NAME."
    cause = str(error).splitlines()[0]
    if address.password:
        cause = cause.replace(str(address.password), "***")
    shown = address.render_as_string(hide_password=True)
    problem = f"serve: the database cannot be opened: {shown}: {cause.rstrip('.')}."
    return f"{problem} {_next_step(address, cause)}"


def _next_step(address: sa.URL, cause: str) -> str:
    if any(sign in cause for sign in _FULL):
        return "Is its disk full? Make room, and start again: what is in it is kept."
    if any(sign in cause for sign in _DAMAGED):
        return "It is damaged, or none: `autograder restore --data NEW FILE` restores a copy."
    if address.get_backend_name() == "sqlite":
        return "Check the path."
    return "Does PostgreSQL run there, and does it let this user in?"


# What SQLite and PostgreSQL say of a disk without room, a write that it cuts short among them.
_DAMAGED = ("malformed", "not a database")
_FULL = ("disk is full", "disk I/O error", "No space left")
