"""What claims and pages read: an index's first entry and narrow rows, however much is stored.

Counted in the database's own steps and plans, never in seconds.
"""

import functools
import re
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.records import CheckResult, ManualAnswer, Outcome, Report
from autograder.service.database.schema import submissions
from autograder.service.records.marking import marking
from autograder.service.records.marks import alike_digest
from autograder.service.records.people import LEARNER
from autograder.service.records.rules import Rules
from autograder.service.records.store import Store, sqlite_url
from autograder.service.reports import gradebook, numbers
from autograder.service.reports.gradebook import PAGE_ROWS
from tests.autograder.service.recount import recount

REPORT = Report("lab", (), score=1.0, max_score=4.0)
LARGE = ("notebooks", "reports")
MANY = (3 * PAGE_ROWS, 4)  # learners and labs of the one large course: 600 submissions


class Course:
    """A store of learners who each have one waiting submission in each lab."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(sqlite_url(folder))
        self.learners = self.store.roster.learners()

    def traced(self, run: Callable[[], object]) -> tuple[int, list[str]]:
        """Return the steps of the database's machine that `run` takes, and its plans."""
        steps, statements = [0], list[tuple[str, Any]]()

        def step() -> int:
            steps[0] += 1
            return 0

        def prepare(connection: Any, *_: Any) -> None:
            connection.set_progress_handler(step, 1)

        def keep(_c: Any, _cursor: Any, text: str, values: Any, *_: Any) -> None:
            statements.append((text, values))

        engine = self.store.database.engine
        engine.dispose()  # so that every connection from now on is one that counts
        sa.event.listen(engine, "connect", prepare)
        sa.event.listen(engine, "before_cursor_execute", keep)
        run()
        sa.event.remove(engine, "before_cursor_execute", keep)
        sa.event.remove(engine, "connect", prepare)
        engine.dispose()
        return steps[0], self._plans(statements)

    def _plans(self, statements: list[tuple[str, Any]]) -> list[str]:
        connection = sqlite3.connect(self.store.database.engine.url.database or "")
        found = []
        for text, values in statements:
            if re.match(r"SELECT|INSERT|UPDATE|DELETE", text):
                first = values[0] if isinstance(values, list) else values  # of many at once
                plan = connection.execute(f"EXPLAIN QUERY PLAN {text}", first)
                found.append(f"{text}\n" + "\n".join(row[3] for row in plan))
        connection.close()
        return found

    def close(self) -> None:
        self.store.close()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, int], Path]:
    """Return what makes a folder with a course of so many learners and labs, each once."""

    @functools.cache
    def fill(learners: int, labs: int) -> Path:
        folder = tmp_path_factory.mktemp("course")
        store = Store(sqlite_url(folder))
        people = [store.roster.add(f"L{i:03}", LEARNER) for i in range(learners)]
        for lab in range(labs):
            for i, learner in enumerate(people):
                store.submissions.add(learner, f"lab{lab}", f"{lab} {i}".encode() * 500)
        store.close()
        return folder

    return fill


@pytest.fixture
def course(tmp_path: Path, filled: Callable[[int, int], Path]) -> Iterator[Any]:
    """Return what makes a course of a test's own."""
    made: list[Course] = []

    def make(learners: int, labs: int = 1) -> Course:
        folder = shutil.copytree(filled(learners, labs), tmp_path / f"{len(made)}")
        made.append(Course(folder))
        return made[-1]

    yield make
    for one in made:
        one.close()


def scans(plans: list[str], *tables: str) -> list[str]:
    """Return the plans that walk over one of the tables, or sort."""
    walks = re.compile(rf"SCAN ({'|'.join(tables)})\b(?! USING (COVERING )?INDEX)|TEMP B-TREE")
    return [plan for plan in plans if walks.search(plan)]


def reads_of_large(plans: list[str]) -> list[str]:
    return [p for p in plans if re.search(rf"(SEARCH|SCAN) ({'|'.join(LARGE)})\b", p)]


def test_the_counter_sees_a_walk_over_all_submissions(course: Any) -> None:
    """The specimen: what a claim must not do costs more with more, and shows in its plan."""
    small, large = course(5, 2), course(50, 2)
    walk = "SELECT id FROM submissions ORDER BY sha256"

    def run(one: Course) -> tuple[int, list[str]]:
        def ask() -> None:
            with one.store.database.read() as connection:
                connection.exec_driver_sql(walk).fetchall()

        return one.traced(ask)

    (few, _), (many, plans) = run(small), run(large)
    assert many > 5 * few
    assert scans(plans, "submissions")


