"""A PostgreSQL of our own: started for the tests, on a socket that nobody else finds."""

import itertools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

_DEBIAN = Path("/usr/lib/postgresql")

# Of no use to a database that ends with the tests: to outlive the machine, copies, tidying.
_BRIEF = "-c fsync=off -c full_page_writes=off -c autovacuum=off -c wal_level=minimal "
_BRIEF += "-c max_wal_senders=0"


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    return max((path.parent for path in _DEBIAN.glob("*/bin/initdb")), default=None)


@contextmanager
def running(where: Path) -> Iterator[Callable[..., str]]:
    """Give a function that makes an empty database, UTF8 unless told, and returns its URL.

    PostgreSQL refuses to run as root; root starts it as Debian's user for it.
    """
    folder = Path(tempfile.mkdtemp(prefix="pg-"))  # short: a socket's path has 107 characters
    root = os.geteuid() == 0
    user = {"user": "postgres", "group": "postgres", "extra_groups": []} if root else {}
    if root:
        shutil.chown(folder, "postgres", "postgres")
    data, log = folder / "data", folder / "log"

    def run(*command: object) -> None:
        done = subprocess.run(
            list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False, **user
        )
        said = log.read_text() if log.exists() else ""
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}{said}"

    try:
        run(where / "initdb", "-D", data, "-U", "course", "-A", "trust", "-E", "UTF8", "--no-sync")
        options = f"-k {folder} -c listen_addresses= -c max_connections=200 {_BRIEF}"
        # Its output goes to the log: a pipe of ours would stay open as long as it runs.
        run(where / "pg_ctl", "-D", data, "-l", log, "-w", "-t", 120, "-o", options, "start")
        try:
            yield _maker(folder)
        finally:
            run(where / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder)


def _maker(folder: Path) -> Callable[..., str]:
    numbers = itertools.count()
    engine = sa.create_engine(
        _url(folder, "postgres"), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
    )
    with engine.connect() as connection:
        version = int(connection.exec_driver_sql("SHOW server_version_num").scalar_one())
    copied = "STRATEGY file_copy" if version >= 15_00_00 else ""  # not page by page

    def make(encoding: str = "") -> str:
        name = f"course{next(numbers)}"
        like = f"ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        with engine.connect() as connection:
            connection.exec_driver_sql(f"CREATE DATABASE {name} {like if encoding else copied}")
        return _url(folder, name).replace("+psycopg", "")

    return make


def _url(folder: Path, name: str) -> str:
    return f"postgresql+psycopg://course@/{name}?host={folder}"
