"""What counts of every learner: the best submission of each lab, after what lateness cost."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, TypeVar

from pydantic import Field

from autograder.service.errors import Refused
from autograder.service.roster import Person, Roster
from autograder.service.submissions import Entry, Ledger, pages_of

# Rows of a page: what a screen or two hold, and a browser lays out at once.
PAGE_ROWS = 50
MOST_PAGES = 1_000_000

ORDERS = ("login", "name", "section")

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


def page(roster: Roster, ledger: Ledger, asked: Asked) -> Page:
    """Return the page that is asked for.

    Raises:
        Refused: 422, nothing can be sorted so.
    """
    order = asked.sort.removeprefix("-")
    turned = asked.sort.startswith("-")
    learners = roster.learners(asked.section, asked.search)
    if order in ORDERS:
        learners.sort(key=lambda p: (str(getattr(p, order)).casefold(), p.login), reverse=turned)
    elif order == "total" or order in ledger.labs():
        best = ledger.best_scores(asked.lab if order == "total" else order)
        learners.sort(key=lambda p: (_key(best.get(p.id, {}), order), p.login), reverse=turned)
    else:
        expected = f"one of {', '.join(ORDERS)}, total or a lab that was handed in"
        raise Refused(422, f"gradebook: sort: got {asked.sort[:60]!r}, expected {expected}.")
    rows = _rows(_cut(learners, asked.page), ledger, asked.lab)
    return Page(rows, pages_of(len(learners), PAGE_ROWS), len(learners))


def _key(scores: Mapping[str, float], order: str) -> float:
    return math.fsum(scores.values()) if order == "total" else scores.get(order, -1.0)


def _rows(learners: list[Person], ledger: Ledger, lab: str) -> list[Row]:
    entries = ledger.of_people([person.id for person in learners], lab=lab)
    book = gradebook((person.login for person in learners), entries)
    return [Row(person, dict(sorted(book[person.login].items()))) for person in learners]


T = TypeVar("T")


def _cut(things: list[T], number: int) -> list[T]:
    return things[(number - 1) * PAGE_ROWS : number * PAGE_ROWS]
