"""A whole server on PostgreSQL: what staff and learners do, and several servers on one database."""

import csv
import io
import json
import threading
from typing import Any

import pytest

from autograder.service.records.store import Store

CELL = '{{"cells": [{{"cell_type": "code", "source": "{}"}}]}}'


@pytest.fixture
def on_postgres(make_postgres: Any, start: Any) -> Any:
    with start(database_url=make_postgres()) as running:
        yield running


def test_a_course_runs_on_postgresql(on_postgres: Any) -> None:
    course, staff = on_postgres.server.course, on_postgres.staff
    found = staff.roster(b"login,name,section\nada,=Ada,A\nbob,Bob,B\n")
    assert found["added"] == 2
    ada = on_postgres.enroll("Ada L.")
    number = ada.submit("first", CELL.format("manual x = 1").encode())["id"]
    assert on_postgres.wait(number) == "graded"
    instructor = course.store.roster.find("instructor")
    course.store.submissions.mark(number, {"why": {"points": 2, "comment": "a\0b"}}, instructor)
    on_postgres.grader.right = "nothing"
    batch = course.store.regrades.start("01_first", None, instructor)
    course.queue.wake()
    waiting = threading.Event()
    while course.store.regrades.get(batch)[0].state == "running":
        waiting.wait(0.01)
    assert [(c.before, c.after) for c in course.store.regrades.get(batch)[1]] == [(6.0, 2.0)]
    course.store.regrades.publish(batch, instructor)
    assert ada.submission(str(number))["score"] == 2.0
    rows = list(csv.DictReader(io.StringIO(staff.export("csv"))))
    assert [(row["learner"], row["score"]) for row in rows] == [("Ada L.", "2")]
    assert json.loads(staff.export("gradescope"))[0]["results"]["score"] == 2.0


def test_two_servers_share_a_database_and_grade_each_submission_once(make_postgres: Any) -> None:
    url = make_postgres()
    stores = [Store(url), Store(url)]
    people = [stores[0].roster.add(f"learner{n}", "learner") for n in range(6)]
    numbers = [
        stores[n % 2].submissions.add(person, "lab", f"{n}{person.login}".encode()).id
        for person in people
        for n in range(5)
    ]
    claimed: list[int] = []

    def work(store: Store, owner: str) -> None:
        while claim := store.claims.claim(owner, 60):
            claimed.append(claim.id)
            store.claims.park(claim.id, owner, "done")

    threads = [threading.Thread(target=work, args=(stores[n % 2], str(n))) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    work(stores[0], "last")  # a line that another held was passed over
    assert sorted(claimed) == sorted(numbers)
    for store in stores:
        assert store.claims.waiting().waiting == store.claims.waiting().grading == 0
        store.close()


def test_a_password_is_in_no_message(make_postgres: Any) -> None:
    url = make_postgres().replace("course@", "course:sesame@").replace("host=", "host=/nowhere")
    with pytest.raises(Exception, match="cannot be opened") as error:
        Store(url)
    assert "sesame" not in str(error.value)
