"""What counts of every learner: the best submission of each lab, after what lateness cost.

And how a lab went by it: the spread of scores, how many passed each question, what was said most.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from autograder.records import Outcome
from autograder.service.errors import Refused
from autograder.service.records.people import Person, Roster
from autograder.service.records.submissions import Entry, Submissions, pages_of

# Rows of a page: what a screen or two hold, and a browser lays out at once.
PAGE_ROWS = 50
MOST_PAGES = 1_000_000

_BINS = 10
_MESSAGES = 3
_MESSAGE_CHARS = 200

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
    elif order == "total" or order in submissions.labs():
        best = submissions.best_scores(asked.lab if order == "total" else order)
        learners.sort(key=lambda p: (_key(best.get(p.id, {}), order), p.login), reverse=turned)
    else:
        expected = f"one of {', '.join(ORDERS)}, total or a lab that was handed in"
        raise Refused(422, f"gradebook: sort: got {asked.sort[:60]!r}, expected {expected}.")
    end = asked.page * PAGE_ROWS
    rows = _rows(learners[end - PAGE_ROWS : end], submissions, asked.lab)
    return Page(rows, pages_of(len(learners), PAGE_ROWS), len(learners))


def _key(scores: Mapping[str, float], order: str) -> float:
    return math.fsum(scores.values()) if order == "total" else scores.get(order, -1.0)


def _rows(learners: list[Person], submissions: Submissions, lab: str) -> list[Row]:
    entries = submissions.of_people([person.id for person in learners], lab=lab)
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
    """One lab, by what counts of each learner; a score is a share of the points."""

    scores: list[float]
    questions: list[Numbers]

    @property
    def bins(self) -> list[tuple[str, int]]:
        """How many scores lie in each tenth."""
        counts = Counter(min(_BINS - 1, int(score * _BINS)) for score in self.scores)
        return [(f"{10 * n} to {10 * n + 10} %", counts[n]) for n in range(_BINS)]


def overview(roster: Roster, submissions: Submissions, lab: str) -> Overview:
    """Return how a lab went for all who have a grade."""
    learners = [person.login for person in roster.learners()]
    book = gradebook(learners, submissions.of_lab(lab))
    passed, tried = Counter[str](), Counter[str]()
    messages: dict[str, Counter[str]] = {}
    entries = [labs[lab] for labs in book.values() if lab in labs]
    graded = {e.id: e.score / (e.max_score or 1.0) for e in entries if e.score is not None}
    for results in submissions.results(graded):
        begun, failed, wrong = set[str](), set[str](), set[tuple[str, str]]()
        for result in results:  # plain data: six hundred reports are 15,000 of these
            question, outcome = result["question"], result["outcome"]
            messages.setdefault(question, Counter())
            if outcome != Outcome.NOT_ATTEMPTED:
                begun.add(question)
            if outcome != Outcome.CORRECT:
                failed.add(question)
            if outcome == Outcome.INCORRECT:
                wrong.add((question, result["output"][:_MESSAGE_CHARS]))
        tried.update(begun)
        passed.update(begun - failed)
        for question, text in wrong:
            messages[question][text] += 1
    return Overview(
        list(graded.values()),
        [
            Numbers(name, passed[name], tried[name], texts.most_common(_MESSAGES))
            for name, texts in messages.items()
        ],
    )
