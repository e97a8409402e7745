"""Grades into a platform's own file: what it exported is the template, with its names and ids.

Canvas ("Export Gradebook"), Moodle ("Export to plain text") and Gradescope ("Download Grades") each
find people and columns by ids of their own. So their file is kept cell by cell; the column of a lab
is filled where there is one, and added at the end where there is none.
"""

import csv
import io
import re
from collections.abc import Iterator

from autograder.service.errors import Refused
from autograder.service.exports import Book, csv_lines, score_of
from autograder.service.gradebook import Row
from autograder.service.lab_catalog import short_name

# The columns of each platform that say who somebody is, the surest first.
PEOPLE = {
    "canvas": ("SIS Login ID", "SIS User ID"),
    "moodle": ("Username", "Email address", "ID number"),
    "gradescope": ("Email", "SID"),
}
# What platforms write around the name of an assignment: an id, a kind of value.
_AROUND = re.compile(r"^(?:Assignment: *)?(.*?)(?: \((?:\d+|Real|Percentage|Letter)\))?$")
_MOST_ROWS = 20_000
_MOST_COLUMNS = 2_000
_MOST_NAME_CHARS = 500


def filled(format: str, template: bytes, book: Book) -> Iterator[str]:
    """Return the template with the scores of `book` in it, line by line.

    Raises:
        Refused: 422, it is not what that platform exports.
    """
    rows = _read(format, template)
    head = rows[0]
    who = [head.index(name) for name in PEOPLE[format] if name in head]
    if not who:
        expected = " or ".join(repr(name) for name in PEOPLE[format])
        raise Refused(422, f"export: the template has no column {expected}.")
    places: dict[str, int] = {}
    for lab in book.labs:
        places[lab] = _place(head, lab)
        head += [lab] if places[lab] == len(head) else []
    learners = _by_name(book)
    lines = (_row(row, n, book, places, who, learners) for n, row in enumerate(rows))
    return csv_lines([_Kept(c) if _NUMBER.fullmatch(c) else c for c in line] for line in lines)


class _Kept:
    """A cell that is no formula, though it begins as one: a number, or Moodle's "-" for none."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


_NUMBER = re.compile(r"-|[+-]?\d+(?:[.,]\d+)?")


def _read(format: str, template: bytes) -> list[list[str]]:
    if format not in PEOPLE:
        raise Refused(422, f"export: format {format!r} takes no template.")
    try:
        text = template.decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(422, f"export: the template is no CSV in UTF-8: {error}.") from error
    if not 1 <= len(rows) <= _MOST_ROWS:
        raise Refused(422, f"export: got {len(rows)} lines, expected 1 to {_MOST_ROWS}.")
    columns = max(len(row) for row in rows)
    if columns > _MOST_COLUMNS:  # every row would be made as long as the longest
        raise Refused(422, f"export: got {columns} columns, expected at most {_MOST_COLUMNS}.")
    return rows


def _place(head: list[str], lab: str) -> int:
    """Return the column of a lab, by its name with or without its number, or the next free one."""
    for place, column in enumerate(head):
        found = _AROUND.match(column.strip()) if len(column) <= _MOST_NAME_CHARS else None
        if found and found[1] in (lab, short_name(lab)):
            return place
    return len(head)


def _by_name(book: Book) -> dict[str, Row]:
    """Return the learners by login and by email; one that two share is nobody's."""
    found: dict[str, Row | None] = {}
    for row in book.rows:
        for name in {row.person.login.casefold(), row.person.email.casefold()} - {""}:
            found[name] = None if name in found else row
    return {name: row for name, row in found.items() if row is not None}


def _row(
    row: list[str],
    number: int,
    book: Book,
    places: dict[str, int],
    who: list[int],
    learners: dict[str, Row],
) -> list[str]:
    """Return one line of the template with the scores of its learner, if it has one."""
    row = row + [""] * (1 + max(places.values(), default=0) - len(row))
    if number == 0:
        return row
    names = (row[place].strip().casefold() for place in who if place < len(row))
    learner = next((learners[name] for name in names if name in learners), None)
    of_all = row[0].strip() == "Points Possible"
    for lab, place in places.items():
        if learner is not None:
            row[place] = score_of(learner.labs.get(lab)) or row[place]
        elif of_all and not row[place]:
            row[place] = book.points(lab)
    return row