def test_a_claim_takes_as_many_steps_with_600_waiting_as_with_20(course: Any) -> None:
    small, large = course(10, 2), course(*MANY)
    few, _ = small.traced(lambda: small.store.claims.claim("a", 100))
    many, plans = large.traced(lambda: large.store.claims.claim("a", 100))
    assert many <= 1.5 * few
    assert not scans(plans, "submissions", "lines", *LARGE)
    assert any("lines USING" in plan and "INDEX lines_waiting" in plan for plan in plans)
    one_notebook = r"SEARCH notebooks USING INTEGER PRIMARY KEY \(rowid=\?\)"
    assert len([p for p in reads_of_large(plans) if re.search(one_notebook, p)]) == 1
    assert len(reads_of_large(plans)) == 1


def test_storing_and_finishing_take_as_many_steps_with_600_waiting_as_with_20(course: Any) -> None:
    counts = []
    for learners, labs in ((10, 2), MANY):
        one = course(learners, labs)
        ada = one.store.roster.add("Ada", LEARNER)
        stored, plans = one.traced(lambda: one.store.submissions.add(ada, "lab", b"x = 1"))  # noqa: B023
        assert not scans(plans, "submissions", "lines", *LARGE)
        claim = one.store.claims.claim("a", 100)
        finish = one.store.claims.finish
        done, plans = one.traced(lambda: finish(claim.id, "a", REPORT))  # noqa: B023
        assert not scans(plans, "submissions", "lines", *LARGE)
        counts.append((stored, done))
    few, many = counts
    assert many[0] <= 1.5 * few[0] and many[1] <= 1.5 * few[1]


def test_a_page_of_the_gradebook_reads_its_own_learners_and_nothing_large(course: Any) -> None:
    one = course(*MANY)
    learners = one.store.roster.learners()[PAGE_ROWS : 2 * PAGE_ROWS]
    found: list[Any] = []
    _, plans = one.traced(
        lambda: found.extend(one.store.submissions.counting([person.id for person in learners]))
    )
    assert {entry.person_id for entry in found} == {person.id for person in learners}
    assert len(found) == MANY[1] * PAGE_ROWS
    assert not reads_of_large(plans)
    assert not [p for p in plans if re.search(r"SCAN submissions", p)]


def test_an_order_by_points_counts_what_the_rows_show(course: Any) -> None:
    """Late ones and the best of several too; entries are made of one page only."""
    one, random = course(PAGE_ROWS + 10, 3), Random(0)
    store, staff = one.store, one.store.roster.add("staff", "instructor")
    for learner in one.learners[::2]:
        store.submissions.add(learner, "lab1", b"again")
    due = datetime.now(UTC) - timedelta(days=2)
    store.dates.set_rules("lab1", Rules(due=due.isoformat(), penalty_per_day=0.25), staff)
    store.dates.extend("lab1", one.learners[0], "2099-01-01T00:00:00Z", staff)
    with store.database.write() as connection:
        for number in connection.scalars(sa.select(submissions.c.id)).all():
            score = random.choice((None, 0.0, 1.5, 4.0))
            this = submissions.update().where(submissions.c.id == number)
            grading = None if score is None else number
            connection.execute(this.values(score=score, max_score=4.0, grading_id=grading))
        recount(connection)

    def rows(sort: str, lab: str = "") -> list[gradebook.Row]:
        asked = [gradebook.Asked(sort=sort, lab=lab, page=n) for n in (1, 2)]
        return [r for a in asked for r in gradebook.page(store.submissions, a).rows]

    def lab1(row: gradebook.Row) -> float:
        score = row.labs["lab1"].score
        return -1.0 if score is None else score

    for sort, key in (("total", lambda row: row.total), ("lab1", lab1)):
        up, down = rows(sort), rows(f"-{sort}")
        assert len({row.person.id for row in up}) == PAGE_ROWS + 10
        assert [key(row) for row in up] == sorted(key(row) for row in up)
        assert up == down[::-1]
    assert [r.person for r in rows("total", "lab1")][-1] == rows("-total", "lab1")[0].person
    _, plans = one.traced(lambda: rows("-total"))
    assert not reads_of_large(plans)


def test_a_page_of_submissions_reads_its_own_rows_and_nothing_large(course: Any) -> None:
    one = course(*MANY)
    steps, plans = one.traced(lambda: one.store.submissions.page(PAGE_ROWS, before=500))
    everything, _ = one.traced(lambda: one.store.submissions.all())
    assert not reads_of_large(plans)
    assert steps < everything / 2


WHY = marking.Walk("lab0", "why")


