"""Several courses in one database: which there are beside the one at `/`, and where each lies.

The course at `/` lists them among its facts. Each has all tables of its own, in a file of
`DATA/courses/NAME` or in a schema of PostgreSQL that is its connections' whole search path, so that
no query can reach another course.
"""

import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.dumps import schema_of
from autograder.service.database.schema import facts
from autograder.service.errors import StartError
from autograder.service.records.store import Store, existing, sqlite_url

FOLDER = "courses"

_NAME = re.compile(r"[a-z][a-z0-9-]{0,23}")
_CHARS = 200  # of a fact


@dataclass(frozen=True)
class CourseEntry:
    """A course below `/courses/NAME`; without `labs` it has those of the server."""

    name: str
    title: str
    labs: str = ""
    lti: str = ""


FIRST = CourseEntry("", "Course")


def entries(database: Database) -> list[CourseEntry]:
    """Return the courses that are listed, by name."""
    listed: dict[str, dict[str, str]] = {}
    for name, value in database.rows(sa.select(facts.c.name, facts.c.value)):
        kind, _, rest = name.partition(":")
        if kind == "course":
            course, _, field = rest.partition(":")
            listed.setdefault(course, {})[field] = value
    return [CourseEntry(name, **listed[name]) for name in sorted(listed)]


def verify(course: CourseEntry) -> None:
    """Raise unless a course can be listed.

    Raises:
        StartError: its name, its title or a path is not one that a course can have.
    """
    if not _NAME.fullmatch(course.name):
        expected = "expected a small letter, then at most 23 of a to z, 0 to 9 and -"
        raise StartError(f"courses: name: got {course.name[:60]!r}, {expected}.")
    if not (course.title.strip() and course.title.isprintable()):
        raise StartError(f"courses: title: got {course.title[:60]!r}, expected one line of text.")
    for field, text in asdict(course).items():
        if len(text) > _CHARS:
            problem = f"got {len(text)} characters, expected at most {_CHARS}"
            raise StartError(f"courses: {field}: {problem}.")


def add(database: Database, course: CourseEntry) -> None:
    """List a course; on PostgreSQL, make its schema.

    Raises:
        StartError: the course cannot be listed, or the name is taken.
    """
    verify(course)
    values = {field: text for field, text in asdict(course).items() if field != "name" and text}
    if course.name in (entry.name for entry in entries(database)):
        raise StartError(f"courses: there is a course {course.name!r} already. Choose another.")
    with database.write() as connection:
        if connection.dialect.name == "postgresql":
            make = sa.schema.CreateSchema(schema_of(course.name), if_not_exists=True)
            connection.execute(make)
        rows = [{"name": f"course:{course.name}:{f}", "value": text} for f, text in values.items()]
        connection.execute(facts.insert(), rows)


def remove(database: Database, name: str) -> None:
    """List a course no longer; everything of it stays where it lies.

    Raises:
        StartError: there is none of that name.
    """
    require(database, name)
    with database.write() as connection:
        connection.execute(facts.delete().where(facts.c.name.startswith(f"course:{name}:")))


def require(database: Database, name: str) -> None:
    """Raise unless a course of this name is listed.

    Raises:
        StartError: it is not.
    """
    names = [entry.name for entry in entries(database)]
    if name not in names:
        there = f"expected one of {', '.join(names)}" if names else "there are none"
        raise StartError(f"courses: got {name[:60]!r}: {there}. Add one: autograder courses add.")


def folder(data: Path, name: str) -> Path:
    """Return where the files of a course lie; the empty name is the one at `/`."""
    return data / FOLDER / name if name else data


def address(url: str, name: str) -> str:
    """Return the URL of a course's tables; `url` is the database's, and empty for SQLite."""
    if not (url and name):
        return url
    parts = sa.engine.make_url(url)
    before = parts.query.get("options", "")
    options = f"{before if isinstance(before, str) else ' '.join(before)} -csearch_path="
    parts = parts.update_query_dict({"options": f"{options}{schema_of(name)}".strip()})
    return parts.render_as_string(hide_password=False)


@contextmanager
def open_course(data: Path, url: str, name: str, *, migrate: bool = False) -> Iterator[Store]:
    """Open the database of a course without a server.

    Raises:
        StartError: there is none, or it is an older release's and `migrate` is false.
    """
    root = closing(Store(url, migrate=migrate)) if url else existing(data, migrate=migrate)
    with root as store:
        if not name:
            yield store
            return
        require(store.database, name)
        where = address(url, name) or sqlite_url(folder(data, name))
        with closing(Store(where, migrate=migrate)) as own:
            yield own
