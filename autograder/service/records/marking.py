"""Answers that people mark, one question at a time: each learner's latest graded submission.

They lie on a pile in the order of their submissions, which every grading and mark keeps up
(`standings`). So what waits is counted, and the way from one answer to the next is a step in an
index, however many there are.
"""

from collections import defaultdict
from dataclasses import dataclass

import sqlalchemy as sa

from autograder.records import ManualAnswer
from autograder.service.database.database import Database
from autograder.service.database.schema import counts, pile
from autograder.service.records.marks import question_of
from autograder.service.records.standings import BLANK, COMMENT, UNMARKED, WAITING, WRITTEN
from autograder.service.records.submissions import Entry, Submissions

_MOST_COMMENTS = 20
_MOST_COUNTED = 1_000  # before an answer; further down its place is not worth the counting


@dataclass(frozen=True)
class Pile:
    """The answers to one question: how many wait, were written, and were not attempted."""

    lab: str
    question: str
    waiting: int
    written: int
    not_attempted: int


def waiting(database: Database) -> list[Pile]:
    """Return the pile of every question with an answer that waits, or that nobody wrote."""
    kinds = (WAITING, WRITTEN, UNMARKED)
    columns = (counts.c.kind, counts.c.lab, counts.c.question, counts.c.number)
    numbers: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for row in database.rows(sa.select(*columns).where(counts.c.kind.in_(kinds))):
        numbers[row.lab, row.question][row.kind] = row.number
    return [
        Pile(*key, *(by_kind.get(kind, 0) for kind in kinds))
        for key, by_kind in sorted(numbers.items())
        if set(by_kind) != {WRITTEN}
    ]


@dataclass(frozen=True)
class Desk:
    """One answer, with what stands before and after it, and the comments given most often.

    `place` is None beyond the first thousand.
    """

    entry: Entry
    answer: ManualAnswer
    comments: list[str]
    before: int | None
    after: int | None
    place: int | None
    total: int
    left: int


def desk(
    all_submissions: Submissions, lab: str, question: str, at: int, written: bool = True
) -> Desk | None:
    """Return the answer of submission `at`, or the first that waits; None where there is none.

    Args:
        written: walk the answers that were written, else those that were not attempted.
    """
    lies = _lies(lab, question, written)
    with all_submissions.database.read() as connection:
        at = _first(connection, lies, pile.c.submission_id == at) or _open(connection, lies) or 0
        at = at or _first(connection, lies) or 0
        before = pile.c.submission_id < at
        earlier = sa.select(pile.c.submission_id).where(lies, before).limit(_MOST_COUNTED + 1)
        place = len(list(connection.scalars(earlier))) + 1
        beside = (
            _first(connection, lies, before, last=True),
            _first(connection, lies, pile.c.submission_id > at),
        )
        kinds = (WRITTEN, WAITING) if written else (BLANK, UNMARKED)
        total, left = (_count(connection, kind, lab, question) for kind in kinds)
        rows = connection.execute(most(COMMENT, lab, question, _MOST_COMMENTS))
        comments = [row.words for row in rows]
    entry, report = all_submissions.get(at), all_submissions.report(at)
    if entry is None or report is None:
        return None
    answer = question_of(report, question)
    known = place if place <= _MOST_COUNTED else None
    return Desk(entry, answer, comments, *beside, known, total, left)


def most(kind: str, lab: str, question: str, number: int) -> sa.Select[tuple[str, int]]:
    """Select the words of a kind that are counted most often, with how often."""
    here = (counts.c.kind == kind) & (counts.c.lab == lab) & (counts.c.question == question)
    query = sa.select(counts.c.words, counts.c.number).where(here).limit(number)
    return query.order_by(counts.c.number.desc(), counts.c.words.desc())


def _count(connection: sa.Connection, kind: str, lab: str, question: str) -> int:
    row = connection.execute(most(kind, lab, question, 1)).first()
    return row.number if row else 0


def _lies(lab: str, question: str, written: bool) -> sa.ColumnElement[bool]:
    return (pile.c.lab == lab) & (pile.c.question == question) & (pile.c.written == written)


def _first(
    connection: sa.Connection, *which: sa.ColumnElement[bool], last: bool = False
) -> int | None:
    """Return the first submission of a pile of which that holds, or the last; or None."""
    number = pile.c.submission_id
    query = sa.select(number).where(*which).order_by(number.desc() if last else number).limit(1)
    found: int | None = connection.scalar(query)
    return found


def _open(connection: sa.Connection, lies: sa.ColumnElement[bool], after: int = 0) -> int | None:
    return _first(connection, lies, pile.c.waits, pile.c.submission_id > after)


def next_waiting(
    all_submissions: Submissions, lab: str, question: str, at: int, written: bool = True
) -> int | None:
    """Return the next submission whose answer waits, after `at` or from the first; or None."""
    lies = _lies(lab, question, written)
    with all_submissions.database.read() as connection:
        return _open(connection, lies, at) or _open(connection, lies)
