"""A course in a file: taken under load, proven, refused when damaged; and the other commands."""

import json
import resource
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.service.database.backups import backup, restore, unpack
from autograder.service.errors import StartError
from autograder.service.records.store import existing

RIGHT = b'{"cells": [{"cell_type": "code", "source": "x = 1"}]}'


def contents(data: Path) -> list[Any]:
    connection = sqlite3.connect(data / "course.sqlite3")
    tables = "people", "tokens", "submissions", "notebooks", "gradings", "reports", "marks"
    found = [connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall() for table in tables]
    connection.close()
    return found


@pytest.fixture
def made(running: Any, tmp_path: Path) -> Path:
    """Return a backup of a course with a graded submission, and its copy for another of a team."""
    learner = running.enroll("Ada")
    running.enroll("Bo")
    running.staff.send(
        "PUT", "labs", "first", "teams", body=b"login,team\nAda,reds\nBo,reds\n", dry_run=False
    )["changes"]
    running.wait(learner.submit("first", RIGHT)["id"])
    backup(tmp_path / "data", tmp_path / "course.backup")
    return tmp_path / "course.backup"


def test_a_restored_course_is_the_same(made: Path, tmp_path: Path, running: Any) -> None:
    assert main(["restore", str(made), "--data", str(tmp_path / "new")]) == 0
    assert contents(tmp_path / "new") == contents(tmp_path / "data")
    token = (tmp_path / "data" / "instructor.token").read_text()
    assert (tmp_path / "new" / "instructor.token").read_text() == token
    for path in (made, *(tmp_path / "new").glob("*[3n]")):
        assert path.stat().st_mode & 0o077 == 0
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "course.sqlite3",
        "instructor.token",
        "server.lock",
    }


def test_a_backup_under_load_has_one_state(running: Any, tmp_path: Path) -> None:
    """Each is proven: no notebook without its submission, none cut off."""
    learner, over = running.enroll("Ada"), threading.Event()

    def submit() -> None:
        number = 0
        while not over.is_set() and number < 50:
            number += 1
            source = f"x = {number} #" + "." * 50_000
            cell = {"cell_type": "code", "source": source}
            learner.submit("first", json.dumps({"cells": [cell]}).encode())

    thread = threading.Thread(target=submit)
    thread.start()
    for number in range(3):
        backup(tmp_path / "data", tmp_path / f"{number}")
        with unpack(tmp_path / f"{number}") as files:
            assert len(files) == 2
    over.set()
    thread.join()


def test_a_damaged_backup_is_refused_and_changes_nothing(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = made.read_bytes()
    places = range(0, len(whole), max(1, len(whole) // 100))
    damaged = [
        whole[:place] + bytes([whole[place] ^ 0x20]) + whole[place + 1 :] for place in places
    ]
    for data in (b"", b"PK", whole[: len(whole) // 2], whole[:-1], whole + b"x", *damaged):
        made.write_bytes(data)
        assert main(["restore", str(made), "--data", str(tmp_path / "target")]) == 2
        assert "damaged" in capsys.readouterr().err
    assert not (tmp_path / "target" / "course.sqlite3").exists()


def test_a_backup_that_finds_no_room_says_so_and_leaves_nothing(made: Path, tmp_path: Path) -> None:
    (tmp_path / "idle").mkdir()
    restore(made, tmp_path / "idle")
    (tmp_path / "full").mkdir()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 14, before[1]))
    try:
        with pytest.raises(StartError, match="room"):
            backup(tmp_path / "idle", tmp_path / "full" / "course")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list((tmp_path / "full").iterdir()) == []


def test_a_notebook_that_is_not_the_one_handed_in_is_found(made: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    restore(made, tmp_path / "other")
    connection = sqlite3.connect(tmp_path / "other" / "course.sqlite3")
    connection.execute("UPDATE notebooks SET notebook = x'00'")
    connection.commit()
    connection.close()
    with pytest.raises(StartError, match="submission 1 is not as it was handed in"):
        backup(tmp_path / "other", tmp_path / "bad")
    assert not (tmp_path / "bad").exists()


def test_a_course_from_before_there_were_teams_is_backed_up(made: Path, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    restore(made, tmp_path / "old")
    connection = sqlite3.connect(tmp_path / "old" / "course.sqlite3")
    connection.execute("DELETE FROM submissions WHERE id > 1")
    connection.execute("DROP TABLE team_copies")
    connection.execute("DELETE FROM notebooks WHERE submission_id > 1")
    connection.commit()
    connection.close()
    assert backup(tmp_path / "old", tmp_path / "new") > 0


def test_restore_refuses_a_directory_with_a_course_or_in_use(
    made: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["restore", str(made), "--data", str(tmp_path / "data")]) == 2
    assert "in use" in capsys.readouterr().err
    (tmp_path / "idle").mkdir()
    restore(made, tmp_path / "idle")
    assert main(["restore", str(made), "--data", str(tmp_path / "idle")]) == 2
    assert "holds a course already" in capsys.readouterr().err
    assert main(["backup", "--data", str(tmp_path), str(tmp_path / "x")]) == 2
    assert main(["restore", str(tmp_path / "none"), "--data", str(tmp_path / "y")]) == 2


def test_a_log_that_another_database_left_is_not_written_into_the_restored_one(
    made: Path, tmp_path: Path
) -> None:
    left = tmp_path / "left"
    left.mkdir()
    (left / "course.sqlite3-wal").write_bytes(b"of another")
    with pytest.raises(StartError, match="left of one: course"):
        restore(made, left)
    assert [path.name for path in left.iterdir()] == ["course.sqlite3-wal"]


def test_nobody_prepares_the_file_that_a_backup_is_written_to(running: Any, tmp_path: Path) -> None:
    """In a folder that others write to, a file of theirs would let them read the tokens."""
    trap = tmp_path / ".course.part"
    trap.write_text("mine")
    trap.chmod(0o666)
    backup(tmp_path / "data", tmp_path / "course")
    assert trap.read_text() == "mine"
    assert (tmp_path / "course").stat().st_mode & 0o077 == 0


def test_staff_are_added_here_and_over_http(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = ["--server", running.staff.server, "--token", running.staff.token]
    for login, where in (("grace", there), ("edsger", ["--data", str(tmp_path / "data")])):
        assert main(["staff", "add", login, "--role", "assistant", *where]) == 0
        token = capsys.readouterr().out.split()[-1]
        owner = running.server.course.store.roster.owner(token, "bearer")
        assert (owner.login, owner.role) == (login, "assistant")
        assert main(["staff", "add", login, "--role", "assistant", *where]) == 2
        assert "taken" in capsys.readouterr().err
    with existing(tmp_path / "data") as store:
        found = [store.roster.find(login) for login in ("edsger", "grace")]
        assert [person and person.role for person in found] == ["assistant", "assistant"]


def test_a_roster_is_imported_and_its_problems_are_exit_1(
    running: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "roster.csv"
    file.write_text("login,name\nada,Ada\n<b>,x\n")
    there = ["--server", running.staff.server, "--token", running.staff.token]
    for more in (["--dry-run"], []):
        assert main(["roster", "import", str(file), *more, *there]) == 1
        said = capsys.readouterr()
        assert "1 added, 0 changed, 0 unchanged, 0 removed" in said.out
        assert "line 3" in said.err
    file.write_text("login\nada\n")
    assert main(["roster", "import", str(file), *there]) == 0
    assert main(["roster", "import", str(tmp_path / "none"), *there]) == 2
