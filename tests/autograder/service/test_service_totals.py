"""The gradebook in the order of the course total, by the database and learner by learner."""

import json
import os
import random
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.records import CheckResult, Outcome, Report
from autograder.service.database import schema
from autograder.service.database.schema import course_totals, decisions
from autograder.service.records import personal_data, stale_totals
from autograder.service.records.grades import course_rule
from autograder.service.records.grades.decisions import decide
from autograder.service.records.people import Edit, Person
from autograder.service.records.roster import roster, teams
from autograder.service.records.rules import Rules
from autograder.service.records.store import Store
from autograder.service.reports import everybodys_totals, gradebook
from autograder.service.reports.everybodys_totals import (
    TotalsWorker,
    bring_up_to_date,
    work_some_out,
)
from autograder.service.reports.gradebook import Asked

LABS = ("01_first", "02_second", "03_third", "04_fourth")
START, DAY = 1.9e9, 86_400.0


class Course:
    """A course of which chance decides everything that a total takes."""

    def __init__(self, url: Any, seed: int) -> None:
        self.rng, self.now = random.Random(seed), START
        self.store = Store(url, clock=lambda: self.now)
        self.staff = self.store.roster.add("instructor", "instructor")
        for number in range(14):
            self.store.roster.add(f"learner{number:02}", "learner")
        self.fulls = {lab: self.rng.choice([(4.0,), (3.0,), (3.0, 7.0)]) for lab in LABS}

    @property
    def learners(self) -> list[Person]:
        return self.store.roster.learners()

    @property
    def edit(self) -> Edit:
        return Edit(self.store.database, lambda: self.now, self.staff)

    def live(self) -> None:
        """Let a term go by."""
        for lab in LABS[:3]:
            self.set_dates(lab)
        self.stretch()
        for day in range(6):
            self.now = START + day * DAY + 3600.0
            for person in self.learners[:-1]:
                for lab in LABS:
                    if self.rng.random() < 0.2:
                        self.hand_in(person, lab)
        for lab in LABS:
            self.decide(lab)
        self.now = START + self.rng.choice([7, 9, 20]) * DAY

    def happens(self) -> None:
        """Let one of the things happen that change totals."""
        lab, rng = self.rng.choice(LABS), self.rng
        events: list[Callable[[], object]] = [
            *5 * [lambda: self.hand_in(rng.choice(self.learners), lab)],
            *2 * [self.pass_time],
            lambda: self.set_dates(lab),
            lambda: self.decide(lab),
            lambda: self.team(lab),
            lambda: self.put(rng.choice([*self.rules()])),
            self.regrade,
            self.stretch,
            self.role,
            self.come_and_go,
        ]
        rng.choice(events)()

    def pass_time(self) -> None:
        self.now += self.rng.choice([0.1, 1.0, 2.0]) * DAY

    def set_dates(self, lab: str) -> None:
        due, closes = self.rng.randint(2, 6), None
        if self.rng.random() < 0.8:
            closes = self.date(due + self.rng.randint(0, 8))
        rules = Rules(opens=self.date(0), due=self.date(due), late_until=closes)
        rules = Rules.read({**rules.to_dict(), "penalty_per_day": self.rng.choice([0.0, 0.1])})
        self.store.dates.set_rules(lab, rules, self.staff)
        for person in self.some(3):
            self.store.dates.extend(lab, person, self.date(due + 5), self.staff)

    def stretch(self) -> None:
        for person in self.some(3):
            self.store.dates.stretch(person, self.rng.choice([1.0, 1.5, 3.0]), self.staff)

    def decide(self, lab: str) -> None:
        choice = [{"excused": True}, {"points": 2, "max_score": self.rng.choice([5, 8])}, {}]
        for person in self.some(7):
            decision = self.rng.choice(choice)
            decide(self.edit, lab, person, decision)

    def team(self, lab: str) -> None:
        rows = "".join(f"{p.login},{self.rng.choice(['', 'a', 'b'])}\n" for p in self.learners)
        how = {"find": self.store.roster.find, "dry_run": False}
        data = f"login,team\n{rows}".encode()
        teams.take(self.edit, lab, data, **how)

    def put(self, rule: dict[str, Any]) -> None:
        course_rule.put(self.edit, rule, LABS)

    def regrade(self) -> None:
        graded = [e for e in self.store.submissions.all() if e.state == "graded"]
        for entry in self.rng.sample(graded, min(3, len(graded))):
            self.store.claims.regrade(entry.id)
            self.grade(entry.lab)

    def role(self) -> None:
        login, role = (
            f"learner{self.rng.randrange(14):02}",
            self.rng.choice(["learner", "assistant"]),
        )
        data = f"login,role\n{login},{role}\n".encode()
        roster.take(self.edit, data, dry_run=False)

    def come_and_go(self) -> None:
        with self.store.database.write() as connection:
            gone = self.rng.choice(self.learners)
            personal_data.remove(connection, gone, self.store.clock, self.staff.login)
        self.store.roster.add(f"learner{self.rng.randrange(100, 10**9)}", "learner")

    def some(self, most: int) -> list[Person]:
        return self.rng.sample(self.learners, self.rng.randint(0, most))

    def hand_in(self, person: Person, lab: str) -> None:
        """Hand in, if the lab takes it; now and then nobody grades it."""
        dates = self.store.dates.calendar().of(lab, person.id)
        if not dates.refusal(self.now, 0):
            self.store.submissions.add(person, lab, str(self.rng.random()).encode())
            self.grade(lab)

    def grade(self, lab: str) -> None:
        claim = self.store.claims.claim("test", 1e9)
        assert claim
        if self.rng.random() < 0.9:
            points, full = self.rng.choice([0.0, 1.0, 2.0, 3.0]), self.rng.choice(self.fulls[lab])
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


