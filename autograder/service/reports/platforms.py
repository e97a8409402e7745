"""Grades into a platform's own file: what it exported is the template, with its names and ids.

Canvas ("Export Gradebook"), Moodle ("Export to plain text") and Gradescope ("Download Grades") each
find people and columns by ids of their own. So their file is kept cell by cell; the column of a lab
is filled where there is one, and added at the end where there is none.
"""

import csv
import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from autograder.records import without_number
from autograder.service.errors import Refused
from autograder.service.records.csv_files import decoded, describe_fault, separator
from autograder.service.records.roster.roster import CANVAS_TEST_STUDENT
from autograder.service.records.submissions.submissions import Entry
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
_TITLE_NUMBER = re.compile(r"^(?:lab)?[ _-]*\d+[ _:.–—-]*")
_MOST_ROWS = 200_000  # what the limit of a body lets through, anyway
_MOST_COLUMNS = 2_000
_MOST_NAME_CHARS = 500


@dataclass(frozen=True)
class Filled:
    """A template with scores in it; what could not be done, and who was passed over, by lines."""

    rows: list[list[str]]
    problems: list[str]
    skipped: list[str]
    separator: str

    def lines(self) -> Iterator[str]:
        """Yield the template line by line."""
        rows = ([_Kept(c) if _NUMBER.fullmatch(c) else c for c in row] for row in self.rows)
        return csv_lines(rows, self.separator)


def fill_template(format: str, template: bytes, book: Book) -> Filled:
    """Return the template with the final scores of `book` in it.

    What is not certain stays as it was and is a problem: a line that names nobody here, or one of
    two who share what it names; so is somebody with a score whom the template has not.

    Raises:
        Refused: 422, it is not what that platform exports.
    """
    rows, between = _read(format, template)
    head, score_as = rows[0], canvas_score if format == "canvas" else final_score
    who = [head.index(name) for name in PEOPLE[format] if name in head]
    if not who:
        expected = " or ".join(repr(name) for name in PEOPLE[format])
        raise Refused(422, f"export: the template has no column {expected}.")
    places: dict[str, int] = {}
    for lab in book.labs:
        places[lab] = _place(head, lab, book.titles)
        head += [lab] if places[lab] == len(head) else []
    everybody = [_line(book, row, score_as) for row in book.rows()]
    learners, problems, skipped = _by_name(everybody), list[str](), list[str]()
    missing = {line.login: line for line in everybody if any(line.scores)}
    for number, row in enumerate(rows[1:], 2):
        row += [""] * (len(head) - len(row))
        names = [name for place in who if (name := row[place].strip())]
        of_line = [learners.get(name.casefold(), []) for name in names]
        certain = next((lines[0] for lines in of_line if len(lines) == 1), None)
        if certain is not None:
            missing.pop(certain.login, None)
            for place, score in zip(places.values(), certain.scores, strict=True):
                row[place] = score or row[place]
        elif row[0].strip() == "Points Possible":
            for lab, place in places.items():
                row[place] = row[place] or book.points[lab]
        elif format == "canvas" and row[0].strip() == CANVAS_TEST_STUDENT:
            skipped.append(f"line {number}: Canvas's test student: left as it was")
        elif names:
            problems.append(f"line {number}: {_doubt(names, of_line)}: left as it was")
    problems += [f"{login}: has a score, and the template has no line for it" for login in missing]
    return Filled(rows, problems, skipped, between)


@dataclass(frozen=True, slots=True)
class _Line:
    """What the template is to get of a learner: of each lab of the book what is final, or ""."""

    login: str
    email: str
    scores: tuple[str, ...]


def _line(book: Book, row: Row, score_as: Callable[[Entry | None], str]) -> _Line:
    scores = tuple(sys.intern(score_as(row.labs.get(lab))) for lab in book.labs)
    return _Line(row.person.login, row.person.email, scores)


def _doubt(names: list[str], candidates: list[list[_Line]]) -> str:
    shared = [line.login for lines in candidates for line in lines]
    quoted = " and ".join(repr(name[:60]) for name in names)
    return f"{quoted} is that of {' and '.join(shared)}" if shared else f"nobody here is {quoted}"


class _Kept:
    """A cell that is no formula, though it begins as one: a number, or Moodle's "-" for none."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __str__(self) -> str:
        return self._text


_NUMBER = re.compile(r"-|[+-]?\d+(?:[.,]\d+)?")


def _read(format: str, template: bytes) -> tuple[list[list[str]], str]:
    """Return the lines of a template, and what stands between their cells."""
    if format not in PEOPLE:
        raise Refused(422, f"export: format {format!r} takes no template.")
    try:
        text = decoded(template)
        between = separator(text)
        lines = csv.reader(io.StringIO(text, newline=""), delimiter=between, strict=True)
        rows = [row for row in lines if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise Refused(422, f"export: the template {describe_fault(error)}") from error
    if not 1 <= len(rows) <= _MOST_ROWS:
        raise Refused(422, f"export: got {len(rows)} lines, expected 1 to {_MOST_ROWS}.")
    columns = max(len(row) for row in rows)
    if columns > _MOST_COLUMNS:  # every row would be made as long as the longest
        raise Refused(422, f"export: got {columns} columns, expected at most {_MOST_COLUMNS}.")
    return rows, between


def _place(head: list[str], lab: str, titles: Mapping[str, str]) -> int:
    """Return the column of a lab, or the next free one.

    It is the first that has the lab's name, with or without its number; else the only one that has
    its title, where no other lab has that.
    """
    for place, column in enumerate(head):
        if _assignment(column) in (lab, without_number(lab)):
            return place
    title = _without_label(titles.get(lab, ""))
    own = [_without_label(each) for each in titles.values()].count(title) == 1
    names = {name for each in titles for name in (each, without_number(each))}
    rest = [name if (name := _assignment(column)) not in names else "" for column in head]
    places = [place for place, name in enumerate(rest) if _without_label(name) == title]
    return places[0] if own and title and len(places) == 1 else len(head)


def _assignment(column: str) -> str:
    match = _AROUND.match(column.strip()) if len(column) <= _MOST_NAME_CHARS else None
    return match[1] if match else ""


def _without_label(title: str) -> str:
    """Return a title in small letters, without its number: of "Lab 03: Modules", "modules"."""
    return _TITLE_NUMBER.sub("", title.casefold()).strip()


def _by_name(everybody: list[_Line]) -> dict[str, list[_Line]]:
    """Return the learners of each login and email, in lower case."""
    lines_by_name: dict[str, list[_Line]] = {}
    for line in everybody:
        for name in {line.login.casefold(), line.email.casefold()} - {""}:
            lines_by_name.setdefault(name, []).append(line)
    return lines_by_name
