"""What counts of every learner: the best submission of each lab, after what lateness cost.

And how a lab went by it: the spread of scores, how many passed each question, what was said most.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import sqlalchemy as sa
from pydantic import Field

from autograder.service.database.database import Database
from autograder.service.database.schema import counts, people, standings, sums
from autograder.service.errors import Refused
from autograder.service.records.marking import most
from autograder.service.records.people import LEARNER, PERSON, Person, named
from autograder.service.records.standings import BINS, MESSAGE, PASSED, PLACE, SCORE, TRIED
from autograder.service.records.submissions import Entry, Submissions, pages_of

# Rows of a page: what a screen or two hold, and a browser lays out at once.
PAGE_ROWS = 50
MOST_PAGES = 1_000_000

_MESSAGES = 3

ORDERS = {
    "login": people.c.login_key,
    "name": sa.func.lower(people.c.name),
    "section": sa.func.lower(people.c.section),
}

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


def _rank(entry: Entry) -> tuple[bool, float, int]:
    return entry.score is not None, entry.score or 0.0, entry.id


@dataclass(frozen=True)
class Asked:
    """What is to be seen of the gradebook; empty texts ask for everything.

    `sort` is one of ORDERS, "total" or a lab; a leading "-" turns it round.
    """

    lab: str = ""
    section: str = ""
    search: str = ""
    sort: str = "login"
    page: Annotated[int, Field(ge=1, le=MOST_PAGES)] = 1


@dataclass(frozen=True)
class Row:
    """A learner, and the entry that counts of each lab."""

    person: Person
    labs: dict[str, Entry]

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


def page(submissions: Submissions, asked: Asked) -> Page:
    """Return the page that is asked for; the database sorts and cuts it.

    Raises:
        Refused: 422, nothing can be sorted so.
    """
    conditions = [people.c.role == LEARNER]
    conditions += [people.c.section == asked.section] if asked.section else []
    conditions += [named(asked.search)] if asked.search else []
    query = _sorted(sa.select(*PERSON).where(*conditions), submissions, asked).limit(PAGE_ROWS)
    count = sa.select(sa.func.count()).select_from(people).where(*conditions)
    database = submissions.database
    learners = [Person(*row) for row in database.rows(query.offset((asked.page - 1) * PAGE_ROWS))]
    total = database.scalar(count) or 0
    return Page(rows_of(learners, submissions, asked.lab), pages_of(total, PAGE_ROWS), total)


def _sorted(query: sa.Select[Any], submissions: Submissions, asked: Asked) -> sa.Select[Any]:
    order, turned = asked.sort.removeprefix("-"), asked.sort.startswith("-")
    lab = asked.lab if order == "total" else order
    if order in ORDERS:
        key: sa.ColumnElement[Any] = ORDERS[order]
    elif order == "total" and not lab:
        query = query.join(sums, sums.c.person_id == people.c.id, isouter=True)
        key = sa.func.coalesce(sums.c.score, 0.0)
    elif order == "total" or order in submissions.labs():
        mine = (standings.c.person_id == people.c.id) & (standings.c.lab == lab)
        query = query.join(standings, mine, isouter=True)
        key = sa.func.coalesce(standings.c.score, 0.0 if order == "total" else -1.0)
    else:
        expected = f"one of {', '.join(ORDERS)}, total or a lab that was handed in"
        raise Refused(422, f"gradebook: sort: got {asked.sort[:60]!r}, expected {expected}.")
    keys = (key, people.c.login)
    return query.order_by(*(key.desc() for key in keys) if turned else keys)


def rows_of(learners: Sequence[Person], submissions: Submissions, lab: str = "") -> list[Row]:
    """Return the rows of these learners, of every lab or of one."""
    entries = submissions.counting([person.id for person in learners], lab)
    book = gradebook((person.login for person in learners), entries)
    return [Row(person, dict(sorted(book[person.login].items()))) for person in learners]


@dataclass(frozen=True)
class Numbers:
    """One question: learners who passed it whole, who tried it, and the messages of the others."""

    name: str
    passed: int
    tried: int
    messages: list[tuple[str, int]]


@dataclass(frozen=True)
class Overview:
    """One lab, by what counts of each learner: how many scores lie in each tenth of the points."""

    learners: int
    bins: list[tuple[str, int]]
    questions: list[Numbers]


def overview(database: Database, lab: str) -> Overview:
    """Return how a lab went for all who have a grade, as their standings were counted."""
    columns = (counts.c.kind, counts.c.question, counts.c.words, counts.c.number)
    kinds = (SCORE, PLACE, TRIED, PASSED)
    query = sa.select(*columns).where(counts.c.kind.in_(kinds), counts.c.lab == lab)
    with database.read() as connection:
        rows = connection.execute(query).all()
        numbers = {(row.kind, row.question): row.number for row in rows}
        scores = {row.words: row.number for row in rows if row.kind == SCORE}
        places = sorted((row.words, row.question) for row in rows if row.kind == PLACE)
        questions = [
            Numbers(
                name,
                numbers.get((PASSED, name), 0),
                numbers.get((TRIED, name), 0),
                [
                    (row.words, row.number)
                    for row in connection.execute(most(MESSAGE, lab, name, _MESSAGES))
                ],
            )
            for name in dict.fromkeys(name for _, name in places)
        ]
    width = 100 // BINS
    bins = [(f"{width * n} to {width * n + width} %", scores.get(str(n), 0)) for n in range(BINS)]
    return Overview(sum(scores.values()), bins, questions)
