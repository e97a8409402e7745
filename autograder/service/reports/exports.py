"""The gradebook for other programs: plain CSV, Canvas, Moodle, Gradescope; made piece by piece.

What counts of a lab is a learner's best graded submission, after what lateness cost. Canvas and
Moodle get what is final; in the others a score says how many of its answers wait to be marked.
Names are kept as they were given; one that a spreadsheet would take for a formula gets an
apostrophe in front here (OWASP, "CSV Injection").
"""

import csv
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import sqlalchemy as sa

from autograder.grading.report import to_gradescope
from autograder.service.database.schema import people, standings, submissions
from autograder.service.errors import Refused
from autograder.service.records.people import LEARNER, Roster
from autograder.service.records.submissions.submissions import EXCUSED, Entry, Submissions
from autograder.service.reports.gradebook import Row, rows
from autograder.service.times import iso

_CHUNK_CHARS = 1 << 16
_LEARNERS = 200  # whose rows are read together
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "＝", "＋", "－", "＠")


@dataclass(frozen=True)
class Book:
    """The gradebook as an export has it, of every lab or of one; `rows` reads it anew.

    `titles` has the labs' titles by their names, where labs are at hand.
    """

    roster: Roster
    submissions: Submissions
    lab: str = ""
    titles: Mapping[str, str] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        """Yield the learners by login; some of them at a time are in memory."""
        after = ""
        while learners := self.roster.learners(after=after, most=_LEARNERS):
            yield from rows(learners, self.submissions, self.lab)
            after = learners[-1].login

    @cached_property
    def labs(self) -> list[str]:
        """The columns: labs that a learner has handed in, or that staff have decided about."""
        if self.lab:
            return [self.lab]
        theirs = sa.select(submissions.c.id).join_from(submissions, people)
        theirs = theirs.where(people.c.role == LEARNER).limit(1)
        first = self.submissions.database.first
        every = self.submissions.labs()
        labs = {lab for lab in every if first(theirs.where(submissions.c.lab == lab)) is not None}
        return sorted(labs | {decision.lab for decision in self.submissions.decisions(None)})

    @cached_property
    def points(self) -> dict[str, str]:
        """What can be had in each lab, by what counts of the learners."""
        most = sa.func.max(submissions.c.max_score)
        query = sa.select(standings.c.lab, most).group_by(standings.c.lab)
        query = query.join_from(standings, submissions, submissions.c.id == standings.c.best_id)
        full = {row[0]: row[1] for row in self.submissions.database.rows(query)}
        return {lab: f"{full.get(lab) or 0.0:g}" for lab in self.labs}


def export(
    format: str, roster: Roster, submissions: Submissions, *, lab: str = ""
) -> tuple[str, Iterator[str]]:
    """Return the content type of the gradebook, and its pieces as text; of one lab if it is named.

    Raises:
        Refused: 422, the format is none of FORMATS.
    """
    if format not in FORMATS:
        raise Refused(422, f"export: got format {format!r}, expected one of {', '.join(FORMATS)}.")
    kind, make = FORMATS[format]
    return kind, make(Book(roster, submissions, lab))


def chunks(pieces: Iterable[str]) -> Iterator[str]:
    """Yield the pieces gathered to what is worth sending at once."""
    gathered, size = io.StringIO(), 0
    for piece in pieces:
        size += gathered.write(piece)
        if size >= _CHUNK_CHARS:
            yield gathered.getvalue()
            gathered, size = io.StringIO(), 0
    yield gathered.getvalue()


def score_of(entry: Entry | None) -> str:
    """Return what counts, as a cell; nothing where there is no grade."""
    return "" if entry is None or entry.score is None else f"{entry.score:g}"


def final_score(entry: Entry | None) -> str:
    """Return what counts, once people have marked what is theirs to mark; else nothing."""
    return "" if entry is None or entry.pending else score_of(entry)


