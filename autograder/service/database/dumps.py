"""A course on PostgreSQL as a file, by PostgreSQL's own `pg_dump` and `pg_restore`."""

import hashlib
import os
import subprocess
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.errors import StartError

_ALL_OR_NOTHING = ("--single-transaction", "--exit-on-error", "--no-owner", "--no-privileges")
_OWN_TABLES = sa.text(
    "SELECT tablename FROM pg_tables"
    " WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1"
)
_COURSE = "course_"  # begins the schemas of the courses beside the one at `/`


def write(url: str, target: Path) -> None:
    """Write the database at `url` to a file: one state, whatever is written meanwhile.

    Raises:
        StartError: `pg_dump` is not there, or failed.
    """
    arguments = ("--format=custom", "--compress=0", "--no-owner", "--no-privileges")
    with _run_program("pg_dump", *arguments, f"--file={target}", url=url):
        pass


def read_into(url: str, source: Path) -> None:
    """Fill the empty database at `url` from a file, whole or not at all.

    Raises:
        StartError: there are tables already; `pg_restore` is not there, or failed.
    """
    _require_empty(url)
    with _run_program("pg_restore", *_ALL_OR_NOTHING, str(source), url=url):
        pass


def _require_empty(url: str) -> None:
    """Raise unless a database has no table in any schema."""
    try:
        with closing(Database(url)) as database, database.read() as connection:
            tables = connection.scalars(_OWN_TABLES).all()
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        raise StartError(f"restore: {str(error).splitlines()[0]}. Check --database.") from error
    if tables:
        more = f" and {len(tables) - 1} more" if len(tables) > 1 else ""
        problem = f"the database is not empty: it has the table {tables[0]}{more}"
        raise StartError(f"restore: {problem}. Give an empty one: `createdb NAME`.")


def prove(source: Path) -> None:
    """Raise unless `pg_restore` can read a file and its notebooks are those handed in.

    Raises:
        StartError: `pg_restore` is not there, or cannot read it.
        ValueError: a notebook has not the digest of its submission.
    """
    expected: dict[tuple[str, bytes], str] = {}
    digests: dict[tuple[str, bytes], str] = {}
    origins: dict[tuple[str, bytes], bytes] = {}  # of what a member of a team handed in for others
    with _run_program("pg_restore", "--data-only", "--file=-", str(source)) as script:
        for schema, table, row in _rows(script):
            if table == "submissions":
                expected[schema, row[b"id"]] = row[b"sha256"].decode()
            elif table == "team_copies":
                origins[schema, row[b"submission_id"]] = row[b"origin_id"]
            elif table == "notebooks":
                content = bytes.fromhex(row[b"notebook"].removeprefix(b"\\\\x").decode())
                digests[schema, row[b"submission_id"]] = hashlib.sha256(content).hexdigest()
    for (schema, number), digest in expected.items():
        if digests.get((schema, origins.get((schema, number), number))) != digest:
            problem = "is not as it was handed in"
            raise ValueError(f"the notebook of submission {number.decode()} {problem}")


def schema_of(course: str) -> str:
    """Return the schema of a course beside the one at `/`."""
    return f"{_COURSE}{course.replace('-', '_')}"


def rows_of(
    source: Path, tables: Collection[str], course: str = ""
) -> list[tuple[str, dict[bytes, bytes]]]:
    """Return the rows of some tables of a course, each with its table; cells are as written.

    Raises:
        StartError: `pg_restore` is not there, or cannot read it.
    """
    chosen = [f"--table={table}" for table in tables]
    with _run_program("pg_restore", "--data-only", "--file=-", *chosen, str(source)) as script:
        return [(table, row) for schema, table, row in _rows(script) if _is_of(schema, course)]


def _is_of(schema: str, course: str) -> bool:
    return schema == schema_of(course) if course else not schema.startswith(_COURSE)


def _rows(script: IO[bytes]) -> Iterator[tuple[str, str, dict[bytes, bytes]]]:
    """Yield each row of a script of COPY statements with its schema and table; cells as written."""
    schema, table, columns = "", "", list[bytes]()
    for line in script:
        if line.startswith(b"COPY "):
            name, _, rest = line.removeprefix(b"COPY ").partition(b" (")
            schema, _, table = name.decode().rpartition(".")
            columns = rest.partition(b")")[0].split(b", ")
        elif line == b"\\.\n":
            table = ""
        elif table:
            yield schema, table, dict(zip(columns, line.rstrip(b"\n").split(b"\t"), strict=True))


@contextmanager
def _run_program(program: str, *arguments: str, url: str = "") -> Iterator[IO[bytes]]:
    """Run a program of PostgreSQL's; give what it prints. A password is in no argument of it."""
    environment = dict(os.environ)
    if url:
        address = sa.engine.make_url(url)
        if address.password:
            environment["PGPASSWORD"] = str(address.password)
        plain = address.set(drivername="postgresql", password=None).render_as_string()
        arguments = (f"--dbname={plain}", "--no-password", *arguments)
    try:
        process = subprocess.Popen(
            (program, *arguments),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except FileNotFoundError as error:
        problem = f"{program} is not installed, by which PostgreSQL is copied"
        raise StartError(f"{program}: {problem}. Run: apt-get install postgresql-client") from error
    with process:
        assert process.stdout and process.stderr
        yield process.stdout
        complaint = process.stderr.read().decode("utf-8", "replace").strip().partition("\n")[0]
    if process.returncode:
        problem = complaint.removeprefix(f"{program}: ")
        raise StartError(f"{program}: {problem or f'it ended with status {process.returncode}'}")
