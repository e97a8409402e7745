"""Who answers timed questions fastest: places in a lab, under pseudonyms.

A time is the ratio to the reference's that the judge measured, of a question that was right in
whole; nothing that a notebook says is in it. Names are drawn, one a learner and course, so that
nobody can work them out from a login.
"""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import sqlalchemy as sa

from autograder.records import Outcome, Report
from autograder.service.database.database import Database
from autograder.service.database.schema import facts, people, pseudonyms, submissions, timings
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


def of_lab(database: Database, lab: str) -> dict[str, list[Place]]:
    """Return the learners' places by question, by the best of what is published of each."""
    with database.read() as connection:
        rows = list(connection.execute(_BEST, {"lab": lab}))
    names = _pseudonyms(database, {row.id for row in rows})
    places = {}
    for question, own in groupby(rows, key=lambda row: row.question):
        best = [(float(f"{row.ratio:.{_DIGITS}g}"), names[row.id], row) for row in own]
        places[question] = list(_places(sorted(best, key=lambda entry: entry[:2])))
    return places


_BEST = (
    sa.select(
        people.c.id,
        people.c.login,
        people.c.name,
        timings.c.question,
        sa.func.min(timings.c.ratio).label("ratio"),
    )
    .join_from(submissions, timings, timings.c.grading_id == submissions.c.grading_id)
    .join(people, people.c.id == submissions.c.person_id)
    .where(submissions.c.lab == sa.bindparam("lab"), people.c.role == LEARNER)
    .group_by(people.c.id, people.c.login, people.c.name, timings.c.question)
    .order_by(timings.c.question)
)


def _places(best: list[tuple[float, str, Any]]) -> Iterator[Place]:
    """Yield the places of one question; those of a rank stand by pseudonym, which says nothing."""
    rank, before = 0, None
    for number, (ratio, pseudonym, row) in enumerate(best, 1):
        if ratio != before:
            rank, before = number, ratio
        yield Place(rank, pseudonym, ratio, row.id, row.login, row.name)


def _pseudonyms(database: Database, person_ids: Collection[int]) -> dict[int, str]:
    """Return the pseudonyms of some people; who has none is given one, for good."""
    with database.read() as connection:
        names = _by_person(connection)
    if names.keys() >= set(person_ids):
        return names
    one_row = sa.select(facts.c.value).where(facts.c.name == "schema")
    with database.write() as connection:
        connection.execute(one_row.with_for_update())  # of two servers one draws at a time
        names = _by_person(connection)
        missing = sorted(set(person_ids) - names.keys())
        drawn = dict(zip(missing, _drawn(set(names.values()), len(missing)), strict=True))
        rows = [{"person_id": number, "pseudonym": name} for number, name in drawn.items()]
        if rows:
            connection.execute(pseudonyms.insert(), rows)
    return names | drawn


def _by_person(connection: sa.Connection) -> dict[int, str]:
    chosen = sa.select(pseudonyms.c.person_id, pseudonyms.c.pseudonym)
    return {row[0]: row[1] for row in connection.execute(chosen)}


def _drawn(taken: set[str], count: int) -> list[str]:
    """Return names that nobody has; where there are too few, some with a number."""
    plain = [f"{colour} {animal}" for colour in _COLOURS.split() for animal in _ANIMALS.split()]
    rounds = 1 + (len(taken) + count - 1) // len(plain)
    every = plain + [f"{name} {number}" for number in range(2, rounds + 1) for name in plain]
    return random.SystemRandom().sample([name for name in every if name not in taken], count)
