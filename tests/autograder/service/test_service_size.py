"""A course that the benchmark fills is one that the server kept up, and lists of any length."""

import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.records import CheckResult, Outcome, Report
from autograder.service.database.schema import (
    best_times,
    counts,
    pile,
    standings,
    submissions,
    sums,
)
from autograder.service.errors import ServerError
from autograder.service.records import audit_log
from autograder.service.records.store import Store
from autograder.service.reports import gradebook
from autograder.service.reports.gradebook import PAGE_ROWS, Asked
from tests.autograder.service.recount import recount

LEARNERS = 40
LABS = 16 if os.environ.get("WIDE") else 6
PAGE = 100  # of submissions


@pytest.fixture(scope="module")
def filled(bench: Callable[[str], Any], make_postgres: Callable[[], str]) -> Iterator[Store]:
    url = make_postgres()
    bench("autograder_course").fill(url, LEARNERS, labs=LABS)
    store = Store(url)
    yield store
    store.close()


def test_those_who_repeat_others_stand_as_the_server_would_count_them(
    bench: Callable[[str], Any], make_postgres: Callable[[], str]
) -> None:
    """Of learners beyond the first period, and of nobody else, whatever is kept up is copied."""
    course, url = bench("autograder_course"), make_postgres()
    course.fill(url, course.PERIOD + 30, now=1.9e9, labs=LABS)
    store = Store(url)
    with store.database.write() as connection:
        copied = [rows(connection, table) for table in KEPT_UP]
        recount(connection)
        assert copied == [rows(connection, table) for table in KEPT_UP]
    assert len(copied[0]) == LABS * (course.PERIOD + 30)
    store.close()


KEPT_UP = (standings, pile, best_times, sums, counts)


def rows(connection: sa.Connection, table: sa.Table) -> list[Any]:
    return sorted(map(tuple, connection.execute(sa.select(table))), key=str)


def test_every_learner_has_handed_in_every_lab_two_times_or_three(filled: Store) -> None:
    every = sa.select(sa.func.count()).select_from(submissions)
    assert filled.database.scalar(every) == LEARNERS * LABS * 5 // 2


@pytest.mark.parametrize("sort", ["login", "-name", "section", "total", "-total", "-03_lab"])
@pytest.mark.parametrize("lab", ["", "05_lab"])
def test_the_database_sorts_as_the_rows_say(filled: Store, sort: str, lab: str) -> None:
    order, turned = sort.removeprefix("-"), sort.startswith("-")
    everybody = gradebook.rows(filled.roster.learners(), filled.submissions, lab)

    def key(row: gradebook.Row) -> Any:
        if order in gradebook.ORDERS:
            return getattr(row.person, order).casefold(), row.person.login
        points = row.total if order == "total" else row.labs[order].score
        return points, row.person.login

    if order not in ("03_lab",) or not lab:
        everybody.sort(key=key, reverse=turned)
        found = gradebook.page(filled.submissions, Asked(lab=lab, sort=sort))
        assert found.rows == everybody[:PAGE_ROWS]
        assert (found.learners, found.count) == (LEARNERS, 1)


def test_what_counts_is_the_best_of_all_submissions(filled: Store) -> None:
    people = filled.roster.learners()
    every = gradebook.gradebook(
        (person.login for person in people),
        filled.submissions.of_people([person.id for person in people]),
    )
    for row in gradebook.rows(people, filled.submissions):
        assert row.labs == every[row.person.login]


def test_lists_go_on_before_a_number_and_miss_nothing(filled: Store) -> None:
    newest = filled.submissions.all()
    walked = filled.submissions.page(PAGE)
    while some := filled.submissions.page(PAGE, before=walked[-1].id):
        walked += some
    assert walked == newest
    for number in (1, 2, 5):
        start = filled.submissions.start_of_page(number, PAGE)
        page = filled.submissions.page(PAGE, before=start)
        assert page == newest[PAGE * (number - 1) : PAGE * number]
    assert filled.submissions.page(PAGE, before=filled.submissions.start_of_page(99, PAGE)) == []


