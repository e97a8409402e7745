"""What counts of every learner: the best submission of each lab, after what lateness cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from autograder.service.errors import Refused
from autograder.service.roster import Person, Roster
from autograder.service.submissions import Entry, Ledger, pages_of

# Rows of a page: what a screen or two hold, and a browser lays out at once.
PAGE_ROWS = 50

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
    page: int = 1


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
        shown = _cut(learners, asked.page)
        rows = _rows(shown, ledger, asked.lab)
    elif order == "total" or order in ledger.labs():
        rows = _rows(learners, ledger, asked.lab if order == "total" else asked.lab or order)
        rows.sort(key=lambda row: (_key(row, order), row.person.login), reverse=turned)
        rows = _cut(rows, asked.page)
        if not asked.lab and order != "total":  # the other labs of these few
            rows = _rows([row.person for row in rows], ledger, "")
    else:
        expected = f"one of {', '.join(ORDERS)}, total or a lab that was handed in"
        raise Refused(422, f"gradebook: sort: got {asked.sort[:60]!r}, expected {expected}.")
    return Page(rows, pages_of(len(learners), PAGE_ROWS), len(learners))


def _key(row: Row, order: str) -> float:
    if order == "total":
        return row.total
    entry = row.labs.get(order)
    return -1.0 if entry is None or entry.score is None else entry.score


def _rows(learners: list[Person], ledger: Ledger, lab: str) -> list[Row]:
    entries = ledger.of_people([person.id for person in learners], lab=lab)
    book = gradebook((person.login for person in learners), entries)
    return [Row(person, dict(sorted(book[person.login].items()))) for person in learners]


T = TypeVar("T")


def _cut(things: list[T], number: int) -> list[T]:
    return things[(number - 1) * PAGE_ROWS : number * PAGE_ROWS]
