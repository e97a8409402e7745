"""What a backup says of its course without its people: chosen tables, as rows of plain values.

The backup is proven first, and must be one of this release's layouts or an older one.
"""

import re
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from autograder.service.database import dumps
from autograder.service.database.backups import DATABASE, DUMP, unpack
from autograder.service.database.database import Database
from autograder.service.database.schema import VERSION, metadata
from autograder.service.errors import StartError

Rows = dict[str, list[dict[str, Any]]]  # by table

_SQLITE = b"SQLite format 3\0"


def read(source: Path, tables: Collection[str], course: str = "") -> Rows:
    """Return the rows of some tables of a backup, of one of its courses; "" is the one at `/`.

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