def one_by_one(store: Store) -> dict[str, list[str]]:
    """Return the logins by each learner's total as their own row says it, by either order."""

    def key(row: gradebook.Row) -> tuple[float, str]:
        share = row.course.share
        return -1.0 if share is None else round(share, 9), row.person.login

    rows = sorted(gradebook.rows(store.roster.learners(), store.submissions), key=key)
    logins = [row.person.login for row in rows]
    return {"course": logins, "-course": logins[::-1]}


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.wide) for seed in (1, 2))]
)
def test_the_database_sorts_by_the_course_total_as_the_rows_say(
    database_url: Any, seed: int
) -> None:
    course = Course(database_url, seed)
    with closing(course.store) as store:
        course.live()
        rules = list(course.rules())
        orders = []
        for rule in rules:
            course.put(rule)
            for sort, expected in one_by_one(store).items():
                page = gradebook.page(store.submissions, Asked(sort=sort))
                found = [row.person.login for row in page.rows]
                assert found == expected, (rule, sort)
            orders.append(found)
        assert len({*map(tuple, orders)}) > 2  # rules do matter


def test_a_course_in_which_nothing_counts_is_sorted_by_login(database_url: Any) -> None:
    course = Course(database_url, 0)
    with closing(course.store) as store:
        found = gradebook.page(store.submissions, Asked(sort="course")).rows
        assert [row.person.login for row in found] == [p.login for p in course.learners]
        assert gradebook.page(store.submissions, Asked(sort="course", page=2)).rows == []


def assert_as_counted_anew(store: Store) -> None:
    """Hold the totals that are kept against each learner's own row."""
    bring_up_to_date(store.submissions)
    rows = store.database.rows(sa.select(course_totals.c.person_id, course_totals.c.share))
    kept = dict(rows)
    anew = {
        row.person.id: row.course.share
        for row in gradebook.rows(store.roster.learners(), store.submissions)
    }
    for person, share in anew.items():
        assert kept[person] == pytest.approx(-1.0 if share is None else share, abs=1e-8), person


