"""What is counted as gradings come in is what counting anew finds, whatever happened meanwhile."""

import os
import random
import threading
from datetime import UTC, datetime
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.database.schema import best_times, counts, pile, standings, sums
from autograder.service.records.grades.decisions import decide
from autograder.service.records.marking import marking
from autograder.service.records.people import LEARNER, Edit
from autograder.service.records.roster import teams
from autograder.service.records.roster.roster import take
from autograder.service.records.rules import Rules
from autograder.service.records.standings.standings import MARKED, WRITTEN
from autograder.service.records.store import Store
from tests.autograder.service.recount import recount

LABS, QUESTIONS = ("01_one", "02_two"), ("scale", "sum", "why")


def drawn(rng: random.Random) -> Report:
    """Return a report with anything in it that a notebook can bring about."""
    outcomes = tuple(Outcome)
    results = tuple(
        CheckResult(f"c{n}", question, rng.choice(outcomes), n % 2, 2, rng.choice(WORDS))
        for n, question in enumerate(rng.choices(QUESTIONS, k=6))
    )
    manual = tuple(
        ManualAnswer(question, 2.0, (), rng.choice(("", "Because.", "So.")))
        for question in rng.sample(QUESTIONS, 2)
    )
    return Report("lab", results, manual=manual, score=0.0, max_score=0.0).with_totals()


WORDS = ("", "No.", "a\0b", "\ud800 alone", "größer" * 100, "𝄞" * 300)


def held(store: Store) -> list[Any]:
    """Return what the tables say, whatever the order of their rows."""
    with store.database.read() as connection:
        return [
            sorted(map(tuple, connection.execute(sa.select(table))), key=repr)
            for table in (standings, counts, pile, best_times, sums)
        ]


def assert_as_counted_anew(store: Store) -> None:
    kept = held(store)
    with store.database.write() as connection:
        recount(connection)
    anew = held(store)
    empty = {row for row in kept[0] if row[2] == "[]"}  # nothing of theirs is graded any more
    assert [row for row in kept[0] if row not in empty] == [r for r in anew[0] if r[2] != "[]"]
    assert kept[1:4] == anew[1:4]
    assert [row for row in kept[4] if row[1]] == [row for row in anew[4] if row[1]]


