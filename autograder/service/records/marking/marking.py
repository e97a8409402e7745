"""Answers that people mark, one question at a time: each learner's latest graded submission.

They lie on a pile in the order of their submissions, which every grading and mark keeps up
(`standings`). So what waits is counted, and the way from one answer to the next is a step in an
index, however many there are. Answers that are alike (`marks.alike_digest`) make a group, and are
marked at once.
"""

from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from autograder.records import ManualAnswer
from autograder.service.database.database import Database
from autograder.service.database.schema import answers, counts, pile, second_marks, submissions
from autograder.service.errors import Refused
from autograder.service.records.grades import gradings
from autograder.service.records.marks import mark_digest, question_of
from autograder.service.records.people import Person
from autograder.service.records.standings.standings import BLANK, UNMARKED, WAITING, WRITTEN
from autograder.service.records.submissions.submissions import Entry, Submissions, is_id

_MOST_COUNTED = 1_000  # before an answer; further down its place is not worth the counting
_MOST_GROUPS = 20
MOST_MEMBERS = 100  # of a group that are marked at once


@dataclass(frozen=True)
class Pile:
    """The answers to one question: how many wait, were written, and were not attempted.

    With a `section` its share of them.
    """

    lab: str
    question: str
    waiting: int
    written: int
    not_attempted: int
    section: str = ""


def shares(connection: sa.Connection) -> list[Pile]:
    """Return the share of every section in every pile."""
    kinds = (WAITING, WRITTEN, UNMARKED)
    columns = (counts.c.kind, counts.c.lab, counts.c.question, counts.c.words, counts.c.number)
    numbers: defaultdict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
    for row in connection.execute(sa.select(*columns).where(counts.c.kind.in_(kinds))):
        numbers[row.lab, row.question, row.words][row.kind] = row.number
    return [
        Pile(*(lab, question, of.get(WAITING, 0), of.get(WRITTEN, 0), of.get(UNMARKED, 0), section))
        for (lab, question, section), of in sorted(numbers.items())
    ]


def list_piles(database: Database) -> list[Pile]:
    """Return the pile of every question with an answer that waits, or that nobody wrote."""
    with database.read() as connection:
        all_shares = shares(connection)
    key = attrgetter("lab", "question")
    piles = [add_shares(list(group)) for _, group in groupby(all_shares, key=key)]
    return [p for p in piles if p.waiting or p.not_attempted]


def add_shares(some: list[Pile]) -> Pile:
    """Return shares of one pile as the whole."""
    sums = {
        name: sum(getattr(share, name) for share in some)
        for name in ("waiting", "written", "not_attempted")
    }
    return replace(some[0], section="", **sums)


@dataclass(frozen=True)
class Walk:
    """Which answers somebody goes through, one after the other.

    `blank` ones were not attempted, the others were written; of a `section` alone; or those of a
    `sample` that wait for a second mark, which `by` may give.
    """

    lab: str
    question: str
    by: int = 0
    blank: bool = False
    section: str = ""
    sample: bool = False

    @property
    def lies(self) -> sa.ColumnElement[bool]:
        """Whether an answer of the pile is on the way."""
        written = pile.c.written == (not self.blank)
        there = (pile.c.lab == self.lab) & (pile.c.question == self.question) & written
        there &= pile.c.section == self.section if self.section else sa.true()
        return there & in_sample() if self.sample else there

    @property
    def waits(self) -> sa.ColumnElement[bool]:
        """Whether one that is on the way waits for a mark, of a sample for a second."""
        return second_waits(self.by) if self.sample else pile.c.waits


