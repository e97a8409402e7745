"""No mark is ever lost: gradings and marks are added, never overwritten, whatever grading does."""

import itertools
import json
import threading
from pathlib import Path
from typing import Any

import pytest

from autograder.records import ManualAnswer, Report, RubricItem
from autograder.service.records.grades import kept_comments
from autograder.service.records.marking import marking
from autograder.service.records.people import INSTRUCTOR, LEARNER, Edit, Person
from autograder.service.records.store import Store
from autograder.service.records.submissions.submissions import Submissions

MANUAL = b'{"cells": [{"cell_type": "code", "source": "manual x = 1"}]}'
ANSWER = ManualAnswer("why", 2.0, (RubricItem(2.0, "Gives a reason."),), "Because.")
REPORT = Report("lab", (), manual=(ANSWER,))


@pytest.fixture
def store(database_url: Any) -> Any:
    opened = Store(database_url)
    yield opened
    opened.close()


@pytest.fixture
def submissions(store: Store) -> Submissions:
    return store.submissions


@pytest.fixture
def staff(store: Store) -> Person:
    return store.roster.add("Grace", INSTRUCTOR)


def graded(store: Store, report: Report = REPORT) -> int:
    ada = store.roster.add("Ada", LEARNER)
    number = store.submissions.add(ada, "lab", b"{}").id
    grade(store, number, report)
    return number


def grade(store: Store, number: int, report: Report = REPORT) -> None:
    store.claims.regrade(number)
    assert store.claims.claim("a", 10)
    assert store.claims.finish(number, "a", report)


def rows_of(store: Store, query: str) -> list[tuple[Any, ...]]:
    with store.database.read() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(query)]


def score(submissions: Submissions, number: int) -> tuple[float | None, float | None, int]:
    entry = submissions.get(number)
    assert entry
    return entry.score, entry.max_score, entry.pending


def test_a_mark_and_its_comment_survive_a_regrade_that_fails_and_one_that_works(
    running: Any, browser: Any
) -> None:
    """A grader that died twice over it left the learner 0 points, for ever."""
    learner = running.enroll("Ada")
    number = learner.submit("first", MANUAL)["id"]
    running.wait(number)
    browser.log_in(running.staff.token)
    path = f"/submissions/{number}"
    browser.ask("POST", f"{path}/manual", {"question": "why", "score": "2", "comment": "Well said"})

    def shown() -> tuple[Any, str]:
        found = learner.submission(str(number))
        comment = found["report"]["manual"][0]["comment"]
        return (found["score"], found["max_score"], comment), running.staff.text(
            "export", format="csv"
        )

    before = shown()
    assert before[0] == (6.0, 6.0, "Well said") and ",6,6,graded," in before[1]
    running.grader.poison = "manual"
    assert browser.ask("POST", f"{path}/regrade").status == 303
    assert running.wait(number) == "parked"
    after = shown()
    assert after[0] == before[0] and ",6,6,parked," in after[1]
    assert "Well said" in browser.get(path).text
    running.grader.poison = "die"
    browser.ask("POST", f"{path}/regrade")
    assert running.wait(number) == "graded"
    assert shown() == before


def test_the_published_grade_stays_while_it_is_graded_again(
    store: Store, submissions: Submissions
) -> None:
    number = graded(store)
    store.claims.regrade(number)
    entry = submissions.get(number)
    assert entry and (entry.state, entry.score, entry.max_score) == ("stored", 0.0, 2.0)
    assert submissions.report(number) is not None


def test_a_mark_may_be_given_while_it_is_graded_again(
    store: Store, submissions: Submissions, staff: Person
) -> None:
    number = graded(store)
    store.claims.regrade(number)
    store.claims.claim("a", 10)
    submissions.mark(number, {"why": {"points": "1.5", "comment": ""}}, staff)
    store.claims.finish(number, "a", REPORT)
    assert score(submissions, number) == (1.5, 2.0, 0)


def test_of_two_marks_the_last_counts_and_both_are_kept(
    store: Store, submissions: Submissions, staff: Person, tmp_path: Path
) -> None:
    number = graded(store)
    for points in ("1", "2", ""):
        submissions.mark(number, {"why": {"points": points, "comment": ""}}, staff)
    assert score(submissions, number) == (0.0, 2.0, 1)
    rows = rows_of(
        store,
        "SELECT points, people.login FROM marks JOIN people ON people.id = marked_by "
        "ORDER BY marks.id",
    )
    assert rows == [(1.0, "Grace"), (2.0, "Grace"), (None, "Grace")]


def test_a_mark_for_another_answer_stays_on_record_and_counts_again_with_it(
    store: Store, submissions: Submissions, staff: Person
) -> None:
    number = graded(store)
    submissions.mark(number, {"why": {"points": "2", "comment": ""}}, staff)
    other = Report("lab", (), manual=(ManualAnswer("why", 2.0, (), "Otherwise."),))
    grade(store, number, other)
    assert score(submissions, number) == (0.0, 2.0, 1)
    grade(store, number)
    assert score(submissions, number) == (2.0, 2.0, 0)