@pytest.mark.parametrize("seed", [0, pytest.param(2, marks=pytest.mark.wide)])
def test_totals_are_kept_by_whatever_changes_what_counts(database_url: Any, seed: int) -> None:
    course = Course(database_url, seed)
    with closing(course.store) as store:
        for _ in range(40 if os.environ.get("WIDE") else 16):
            for _ in range(course.rng.randint(1, 4)):
                course.happens()
            assert_as_counted_anew(store)


def test_a_change_that_names_nobody_is_found(database_url: Any) -> None:
    course = Course(database_url, 0)
    with closing(course.store) as store:
        one = {"points": 1, "max_score": 5}
        decide(Edit(store.database, lambda: START, course.staff), LABS[0], course.learners[0], one)
        assert_as_counted_anew(store)
        with store.database.write() as connection:
            connection.execute(decisions.update().values(points=4.0, max_score=5.0))
        with pytest.raises(AssertionError):
            assert_as_counted_anew(store)


def test_a_lab_that_is_handed_in_just_before_it_closes_is_not_missing(database_url: Any) -> None:
    """Another server's clock is ahead, and has let the lab count 0."""
    course = Course(database_url, 0)
    with closing(course.store) as store, closing(Store(database_url, clock=lambda: START)) as slow:
        for person in course.learners[:3]:
            course.hand_in(person, LABS[0])
        store.dates.set_rules(LABS[0], Rules(late_until=course.date(1)), course.staff)
        course.now += 2 * DAY
        ada, bob = course.learners[-2:]
        data = f"login,team\n{ada.login},a\n{bob.login},a\n".encode()
        how = {"find": store.roster.find, "dry_run": False}
        teams.take(Edit(store.database, lambda: START, course.staff), LABS[0], data, **how)
        assert_as_counted_anew(store)
        slow.submissions.add(ada, LABS[0], b"in time")
        assert_as_counted_anew(store)
        assert {share_of(store, person) for person in (ada, bob)} == {-1.0}


def share_of(store: Store, person: Person) -> float:
    query = sa.select(course_totals.c.share).where(course_totals.c.person_id == person.id)
    return float(store.database.scalar(query))


def test_whoever_is_graded_while_totals_are_worked_out_stays_stale(
    make_postgres: Callable[[], str],
) -> None:
    course = Course(f"{make_postgres()}&options=-c%20lock_timeout%3D20s", 0)
    with closing(course.store) as store, closing(Store(store.database.engine.url)) as other:
        for person in course.learners[:4]:
            course.hand_in(person, LABS[3])
        assert_as_counted_anew(store)
        ada, bob, eve = course.learners[:3]
        decide(course.edit, LABS[3], ada, {"excused": True})
        with other.database.write() as connection:  # she is named already, by what is written
            stale_totals.name(connection, [ada.id])
            hers = decisions.c.person_id == ada.id
            connection.execute(decisions.update().where(hers).values(points=1.0, max_score=9.0))
            bring_up_to_date(store.submissions)  # nor does it wait
        assert named(store) == [ada.id]
        waits = [eve]

        def grade_another(*executed: Any) -> None:
            if waits and "INSERT INTO course_totals" in executed[2]:
                mark = {"points": 2, "max_score": 9}
                decide(Edit(other.database, other.clock, course.staff), LABS[3], waits.pop(), mark)

        sa.event.listen(store.database.engine, "after_cursor_execute", grade_another)
        decide(course.edit, LABS[3], bob, {"excused": True})
        bring_up_to_date(store.submissions)
        assert named(store) == [eve.id]
        assert_as_counted_anew(store)
        assert named(store) == []


def named(store: Store) -> list[int]:
    return [row[0] for row in store.database.rows(sa.select(schema.stale_totals))]