def handed_in(running: Any, count: int) -> Any:
    """Return a learner who has handed in so many notebooks, all waiting."""
    store = running.server.course.store
    running.server.course.queue.stop()
    ada = running.enroll("Ada")
    for number in range(count):
        store.submissions.add(store.roster.find("Ada"), "01_first", b"%d" % number)
    return ada


def test_staff_walk_all_submissions_or_have_them_at_once(running: Any) -> None:
    handed_in(running, 5)

    def listed(query: str) -> Any:
        with running.staff._send_request("list", f"/api/submissions{query}") as answer:
            return json.load(answer)

    everything = listed("")
    assert [entry["id"] for entry in everything] == [5, 4, 3, 2, 1]
    walked = listed("?limit=2")
    while some := listed(f"?limit=2&before={walked[-1]['id']}"):
        walked += some
    assert walked == everything
    with pytest.raises(ServerError, match="limit"):
        listed("?limit=0")


def test_pages_of_submissions_lead_on_and_old_links_still_work(running: Any, browser: Any) -> None:
    ada = handed_in(running, PAGE_ROWS + 2)
    for token in (running.staff.token, ada.token):
        browser.log_in(token)
        first = browser.get("/submissions").text
        assert f'href="/submissions/{PAGE_ROWS + 2}"' in first
        assert 'rel="next" href="/submissions?before=3"' in first and "Newest" not in first
        for link in ("/submissions?before=3", "/submissions?page=2"):
            second = browser.get(link).text
            assert [n for n in (1, 2, 3) if f'href="/submissions/{n}"' in second] == [1, 2]
            assert "Older" not in second and "Newest" in second
        assert browser.get("/submissions?page=9").status == 200
        assert browser.get("/submissions?before=x").status == 422


def test_the_log_is_walked_line_by_line_and_old_links_still_work(
    running: Any, browser: Any
) -> None:
    store = running.server.course.store
    with store.database.write() as connection:
        audit_log.write_each(connection, 1.0, "grace", "token", [f"L{n}" for n in range(250)])
    every = audit_log.read(store.database, 1000)
    walked, before = list[Any](), 0
    while before is not None:
        answer = running.staff._json("audit", f"/api/audit?before={before}")
        walked += answer["entries"]
        before = answer["before"]
    assert walked == every
    assert running.staff._json("audit", "/api/audit?page=2")["entries"] == every[100:200]
    browser.log_in(running.staff.token)
    assert f'href="/audit?before={every[99]["id"]}"' in browser.get("/audit").text
    last = browser.get("/audit?page=3").text
    assert ">L0<" in last
    assert "<td>1970-01-01 00:00:01</td>" in last  # as every other page writes it


def test_a_batch_of_many_changes_is_shown_in_pages(running: Any, browser: Any) -> None:
    handed_in(running, PAGE_ROWS + 3)
    store, instructor = running.server.course.store, running.server.course.person("instructor")
    for right in (0.0, 1.0):
        check = CheckResult("c", "q", Outcome.CORRECT, right, 1.0)
        while claim := store.claims.claim("a", 100):
            store.claims.finish(claim.id, "a", Report("lab", (check,)).with_totals())
        if not right:
            batch = store.regrades.start("01_first", None, instructor)
    browser.log_in(running.staff.token)
    first = browser.get(f"/regrades/{batch}").text
    assert f"<dd>{PAGE_ROWS + 3}</dd>" in first
    assert f'href="/regrades/{batch}?after={PAGE_ROWS}"' in first
    rest = browser.get(f"/regrades/{batch}?after={PAGE_ROWS}").text
    assert rest.count('<th scope="row">') == 3 and 'rel="next"' not in rest
    assert len(running.staff._json("batch", f"/api/regrades/{batch}")["changed"]) == PAGE_ROWS + 3
