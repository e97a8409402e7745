"""A course of an older layout is brought to today's; a new one gets its tables once."""

import sqlite3
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograder.records import CheckResult, Outcome, Report
from autograder.service.database import migrations, schema
from autograder.service.errors import StartError
from autograder.service.records.store import Store, existing, sqlite_url
from autograder.service.reports import gradebook

RESULT = CheckResult("twice", "scale", Outcome.CORRECT, 4.0, 4.0)
OF_15 = (schema.course_totals, schema.stale_totals, schema.totals_basis)  # which it has not


def set_layout(store: Store, number: int) -> None:
    """Have the database say another layout; that of 15 lacks some tables."""
    with store.database.write() as connection:
        for table in OF_15:
            table.drop(connection)
        fact = schema.facts.update().where(schema.facts.c.name == "schema")
        connection.execute(fact.values(value=str(number)))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return the directory of a course of layout 15."""
    store = Store(sqlite_url(tmp_path))
    set_layout(store, 15)
    store.close()
    return tmp_path


def layout(path: Path) -> dict[str, Any]:
    """Return the tables with their columns and keys, and the indexes, in no order."""
    with closing(sqlite3.connect(path / "course.sqlite3")) as connection:
        return layout_of(connection)


def layout_of(connection: sqlite3.Connection) -> dict[str, Any]:
    tables = [n for (n,) in connection.execute("SELECT name FROM sqlite_master WHERE type='table'")]
    found: dict[str, Any] = {}
    for table in tables:
        columns = connection.execute(f"PRAGMA table_info({table})")
        # Name, type, whether it may be null, whether it is the key; not its place or default.
        found[table] = {(c[1], c[2], c[3], c[5]) for c in columns}
    indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type='index'")
    found["indexes"] = {(name, " ".join((sql or "").split())) for name, sql in indexes}
    return found


def test_the_layout_is_the_one_that_a_new_course_has(
    data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    Store(sqlite_url(data)).close()
    new = tmp_path_factory.mktemp("new")
    Store(sqlite_url(new)).close()
    assert layout(data) == layout(new)


def test_a_step_that_is_cut_off_has_not_happened(data: Path) -> None:
    connection = sqlite3.connect(data / "course.sqlite3")
    connection.execute("CREATE INDEX course_totals_by_share ON people (id)")  # which stops it
    connection.commit()
    before = layout(data)
    with pytest.raises(StartError, match="course_totals_by_share"):
        Store(sqlite_url(data))
    assert layout(data) == before
    connection.execute("DROP INDEX course_totals_by_share")
    connection.close()
    Store(sqlite_url(data)).close()


def test_reading_alone_changes_nothing_and_says_what_to_run(data: Path) -> None:
    before = layout(data)
    with pytest.raises(StartError, match=r"got version 15.*autograder migrate"), existing(data):
        pass
    assert layout(data) == before
    with existing(data, migrate=True), existing(data) as store:
        assert store.submissions.all() == []


def test_a_layout_without_a_step_is_refused(tmp_path: Path) -> None:
    for number in (14, 99):
        store = Store(sqlite_url(tmp_path))
        set_layout(store, number)
        store.close()
        with pytest.raises(StartError, match=rf"got version {number}.*the release that wrote it"):
            Store(sqlite_url(tmp_path))
        (tmp_path / "course.sqlite3").unlink()


def test_every_layout_from_the_first_step_on_has_one() -> None:
    assert list(migrations._STEPS) == list(range(min(migrations._STEPS), schema.VERSION))


def test_the_key_of_a_course_is_its_own_and_stays(
    data: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    keys, new = set(), sqlite_url(tmp_path_factory.mktemp("new"))
    for url in (sqlite_url(data), sqlite_url(data), new, new):
        store = Store(url)
        keys.add(store.cookie_key)
        store.close()
    assert len(keys) == 2 and all(len(key) == 64 for key in keys)


def test_a_data_directory_may_have_any_name(tmp_path: Path) -> None:
    for name in ("a?b", "a%20b", "a#b"):
        data = tmp_path / name
        data.mkdir()
        Store(sqlite_url(data)).close()
        assert (data / "course.sqlite3").is_file()
    assert {path.name for path in tmp_path.iterdir()} == {"a?b", "a%20b", "a#b"}


def test_a_course_of_layout_15_works_out_everybodys_course_total(database_url: Any) -> None:
    store = Store(database_url)
    for login, points in (("ada", 1.0), ("bob", 0.0), ("eve", 2.0), ("zoe", None)):
        person = store.roster.add(login, "learner")
        if points is not None:
            store.submissions.add(person, "lab", login.encode())
            claim = store.claims.claim("a", 10)
            result = replace(RESULT, score=points)
            assert claim
            store.claims.finish(claim.id, "a", Report("lab", (result,)).with_totals())
    set_layout(store, 15)
    store.close()
    store = Store(database_url)
    page = gradebook.page(store.submissions, gradebook.Asked(sort="-course"))
    assert [row.person.login for row in page.rows] == ["eve", "ada", "bob", "zoe"]
    store.close()


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
