"""Who is fastest: only what the judge measured, only where staff say so, and by pseudonym."""

import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.source import load_lab
from autograder.checks import Check, run_check
from autograder.grading.grade import LabGrader
from autograder.records import CheckResult, Outcome, Report
from autograder.service.errors import ServerError
from autograder.service.records.people import ASSISTANT, INSTRUCTOR, LEARNER, Person
from autograder.service.records.standings import leaderboard
from autograder.service.records.store import Store
from autograder.student.local import LocalStudent

FAST = CheckResult("fast", "scale", Outcome.CORRECT, 1.0, 1.0, ratio=1.0)
RIGHT = CheckResult("right", "scale", Outcome.CORRECT, 1.0, 1.0)
ON = {"leaderboard": True}


def took(ratio: float, *others: CheckResult) -> Report:
    results = (replace(FAST, ratio=ratio), RIGHT, *others)
    return Report("lab", results).with_totals()


@pytest.fixture
def store(database_url: Any) -> Any:
    opened = Store(database_url)
    yield opened
    opened.close()


def hand_in(store: Store, who: Person, report: Report, *, lab: str = "lab") -> int:
    number = store.submissions.add(who, lab, repr(report).encode()).id
    grade(store, number, report)
    return number


def grade(store: Store, number: int, report: Report) -> None:
    store.claims.regrade(number)
    assert store.claims.claim("a", 10)
    assert store.claims.finish(number, "a", report)


def places(store: Store, question: str = "scale") -> list[tuple[int, str, float]]:
    boards = leaderboard.of_lab(store.database, "lab")
    found = boards[question].places if question in boards else []
    return [(place.rank, place.login, place.ratio) for place in found]


def test_the_best_of_each_learner_counts_and_equals_share_a_rank(store: Store) -> None:
    ada, bob, cyd, eve = (store.roster.add(name, LEARNER) for name in ("Ada", "Bob", "Cyd", "Eve"))
    for who, ratio in ((ada, 0.9), (bob, 2.5), (cyd, 0.6), (eve, 1.2)):
        hand_in(store, who, took(ratio))
    hand_in(store, ada, took(3.0))  # a worse one takes nothing away
    hand_in(store, bob, took(0.90004))  # less than a ratio is known to
    hand_in(store, bob, took(0.1), lab="another lab")
    found = places(store)
    assert sorted(found) == [(1, "Cyd", 0.6), (2, "Ada", 0.9), (2, "Bob", 0.9), (4, "Eve", 1.2)]
    assert [rank for rank, _, _ in found] == [1, 2, 2, 4]


def test_only_learners_and_questions_that_are_right_in_whole_have_a_place(store: Store) -> None:
    for role in (INSTRUCTOR, ASSISTANT):
        hand_in(store, store.roster.add(role, role), took(0.1))
    ada = store.roster.add("Ada", LEARNER)
    for outcome in (Outcome.INCORRECT, Outcome.NOT_ATTEMPTED):
        hand_in(store, ada, took(0.2, replace(RIGHT, outcome=outcome)))
    hand_in(store, ada, took(0.3, replace(RIGHT, broken=True)))
    hand_in(store, ada, Report("lab", (RIGHT,)))
    assert leaderboard.of_lab(store.database, "lab") == {}
    hand_in(store, ada, took(2.0, replace(FAST, ratio=4.0), replace(FAST, question="sum")))
    assert places(store) == [(1, "Ada", 4.0)]  # of several times of a question the slowest
    assert places(store, "sum") == [(1, "Ada", 1.0)]


def test_a_new_grading_counts_once_it_is_published(store: Store) -> None:
    ada, staff = store.roster.add("Ada", LEARNER), store.roster.add("Grace", INSTRUCTOR)
    number = hand_in(store, ada, took(2.0))
    grade(store, number, took(3.0))
    assert places(store) == [(1, "Ada", 3.0)]
    batch = store.regrades.start("lab", "scale", staff)
    assert store.claims.claim("a", 10)
    assert store.claims.finish(number, "a", took(0.5))
    assert places(store) == [(1, "Ada", 3.0)]
    store.regrades.publish(batch, staff)
    assert places(store) == [(1, "Ada", 0.5)]