def test_marking_reads_one_report_however_many_answers_wait(course: Any) -> None:
    one = course(3, 2)
    store, staff = one.store, one.store.roster.add("staff", "instructor")

    def grade(text: str) -> int:
        claim = store.claims.claim("a", 100)
        answer = ManualAnswer("why", 2.0, (), f"{text} {claim.id}")
        store.claims.finish(claim.id, "a", replace(REPORT, manual=(answer,)))
        return int(claim.id)

    by_lab: dict[str, list[int]] = {}
    for _ in range(6):
        number = grade("Because")
        by_lab.setdefault(store.submissions.get(number).lab, []).append(number)
    first, second, _ = sorted(by_lab["lab0"])
    found: list[Any] = []
    _, plans = one.traced(lambda: found.append(marking.desk(store.submissions, WHY, 0)))
    assert len(reads_of_large(plans)) == 1 and found[0].answer.answer == f"Because {first}"
    store.submissions.mark(first, {"why": {"points": 1.0, "comment": "So so."}}, staff)
    _, plans = one.traced(lambda: found.append(marking.list_piles(store.database)))
    assert found[1] == [marking.Pile("lab0", "why", 2, 3, 0), marking.Pile("lab1", "why", 3, 3, 0)]
    assert not reads_of_large(plans)
    desk = marking.desk(store.submissions, WHY, first)
    assert desk and (desk.answer.score, desk.answer.comment, desk.left) == (1.0, "So so.", 2)
    store.submissions.mark(first, {"why": {"points": None}}, staff)
    store.claims.regrade(second)
    grade("Therefore")
    desk = marking.desk(store.submissions, WHY, second)
    assert desk and (desk.answer.answer, desk.left) == (f"Therefore {second}", 3)


def test_lists_of_answers_and_numbers_take_the_same_steps_for_60_learners_as_for_6(
    course: Any,
) -> None:
    answer = ManualAnswer("why", 2.0, (), "Because")
    check = CheckResult("c", "q", Outcome.INCORRECT, 0, 1, "No.")
    report = replace(REPORT, manual=(answer,), results=(check,))
    steps = []
    for learners in (6, 60):
        one = course(learners)
        while claim := one.store.claims.claim("a", 100):
            one.store.claims.finish(claim.id, "a", report)
        all_submissions, database = one.store.submissions, one.store.database
        looks = (
            lambda: numbers.overview(database, "lab0"),  # noqa: B023
            lambda: marking.list_piles(database),  # noqa: B023
            lambda: marking.desk(all_submissions, WHY, 3),  # noqa: B023
            lambda: marking.next_waiting(all_submissions, WHY, 3),  # noqa: B023
        )
        found = numbers.overview(database, "lab0")
        assert (found.learners, found.questions[0].messages) == (learners, [("No.", learners)])
        traces = [one.traced(look) for look in looks]
        steps.append([count for count, _ in traces])
        plans = [plan for _, found in traces for plan in found]
        assert not [plan for plan in plans if re.search(r"^SCAN (pile|counts)|TEMP", plan, re.M)]
        walk = (all_submissions, "lab0", "why")
        marking_groups = one.traced(lambda: marking.groups(*walk))[1]  # noqa: B023
        members = one.traced(lambda: marking.variants(*walk, alike_digest("Because")))[1]  # noqa: B023
        by_index = re.compile(r"SEARCH pile USING (COVERING )?INDEX pile_alike")
        assert all(any(by_index.search(p) for p in found) for found in (marking_groups, members))
    assert steps[1] == steps[0]


def test_the_numbers_of_the_queue_read_nothing_large(course: Any) -> None:
    one = course(*MANY)
    _, plans = one.traced(one.store.claims.waiting)
    assert not reads_of_large(plans)


def test_pages_are_cut_and_lead_on(running: Any, browser: Any) -> None:
    for number in range(PAGE_ROWS + 1):
        running.server.course.store.roster.add(f"Learner {number:03}", LEARNER)
    browser.log_in(running.staff.token)
    first, second = browser.get("/gradebook"), browser.get("/gradebook?page=2")
    assert first.text.count('<th scope="row">') == PAGE_ROWS
    assert 'rel="next" href="/gradebook?page=2"' in first.text and "Page 1 of 2" in first.text
    assert second.text.count('<th scope="row">') == 1
    assert 'rel="prev"' in second.text and 'rel="next"' not in second.text
    for page in ("0", "-1", "x", "9" * 30):
        assert browser.get(f"/gradebook?page={page}").status == 422
    assert browser.get("/gradebook?page=77").status == 200