def not_final(book: Book) -> list[str]:
    """Return a line for each score that platforms do not get yet: people still have to mark."""
    return [
        f"{row.person.login}: {lab}: not final, left out: {entry.pending} to be marked"
        for row in book.rows()
        for lab, entry in row.labs.items()
        if entry.pending and entry.score is not None
    ]


def harmless(text: str) -> str:
    """Return a text that no spreadsheet takes for a formula."""
    return f"'{text}" if text.lstrip(" ").startswith(_FORMULA) else text


def csv_lines(rows: Iterable[Sequence[object]], separator: str = ",") -> Iterator[str]:
    """Yield the rows as lines of CSV without formulas."""
    for row in rows:
        line = io.StringIO()
        safe = [harmless(cell) if isinstance(cell, str) else cell for cell in row]
        csv.writer(line, delimiter=separator, lineterminator="\n").writerow(safe)
        yield line.getvalue()


def _plain(book: Book) -> Iterator[str]:
    """One line a learner and lab."""
    head = ["learner", "lab", "score", "max_score", "state", "submission", "submitted_at"]
    yield from csv_lines([[*head, "late_days", "pending", "name", "email", "section"]])
    for row in book.rows():
        who = row.person
        for lab, e in row.labs.items():
            full = "" if e.max_score is None else f"{e.max_score:g}"
            points = (score_of(e), full, e.decision or e.state, e.id or "")
            counted = (*points, iso(e.submitted_at), e.late_days, e.pending)
            yield from csv_lines([(who.login, lab, *counted, who.name, who.email, who.section)])


def _canvas(book: Book) -> Iterator[str]:
    """Canvas's gradebook: a row of points possible, then a row a learner, matched by login."""
    full = [book.points[lab] for lab in book.labs]
    head = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"]
    yield from csv_lines([[*head, *book.labs], ["    Points Possible", "", "", "", "", *full]])
    for row in book.rows():
        who, scores = row.person, (canvas_score(row.labs.get(lab)) for lab in book.labs)
        yield from csv_lines([[who.name, "", "", who.login, who.section, *scores]])


def canvas_score(entry: Entry | None) -> str:
    """Return a score as Canvas takes it in: EX excuses."""
    return "EX" if entry is not None and entry.decision == EXCUSED else final_score(entry)


def _moodle(book: Book) -> Iterator[str]:
    """Moodle's grade import: a column that identifies the learner, a column a grade item."""
    yield from csv_lines([["username", *book.labs]])
    for row in book.rows():
        scores = (final_score(row.labs.get(lab)) for lab in book.labs)
        yield from csv_lines([[row.person.login, *scores]])


def _totals(book: Book) -> Iterator[str]:
    """One line a learner: the course total in percent, then what counts of each lab."""
    yield from csv_lines([["learner", "name", "email", "section", "total", *book.labs]])
    for row in book.rows():
        who, share = row.person, row.course.share
        total = "" if share is None else f"{100 * share:.6g}"
        scores = (score_of(row.labs.get(lab)) for lab in book.labs)
        yield from csv_lines([(who.login, who.name, who.email, who.section, total, *scores)])


def _gradescope(book: Book) -> Iterator[str]:
    """A list of {learner, lab, results}; `results` is what Gradescope calls results.json.

    One report at a time is in memory, however many there are.
    """
    before = "["
    for row in book.rows():
        for lab, entry in row.labs.items():
            report = book.submissions.report(entry.id)
            if report is not None:
                results = to_gradescope(report) | {"score": entry.score, "pending": entry.pending}
                item = {"learner": row.person.login, "lab": lab, "results": results}
                yield f"{before}\n{json.dumps(item, indent=2)}"
                before = ","
    yield "[]\n" if before == "[" else "\n]\n"


FORMATS: dict[str, tuple[str, Callable[[Book], Iterator[str]]]] = {
    "csv": ("text/csv", _plain),
    "canvas": ("text/csv", _canvas),
    "moodle": ("text/csv", _moodle),
    "gradescope": ("application/json", _gradescope),
    "totals": ("text/csv", _totals),
}
