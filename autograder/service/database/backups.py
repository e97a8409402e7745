"""A server's courses in one file: taken while the server runs, and proven before it is put back.

A backup is a line with the SHA-256 of the rest, and a zip: the database (by SQLite's online backup
or by `dumps`: one state, however much is written meanwhile) and the instructor's token; of the
courses beside the one at `/` the same, below `courses/NAME`. A dump holds all of them.

`read_rows` gives chosen tables of a backup, such as what a course says without its people.
"""

import hashlib
import os
import re
import shutil
import sqlite3
import tempfile
import zipfile
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import sqlalchemy as sa

from autograder.service.database import dumps
from autograder.service.database.database import Database
from autograder.service.database.schema import VERSION, metadata
from autograder.service.errors import StartError

DATABASE, DUMP, TOKEN = "course.sqlite3", "course.pgdump", "instructor.token"

_BELOW = re.compile(rf"courses/[a-z0-9-]+/({re.escape(DATABASE)}|{re.escape(TOKEN)})")

_PIECE_BYTES = 1 << 20


def backup(data: Path, target: Path, url: str = "") -> int:
    """Write the course in `data` to the file `target`, whole or not at all; return its bytes.

    `url` is that of its database, where it is PostgreSQL.

    Raises:
        StartError: there is no course, or what was written does not prove right.
    """
    if not url and not (data / DATABASE).is_file():
        raise StartError(f"backup: no course in {data}: expected a file {DATABASE}. Check --data.")
    if target.exists() and not target.is_file():  # it would be replaced
        raise StartError(f"backup: {target} is there and no file. Name another.")
    try:
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=".backup-") as folder:
            files = _copies(data, Path(folder), url)
            packed = Path(folder) / "packed"
            with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
                for path in files:
                    archive.write(path, path.relative_to(folder))
            partial = Path(folder) / "whole"  # where nobody else can have put a file or a link
            descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file, packed.open("rb") as zipped:
                file.write(_head(zipped))
                zipped.seek(0)
                shutil.copyfileobj(zipped, file, _PIECE_BYTES)
                file.flush()
                os.fsync(file.fileno())
            for path in (*files, packed):
                path.unlink()  # the proof needs the room
            with unpack(partial):
                pass
            partial.replace(target)
    except sqlite3.Error as error:
        problem = f"backup: {data / DATABASE} into {target}: {error}"
        raise StartError(f"{problem}. Has its disk room?") from error
    except OSError as error:
        problem = f"backup: {target}: {error.strerror or error}"
        raise StartError(f"{problem}. Is its folder there, and has it room?") from error
    return target.stat().st_size


def _copies(data: Path, folder: Path, url: str) -> list[Path]:
    if url:
        dumps.write(url, folder / DUMP)
    for place in (data, *sorted(data.glob("courses/*/"))):
        into = folder / place.relative_to(data)
        into.mkdir(parents=True, exist_ok=True)
        if not url and (place / DATABASE).is_file():
            _copy(place, into)
        if (place / TOKEN).is_file():
            shutil.copyfile(place / TOKEN, into / TOKEN)
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _copy(data: Path, folder: Path) -> None:
    with (
        closing(sqlite3.connect(data / DATABASE)) as source,
        closing(sqlite3.connect(folder / DATABASE)) as copy,
    ):
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")


def restore(source: Path, data: Path, url: str = "") -> None:
    """Put a backup into the data directory `data`, which must hold no course; prove it first.

    A backup of PostgreSQL goes into the empty database at `url`. The caller holds the directory's
    lock.

    Raises:
        StartError: there is a course already, or the backup is damaged; nothing has changed.
    """
    there = [str(path.relative_to(data)) for path in sorted(data.rglob(f"{DATABASE}*"))]
    if there:  # a log of another database would be written into this one
        problem = f"{data} holds a course already, or what is left of one: {', '.join(there)}"
        raise StartError(f"restore: {problem}. Give another --data directory.")
    with unpack(source, data) as files:
        dumped = [path for path in files if path.name == DUMP]
        if bool(dumped) != bool(url):
            needs = "an empty database: give --database URL" if dumped else "no --database"
            raise StartError(f"restore: {source} needs {needs}.")
        for path in dumped:
            dumps.read_into(url, path)
            path.unlink()
            files.remove(path)
        folder = min(files, key=lambda path: len(path.parts)).parent
        for path in sorted(files, key=lambda path: path.name == DATABASE):
            path.chmod(0o600)
            target = data / path.relative_to(folder)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.replace(target)


@contextmanager
def unpack(
    source: Path, beside: Path | None = None, *, what: str = "restore"
) -> Iterator[list[Path]]:
    """Give the files of a backup, proven, in a folder that lasts as long as the `with`.

    `what` it is for begins what is said of a damaged one.

    Raises:
        StartError: it is no backup, or damaged.
    """
    with tempfile.TemporaryDirectory(dir=beside or source.parent, prefix=".restore-") as folder:
        try:
            files = _extract(source, Path(folder))
            if (Path(folder) / DUMP).exists():
                dumps.prove(Path(folder) / DUMP)
            for path in files:
                if path.name == DATABASE:
                    _prove(path)
        except (zipfile.BadZipFile, zlib.error, ValueError, KeyError, EOFError) as error:
            raise StartError(f"{what}: {source} is damaged, or no backup: {error}.") from error
        except (sqlite3.Error, NotImplementedError, RuntimeError) as error:
            raise StartError(f"{what}: {source} is damaged: {error}.") from error
        yield files


