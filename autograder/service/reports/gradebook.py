"""What counts of every learner: the best submission of each lab, after what lateness cost."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import Field

from autograder.service.database.schema import GRADED, course_totals, people, standings, sums
from autograder.service.errors import Refused
from autograder.service.records.grades.course_rule import Total
from autograder.service.records.grades.decisions import Decision
from autograder.service.records.people import LEARNER, PERSON, Person, name_contains
from autograder.service.records.submissions.submissions import (
    EXCUSED,
    SET,
    Entry,
    Submissions,
    pages_of,
)
from autograder.service.reports.everybodys_totals import NOTHING, Reckoning, bring_few_up_to_date

# Rows of a page: what a screen or two hold, and a browser lays out at once.
PAGE_ROWS = 50
MOST_PAGES = 1_000_000

ORDERS = {
    "login": people.c.login_key,
    "name": sa.func.lower(people.c.name),
    "section": sa.func.lower(people.c.section),
}
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


def read_counted(
    learners: Collection[Person], submissions: Submissions, lab: str = ""
) -> Gradebook:
    """Return what counts for these learners, of every lab or of one, as staff decided it."""
    ids = [person.id for person in learners]
    entries = submissions.counting(ids, lab)
    book = gradebook((person.login for person in learners), entries)
    logins = {person.id: person.login for person in learners}
    for decision in submissions.decisions(ids, lab):
        if decision.person_id in logins:
            labs = book[logins[decision.person_id]]
            labs[decision.lab] = _apply_decision(
                decision, logins[decision.person_id], labs.get(decision.lab)
            )
    return book


def _apply_decision(decision: Decision, login: str, entry: Entry | None) -> Entry:
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
    """Some rows of `learners`, and how many pages there are.

    Their order is `stale` where it is by course totals that are still to be worked out anew.
    """

    rows: list[Row]
    count: int
    learners: int
    stale: bool = False


def page(submissions: Submissions, asked: Asked) -> Page:
    """Return the page that is asked for; the database sorts and cuts it.

    Totals are brought up to date first if few are stale.

    Raises:
        Refused: 422, nothing can be sorted so.
    """
    conditions = [people.c.role == LEARNER]
    conditions += [people.c.section == asked.section] if asked.section else []
    conditions += [name_contains(asked.search)] if asked.search else []
    query: sa.Select[Any] = sa.select(*PERSON).where(*conditions)
    database = submissions.database
    stale = asked.sort.removeprefix("-") == COURSE and not bring_few_up_to_date(submissions)
    start = (asked.page - 1) * PAGE_ROWS
    query = _sort(query, submissions, asked, stale=stale).offset(start).limit(PAGE_ROWS)
    learners = [Person(*row) for row in database.rows(query)]
    count = sa.select(sa.func.count()).select_from(people).where(*conditions)
    total = database.scalar(count) or 0
    shown = rows(learners, submissions, asked.lab)
    return Page(shown, pages_of(total, PAGE_ROWS), total, stale)


def _sort(
    query: sa.Select[Any], submissions: Submissions, asked: Asked, *, stale: bool
) -> sa.Select[Any]:
    order, turned = asked.sort.removeprefix("-"), asked.sort.startswith("-")
    lab = asked.lab if order == "total" else order
    if order in ORDERS:
        key: sa.ColumnElement[Any] = ORDERS[order]
    elif order == COURSE:
        query = query.join(course_totals, course_totals.c.person_id == people.c.id, isouter=stale)
        key = course_totals.c.share  # of an index, unless there are people without a total
        key = sa.func.coalesce(key, NOTHING) if stale else key
    elif order == "total" and not lab:
        query = query.join(sums, sums.c.person_id == people.c.id, isouter=True)
        key = sa.func.coalesce(sums.c.score, 0.0)
    elif order == "total" or order in submissions.labs():
        mine = (standings.c.person_id == people.c.id) & (standings.c.lab == lab)
        query = query.join(standings, mine, isouter=True)
        key = sa.func.coalesce(standings.c.score, 0.0 if order == "total" else -1.0)
    else:
        expected = f"one of {', '.join(ORDERS)}, total, {COURSE} or a lab that was handed in"
        raise Refused(422, f"gradebook: sort: got {asked.sort[:60]!r}, expected {expected}.")
    keys = (key, people.c.login)
    return query.order_by(*(key.desc() for key in keys) if turned else keys)


def rows(learners: Collection[Person], submissions: Submissions, lab: str = "") -> list[Row]:
    """Return the rows of these learners, with every lab or one; see `read_counted`."""
    reckoning = Reckoning.of(submissions)
    book = read_counted(learners, submissions, lab)
    return [
        Row(
            person,
            dict(sorted(labs.items())),
            Total(None, ()) if lab else reckoning.total(person.id, labs),
        )
        for person in learners
        for labs in [book[person.login]]
    ]