def in_sample(*more: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Whether an answer is one of a sample, of which `more` holds."""
    here = second_marks.c.submission_id == pile.c.submission_id
    return sa.exists().where(here, second_marks.c.question == pile.c.question, *more)


def second_waits(by: int) -> sa.ColumnElement[bool]:
    """Whether an answer has a mark of somebody else than `by`, and waits for a second."""
    missing = in_sample(second_marks.c.points.is_(None))
    return ~pile.c.waits & pile.c.marked_by.is_distinct_from(by) & missing


@dataclass(frozen=True)
class Desk:
    """One answer, with what stands before and after it, and how many are alike and wait.

    `place` is None beyond the first thousand. A `second` mark is asked for without showing the
    first: the answer has none then.
    """

    entry: Entry
    answer: ManualAnswer
    second: bool
    alike: str
    before: int | None
    after: int | None
    place: int | None
    total: int
    left: int

    @property
    def seen(self) -> str:
        """What a form that shows this answer sends back, so that a mark in between is noticed."""
        return mark_digest(self.entry.id, self.answer)


def desk(all_submissions: Submissions, walk: Walk, at: int) -> Desk | None:
    """Return the answer of submission `at`, or the first that waits; None where there is none."""
    lies = walk.lies
    with all_submissions.database.read() as connection:
        at = _first(connection, lies, pile.c.submission_id == at) or _open(connection, walk) or 0
        at = at or (0 if walk.sample else _first(connection, lies) or 0)
        here = (pile.c.submission_id == at) & (pile.c.question == walk.question)
        before = pile.c.submission_id < at
        earlier = sa.select(pile.c.submission_id).where(lies, before).limit(_MOST_COUNTED + 1)
        place = len(list(connection.scalars(earlier))) + 1
        beside = (
            _first(connection, lies, before, last=True),
            _first(connection, lies, pile.c.submission_id > at),
        )
        total, left = _counts(connection, walk)
        row = connection.execute(sa.select(pile.c.alike, second_waits(walk.by)).where(here)).first()
    entry, report = all_submissions.get(at), all_submissions.report(at)
    if entry is None or report is None or row is None:
        return None
    answer = question_of(report, walk.question)
    if row[1]:
        answer = _bare(answer)
    counted_place = place if place <= _MOST_COUNTED else None
    return Desk(entry, answer, bool(row[1]), row.alike, *beside, counted_place, total, left)


def _counts(connection: sa.Connection, walk: Walk) -> tuple[int, int]:
    """Return how many answers are on the way, and how many of them wait."""
    if walk.sample:  # a few hundred at most
        number = sa.func.count()
        both = (sa.select(number).where(walk.lies), sa.select(number).where(walk.lies, walk.waits))
    else:
        kinds = (BLANK, UNMARKED) if walk.blank else (WRITTEN, WAITING)
        here = (counts.c.lab == walk.lab) & (counts.c.question == walk.question)
        here &= counts.c.words == walk.section if walk.section else sa.true()
        query = sa.select(sa.func.sum(counts.c.number)).where(here)
        both = (query.where(counts.c.kind == kinds[0]), query.where(counts.c.kind == kinds[1]))
    return connection.scalar(both[0]) or 0, connection.scalar(both[1]) or 0


def _first(
    connection: sa.Connection, *which: sa.ColumnElement[bool], last: bool = False
) -> int | None:
    """Return the first submission of a pile of which that holds, or the last; or None."""
    number = pile.c.submission_id
    query = sa.select(number).where(*which).order_by(number.desc() if last else number).limit(1)
    first: int | None = connection.scalar(query)
    return first


def _open(connection: sa.Connection, walk: Walk, after: int = 0) -> int | None:
    return _first(connection, walk.lies, walk.waits, pile.c.submission_id > after)


def next_waiting(all_submissions: Submissions, walk: Walk, at: int) -> int | None:
    """Return the next submission whose answer waits, after `at` or from the first; or None."""
    with all_submissions.database.read() as connection:
        return _open(connection, walk, at) or _open(connection, walk)


@dataclass(frozen=True)
class Group:
    """Answers that are alike and wait: how many, and one of them."""

    alike: str
    number: int
    text: str


@dataclass(frozen=True)
class Variant:
    """Of a group the answers that are the same to the letter, by their submissions."""

    answer: ManualAnswer
    submissions: list[int]


def groups(all_submissions: Submissions, lab: str, question: str) -> list[Group]:
    """Return the largest groups of two answers or more that are alike and wait."""
    number, example = sa.func.count(), sa.func.min(pile.c.submission_id)
    query = sa.select(pile.c.alike, number, example).where(_alike(lab, question), pile.c.alike > "")
    query = query.group_by(pile.c.alike).having(number > 1).order_by(number.desc(), example)
    rows = all_submissions.database.rows(query.limit(_MOST_GROUPS))
    texts = [_answer(all_submissions, row[2], question).answer for row in rows]
    return [Group(row[0], row[1], text) for row, text in zip(rows, texts, strict=True)]


def variants(all_submissions: Submissions, lab: str, question: str, alike: str) -> list[Variant]:
    """Return the first answers of a group, those of one text together, the most of one first."""
    query = sa.select(answers.c.answer_sha256, pile.c.submission_id).join_from(
        pile, submissions, submissions.c.id == pile.c.submission_id
    )
    mine = (answers.c.grading_id == submissions.c.grading_id) & (answers.c.question == question)
    query = query.join(answers, mine).where(_alike(lab, question), pile.c.alike == alike)
    rows = all_submissions.database.rows(query.order_by(pile.c.submission_id).limit(MOST_MEMBERS))
    by_text: defaultdict[str, list[int]] = defaultdict(list)
    for digest, number in rows:
        by_text[digest].append(number)
    ordered = sorted(by_text.values(), key=lambda numbers: (-len(numbers), numbers))
    read = ((_answer(all_submissions, numbers[0], question), numbers) for numbers in ordered)
    return [Variant(_bare(answer), numbers) for answer, numbers in read]


def mark_group(
    all_submissions: Submissions,
    walk: Walk,
    alike: str,
    numbers: Collection[Any],
    body: Any,
    marker: Person,
) -> list[int]:
    """Give answers of a group the same mark, each as its own; return their submissions.

    What does not wait any more, or is not of the group now, is left as it is.

    Raises:
        Refused: 422, the mark is malformed or has no points, or there are too many.
    """
    numbers = {number for number in numbers if type(number) is int and is_id(number)}
    if not 0 < len(numbers) <= MOST_MEMBERS:
        raise Refused(422, f"group: got {len(numbers)} answers, expected 1 to {MOST_MEMBERS}.")
    points = body.get("points") if isinstance(body, dict) else None
    if points is None or not str(points).strip():
        raise Refused(422, "group: got no points, expected some: a group is marked at once.")
    with all_submissions.database.write() as connection:
        locked = sa.select(submissions.c.id).where(submissions.c.id.in_(numbers))
        connection.execute(locked.order_by(submissions.c.id).with_for_update(key_share=True))
        mine = _alike(walk.lab, walk.question) & (pile.c.alike == alike)
        query = sa.select(pile.c.submission_id).where(mine, pile.c.submission_id.in_(numbers))
        waiting = list(connection.scalars(query.order_by(pile.c.submission_id)))
        if waiting:
            marks, now = {walk.question: body}, all_submissions.clock()
            gradings.mark(connection, waiting, marks, marker, now)
    return waiting


def _alike(lab: str, question: str) -> sa.ColumnElement[bool]:
    return (pile.c.lab == lab) & (pile.c.question == question) & pile.c.waits


def _bare(answer: ManualAnswer) -> ManualAnswer:
    """Return an answer without its mark."""
    return replace(answer, score=None, comment="", items=())


def _answer(all_submissions: Submissions, number: int, question: str) -> ManualAnswer:
    report = all_submissions.report(number)
    return ManualAnswer(question, 0.0, (), "") if report is None else question_of(report, question)
