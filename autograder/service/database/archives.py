"""What a backup says of its course without its people: chosen tables, as rows of plain values.

The backup is proven first. Tables are read by the names of their columns, so that one of an older
release is read as it is: what it did not have yet is left out.
"""

import re
import sqlite3
from collections.abc import Collection, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from autograder.service.database import dumps
from autograder.service.database.backups import DATABASE, DUMP, unpack
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
        rows = _rows_of(files, {"facts", *tables}, course)
    if not rows.get("facts"):
        raise StartError(f"term: {source} has no course {course[:60]!r}. Check --of.")
    layout = {row["name"]: row["value"] for row in rows["facts"]}.get("schema", "")
    if not layout.isdecimal() or int(layout) > VERSION:
        newer = f"got layout {layout[:20]!r}, expected at most {VERSION}"
        raise StartError(f"term: {source} is a newer release's: {newer}. Use that release.")
    return rows


def _rows_of(files: Sequence[Path], tables: Collection[str], course: str) -> Rows:
    dumped = next((path for path in files if path.name == DUMP), None)
    if dumped:
        return _read_dump(dumped, tables, course)
    root = min((path for path in files if path.name == DATABASE), key=lambda path: len(path.parts))
    path = root.parent / "courses" / course / DATABASE if course else root
    return _read_database(path, tables) if path in files else {}


def _read_database(path: Path, tables: Collection[str]) -> Rows:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        there = {row["name"] for row in connection.execute(query)}
        return {
            table: [
                {name: _convert(table, name, row[name]) for name in row.keys()}  # noqa: SIM118 - a Row
                for row in connection.execute(f"SELECT * FROM {table}")
            ]
            for table in sorted(there.intersection(tables))
        }


def _read_dump(path: Path, tables: Collection[str], course: str) -> Rows:
    rows: Rows = {}
    for table, cells in dumps.rows_of(path, tables, course):
        texts = {name.decode(): _unescape(cell) for name, cell in cells.items()}
        typed = {name: _convert(table, name, text) for name, text in texts.items()}
        rows.setdefault(table, []).append(typed)
    return rows


def _unescape(cell: bytes) -> str | None:
    """Return what a cell of PostgreSQL's COPY stands for."""
    if cell == b"\\N":
        return None
    signs = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}
    return re.sub(r"\\(.)", lambda match: signs.get(match[1], match[1]), cell.decode())


def _convert(table: str, name: str, value: Any) -> Any:
    """Return a value as the column has it today; SQLite has 1 for true, PostgreSQL's dump t."""
    column = metadata.tables[table].c.get(name.strip('"'))
    if value is None or column is None:
        return value
    kind = column.type.python_type
    return value in (1, "t") if kind is bool else kind(value)