def test_totals_are_right_after_several_write_and_work_them_out_at_once(database_url: Any) -> None:
    course = Course(database_url, 5)
    with closing(course.store) as store:
        course.team(LABS[0])
        course.team(LABS[1])
        learners, rules = course.learners, list(course.rules())
        failures: list[Exception] = []

        def work(seed: int) -> None:
            rng = random.Random(seed)
            try:
                for number in range(12 if os.environ.get("WIDE") else 9):
                    person, lab = rng.choice(learners), rng.choice(LABS)
                    store.submissions.add(person, lab, f"{seed} {number}".encode())
                    if claim := store.claims.claim(f"worker{seed}", 1e9):
                        check = CheckResult("c", "q", Outcome.CORRECT, rng.choice([1.0, 2.0]), 3.0)
                        report = Report(claim.lab, (check,)).with_totals()
                        store.claims.finish(claim.id, f"worker{seed}", report)
                    if seed == 0 and number % 8 == 0:
                        course.put(rng.choice(rules))
                    if number % 2:
                        decision = {"points": 2, "max_score": 5} if number % 3 else {}
                        mine = learners[seed]
                        decide(Edit(store.database, lambda: 0.0, course.staff), lab, mine, decision)
                    bring_up_to_date(store.submissions)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert_as_counted_anew(store)


MANY = 125  # people: more than two transactions work out


@pytest.fixture
def many(database_url: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Course]:
    """Return a course of so many that their totals are not worked out at once; all are stale."""
    monkeypatch.setattr(everybodys_totals, "_FEW", 50)
    monkeypatch.setattr(everybodys_totals, "_MANY", 50)
    course = Course(database_url, 0)
    with closing(course.store) as store:
        for lab, person in zip(LABS, course.learners, strict=False):
            course.set_dates(lab)
            course.now = START + DAY
            course.hand_in(person, lab)
        text = "login\n" + "".join(f"m{number:04}\n" for number in range(MANY))
        roster.take(Edit(store.database, store.clock, course.staff), text.encode(), dry_run=False)
        yield course


def test_a_page_shows_totals_as_they_were_while_everybodys_are_stale(many: Course) -> None:
    store, asked = many.store, Asked(sort="-course")
    worker = TotalsWorker()
    assert gradebook.page(store.submissions, asked).stale
    assert kept_totals(store) == {}
    assert gradebook.page(store.submissions, asked).learners == MANY + 14
    with worker.serving(store.submissions):
        while worker.work():
            pass
    page = gradebook.page(store.submissions, asked)
    assert not page.stale
    assert_as_counted_anew(store)
    before = kept_totals(store)
    many.put({"weights": {LABS[1]: 0.0}})
    assert gradebook.page(store.submissions, asked).stale
    assert kept_totals(store) == before
    assert not gradebook.page(store.submissions, Asked()).stale  # in which nothing is stale
    bring_up_to_date(store.submissions)  # as a program has it
    assert not gradebook.page(store.submissions, asked).stale
    assert kept_totals(store) != before
    assert_as_counted_anew(store)


def kept_totals(store: Store) -> dict[int, float]:
    rows = store.database.rows(sa.select(course_totals.c.person_id, course_totals.c.share))
    return {row[0]: row[1] for row in rows}


def test_a_rule_that_changes_while_totals_are_worked_out_holds_for_everybody(many: Course) -> None:
    submissions = many.store.submissions
    assert work_some_out(submissions)
    many.put({"weights": {LABS[1]: 0.0}})
    assert work_some_out(submissions)
    many.hand_in(many.learners[0], LABS[3])  # one of those who are done
    many.now += 30 * DAY  # and labs close
    while work_some_out(submissions):
        pass
    assert_nothing_left(submissions)
    assert_as_counted_anew(many.store)


def assert_nothing_left(submissions: Any) -> None:
    statements: list[str] = []
    engine = submissions.database.engine
    sa.event.listen(engine, "after_cursor_execute", lambda *said: statements.append(said[2]))
    assert not work_some_out(submissions)
    assert all(statement.startswith(("SELECT", "BEGIN")) for statement in statements)