def test_pseudonyms_are_drawn_once_and_are_nobodys_twice(
    store: Store, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = Store(f"sqlite:///{tmp_path_factory.mktemp('other')}/course.sqlite3")
    drawn = []
    for each in (store, other):
        for n in range(12):
            hand_in(each, each.roster.add(f"learner{n}", LEARNER), took(1.0 + n))
        board, again = (leaderboard.of_lab(each.database, "lab")["scale"].places for _ in range(2))
        names = {p.login: p.pseudonym for p in board}
        assert names == {p.login: p.pseudonym for p in again} and len(set(names.values())) == 12
        drawn.append(names)
    other.close()
    assert drawn[0] != drawn[1]  # the same logins, the same ids


def test_servers_that_look_at_once_draw_the_same_pseudonyms(store: Store) -> None:
    for n in range(5):
        hand_in(store, store.roster.add(f"learner{n}", LEARNER), took(1.0 + n))
    servers = [Store(store.database.engine.url) for _ in range(4)]
    together, seen = threading.Barrier(4), []

    def look(server: Store) -> None:
        together.wait()
        found = leaderboard.of_lab(server.database, "lab")["scale"].places
        seen.append({place.login: place.pseudonym for place in found})

    threads = [threading.Thread(target=look, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for server in servers:
        server.close()
    assert len(seen) == 4 and all(names == seen[0] for names in seen)


def test_there_are_pseudonyms_for_a_class_of_any_size() -> None:
    first = leaderboard._draw_names(set(), 4000)
    assert len(set(first)) == 4000
    assert not set(leaderboard._draw_names(set(first), 4000)) & set(first)


def board(who: Any, lab: str = "first") -> Any:
    return who._json("leaderboard", f"/api/labs/{lab}/leaderboard")


def handed_in(running: Any, who: Any, source: str) -> None:
    cell = {"cell_type": "code", "source": source}
    running.wait(who.submit("first", json.dumps({"cells": [cell]}).encode())["id"])


def switch(browser: Any, **form: str) -> None:
    assert browser.ask("POST", "/labs/01_first/dates", form).status == 303


def test_learners_see_pseudonyms_and_staff_see_names(running: Any, browser: Any) -> None:
    ada, bob = running.enroll("Ada Lovelace"), running.enroll("Bob Boole")
    handed_in(running, ada, "x = 1 takes 0.8")
    handed_in(running, bob, "x = 1 takes 1.25")
    handed_in(running, bob, "x = 2 takes 0.01")  # fast and wrong
    browser.log_in(running.staff.token)
    switch(browser, leaderboard="on")
    (scale,) = board(bob)["questions"]
    assert scale["question"] == "scale"
    rows = [(row["rank"], row["ratio"], row["you"]) for row in scale["rows"]]
    assert rows == [(1, 0.8, False), (2, 1.25, True)]
    assert not {"login", "name"} & set(scale["rows"][0])
    named = board(running.staff)["questions"][0]["rows"]
    assert [row["login"] for row in named] == ["Ada Lovelace", "Bob Boole"]
    assert [r["pseudonym"] for r in named] == [r["pseudonym"] for r in scale["rows"]]
    assert "Ada Lovelace" in browser.get("/labs/first/leaderboard").text
    browser.log_in(bob.token)
    text = browser.get("/labs/01_first/leaderboard").text
    assert "Ada" not in text and "Lovelace" not in text
    assert all(row["pseudonym"] in text for row in named) and text.count('class="own"') == 1
    assert 'href="/labs/01_first/leaderboard"' in browser.get("/labs").text


def test_it_is_off_until_staff_switch_it_on_and_can_be_off_again(
    running: Any, browser: Any
) -> None:
    ada = running.enroll("Ada")
    handed_in(running, ada, "x = 1 takes 0.8")

    def statuses() -> set[int]:
        found = set()
        for who in (ada, running.staff):
            browser.log_in(who.token)
            found.add(browser.get("/labs/01_first/leaderboard").status)
            try:
                board(who)
                found.add(200)
            except ServerError as refused:
                found.add(refused.status)
        return found

    assert statuses() == {404}
    switch(browser, leaderboard="on")
    assert statuses() == {200}
    assert 'name="leaderboard" checked' in browser.get("/labs").text
    with pytest.raises(ServerError) as refused:
        board(ada, "02_second")
    assert refused.value.status == 404
    switch(browser)
    assert statuses() == {404}
    assert "leaderboard" not in browser.get("/submissions").text


def test_a_learner_far_down_finds_their_own_place(running: Any, browser: Any) -> None:
    course = running.server.course
    running.server.course.queue.stop()
    last = None
    for n in range(103):
        last = course.store.roster.add(f"learner{n}", LEARNER)
        number = course.store.submissions.add(last, "01_first", b"%d" % n).id
        assert course.store.claims.claim("a", 10)
        course.store.claims.finish(number, "a", took(1.0 + n))
    browser.log_in(running.staff.token)
    switch(browser, leaderboard="on")
    browser.log_in(course.store.roster.give_token(last, "bearer"))
    text = browser.get("/labs/01_first/leaderboard").text
    assert text.count("<tr") == 1 + 101 and ">103<" in text and "101 of 103" in text


def test_what_a_learners_code_says_of_its_time_is_no_time() -> None:
    for said in (0.001, {"median": 0.001, "low": 0.0, "high": 0.0}, (0.001, 0.0, 0.0)):
        forged = Check(lambda student, rng: student.call("f"), "f", 1.0, False, None)
        student = LocalStudent({"f": lambda said=said: said})
        found = run_check(forged, student, 0)
        assert (found.outcome, found.ratio) == (Outcome.CORRECT, None)


LAB = """# %% [markdown]
# # Timed
# %% question="twice" points="2"
def twice(x):
    ### BEGIN SOLUTION
    return 2 * x
    ### END SOLUTION
"""
CHECKS = '''import itertools
from autograder.checks import check, not_slower

def reference(x):
    return x + x

@check("twice")
def is_fast(student, rng):
    """it is fast"""
    ticks = itertools.count()  # the judge's clock: each is asked for as long
    return not_slower(student, 3.0, called="twice(1)", clock=lambda: float(next(ticks)),
                      answer=lambda s: s.call("twice", 1),
                      reference=lambda s: s.probe(reference, x=1))
'''
FORGED = """ratio = 0.001
is_fast = {"ratio": 0.001}
class Ratio(int):
    median = low = high = ratio = 0.001
def twice(x):
    print('{"ratio": 0.001}')
    return Ratio(2 * x)
"""


@pytest.mark.sandbox
def test_a_number_forged_in_the_notebook_is_in_no_report(tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text(LAB)
    (tmp_path / "checks.py").write_text(CHECKS)
    cell = {
        "cell_type": "code",
        "source": FORGED,
        "metadata": {"ratio": 0.001},
        "outputs": [{"output_type": "stream", "name": "stdout", "text": "ratio: 0.001"}],
    }
    report = LabGrader(load_lab(tmp_path)).grade(json.dumps({"cells": [cell]}).encode())
    (result,) = report.results
    assert (result.outcome, result.ratio) == (Outcome.CORRECT, 1.0)
    assert Report.from_dict(json.loads(json.dumps(report.to_dict()))) == report
