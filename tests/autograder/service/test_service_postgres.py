"""A whole server on PostgreSQL: what staff and learners do, and several servers on one database."""

import csv
import io
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.database import schema
from autograder.service.database.backups import backup
from autograder.service.errors import StartError
from autograder.service.records.grades import course_rule
from autograder.service.records.grades.decisions import decide, read_decisions
from autograder.service.records.people import Edit
from autograder.service.records.store import Store

ROOT = Path(__file__).parents[3]
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
    rows = list(csv.DictReader(io.StringIO(staff.text("export", format="csv"))))
    assert [(row["learner"], row["score"]) for row in rows] == [("Ada L.", "2")]
    assert json.loads(staff.text("export", format="gradescope"))[0]["results"]["score"] == 2.0


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


def test_two_of_staff_may_say_the_same_at_once(make_postgres: Any) -> None:
    url = make_postgres()
    with closing(Store(url)) as first, closing(Store(url)) as second:
        staff, ada = first.roster.add("staff", "instructor"), first.roster.add("ada", "learner")
        at_once = threading.Barrier(2)

        def say(store: Store) -> None:
            try:
                for number in range(15):
                    at_once.wait()
                    rule = {"drop_lowest": number % 3, "weights": {"lab": 1.0 + number}}
                    course_rule.put(Edit(store.database, lambda: 0.0, staff), rule, ["lab"])
                    points = {"points": number, "max_score": 20}
                    decide(Edit(store.database, lambda: 0.0, staff), "lab", ada, points)
            except BaseException:
                at_once.abort()
                raise

        with ThreadPoolExecutor(2) as pool:
            list(pool.map(say, (first, second)))
        with first.database.read() as connection:
            rule = course_rule.course_rule(connection)
        assert rule == course_rule.CourseRule(2, {"lab": 15.0})
        (decision,) = read_decisions(first.database, [ada.id], veiled=False)
        assert decision.points == 14


def test_a_password_is_in_no_message(make_postgres: Any) -> None:
    url = make_postgres().replace("course@", "course:sesame@").replace("host=", "host=/nowhere")
    with pytest.raises(Exception, match="cannot be opened") as error:
        Store(url)
    assert "sesame" not in str(error.value)


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_cannot_hold_every_name_is_refused_with_the_way_to_a_right_one(
    make_postgres: Any, tmp_path: Path, capsys: Any, encoding: str
) -> None:
    asked = ["courses", "list", "--data", str(tmp_path), "--database", make_postgres(encoding)]
    assert main(asked) == 2
    complaint = capsys.readouterr().err
    assert f"got {encoding}, expected UTF8" in complaint and complaint.count("\n") == 1
    assert "`createdb -E UTF8 -T template0 NAME`" in complaint


def test_what_a_client_of_postgresql_is_told_to_speak_changes_no_name(make_postgres: Any) -> None:
    program = "import sys; from autograder.service.records.store import Store\n"
    program += "print(ascii(Store(sys.argv[1]).roster.add('Łukasz', 'learner').login))"
    for encoding in ("SQL_ASCII", "LATIN1"):
        done = subprocess.run(
            [sys.executable, "-c", program, make_postgres()],
            env={**os.environ, "PGCLIENTENCODING": encoding},
            capture_output=True,
            text=True,
        )
        assert done.stdout == ascii("Łukasz") + "\n", done.stderr


def tables(url: str) -> list[Any]:
    store = Store(url)
    tables = schema.metadata.sorted_tables
    rows = [sorted(map(repr, store.database.rows(table.select()))) for table in tables]
    store.close()
    return rows


def test_a_restored_course_is_the_same(make_postgres: Any, tmp_path: Path, capsys: Any) -> None:
    source, empty = make_postgres(), make_postgres()
    data, file = tmp_path / "data", tmp_path / "course.backup"
    data.mkdir()
    (data / "instructor.token").write_text("T")
    store = Store(source)
    person, other = (store.roster.add(name, "learner") for name in ("Zoë\t\\.", "Bo"))
    rows = [{"lab": "lab", "person_id": each.id, "team": "reds"} for each in (person, other)]
    with store.database.write() as connection:
        connection.execute(schema.team_members.insert(), rows)
    for content in (b"", b"\0\xff\n\t", b"{}" * 50_000):
        store.submissions.add(person, "lab", content)
    store.close()
    asked = ["backup", str(file), "--data", str(data), "--database", source]
    assert main(asked) == 0 and "read back and whole" in capsys.readouterr().out
    asked = ["restore", str(file), "--data", str(tmp_path / "new"), "--database"]
    assert main([*asked[:-1]]) == 2 and "give --database URL" in capsys.readouterr().err
    assert main([*asked, empty]) == 0
    assert tables(empty) == tables(source)
    assert (tmp_path / "new" / "instructor.token").read_text() == "T"
    asked[3] = str(tmp_path / "newer")
    assert main([*asked, source]) == 2
    complaint = capsys.readouterr().err
    assert "is not empty: it has the table accommodations and" in complaint
    assert complaint.count("\n") == 1
    file.write_bytes(file.read_bytes()[:-9] + b"x" * 9)
    assert main([*asked, make_postgres()]) == 2 and "damaged" in capsys.readouterr().err


def test_a_backup_whose_notebook_is_another_is_refused(make_postgres: Any, tmp_path: Path) -> None:
    store = Store(url := make_postgres())
    number = store.submissions.add(store.roster.add("ada", "learner"), "lab", b"x = 1").id
    with store.database.write() as connection:
        connection.execute(schema.notebooks.update().values(notebook=b"x = 2"))
    store.close()
    with pytest.raises(StartError, match=f"notebook of submission {number} is not as"):
        backup(tmp_path, tmp_path / "course.backup", url)
    assert not (tmp_path / "course.backup").exists()


def test_without_pg_dump_a_backup_says_what_to_install(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "autograder", "backup", "file", "--data", ".")
    asked = [*command, "--database", "postgresql://course:sesame@nowhere/course"]
    environment = {**os.environ, "PATH": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        asked, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and "apt-get install postgresql-client" in done.stderr
    assert "sesame" not in done.stderr