def test_a_transaction_works_out_no_more_than_some(many: Course) -> None:
    """So nobody who hands in waits for everybody's totals: writers wait for one transaction."""
    counts = []
    while True:
        before = len(kept_totals(many.store))
        more = work_some_out(many.store.submissions)
        counts.append(len(kept_totals(many.store)) - before)
        if not more:
            break
    assert sum(counts) == MANY + 15 and max(counts) <= 100


def test_a_worker_neither_waits_for_another_nor_repeats_it(
    make_postgres: Callable[[], str],
) -> None:
    course = Course(f"{make_postgres()}&options=-c%20lock_timeout%3D20s", 0)
    with closing(course.store) as store, closing(Store(store.database.engine.url)) as other:
        bring_up_to_date(store.submissions)
        eve = store.roster.add("eve", "learner")
        with other.database.write() as connection:
            stale_totals.lock(connection)  # another server works totals out
            assert not work_some_out(store.submissions)
            assert eve.id not in kept_totals(store)
        assert not work_some_out(store.submissions)
        assert kept_totals(store)[eve.id] == -1.0
        assert_nothing_left(other.submissions)


def test_a_worker_goes_on_with_other_courses_and_tries_again(
    database_url: Any, tmp_path: Path, caplog: Any
) -> None:
    course, away = Course(database_url, 0), Store(f"sqlite:///{tmp_path}/away.sqlite")
    worker = TotalsWorker()
    with closing(course.store) as store, closing(away):
        with away.database.write() as connection:
            connection.exec_driver_sql("ALTER TABLE people RENAME TO gone")
            connection.exec_driver_sql("DELETE FROM totals_basis")
        with worker.serving(away.submissions), worker.serving(store.submissions):
            assert not worker.work()
            assert "cannot be worked out now" in caplog.text
            assert_nothing_left(store.submissions)
            with away.database.write() as connection:
                connection.exec_driver_sql("ALTER TABLE gone RENAME TO people")
            away.roster.add("ada", "learner")
            assert not worker.work()
        assert list(kept_totals(away).values()) == [-1.0]


def test_a_running_server_keeps_totals_up_to_date_with_nobody_looking(running: Any) -> None:
    store = running.server.course.store
    cell = b'{"cells": [{"cell_type": "code", "source": "x = 1"}]}'
    running.enroll("ada").submit("first", cell)
    assert running.wait(1) == "graded"
    running.staff.send("PUT", "rule", body={"weights": {"01_first": 2.0}})
    until(lambda: sorted(kept_totals(store).values()) == [-1.0, 1.0])


def test_a_page_says_in_words_that_totals_are_worked_out_anew(running: Any, browser: Any) -> None:
    store = running.server.course.store
    running.server.course.totals.stop()
    text = "login\n" + "".join(f"m{number:04}\n" for number in range(600))
    instructor = store.roster.find("instructor")
    roster.take(Edit(store.database, store.clock, instructor), text.encode(), dry_run=False)
    browser.log_in(running.staff.token)
    words = "Course totals are being worked out anew"
    assert words in (page := browser.get("/gradebook?sort=-course")).text
    assert "600 learners" in page.text and "m0599" in page.text  # though nobody has a total
    assert words not in browser.get("/gradebook").text
    book = json.loads(fetched(running.staff, "/api/gradebook?sort=-course"))  # which is right
    assert book["learners"] == 600 and len(kept_totals(store)) == 601
    assert words not in browser.get("/gradebook?sort=-course").text


def fetched(staff: Any, path: str) -> bytes:
    request = urllib.request.Request(staff.server + path)
    request.add_header("Authorization", f"Bearer {staff.token}")
    with urllib.request.urlopen(request) as answer:
        return bytes(answer.read())


def until(fact: Callable[[], bool]) -> None:
    waiting = threading.Event()
    while not fact():
        waiting.wait(0.02)
