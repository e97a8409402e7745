"""Grades into a platform's own file: what it exported is the template, with its names and ids.

Canvas ("Export Gradebook"), Moodle ("Export to plain text") and Gradescope ("Download Grades") each
find people and columns by ids of their own. So their file is kept cell by cell; the column of a lab
is filled where there is one, and added at the end where there is none.
"""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass

from autograder.service.errors import Refused
from autograder.service.grading.catalog import short_name
from autograder.service.reports.exports import Book, canvas_score, csv_lines, final_score
from autograder.service.reports.gradebook import Row

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


@dataclass(frozen=True)
class Filled:
    """A template with scores in it, and what could not be done, a line each."""

    rows: list[list[str]]
    problems: list[str]

    def lines(self) -> Iterator[str]:
        """Yield the template line by line."""
        return csv_lines(
            [_Kept(c) if _NUMBER.fullmatch(c) else c for c in row] for row in self.rows
        )


def filled(format: str, template: bytes, book: Book) -> Filled:
    """Return the template with the final scores of `book` in it.

    What is not certain stays as it was and is a problem: a line that names nobody here, or one of
    two who share what it names; so is somebody with a score whom the template has not.

    Raises:
        Refused: 422, it is not what that platform exports.
    """
    rows = _read(format, template)
    head, score = rows[0], canvas_score if format == "canvas" else final_score
    who = [head.index(name) for name in PEOPLE[format] if name in head]
    if not who:
        expected = " or ".join(repr(name) for name in PEOPLE[format])
        raise Refused(422, f"export: the template has no column {expected}.")
    places: dict[str, int] = {}
    for lab in book.labs:
        places[lab] = _place(head, lab)
        head += [lab] if places[lab] == len(head) else []
    learners, problems = _by_name(book), []
    missing = {
        row.person.login: row for row in book.rows if any(map(final_score, row.labs.values()))
    }
    for number, row in enumerate(rows[1:], 2):
        row += [""] * (len(head) - len(row))
        names = [name for place in who if (name := row[place].strip())]
        of_line = [learners.get(name.casefold(), []) for name in names]
        certain = next((rows_named[0] for rows_named in of_line if len(rows_named) == 1), None)
        if certain is not None:
            missing.pop(certain.person.login, None)
            for lab, place in places.items():
                row[place] = score(certain.labs.get(lab)) or row[place]
        elif row[0].strip() == "Points Possible":
            for lab, place in places.items():
                row[place] = row[place] or book.points(lab)
        elif names:
            problems.append(f"line {number}: {_doubt(names, of_line)}: left as it was")
    problems += [f"{login}: has a score, and the template has no line for it" for login in missing]
    return Filled(rows, problems)


def _doubt(names: list[str], candidates: list[list[Row]]) -> str:
    shared = [row.person.login for rows in candidates for row in rows]
    quoted = " and ".join(repr(name[:60]) for name in names)
    return f"{quoted} is that of {' and '.join(shared)}" if shared else f"nobody here is {quoted}"


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
        match = _AROUND.match(column.strip()) if len(column) <= _MOST_NAME_CHARS else None
        if match and match[1] in (lab, short_name(lab)):
            return place
    return len(head)


def _by_name(book: Book) -> dict[str, list[Row]]:
    """Return the learners of each login and email, in lower case."""
    rows_by_name: dict[str, list[Row]] = {}
    for row in book.rows:
        for name in {row.person.login.casefold(), row.person.email.casefold()} - {""}:
            rows_by_name.setdefault(name, []).append(row)
    return rows_by_name