def test_every_grading_is_kept(store: Store) -> None:
    number = graded(store)
    grade(store, number, Report("lab", (), notes=("the second",)))
    rows = rows_of(store, "SELECT report FROM reports ORDER BY grading_id")
    assert [json.loads(text)["notes"] for (text,) in rows] == [[], ["the second"]]


def test_no_statement_changes_or_drops_a_grading_or_a_mark(
    store: Store, submissions: Submissions, staff: Person
) -> None:
    """Whatever is asked of the store, in any order of two: triggers would refuse it."""
    number = graded(store)
    refusal = "BEGIN SELECT RAISE(ABORT, 'append only'); END"
    with store.database.write() as connection:
        if store.database.engine.name == "postgresql":
            refusal = "EXECUTE FUNCTION refuse()"
            connection.exec_driver_sql(
                "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION 'append only'; END $$"
            )
        for table, change in itertools.product(
            ("gradings", "reports", "marks", "notebooks"), ("UPDATE", "DELETE")
        ):
            trigger = f"CREATE TRIGGER no_{change}_{table} BEFORE {change} ON {table} "
            connection.exec_driver_sql(trigger + refusal)

    def fails() -> None:
        if claim := store.claims.claim("a", 10):
            store.claims.count_try(claim.id, "a", "died")

    def parks() -> None:
        if claim := store.claims.claim("a", 10):
            store.claims.park(claim.id, "a", "died twice")

    def works() -> None:
        if claim := store.claims.claim("a", 10):
            store.claims.finish(claim.id, "a", REPORT)

    steps = (
        lambda: store.claims.regrade(number),
        lambda: submissions.mark(number, {"why": {"points": "2", "comment": "yes"}}, staff),
        lambda: store.claims.retry_parked(),
        *(fails, parks, works),
    )
    for first, second in itertools.product(steps, repeat=2):
        first()
        second()
    works()
    assert score(submissions, number) == (2.0, 2.0, 0)


def test_of_groups_and_marks_at_once_each_answer_gets_one_first_mark(
    store: Store, submissions: Submissions, staff: Person
) -> None:
    """Each waits for the other, in the order of the submissions: nobody for ever."""
    for n in range(12):
        ada = store.roster.add(f"Ada{n}", LEARNER)
        number = store.submissions.add(ada, "lab", str(n).encode()).id
        assert store.claims.claim("a", 10) and store.claims.finish(number, "a", REPORT)
        for text in ("Well.", "Why?"):
            kept_comments.keep(Edit(store.database, lambda: 0.0, staff), "lab", "why", "", text)
    (group,) = marking.groups(submissions, "lab", "why")
    walk, together, done = marking.Walk("lab", "why"), threading.Barrier(4), list[list[int]]()

    def mark(points: float, numbers: list[int]) -> None:
        body = {"points": points, "comment": "Why?\nWell."}
        together.wait()
        marked = marking.mark_group(submissions, walk, group.alike, numbers, body, staff)
        done.append(marked)

    orders = (range(1, 13), range(12, 0, -1), range(1, 8), range(12, 4, -1))
    threads = [
        threading.Thread(target=mark, args=(n / 4, list(order))) for n, order in enumerate(orders)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(n for numbers in done for n in numbers) == list(range(1, 13))
    kept = kept_comments.of_question(store.database, "lab", "why")
    assert [(c.text, c.uses) for c in kept] == [("Well.", 12), ("Why?", 12)]
    assert len(rows_of(store, "SELECT id FROM marks")) == 12


def test_a_second_mark_is_kept_beside_the_first_on_every_database(
    store: Store, submissions: Submissions, staff: Person
) -> None:
    number, hal = graded(store), store.roster.add("Hal", "assistant")
    assert store.second_marks.draw("lab", "why", 3, staff) == 1
    submissions.mark(number, {"why": {"points": 2}}, staff)
    walk = marking.Walk("lab", "why", hal.id, sample=True)
    desk = marking.desk(submissions, walk, 0)
    assert desk and desk.second and desk.answer.score is None
    store.second_marks.give(number, "why", {"points": 0.5}, hal)
    (pair,) = store.second_marks.agreement("lab", "why").pairs
    assert (pair.first_by, pair.second_by, pair.difference) == ("Grace", "Hal", 1.5)
    assert score(submissions, number) == (2.0, 2.0, 0)
    store.second_marks.decide(number, "why", "second", staff)
    assert score(submissions, number) == (0.5, 2.0, 0)
    assert marking.desk(submissions, walk, 0) is None


def test_marks_that_people_give_at_the_same_time_all_count(
    store: Store, submissions: Submissions, staff: Person
) -> None:
    """Each waits for the other to have written its total; on PostgreSQL, at a lock on the row."""
    questions = [f"q{number}" for number in range(8)]
    answers = tuple(ManualAnswer(question, 1.0, (), "So.") for question in questions)
    number = graded(store, Report("lab", (), manual=answers))
    together = threading.Barrier(len(questions))

    def mark(question: str) -> None:
        together.wait()
        submissions.mark(number, {question: {"points": 1}}, staff)

    threads = [threading.Thread(target=mark, args=(question,)) for question in questions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert score(submissions, number) == (8.0, 8.0, 0)
