"""How a lab went: scores, tries until a question passed, times between, what was said most.

Everything is read from what `standings` keeps counted; nothing grows with the learners.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import sqlalchemy as sa

from autograder.service.database.database import Database
from autograder.service.database.schema import counts
from autograder.service.records.standings.standings import (
    BINS,
    MESSAGE,
    PASSED,
    PLACE,
    SCORE,
    TRIED,
)
from autograder.service.records.standings.tries import EVER, GAP, GAP_WORDS, GREEN, MOST_TRIES
from autograder.service.reports.exports import csv_lines

_MESSAGES = 3
_SHOWN_TRIES = 3  # each on its own in a picture


@dataclass(frozen=True)
class Numbers:
    """One question, by learners: `tried` and `passed` in what counts, `ever` tried at all.

    `green` says how many first passed every check at the first try, the second, ...; its last
    number is that try or a later one. `messages` are those of what counts, most often met first.
    """

    name: str
    passed: int
    tried: int
    ever: int
    green: list[int]
    messages: list[tuple[str, int]]

    @property
    def parts(self) -> list[int]:
        """Those of the first tries, of any later one, and who has not passed yet."""
        late = sum(self.green[_SHOWN_TRIES:])
        return [*self.green[:_SHOWN_TRIES], late, self.ever - sum(self.green)]

    def verdict(self, learners: int) -> str:
        """Return what to look at: everybody passes, or nobody; of few learners nothing."""
        if learners < 2:
            return ""
        return "everybody" if self.passed == learners else "nobody" if not self.passed else ""


PARTS = ("first try", "second", "third", "later", "not yet")


@dataclass(frozen=True)
class Overview:
    """One lab: how many scores lie in each tenth of the points, times between two submissions."""

    learners: int
    bins: list[tuple[str, int]]
    gaps: list[tuple[str, int]]
    questions: list[Numbers]

    def to_dict(self) -> dict[str, Any]:
        """Return the whole as plain data, each question with its verdict."""
        questions = [{**asdict(q), "verdict": q.verdict(self.learners)} for q in self.questions]
        return {**asdict(self), "questions": questions}


def overview(database: Database, lab: str) -> Overview:
    """Return how a lab went for all who have a grade."""
    columns = (counts.c.kind, counts.c.question, counts.c.words, counts.c.number)
    kinds = (SCORE, PLACE, TRIED, PASSED, EVER, GREEN, GAP)
    query = sa.select(*columns).where(counts.c.kind.in_(kinds), counts.c.lab == lab)
    messages = sa.select(counts.c.words, counts.c.number).limit(_MESSAGES)  # most often first
    messages = messages.where(counts.c.kind == MESSAGE, counts.c.lab == lab)
    messages = messages.order_by(counts.c.number.desc(), counts.c.words.desc())
    with database.read() as connection:
        rows = connection.execute(query).all()
        number = {(row.kind, row.question, row.words): row.number for row in rows}
        places = sorted((row.words, row.question) for row in rows if row.kind == PLACE)
        questions = [
            Numbers(
                name,
                number.get((PASSED, name, ""), 0),
                number.get((TRIED, name, ""), 0),
                number.get((EVER, name, ""), 0),
                [number.get((GREEN, name, f"{n:02}"), 0) for n in range(1, MOST_TRIES + 1)],
                [
                    (row.words, row.number)
                    for row in connection.execute(messages.where(counts.c.question == name))
                ],
            )
            for name in dict.fromkeys(name for _, name in places)
        ]
    width = 100 // BINS
    scores = [number.get((SCORE, "", str(n)), 0) for n in range(BINS)]
    bins = [(f"{width * n} to {width * n + width} %", count) for n, count in enumerate(scores)]
    gaps = [(words, number.get((GAP, "", str(n)), 0)) for n, words in enumerate(GAP_WORDS)]
    return Overview(sum(scores), bins, gaps, questions)


def lines(lab: Overview) -> Iterator[str]:
    """Yield the questions as CSV, a line each."""
    tries = [f"green_{n}" for n in range(1, MOST_TRIES)] + [f"green_{MOST_TRIES}_or_later"]
    messages_head = [f"{what}_{n}" for n in range(1, _MESSAGES + 1) for what in ("message", "met")]
    head = ["question", "learners", "passed", "tried", "ever_tried", *tries, "not_yet", "verdict"]
    rows: list[list[object]] = [[*head, *messages_head]]
    for q in lab.questions:
        messages = [cell for message in q.messages for cell in message]
        numbers: list[object] = [q.name, lab.learners, q.passed, q.tried, q.ever, *q.green]
        rows.append([*numbers, q.parts[-1], q.verdict(lab.learners), *messages])
    return csv_lines(rows)
