"""The gradebook in the order of the course total, by the database and learner by learner."""

import random
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

import pytest

from autograder.records import CheckResult, Outcome, Report
from autograder.service.records import course_rule
from autograder.service.records.dates import Rules
from autograder.service.records.decisions import decide
from autograder.service.records.people import Person
from autograder.service.records.store import Store
from autograder.service.reports import gradebook
from autograder.service.reports.gradebook import Asked

LABS = ("01_first", "02_second", "03_third", "04_fourth")
START, DAY = 1.9e9, 86_400.0


class Course:
    """A course of which chance decides everything that a total takes."""

    def __init__(self, url: Any, seed: int) -> None:
        self.rng, self.now = random.Random(seed), START
        self.store = Store(url, clock=lambda: self.now)
        self.staff = self.store.roster.add("instructor", "instructor")
        add = self.store.roster.add
        self.learners = [add(f"learner{n:02}", "learner") for n in range(14)]

    def live(self) -> None:
        """Let a term go by."""
        fulls = {lab: self.rng.choice([(4.0,), (3.0,), (3.0, 7.0)]) for lab in LABS}
        for lab in LABS[:3]:
            due = self.rng.randint(2, 6)
            closes = self.date(due + self.rng.randint(0, 8)) if self.rng.random() < 0.8 else None
            rules = Rules(opens=self.date(0), due=self.date(due), late_until=closes)
            rules = Rules.read({**rules.to_dict(), "penalty_per_day": self.rng.choice([0.0, 0.1])})
            self.store.dates.set_rules(lab, rules, self.staff)
            for person in self.some(3):
                self.store.dates.extend(lab, person, self.date(due + 5), self.staff)
        for person in self.some(3):
            self.store.dates.stretch(person, self.rng.choice([1.5, 3.0]), self.staff)
        for day in range(6):
            self.now = START + day * DAY + 3600.0
            for person in self.learners[:-1]:
                for lab in LABS:
                    if self.rng.random() < 0.2:
                        self.hand_in(person, lab, self.rng.choice(fulls[lab]))
        for lab in LABS:
            for person in self.some(7):
                decision = self.rng.choice([{"excused": True}, {"points": 2, "max_score": 5}])
                decide(self.store.database, self.now, lab, person, decision, self.staff)
        self.now = START + self.rng.choice([7, 9, 20]) * DAY

    def some(self, most: int) -> list[Person]:
        return self.rng.sample(self.learners, self.rng.randint(0, most))

    def hand_in(self, person: Person, lab: str, full: float) -> None:
        """Hand in, if the lab takes it; now and then nobody grades it."""
        dates = self.store.dates.calendar().of(lab, person.id)
        if dates.refusal(self.now, 0):
            return
        self.store.submissions.add(person, lab, str(self.rng.random()).encode())
        claim = self.store.claims.claim("test", 1e9)
        assert claim
        if self.rng.random() < 0.9:
            points = self.rng.choice([0.0, 1.0, 2.0, 3.0])
            right = Outcome.CORRECT if points else Outcome.INCORRECT
            check = CheckResult("c", "q", right, points, full)
            report = Report(lab, (check,)).with_totals()
            self.store.claims.finish(claim.id, "test", report)

    def date(self, days: int) -> str:
        return datetime.fromtimestamp(START + days * DAY, UTC).isoformat()

    def rules(self) -> Iterator[dict[str, Any]]:
        for drop in (0, 1, 9):
            yield {"drop_lowest": drop, "weights": {}}
            weights = {lab: self.rng.choice([0.0, 1.0, 0.1, 7.5]) for lab in LABS[:2]}
            yield {"drop_lowest": drop, "weights": weights}
        yield {"drop_lowest": 1, "weights": {**dict.fromkeys(LABS, 0.0), LABS[2]: 1.0}}


def one_by_one(store: Store, *, turned: bool) -> list[str]:
    """Return the logins by each learner's total as their own row says it."""

    def key(row: gradebook.Row) -> tuple[float, str]:
        share = row.course.share
        return -1.0 if share is None else round(share, 9), row.person.login

    rows = gradebook.rows(store.roster.learners(), store.submissions)
    return [row.person.login for row in sorted(rows, key=key, reverse=turned)]


@pytest.mark.parametrize("seed", range(3))
def test_the_database_sorts_by_the_course_total_as_the_rows_say(
    database_url: Any, seed: int
) -> None:
    course = Course(database_url, seed)
    with closing(course.store) as store:
        course.live()
        rules = list(course.rules())
        orders = []
        for rule in rules:
            course_rule.put(store.database, course.now, rule, LABS, course.staff)
            for sort in ("course", "-course"):
                page = gradebook.page(store.submissions, Asked(sort=sort))
                found = [row.person.login for row in page.rows]
                assert found == one_by_one(store, turned=sort == "-course"), (rule, sort)
            orders.append(found)
        assert len({*map(tuple, orders)}) > 2  # rules do matter


def test_a_course_in_which_nothing_counts_is_sorted_by_login(database_url: Any) -> None:
    course = Course(database_url, 0)
    with closing(course.store) as store:
        found = gradebook.page(store.submissions, Asked(sort="course")).rows
        assert [row.person.login for row in found] == [p.login for p in course.learners]
        assert gradebook.page(store.submissions, Asked(sort="course", page=2)).rows == []
