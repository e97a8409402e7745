"""The gradebook for other programs: plain CSV, Canvas, Moodle, Gradescope; made piece by piece.

What counts of a lab is a learner's best graded submission. Logins cannot begin with a character
that a spreadsheet takes for a formula (see `auth.enroll`).
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from autograder.grading.report import to_gradescope
from autograder.service.errors import Refused
from autograder.service.roster import LEARNER, Roster
from autograder.service.submissions import Entry, Ledger
from autograder.service.views import iso

_CHUNK_CHARS = 1 << 16

Gradebook = dict[str, dict[str, Entry]]  # learner -> lab -> the entry that counts


def gradebook(learners: Iterable[str], entries: Iterable[Entry]) -> Gradebook:
    """Return, for every learner, the entry that counts of each lab: the best, the latest of equals.

    A lab of which nothing is graded yet shows its latest entry, whose score is None.
    """
    book: Gradebook = {learner: {} for learner in learners}
    for entry in entries:
        if entry.learner in book:
            labs = book[entry.learner]
            held = labs.get(entry.lab)
            labs[entry.lab] = entry if held is None or _rank(entry) > _rank(held) else held
    return book


def export(format: str, roster: Roster, ledger: Ledger) -> Iterator[str]:
    """Return the pieces of the gradebook as text.

    Raises:
        Refused: 422, the format is none of FORMATS.
    """
    _check(format)
    learners = [person.login for person in roster.everybody(LEARNER)]
    return FORMATS[format][1](gradebook(learners, ledger.entries()), ledger)


def chunks(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces gathered to what is worth sending at once."""
    gathered, size = io.StringIO(), 0
    for piece in pieces:
        size += gathered.write(piece)
        if size >= _CHUNK_CHARS:
            yield gathered.getvalue()
            gathered, size = io.StringIO(), 0
    yield gathered.getvalue()


def media_type(format: str) -> str:
    """Return the content type of a format."""
    _check(format)
    return FORMATS[format][0]


def _check(format: str) -> None:
    if format not in FORMATS:
        raise Refused(422, f"export: got format {format!r}, expected one of {', '.join(FORMATS)}.")


def _rank(entry: Entry) -> tuple[bool, float, int]:
    return entry.score is not None, entry.score or 0.0, entry.id


def _score(entry: Entry | None) -> str:
    return "" if entry is None or entry.score is None else f"{entry.score:g}"


def _labs_of(book: Gradebook) -> list[str]:
    return sorted({lab for labs in book.values() for lab in labs})


def _csv(rows: Iterable[Sequence[object]]) -> Iterator[str]:
    for row in rows:
        line = io.StringIO()
        csv.writer(line, lineterminator="\n").writerow(row)
        yield line.getvalue()


def _plain(book: Gradebook, _ledger: Ledger) -> Iterator[str]:
    """One line a learner and lab."""
    head = ["learner", "lab", "score", "max_score", "state", "submission", "submitted_at"]
    rows: list[Sequence[object]] = [head]
    for learner, labs in book.items():
        for lab, e in sorted(labs.items()):
            full = "" if e.max_score is None else f"{e.max_score:g}"
            rows.append((learner, lab, _score(e), full, e.state, e.id, iso(e.submitted_at)))
    return _csv(rows)


def _canvas(book: Gradebook, _ledger: Ledger) -> Iterator[str]:
    """Canvas's gradebook: a row of points possible, then a row a learner, matched by login."""
    labs = _labs_of(book)
    full = [_points(book, lab) for lab in labs]
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    rows = [[*head, *labs], ["    Points Possible", "", "", "", "", *full]]
    rows += [
        [name, "", "", name, "", *(_score(own.get(x)) for x in labs)] for name, own in book.items()
    ]
    return _csv(rows)


def _moodle(book: Gradebook, _ledger: Ledger) -> Iterator[str]:
    """Moodle's grade import: a column that identifies the learner, a column a grade item."""
    labs = _labs_of(book)
    rows = [["username", *labs]]
    rows += [[name, *(_score(own.get(x)) for x in labs)] for name, own in book.items()]
    return _csv(rows)


def _gradescope(book: Gradebook, ledger: Ledger) -> Iterator[str]:
    """A list of {learner, lab, results}; `results` is what Gradescope calls results.json.

    One report at a time is in memory, however many there are.
    """
    before = "["
    for learner, labs in book.items():
        for lab, entry in sorted(labs.items()):
            report = ledger.report(entry.id)
            if report is not None:
                found = {"learner": learner, "lab": lab, "results": to_gradescope(report)}
                yield f"{before}\n{json.dumps(found, indent=2)}"
                before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def _points(book: Gradebook, lab: str) -> str:
    full = [own[lab].max_score or 0.0 for own in book.values() if lab in own]
    return f"{max(full, default=0.0):g}"


FORMATS: dict[str, tuple[str, Callable[[Gradebook, Ledger], Iterator[str]]]] = {
    "csv": ("text/csv", _plain),
    "canvas": ("text/csv", _canvas),
    "moodle": ("text/csv", _moodle),
    "gradescope": ("application/json", _gradescope),
}
