"""The durable queue: nothing is lost, nothing is graded twice at once, nothing loops."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.records import Report
from autograder.service.errors import StartError
from autograder.service.ledger import Ledger
from autograder.service.queue import MAX_ATTEMPTS, Queue
from autograder.service.roster import LEARNER, Person
from autograder.service.store import Store, sqlite_url


class Clock:
    """A clock that a test moves."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(tmp_path: Path, clock: Clock) -> Any:
    opened = Store(sqlite_url(tmp_path), clock=clock)
    yield opened
    opened.close()


@pytest.fixture
def ledger(store: Store) -> Ledger:
    return store.ledger


@pytest.fixture
def ada(store: Store) -> Person:
    return store.roster.add("Ada", LEARNER)


def queue_over(ledger: Ledger, grader: Any, owner: str = "node/1", **more: Any) -> Queue:
    return Queue(ledger, lambda: grader, owner=owner, full_marks=lambda lab: 4.0, **more)


def test_who_submits_sixty_at_once_keeps_nobody_waiting(
    ledger: Ledger, ada: Person, store: Store, clock: Clock
) -> None:
    flood = [ledger.add(ada, "lab", b"{}") for _ in range(60)]
    bob, eve = (store.roster.add(name, LEARNER) for name in ("Bob", "Eve"))
    first = ledger.claim("a", 100)
    assert first and first.id == flood[0]
    others = [ledger.add(person, "lab", b"{}") for person in (bob, bob, eve)]
    clock.now += 1
    ledger.finish(first.id, "a", score=1.0, max_score=4.0, report="{}")
    order = []
    for _ in range(6):
        clock.now += 1
        claim = ledger.claim("a", 100)
        assert claim
        ledger.finish(claim.id, "a", score=1.0, max_score=4.0, report="{}")
        order.append(claim.id)
    bobs, bobs_second, eves = others
    assert order == [bobs, eves, flood[1], bobs_second, flood[2], flood[3]]


def test_a_lease_that_ran_out_does_not_put_its_person_last(
    ledger: Ledger, ada: Person, store: Store, clock: Clock
) -> None:
    number = ledger.add(ada, "lab", b"{}")
    assert ledger.claim("gone", 10)
    clock.now += 20
    ledger.add(store.roster.add("Bob", LEARNER), "lab", b"{}")
    claim = ledger.claim("next", 10)
    assert claim and claim.id == number


def test_the_oldest_is_claimed_first_and_once(ledger: Ledger, ada: Person) -> None:
    numbers = [ledger.add(ada, "lab", b"{}") for _ in range(3)]
    claims = [ledger.claim("a", 10), ledger.claim("b", 10), ledger.claim("a", 10)]
    assert [claim.id for claim in claims if claim] == numbers
    assert ledger.claim("a", 10) is None


