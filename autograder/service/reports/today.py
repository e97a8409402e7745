"""A day's start for staff: what came in, what waits for whom, and what is due this week."""

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa

from autograder.records import Outcome
from autograder.service.database.schema import counts, submissions
from autograder.service.records.marking.regrade_requests import LabCount
from autograder.service.records.roster.teams import NO_COPY
from autograder.service.records.rules import DATES
from autograder.service.records.standings.standings import TO_MARK
from autograder.service.records.store import Store
from autograder.service.times import moment

_DAY_S = 86_400.0
_WEEK_S = 7 * _DAY_S
_READ = 200  # reports, of a home page that has to be there at once
_MOST = 1_000_000  # submissions of a day
_LEAST = 5  # learners, before a share says anything


@dataclass(frozen=True)
class Lab:
    """Of a lab: what came in today, by how many learners, and whose answers wait for a person."""

    name: str
    came_in: int
    learners: int
    to_mark: int


@dataclass(frozen=True)
class Deadline:
    """A date of a lab that comes within a week; `what` is the rule's name."""

    lab: str
    what: str
    at: str


@dataclass(frozen=True)
class Stumble:
    """A check that at least half of those who tried it today failed."""

    lab: str
    question: str
    check: str
    failed: int
    tried: int


@dataclass(frozen=True)
class Today:
    """What staff look at first; the day began at midnight, UTC."""

    labs: list[Lab]
    deadlines: list[Deadline]
    stumbles: list[Stumble]
    requests: list[LabCount]


def today(store: Store) -> Today:
    """Return how the course stands now."""
    now = store.clock()
    began = now - now % _DAY_S
    return Today(
        _labs(store, began),
        _deadlines(store, now),
        _stumbles(store, began),
        [count for count in store.requests.counts() if count.waiting],
    )


def _labs(store: Store, began: float) -> list[Lab]:
    """Count what came in by the index of times; whose answers wait is counted already."""
    columns = (submissions.c.lab, submissions.c.person_id)
    # With its limit it is read before it is grouped, by the index of times, not by that of labs.
    today = (submissions.c.submitted_at >= began) & NO_COPY  # a team's once
    fresh = sa.select(*columns).where(today).limit(_MOST).subquery()
    learners = sa.func.count(fresh.c.person_id.distinct())
    came = sa.select(fresh.c.lab, sa.func.count(), learners).group_by(fresh.c.lab)
    wait = sa.select(counts.c.lab, counts.c.number).where(counts.c.kind == TO_MARK)
    came_in = {row[0]: (row[1], row[2]) for row in store.database.rows(came)}
    to_mark = {row[0]: row[1] for row in store.database.rows(wait)}
    names = sorted({*came_in, *to_mark})
    return [Lab(name, *came_in.get(name, (0, 0)), to_mark.get(name, 0)) for name in names]


def _deadlines(store: Store, now: float) -> list[Deadline]:
    dates = [
        Deadline(lab, what, at)
        for lab, rules in store.dates.calendar().rules.items()
        for what in DATES
        if (at := getattr(rules, what)) is not None and now <= moment(at) < now + _WEEK_S
    ]
    return sorted(dates, key=lambda date: moment(date.at))


def _stumbles(store: Store, began: float) -> list[Stumble]:
    """Return what today's last submissions, one of each learner and lab, failed most often."""
    query = sa.select(submissions.c.id, submissions.c.lab, submissions.c.person_id)
    fresh = (submissions.c.submitted_at >= began) & submissions.c.grading_id.is_not(None)
    query = query.where(fresh).order_by(submissions.c.submitted_at.desc()).limit(_READ)
    last: dict[tuple[str, int], int] = {}
    for number, lab, person in store.database.rows(query):
        last.setdefault((lab, person), number)
    tried, failed = Counter[tuple[str, str, str]](), Counter[tuple[str, str, str]]()
    for lab in sorted({lab for lab, _ in last}):
        numbers = [number for (name, _), number in last.items() if name == lab]
        for results in store.submissions.results(numbers):
            tried.update(_checks(lab, results, Outcome.CORRECT, Outcome.INCORRECT))
            failed.update(_checks(lab, results, Outcome.INCORRECT))
    many = [key for key, count in failed.most_common() if 2 * count >= tried[key] >= _LEAST]
    return [Stumble(*key, failed[key], tried[key]) for key in many]


def _checks(
    lab: str, results: list[dict[str, Any]], *outcomes: Outcome
) -> set[tuple[str, str, str]]:
    return {
        (lab, result["question"], result["title"] or result["name"])
        for result in results
        if result["outcome"] in outcomes
    }


def day(store: Store) -> str:
    """Return today's date, UTC."""
    return f"{datetime.fromtimestamp(store.clock(), UTC):%A %d %B %Y}"
