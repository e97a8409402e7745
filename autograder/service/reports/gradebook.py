"""What counts of every learner: the best submission of each lab, after what lateness cost."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import Field

from autograder.service.database.schema import GRADED
from autograder.service.errors import Refused
from autograder.service.records.course_rule import Total
from autograder.service.records.decisions import Decision
from autograder.service.records.people import Person, Roster
from autograder.service.records.submissions import EXCUSED, SET, Entry, Submissions, pages_of
from autograder.service.reports.totals import Reckoning

# Rows of a page: what a screen or two hold, and a browser lays out at once.
PAGE_ROWS = 50
MOST_PAGES = 1_000_000

ORDERS = ("login", "name", "section")
COURSE = "course"  # by the course total

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


def counted(
    learners: Collection[Person],
    submissions: Submissions,
    lab: str = "",
    *,
    everybody: bool = False,
) -> Gradebook:
    """Return what counts for these learners, of every lab or of one, as staff decided it.

    Args:
        everybody: they are all there are, so every submission is read.
    """
    ids = None if everybody else [person.id for person in learners]
    entries = submissions.of_lab(lab) if ids is None else submissions.of_people(ids, lab=lab)
    book = gradebook((person.login for person in learners), entries)
    logins = {person.id: person.login for person in learners}
    for decision in submissions.decisions(ids, lab):
        if decision.person_id in logins:
            labs = book[logins[decision.person_id]]
            labs[decision.lab] = _decided(
                decision, logins[decision.person_id], labs.get(decision.lab)
            )
    return book


def _decided(decision: Decision, login: str, entry: Entry | None) -> Entry:
    """Return what counts by a decision; a submission of number 0 where there is none."""
    if entry is None:
        when = decision.decided_at
        whose = (decision.person_id, login, decision.lab)
        entry = Entry(0, *whose, "", GRADED, None, when, when, None, None, 0, 0)
    if decision.points is None:
        return replace(entry.without_grade(), late_days=0, decision=EXCUSED)
    points: dict[str, Any] = {"score": decision.points, "max_score": decision.max_score}
    return replace(entry, **points, state=GRADED, pending=0, late_days=0, decision=SET)


def _rank(entry: Entry) -> tuple[bool, float, int]:
    return entry.score is not None, entry.score or 0.0, entry.id


@dataclass(frozen=True)
class Asked:
    """What is to be seen of the gradebook; empty texts ask for everything.

    `sort` is one of ORDERS, "total" (points), COURSE or a lab; a leading "-" turns it round.
    """

    lab: str = ""
    section: str = ""
    search: str = ""
    sort: str = "login"
    page: Annotated[int, Field(ge=1, le=MOST_PAGES)] = 1


@dataclass(frozen=True)
class Row:
    """A learner, the entry that counts of each lab, and the course total, if all are here."""

    person: Person
    labs: dict[str, Entry]
    course: Total

    @property
    def total(self) -> float:
        """What everything comes to."""
        return sum(entry.score or 0.0 for entry in self.labs.values())


@dataclass(frozen=True)
class Page:
    """Some rows of `learners`, and how many pages there are."""

    rows: list[Row]
    count: int
    learners: int


def page(roster: Roster, submissions: Submissions, asked: Asked) -> Page:
    """Return the page that is asked for.

    Raises:
        Refused: 422, nothing can be sorted so.
    """
    order = asked.sort.removeprefix("-")
    turned = asked.sort.startswith("-")
    learners = roster.learners(asked.section, asked.search)
    if order in ORDERS:
        learners.sort(key=lambda p: (str(getattr(p, order)).casefold(), p.login), reverse=turned)
    elif order == COURSE:
        every = rows(learners, submissions, everybody=True)
        every.sort(key=lambda row: (_share(row), row.person.login), reverse=turned)
        learners = [row.person for row in every]
    elif order == "total" or order in submissions.labs():
        best = submissions.best_scores(asked.lab if order == "total" else order)
        learners.sort(key=lambda p: (_key(best.get(p.id, {}), order), p.login), reverse=turned)
    else:
        expected = f"one of {', '.join(ORDERS)}, total, {COURSE} or a lab that was handed in"
        raise Refused(422, f"gradebook: sort: got {asked.sort[:60]!r}, expected {expected}.")
    end = asked.page * PAGE_ROWS
    shown = rows(learners[end - PAGE_ROWS : end], submissions, asked.lab)
    return Page(shown, pages_of(len(learners), PAGE_ROWS), len(learners))


def _key(scores: Mapping[str, float], order: str) -> float:
    return math.fsum(scores.values()) if order == "total" else scores.get(order, -1.0)


def _share(row: Row) -> float:
    return -1.0 if row.course.share is None else row.course.share


def rows(
    learners: Collection[Person],
    submissions: Submissions,
    lab: str = "",
    *,
    everybody: bool = False,
) -> list[Row]:
    """Return the rows of these learners, with every lab or one; see `counted`."""
    reckoning = Reckoning.of(submissions)
    book = counted(learners, submissions, lab, everybody=everybody)
    return [
        Row(
            person,
            dict(sorted(labs.items())),
            Total(None, ()) if lab else reckoning.total(person.id, labs),
        )
        for person in learners
        for labs in [book[person.login]]
    ]
