"""Who answers timed questions fastest: places in a lab, under pseudonyms.

A time is the ratio to the reference's that the judge measured, of a question that was right in
whole; nothing that a notebook says is in it. The best of each learner are kept up (`keep`) by
whatever publishes a grading, so that a page reads its first hundred off an index. Names are drawn,
one a learner and course, so that nobody can work them out from a login.
"""

import math
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from autograder.records import Outcome, Report
from autograder.service.database.database import Database
from autograder.service.database.schema import (
    best_times,
    facts,
    people,
    pseudonyms,
    submissions,
    timings,
)
from autograder.service.records.people import LEARNER

_DIGITS = 3  # of a ratio that are shown, and by which two are compared: the rest is noise

_COLOURS = """
    amber azure beige black blue bronze brown copper coral cream crimson cyan ebony emerald
    fawn gold green grey hazel indigo ivory jade lemon lilac lime magenta maroon mint navy
    ochre olive orange peach pearl pink plum purple red rose ruby russet sand scarlet silver
    tan teal topaz violet white yellow
"""
_ANIMALS = """
    badger bat bear beaver bison camel cat condor crane deer dolphin dove duck eagle falcon
    ferret finch fox frog gecko goose hare heron horse ibex jay koala lemur lion llama lynx
    marmot mole moose newt otter owl panda parrot pony puffin rabbit raven robin salmon seal
    shark sparrow squirrel stork swan tapir tiger toad toucan trout turtle walrus whale wolf
    wren yak zebra
"""


@dataclass(frozen=True)
class Place:
    """A learner's best at one question; equal ratios share a rank, and the next is left out."""

    rank: int
    pseudonym: str
    ratio: float
    person_id: int
    login: str
    name: str


def note(connection: sa.Connection, grading_id: int, report: Report) -> None:
    """Write down the times of a grading: of questions that are right in whole, their slowest."""
    rows = []
    for question in dict.fromkeys(r.question for r in report.results):
        own = [r for r in report.results if r.question == question]
        times = [r.ratio for r in own if r.ratio is not None]
        if times and all(r.outcome is Outcome.CORRECT and not r.broken for r in own):
            rows.append({"grading_id": grading_id, "question": question, "ratio": max(times)})
    if rows:
        connection.execute(timings.insert(), rows)


def keep(connection: sa.Connection, lab: str, person_ids: Collection[int]) -> None:
    """Write down the best times of some people in a lab, by what is published now of learners."""
    theirs = best_times.c.person_id.in_(person_ids)
    connection.execute(best_times.delete().where(best_times.c.lab == lab, theirs))
    mine = (submissions.c.lab == lab) & submissions.c.person_id.in_(person_ids)
    best = dict[tuple[int, str], float]()
    for *key, ratio in connection.execute(_TIMES.where(mine)):
        best[*key] = min(float(f"{ratio:.{_DIGITS}g}"), best.get((*key,), math.inf))
    rows = [
        {"lab": lab, "person_id": person, "question": question, "ratio": ratio}
        for (person, question), ratio in best.items()
    ]
    if rows:
        connection.execute(best_times.insert(), rows)


_TIMES = (
    sa.select(submissions.c.person_id, timings.c.question, timings.c.ratio)
    .join_from(submissions, timings, timings.c.grading_id == submissions.c.grading_id)
    .join(people, people.c.id == submissions.c.person_id)
    .where(people.c.role == LEARNER)
)


@dataclass(frozen=True)
class Board:
    """The first places at a question, one's own further down behind them, of `count` in all."""

    places: list[Place]
    count: int


def of_lab(database: Database, lab: str, *, most: int = 100, own: int = 0) -> dict[str, Board]:
    """Return the boards of a lab by question, as far as the first `most`, and that of `own`."""
    here = best_times.c.lab == lab
    sizes = sa.select(best_times.c.question, sa.func.count()).where(here)
    order = (best_times.c.ratio, best_times.c.person_id)
    boards = {}
    for question, count in database.rows(sizes.group_by(best_times.c.question)):
        this_question = here & (best_times.c.question == question)
        rows = database.rows(_ROWS.where(this_question).order_by(*order).limit(most))
        if own and all(row.id != own for row in rows):
            rows += database.rows(_ROWS.where(this_question, best_times.c.person_id == own))
        names = _pseudonyms(database, {row.id for row in rows})
        rows.sort(key=lambda row: (row.ratio, names[row.id]))
        boards[question] = Board(list(_places(database, this_question, rows, names)), count)
    return dict(sorted(boards.items()))


_ROWS = sa.select(people.c.id, people.c.login, people.c.name, best_times.c.ratio).join_from(
    best_times, people
)


def _places(
    database: Database, asked: sa.ColumnElement[bool], rows: list[Any], names: Mapping[int, str]
) -> Iterator[Place]:
    """Yield the places of one question; those of a rank stand by pseudonym, which says nothing."""
    rank, before = 0, None
    for number, row in enumerate(rows, 1):
        if row.ratio != before:
            rank, before = number, row.ratio
            if number == len(rows):  # who may stand far below the others
                faster = sa.select(sa.func.count()).where(asked, best_times.c.ratio < row.ratio)
                rank = 1 + (database.scalar(faster) or 0)
        yield Place(rank, names[row.id], row.ratio, row.id, row.login, row.name)


def _pseudonyms(database: Database, person_ids: Collection[int]) -> dict[int, str]:
    """Return the pseudonyms of some people; who has none is given one, for good."""
    chosen = sa.select(pseudonyms.c.person_id, pseudonyms.c.pseudonym)
    theirs = chosen.where(pseudonyms.c.person_id.in_(person_ids))
    names = {row[0]: row[1] for row in database.rows(theirs)}
    if names.keys() >= set(person_ids):
        return names
    one_row = sa.select(facts.c.value).where(facts.c.name == "schema")
    with database.write() as connection:
        connection.execute(one_row.with_for_update())  # of two servers one draws at a time
        every = {row[0]: row[1] for row in connection.execute(chosen)}
        missing = sorted(set(person_ids) - every.keys())
        drawn = dict(zip(missing, _draw_names(set(every.values()), len(missing)), strict=True))
        rows = [{"person_id": number, "pseudonym": name} for number, name in drawn.items()]
        if rows:
            connection.execute(pseudonyms.insert(), rows)
    return every | drawn


def _draw_names(taken: set[str], count: int) -> list[str]:
    """Return names that nobody has; where there are too few, some with a number."""
    plain = [f"{colour} {animal}" for colour in _COLOURS.split() for animal in _ANIMALS.split()]
    rounds = 1 + (len(taken) + count - 1) // len(plain)
    every = plain + [f"{name} {number}" for number in range(2, rounds + 1) for name in plain]
    return random.SystemRandom().sample([name for name in every if name not in taken], count)