class Days:
    """A course in which things happen, drawn with a seed, one an hour."""

    def __init__(self, url: Any, seed: int) -> None:
        self.rng, self.now = random.Random(seed), 1e9
        self.store = Store(url, clock=lambda: self.now)
        self.by = self.store.roster.add("staff", "instructor")
        self.other = self.store.roster.add("other", "assistant")
        self.learners = [self.store.roster.add(f"learner{n}", LEARNER) for n in range(4)]

    @property
    def edit(self) -> Edit:
        return Edit(self.store.database, lambda: self.now, self.by)

    def happens(self) -> None:
        self.now += 3600
        grading = [self.hand_in, self.grade, self.grade, self.grade, self.mark]
        staff = [
            self.again,
            self.batch,
            self.date,
            self.extend,
            self.role,
            self.section,
            self.group,
            self.decide,
            self.team,
            self.team,
        ]
        self.rng.choice([*grading, *staff])()

    def hand_in(self) -> None:
        person, lab = self.rng.choice([*self.learners, self.by]), self.rng.choice(LABS)
        self.store.submissions.add(person, lab, str(self.now).encode())

    def grade(self) -> None:
        self.hand_in()
        while (claim := self.store.claims.claim("a", 1e9)) is not None:
            if self.rng.random() < 0.2:
                self.store.claims.park(claim.id, "a", "no")
            else:
                self.store.claims.finish(claim.id, "a", drawn(self.rng))

    def numbers(self) -> list[int]:
        return [e.id for e in self.store.submissions.all() if e.score is not None]

    def mark(self) -> None:
        for number in self.rng.sample(numbers := self.numbers(), min(2, len(numbers))):
            report = self.store.submissions.report(number)
            assert report
            question = self.rng.choice(report.manual).question
            points = self.rng.choice((None, 0, 1.5))
            body = {"points": points, "comment": self.rng.choice(("", "Good.", "x" * 300))}
            self.store.submissions.mark(number, {question: body}, self.by)

    def group(self) -> None:
        """Mark all that is alike of a question, by one of two people."""
        walk = marking.Walk(self.rng.choice(LABS), self.rng.choice(QUESTIONS))
        for group in marking.groups(self.store.submissions, walk.lab, walk.question):
            of = (self.store.submissions, walk.lab, walk.question, group.alike)
            numbers = [n for variant in marking.variants(*of) for n in variant.submissions]
            body, by = {"points": 1}, self.rng.choice((self.by, self.other))
            done = marking.mark_group(self.store.submissions, walk, group.alike, numbers, body, by)
            assert done == numbers and len(numbers) == group.number

    def section(self) -> None:
        lines = (f"{p.login},{self.rng.choice('AB')}" for p in self.rng.sample(self.learners, 2))
        data = "\n".join(("login,section", *lines)).encode()
        take(self.edit, data, dry_run=False)

    def again(self) -> None:
        for number in self.numbers()[:3]:
            self.store.claims.regrade(number)

    def batch(self) -> None:
        self.grade()
        batch = self.store.regrades.start(self.rng.choice(LABS), None, self.by)
        self.grade()
        while (claim := self.store.claims.claim("a", 1e9)) is not None:
            self.store.claims.finish(claim.id, "a", drawn(self.rng))
        if self.store.regrades.get(batch)[0].state == "ready":
            self.store.regrades.publish(batch, self.by)

    def at(self, hours: float) -> str:
        return datetime.fromtimestamp(self.now + 3600 * hours, UTC).isoformat()

    def date(self) -> None:
        due = self.rng.choice((None, self.at(-30), self.at(-90)))
        rules = Rules.read({"due": due, "penalty_per_day": 0.3})
        self.store.dates.set_rules(self.rng.choice(LABS), rules, self.by)

    def extend(self) -> None:
        lab = self.rng.choice(LABS)
        if self.store.dates.calendar().rules.get(lab, Rules()).due:
            due = self.rng.choice((None, self.at(10)))
            self.store.dates.extend(lab, self.rng.choice(self.learners), due, self.by)

    def decide(self) -> None:
        decision = self.rng.choice(
            ({}, {"excused": True}, {"points": self.rng.randrange(9), "max_score": 8.0})
        )
        lab = self.rng.choice(LABS)
        for learner in self.store.roster.learners()[:2]:
            decide(self.edit, lab, learner, decision)

    def team(self) -> None:
        lab, here = self.rng.choice(LABS), [p.login for p in self.store.roster.learners()]
        lines = "".join(f"{login},{self.rng.choice(('', 'a', 'b'))}\n" for login in here)
        how = {"find": self.store.roster.find, "dry_run": False}
        data = f"login,team\n{lines}".encode()
        teams.take(self.edit, lab, data, **how)

    def role(self) -> None:
        login, role = self.rng.choice(self.learners).login, self.rng.choice((LEARNER, "assistant"))
        take(self.edit, f"login,role\n{login},{role}\n".encode(), dry_run=False)


def test_counts_are_kept_by_whatever_changes_a_grade(database_url: Any) -> None:
    days = Days(database_url, 1)
    for _ in range(6 if os.environ.get("WIDE") else 4):
        for _ in range(14):
            days.happens()
        assert_as_counted_anew(days.store)
    numbers = held(days.store)[1]
    assert {words for kind, _, _, words, _ in numbers if kind == MARKED} == {"1", "2"}
    assert {words for kind, _, _, words, _ in numbers if kind == WRITTEN} >= {"A", "B"}
    days.store.close()


def test_a_count_that_is_wrong_is_found(database_url: Any) -> None:
    days = Days(database_url, 2)
    days.grade()
    days.grade()
    with days.store.database.write() as connection:
        connection.execute(counts.update().values(number=counts.c.number + 1))
    with pytest.raises(AssertionError):
        assert_as_counted_anew(days.store)
    days.store.close()


def test_gradings_marks_and_dates_at_once_are_all_counted(database_url: Any) -> None:
    days = Days(database_url, 3)
    store = days.store
    for n in range(12 if os.environ.get("WIDE") else 7):
        for learner in days.learners:
            store.submissions.add(learner, LABS[n % 2], f"{n}".encode())
    failures: list[Exception] = []

    def work(name: str) -> None:
        rng = random.Random(name)
        try:
            while claim := store.claims.claim(name, 1e9):
                store.claims.finish(claim.id, name, drawn(rng))
                body = {"points": 1, "comment": name}
                report = store.submissions.report(claim.id)
                assert report
                store.submissions.mark(claim.id, {report.manual[0].question: body}, days.by)
                if claim.id % 5 == 0:
                    due = days.at(-24 * rng.randrange(4))
                    rules = Rules.read({"due": due, "penalty_per_day": 0.25})
                    store.dates.set_rules(claim.lab, rules, days.by)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(f"worker{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    work("last")
    assert_as_counted_anew(store)
    store.close()