def test_many_workers_never_claim_the_same(ledger: Ledger, ada: Person) -> None:
    numbers = [ledger.add(ada, "lab", b"{}") for _ in range(40)]
    taken: list[int] = []

    def take(owner: str) -> None:
        while claim := ledger.claim(owner, 10):
            taken.append(claim.id)

    threads = [threading.Thread(target=take, args=(f"worker {i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == numbers


def test_a_lease_that_ran_out_is_claimed_again(ledger: Ledger, ada: Person, clock: Clock) -> None:
    number = ledger.add(ada, "lab", b"{}")
    assert ledger.claim("gone", 10)
    clock.now += 9
    assert ledger.claim("next", 10) is None
    clock.now += 2
    again = ledger.claim("next", 10)
    assert again and (again.id, again.attempts) == (number, 2)


def test_a_renewed_lease_is_kept(ledger: Ledger, ada: Person, clock: Clock) -> None:
    number = ledger.add(ada, "lab", b"{}")
    ledger.claim("first", 10)
    clock.now += 9
    assert ledger.renew(number, "first", 10)
    clock.now += 9
    assert ledger.claim("second", 10) is None


def test_who_lost_the_claim_cannot_write_the_grade(
    ledger: Ledger, ada: Person, clock: Clock
) -> None:
    number = ledger.add(ada, "lab", b"{}")
    ledger.claim("slow", 10)
    clock.now += 11
    ledger.claim("quick", 10)
    assert not ledger.finish(number, "slow", score=0, max_score=4, report="{}")
    assert not ledger.renew(number, "slow", 10)
    assert ledger.finish(number, "quick", score=4, max_score=4, report="{}")
    assert not ledger.finish(number, "quick", score=0, max_score=4, report="{}")
    entry = ledger.get(number)
    assert entry and (entry.state, entry.score) == ("graded", 4)


def test_a_death_is_tried_once_more_then_failed_with_a_report(
    ledger: Ledger, ada: Person, grader: Any
) -> None:
    number = ledger.add(ada, "lab", b"die")
    queue = queue_over(ledger, grader)
    while queue.work(grader):
        pass
    assert len(grader.graded) == 2
    entry = ledger.get(number)
    assert entry and (entry.state, entry.score, entry.max_score) == ("failed", 0.0, 4.0)
    assert entry.reason and "status -9" in entry.reason
    report = Report.from_dict(json.loads(ledger.report(number) or ""))
    assert "2 times" in report.error and "status" not in report.error


def test_an_honest_submission_behind_a_deadly_one_is_graded(
    ledger: Ledger, ada: Person, grader: Any
) -> None:
    ledger.add(ada, "lab", b"die")
    number = ledger.add(ada, "lab", b"x = 1")
    queue = queue_over(ledger, grader)
    while queue.work(grader):
        pass
    entry = ledger.get(number)
    assert entry and (entry.state, entry.score) == ("graded", 4.0)


def test_a_grader_that_raises_is_counted_like_a_death(ledger: Ledger, ada: Person) -> None:
    class Broken:
        def grade(self, lab: str, notebook: bytes) -> Report:
            raise ZeroDivisionError("ours")

        def close(self) -> None:
            pass

    number = ledger.add(ada, "lab", b"{}")
    queue = queue_over(ledger, Broken())
    while queue.work(Broken()):
        pass
    entry = ledger.get(number)
    assert entry and entry.state == "failed" and "ZeroDivisionError" in (entry.reason or "")


def test_a_submission_that_kills_the_server_every_time_ends_failed(
    ledger: Ledger, ada: Person, grader: Any
) -> None:
    number = ledger.add(ada, "lab", b"x = 1")
    for _ in range(MAX_ATTEMPTS):
        assert ledger.claim("node/1", 10)
        assert ledger.free_orphans("node") == 1
    queue_over(ledger, grader).work(grader)
    entry = ledger.get(number)
    assert entry and entry.state == "failed" and grader.graded == []


def test_orphans_of_this_node_are_freed_and_of_others_are_not(ledger: Ledger, ada: Person) -> None:
    ledger.add(ada, "lab", b"{}")
    ledger.add(ada, "lab", b"{}")
    ledger.claim("ours/1", 10)
    ledger.claim("ours_too/1", 10)
    assert ledger.free_orphans("ours") == 1
    assert [entry.state for entry in ledger.all()] == ["grading", "stored"]


def test_a_stopped_server_gives_its_work_back(start: Callable[..., Any]) -> None:
    with start() as running:
        learner = running.enroll("Ada")
        learner.submit("first", b'{"cells": [{"cell_type": "code", "source": "wait x = 1"}]}')
        assert running.grader.entered.wait(30)
        ledger = running.server.course.ledger
    entry = ledger.get(1)
    assert entry and (entry.state, entry.attempts) == ("stored", 0)
    with start() as running:
        running.grader.gate.set()
        assert running.wait(1) == "graded"


def test_work_left_by_a_killed_server_is_graded_by_the_next(
    start: Callable[..., Any], settings: Any
) -> None:
    with start() as running:
        running.enroll("Ada")
        node = running.server._queue._owner.partition("/")[0]
    store = Store(sqlite_url(settings.data))
    ada = store.roster.find("Ada")
    assert ada
    store.ledger.add(ada, "01_first", b"x = 1")
    store.ledger.claim(f"{node}/4242", 3600)
    store.close()
    with start() as running:
        assert running.wait(1) == "graded"


def test_a_regrade_goes_through_the_queue_again(running: Any) -> None:
    learner = running.enroll("Ada")
    number = learner.submit("first", b'{"cells": [{"cell_type": "code", "source": "die"}]}')["id"]
    assert running.wait(number) == "failed"
    assert running.server.course.ledger.regrade(number)
    running.server.course.wake()
    assert running.wait(number) == "failed"
    assert len(running.grader.graded) == 4
    assert not running.server.course.ledger.regrade(99)
    assert not running.server.course.ledger.regrade(10**30)  # more than a database can hold


def test_two_servers_do_not_share_a_data_directory(start: Callable[..., Any]) -> None:
    with start(), pytest.raises(StartError, match="in use by another"), start():
        pass


def test_the_instructor_token_is_private_and_stays(
    start: Callable[..., Any], settings: Any
) -> None:
    path = settings.data / "instructor.token"
    with start() as running:
        first = running.staff.token
        assert path.stat().st_mode & 0o777 == 0o600
        database = b"".join(p.read_bytes() for p in settings.data.glob("course.sqlite3*"))
        assert first.encode() not in database and first.split(".")[1].encode() not in database
    with start() as running:
        assert running.staff.token == first
        running.enroll("Ada")
    path.unlink()
    with start() as running:
        assert running.staff.token != first
        running.enroll("Bob")


def test_a_database_of_another_layout_is_refused(start: Callable[..., Any], settings: Any) -> None:
    import sqlite3

    with start():
        pass
    connection = sqlite3.connect(settings.data / "course.sqlite3")
    connection.execute("UPDATE facts SET value = '0'")
    connection.commit()
    connection.close()
    with pytest.raises(StartError, match="another layout"), start():
        pass


def test_a_file_that_is_no_database_is_refused(start: Callable[..., Any], settings: Any) -> None:
    settings.data.mkdir()
    (settings.data / "course.sqlite3").write_text("certainly not a database" * 100)
    with pytest.raises(StartError, match="cannot be opened"), start():
        pass
