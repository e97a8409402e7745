"""The gradebook for other programs: plain CSV, Canvas, Moodle, Gradescope.

What counts of a lab is a learner's best graded submission. Names of learners cannot begin with a
character that a spreadsheet takes for a formula (see `auth.enroll`).
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Sequence

from autograder.records import Report
from autograder.report import to_gradescope
from autograder.service.errors import Refused
from autograder.service.ledger import GRADED, Entry, Ledger
from autograder.service.roster import LEARNER, Roster
from autograder.service.views import iso

Gradebook = dict[str, dict[str, Entry]]  # learner -> lab -> the entry that counts


def gradebook(learners: Iterable[str], entries: Iterable[Entry]) -> Gradebook:
    """Return, for every learner, the entry that counts of each lab: the best, the latest of equals.

    A lab of which nothing is graded yet shows its latest entry, whose score is None or 0.
    """
    book: Gradebook = {learner: {} for learner in learners}
    for entry in entries:
        if entry.learner in book:
            labs = book[entry.learner]
            held = labs.get(entry.lab)
            labs[entry.lab] = entry if held is None or _rank(entry) > _rank(held) else held
    return book


def labs_of(book: Gradebook) -> list[str]:
    """Return the labs of which anybody has submitted, in order."""
    return sorted({lab for labs in book.values() for lab in labs})


def export(format: str, roster: Roster, ledger: Ledger) -> str:
    """Return the gradebook as text.

    Raises:
        Refused: 422, the format is none of FORMATS.
    """
    _check(format)
    people = roster.everybody(LEARNER)
    return FORMATS[format][1](gradebook((p.name for p in people), ledger.all()), ledger)


def media_type(format: str) -> str:
    """Return the content type of a format."""
    _check(format)
    return FORMATS[format][0]


def _check(format: str) -> None:
    if format not in FORMATS:
        raise Refused(422, f"export: got format {format!r}, expected one of {', '.join(FORMATS)}.")


def _rank(entry: Entry) -> tuple[bool, float, int]:
    return entry.state == GRADED, entry.score or 0.0, entry.id


def _score(entry: Entry | None) -> str:
    return "" if entry is None or entry.state != GRADED else f"{entry.score:g}"


def _csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def _plain(book: Gradebook, _ledger: Ledger) -> str:
    """One line a learner and lab."""
    head = ["learner", "lab", "score", "max_score", "state", "submission", "submitted_at"]
    rows: list[Sequence[object]] = [head]
    for learner, labs in book.items():
        for lab, e in sorted(labs.items()):
            full = "" if e.max_score is None else f"{e.max_score:g}"
            rows.append((learner, lab, _score(e), full, e.state, e.id, iso(e.submitted_at)))
    return _csv(rows)


def _canvas(book: Gradebook, _ledger: Ledger) -> str:
    """Canvas's gradebook: a row of points possible, then a row a learner, matched by login."""
    labs = labs_of(book)
    full = [_points(book, lab) for lab in labs]
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    rows = [[*head, *labs], ["    Points Possible", "", "", "", "", *full]]
    rows += [
        [name, "", "", name, "", *(_score(own.get(x)) for x in labs)] for name, own in book.items()
    ]
    return _csv(rows)


def _moodle(book: Gradebook, _ledger: Ledger) -> str:
    """Moodle's grade import: a column that identifies the learner, a column a grade item."""
    labs = labs_of(book)
    rows = [["username", *labs]]
    rows += [[name, *(_score(own.get(x)) for x in labs)] for name, own in book.items()]
    return _csv(rows)


def _gradescope(book: Gradebook, ledger: Ledger) -> str:
    """A list of {learner, lab, results}; `results` is what Gradescope calls results.json."""
    found = []
    for learner, labs in book.items():
        for lab, entry in sorted(labs.items()):
            text = ledger.report(entry.id)
            if text is not None:
                results = to_gradescope(Report.from_dict(json.loads(text)))
                found.append({"learner": learner, "lab": lab, "results": results})
    return json.dumps(found, indent=2) + "\n"


def _points(book: Gradebook, lab: str) -> str:
    full = [own[lab].max_score or 0.0 for own in book.values() if lab in own]
    return f"{max(full, default=0.0):g}"


FORMATS: dict[str, tuple[str, Callable[[Gradebook, Ledger], str]]] = {
    "csv": ("text/csv", _plain),
    "canvas": ("text/csv", _canvas),
    "moodle": ("text/csv", _moodle),
    "gradescope": ("application/json", _gradescope),
}
