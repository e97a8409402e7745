"""A course of an older layout is brought over whole."""

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.records import CheckResult, Outcome, Report
from autograder.service.database import migrations, schema
from autograder.service.errors import StartError
from autograder.service.records.store import Store, existing, sqlite_url
from autograder.service.reports import gradebook

RESULT = CheckResult("twice", "scale", Outcome.CORRECT, 4.0, 4.0)
NEW_SINCE_15 = (schema.course_totals, schema.stale_totals, schema.totals_basis)


def of_layout(url: Any, number: int) -> None:
    """Make the course of an older layout out of the one at `url`, which may be none yet."""
    with closing(Store(url)) as store, store.database.write() as connection:
        for table in NEW_SINCE_15:
            table.drop(connection)
        facts = schema.facts.update().where(schema.facts.c.name == "schema")
        connection.execute(facts.values(value=str(number)))


def layout(store: Store) -> dict[str, Any]:
    """Return the tables with their columns and indexes; the layout's number under "schema"."""
    found = sa.inspect(store.database.engine)
    tables: dict[str, Any] = {
        name: (
            [(c["name"], str(c["type"]), c["nullable"]) for c in found.get_columns(name)],
            sorted((i["name"], *i["column_names"]) for i in found.get_indexes(name)),
        )
        for name in found.get_table_names()
    }
    with store.database.read() as connection:
        return tables | {"schema": migrations.fact(connection, "schema")}


# SQLAlchemy cannot read the index over lower(name) back.
@pytest.mark.filterwarnings("ignore:Skipped unsupported reflection")
def test_a_course_of_layout_15_works_out_everybodys_course_total(database_url: Any) -> None:
    store = Store(database_url)
    today = layout(store)
    for login, points in (("ada", 1.0), ("bob", 0.0), ("eve", 2.0), ("zoe", None)):
        person = store.roster.add(login, "learner")
        if points is not None:
            store.submissions.add(person, "lab", login.encode())
            claim = store.claims.claim("a", 10)
            result = replace(RESULT, score=points)
            assert claim
            store.claims.finish(claim.id, "a", Report("lab", (result,)).with_totals())
    key = store.cookie_key
    store.close()
    of_layout(database_url, 15)
    with closing(Store(database_url)) as store:
        page = gradebook.page(store.submissions, gradebook.Asked(sort="-course"))
        assert [row.person.login for row in page.rows] == ["eve", "ada", "bob", "zoe"]
        assert (layout(store), store.cookie_key, len(key)) == (today, key, 64)


def test_a_step_that_is_cut_off_has_not_happened(tmp_path: Path) -> None:
    of_layout(sqlite_url(tmp_path), 15)
    with closing(sqlite3.connect(tmp_path / "course.sqlite3")) as connection:
        names = "SELECT name FROM sqlite_master ORDER BY name"
        connection.execute("CREATE TABLE course_totals_by_share (x)")  # where an index is to be
        before = connection.execute(names).fetchall()
        with pytest.raises(StartError, match="cannot be opened"):
            Store(sqlite_url(tmp_path))
        assert connection.execute(names).fetchall() == before
        connection.execute("DROP TABLE course_totals_by_share")
    Store(sqlite_url(tmp_path)).close()


def test_reading_alone_changes_nothing_and_says_what_to_run(tmp_path: Path) -> None:
    of_layout(sqlite_url(tmp_path), 15)
    for _ in range(2):
        with pytest.raises(StartError, match=r"got version 15.*autograder migrate"):
            Store(sqlite_url(tmp_path), migrate=False)
    with existing(tmp_path, migrate=True), existing(tmp_path) as store:
        assert store.cookie_key


def test_a_layout_that_is_unknown_is_refused(tmp_path: Path) -> None:
    for number in (14, schema.VERSION + 1):
        (tmp_path / str(number)).mkdir()
        url = sqlite_url(tmp_path / str(number))
        of_layout(url, number)
        with pytest.raises(StartError, match=f"got version {number}.*the release that wrote it"):
            Store(url)


def test_every_layout_from_the_first_step_to_todays_has_a_step() -> None:
    assert sorted(migrations._STEPS) == list(range(min(migrations._STEPS), schema.VERSION))


def test_a_data_directory_may_have_any_name(tmp_path: Path) -> None:
    for name in ("a?b", "a%20b", "a#b"):
        data = tmp_path / name
        data.mkdir()
        Store(sqlite_url(data)).close()
        assert (data / "course.sqlite3").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"a?b", "a%20b", "a#b"}


def test_of_servers_that_start_at_once_one_makes_the_tables(database_url: Any) -> None:
    together, errors = threading.Barrier(4), []

    def start() -> None:
        together.wait()
        try:
            Store(database_url).close()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