def _extract(source: Path, folder: Path) -> list[Path]:
    with source.open("rb") as file:
        first_line = file.readline(200)
        if not first_line.startswith(_KIND) or _head(file) != first_line:
            raise ValueError("its SHA-256 is not the one in its first line")
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            names = set(archive.namelist())
            below = {name for name in names if _BELOW.fullmatch(name)}
            if names - below - {TOKEN} not in ({DATABASE}, {DUMP}):
                raise ValueError(f"it holds {', '.join(names)[:100]}")
            for name in names:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as packed, (folder / name).open("wb") as unpacked_file:
                    shutil.copyfileobj(packed, unpacked_file, _PIECE_BYTES)
                    unpacked_file.flush()
                    os.fsync(unpacked_file.fileno())
    return [folder / name for name in sorted(names)]


def _head(file: BinaryIO) -> bytes:
    """Return the first line of a backup whose rest is the rest of `file`."""
    digest = hashlib.sha256()
    while piece := file.read(_PIECE_BYTES):
        digest.update(piece)
    return _KIND + digest.hexdigest().encode() + b"\n"


_KIND = b"course backup 1 sha256 "


def _prove(database: Path) -> None:
    """Raise unless a database is sound and its notebooks are those that were handed in."""
    with closing(sqlite3.connect(database)) as connection:
        integrity = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if integrity != "ok":
            raise ValueError(str(integrity))
        if connection.execute("PRAGMA foreign_key_check").fetchone() is not None:
            raise ValueError("a row belongs to one that is not there")
        origin = "SELECT origin_id FROM team_copies WHERE submission_id = s.id"
        there = "SELECT 1 FROM sqlite_master WHERE name = 'team_copies'"  # an old course has none
        holder = f"COALESCE(({origin}), s.id)" if connection.execute(there).fetchone() else "s.id"
        rows = connection.execute(
            "SELECT s.id, s.sha256, n.notebook FROM submissions s "
            f"LEFT JOIN notebooks n ON n.submission_id = {holder}"
        )
        for number, digest, notebook in rows:
            if notebook is None or hashlib.sha256(notebook).hexdigest() != digest:
                raise ValueError(f"the notebook of submission {number} is not as it was handed in")


Rows = dict[str, list[dict[str, Any]]]  # by table

_SQLITE = b"SQLite format 3\0"


def read_rows(source: Path, tables: Collection[str], course: str = "") -> Rows:
    """Return the rows of some tables of a backup, of one of its courses; "" is the one at `/`.

    It is proven first, and must be one of this release's layouts or an older one.

    Raises:
        StartError: it is no backup, damaged, a newer release's, or without such a course.
        OSError: it cannot be read.
    """
    with source.open("rb") as file:
        if file.read(len(_SQLITE)) == _SQLITE:  # in use, it is not whole without its log
            how = "Run: autograder backup --data DIR FILE, also while it is in use"
            raise StartError(f"term: {source} is a database, expected a backup of it. {how}.")
    with unpack(source, what="term") as files:
        facts = _rows_of(files, ("facts",), course).get("facts")
        if not facts:
            raise StartError(f"term: {source} has no course {course[:60]!r}. Check --of.")
        layout = {row["name"]: row["value"] for row in facts}.get("schema", "")
        if not layout.isdecimal() or int(layout) > VERSION:
            newer = f"got layout {layout[:20]!r}, expected at most {VERSION}"
            raise StartError(f"term: {source} is a newer release's: {newer}. Use that release.")
        return _rows_of(files, tables, course)


def _rows_of(files: Sequence[Path], tables: Collection[str], course: str) -> Rows:
    dumped = next((path for path in files if path.name == DUMP), None)
    if dumped:
        return _read_dump(dumped, tables, course)
    root = min((path for path in files if path.name == DATABASE), key=lambda path: len(path.parts))
    path = root.parent / "courses" / course / DATABASE if course else root
    if path not in files:
        return {}
    with closing(Database(sa.URL.create("sqlite", database=str(path)))) as database:
        return read_tables(database, tables)


def read_tables(database: Database, tables: Collection[str]) -> Rows:
    """Return the rows of some tables."""
    with database.read() as connection:
        selected = {name: sa.select(metadata.tables[name]) for name in tables}
        return {
            name: [dict(row) for row in connection.execute(query).mappings()]
            for name, query in selected.items()
        }


def _read_dump(path: Path, tables: Collection[str], course: str) -> Rows:
    rows: Rows = {}
    for table, cells in dumps.rows_of(path, tables, course):
        typed = dict[str, Any]()
        for column, cell in cells.items():
            name, text = column.decode().strip('"'), _unescape(cell)
            kind = metadata.tables[table].c[name].type.python_type
            typed[name] = text if text is None else text == "t" if kind is bool else kind(text)
        rows.setdefault(table, []).append(typed)
    return rows


def _unescape(cell: bytes) -> str | None:
    """Return what a cell of PostgreSQL's COPY stands for."""
    if cell == b"\\N":
        return None
    signs = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
    return re.sub(r"\\(.)", lambda match: signs.get(match[1], match[1]), cell.decode())
