"""Reading and writing: nobody waits for a reader, writers take turns, and busy is no crash."""

import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from autograder.records import Report
from autograder.service.database import database as database_module
from autograder.service.database.database import Database
from autograder.service.errors import Refused, StartError
from autograder.service.grading.catalog import LabCatalog
from autograder.service.grading.queue import Queue
from autograder.service.records.people import LEARNER
from autograder.service.records.store import Store, sqlite_url
from autograder.service.records.submissions.claims import Claims
from autograder.service.running.server import TOKEN_FILE, instructor_token
from autograder.service.tokens import new_token


@pytest.fixture
def database(tmp_path: Path) -> Any:
    opened = Database(sqlite_url(tmp_path), busy_ms=1)
    with opened.write() as connection:
        connection.exec_driver_sql("CREATE TABLE numbers (number INTEGER)")
    yield opened
    opened.close()


def numbers(database: Database) -> list[int]:
    with database.read() as connection:
        return [row[0] for row in connection.exec_driver_sql("SELECT number FROM numbers")]


def add(database: Database, number: int) -> None:
    with database.write() as connection:
        connection.exec_driver_sql(f"INSERT INTO numbers VALUES ({number})")


@contextmanager
def another_process_writes(folder: Path) -> Iterator[None]:
    other = sqlite3.connect(folder / "course.sqlite3", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        other.rollback()
        other.close()


def test_a_database_that_stays_busy_is_503_and_nothing_is_half_done(
    database: Database, tmp_path: Path
) -> None:
    with another_process_writes(tmp_path):
        with pytest.raises(Refused) as refused:
            add(database, 1)
        assert refused.value.status == 503 and int(refused.value.headers["Retry-After"]) > 0
        assert numbers(database) == []
    add(database, 2)
    assert numbers(database) == [2]


def test_a_writer_waits_for_another_process_to_end(tmp_path: Path) -> None:
    database, waits = Database(sqlite_url(tmp_path)), threading.Event()
    with database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE numbers (number INTEGER)")

    def write() -> None:
        waits.set()
        add(database, 1)

    thread = threading.Thread(target=write)
    with another_process_writes(tmp_path):
        thread.start()
        assert waits.wait(30)
    thread.join()
    assert numbers(database) == [1]
    database.close()


def test_what_raises_in_a_write_changes_nothing(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.write() as connection:
        connection.exec_driver_sql("INSERT INTO numbers VALUES (1)")
        raise ZeroDivisionError
    assert numbers(database) == []
    add(database, 2)
    assert numbers(database) == [2]


def test_a_reader_sees_one_state_while_others_write(database: Database) -> None:
    add(database, 1)
    with database.read() as connection:
        count = "SELECT count(*) FROM numbers"
        before = connection.exec_driver_sql(count).scalar()
        add(database, 2)
        assert connection.exec_driver_sql(count).scalar() == before == 1
    assert numbers(database) == [1, 2]


def test_writers_of_one_process_lose_no_update(database: Database) -> None:
    """Each reads, then writes what it read plus one: BEGIN IMMEDIATE, or some would be lost."""
    add(database, 0)

    def count_up() -> None:
        for _ in range(25):
            with database.write() as connection:
                found = connection.exec_driver_sql("SELECT number FROM numbers").scalar() or 0
                connection.exec_driver_sql(f"UPDATE numbers SET number = {found + 1}")

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert numbers(database) == [100]


class Away(Claims):
    """Claims over a database that is away until it is `mended`."""

    mended = False

    def claim(self, *args: Any, **kwargs: Any) -> Any:
        if not self.mended:
            raise OSError("no space left on device")
        return super().claim(*args, **kwargs)


def test_a_database_that_is_away_pauses_the_queue_which_says_so_and_goes_on(
    tmp_path: Path, grader: Any
) -> None:
    store = Store(sqlite_url(tmp_path))
    claims = Away(store.database, lambda: 1000.0)
    number = store.submissions.add(store.roster.add("Ada", LEARNER), "lab", b"x = 1").id
    queue = Queue(claims, lambda: grader, owner="a", solution=lambda lab: b"x = 1")
    queue.start()
    until(lambda: queue.reasons() == {"database": "OSError: no space left on device"})
    claims.mended = True
    queue.wake()
    until(lambda: store.submissions.report(number) is not None and queue.reasons() == {})
    queue.stop()
    assert isinstance(store.submissions.report(number), Report)
    store.close()


def until(condition: Callable[[], bool]) -> None:
    waiting = threading.Event()
    while not condition():
        waiting.wait(0.01)


def test_servers_that_start_at_once_agree_on_the_instructor(
    database_url: str, tmp_path: Path
) -> None:
    """Each looks for the instructor before another has added them."""
    token, count = new_token(), 4
    stores = [Store(database_url) for _ in range(count)]
    start, errors = threading.Barrier(count), list[BaseException]()

    def agree(number: int) -> None:
        folder = tmp_path / f"server{number}"
        folder.mkdir()
        (folder / TOKEN_FILE).write_text(token)
        try:
            start.wait(60)
            assert instructor_token(folder, stores[number].roster) == token
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=agree, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    owner = stores[0].roster.owner(token, "bearer")
    assert owner is not None and owner.login == "instructor"
    for store in stores:
        store.close()


def test_connections_that_broke_while_nobody_used_them_are_made_anew(
    make_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = make_postgres()
    with closing(Database(url)) as used, closing(Database(url)) as other:
        one = sa.select(sa.literal(1))

        def break_it() -> None:
            others = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
            others += "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            with other.write() as connection:
                connection.exec_driver_sql(others)

        assert used.scalar(one) == 1
        monkeypatch.setattr(database_module, "_IDLE_S", -1.0)  # whatever rested at all
        break_it()
        assert used.scalar(one) == 1
        break_it()
        with used.write() as connection:
            assert connection.scalar(one) == 1
        monkeypatch.setattr(database_module, "_IDLE_S", 1e9)  # unasked, it fails
        break_it()
        with pytest.raises(sa.exc.OperationalError):
            used.scalar(one)
        assert used.scalar(one) == 1


def test_threads_that_read_labs_at_once_parse_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = LabCatalog(tmp_path)
    for name in "abcdef":
        (tmp_path / name).mkdir()
        (tmp_path / name / "checks.py").write_text("")
    busy, most, together = threading.Semaphore(1), [], threading.Barrier(6)

    def counts(_text: str) -> tuple[int, int]:
        alone = busy.acquire(blocking=False)
        most.append(alone)
        threading.Event().wait(0.01)  # time for another to come
        if alone:
            busy.release()
        return 1, 2

    monkeypatch.setattr("autograder.authoring.public_checks.counts", counts)

    def ask(name: str) -> tuple[int, int] | None:
        together.wait()
        return catalog.checks(name)

    with ThreadPoolExecutor(6) as threads:
        assert list(threads.map(ask, "abcdef")) == [(1, 2)] * 6
    assert most == [True] * 6


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_statement_is_compiled_once_for_all_databases_of_a_server(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    compiled: list[Any] = []
    last = []
    for name in "abc":
        if kind == "postgresql":
            url: Any = request.getfixturevalue("make_postgres")()
        else:
            url = sa.URL.create("sqlite", database=str(tmp_path / name))
        with closing(Database(url)) as database:
            database.scalar(sa.select(sa.literal(1)))  # now it has been asked what it is
            sa.event.listen(
                database.engine,
                "after_cursor_execute",
                lambda *executed: compiled.append(executed[4].compiled),
            )
            assert database.scalar(sa.select(sa.literal(1) + 2)) == 3
            last.append(compiled[-1])
    assert last[1] is last[2]


def test_a_course_that_finds_no_room_is_told_of_the_disk_and_not_of_its_path(
    tmp_path: Path,
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, before[1]))
    try:
        with pytest.raises(StartError, match="Is its disk full") as error:
            Store(sqlite_url(tmp_path))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert "path" not in str(error.value)
    with pytest.raises(StartError, match="Does PostgreSQL run there"):
        Store("postgresql://course@127.0.0.1:1/course")
