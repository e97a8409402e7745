"""The commands as they are typed: each kind once in a process of its own, the rest in this one."""

import io
import json
import logging
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.errors import ServerError, StartError
from autograder.service.records.store import Store, sqlite_url
from autograder.service.running.command_line import add_commands
from autograder.service.running.data_directory import claim_directory
from autograder.service.running.server import TOKEN_FILE, instructor_token
from tests.autograder.service.forked import COMMAND, Forked

SAMPLES = Path(__file__).parents[1] / "sample_labs"
PROGRAM = [sys.executable, "-c", COMMAND]


NOWHERE = ("--port", "0", "--labs", "{labs}", "--database", "nonsense")
NEW = ("--port", "0", "--data", "{tmp}/d", "--labs", "{labs}")


def autograder(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    names = ("AUTOGRADER_SERVER", "AUTOGRADER_TOKEN", "AUTOGRADER_TOKEN_FILE")
    clean = {name: value for name, value in os.environ.items() if name not in names}
    command = [*PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command, env={**clean, **environment}, capture_output=True, text=True, check=False
    )


def in_this_process(*arguments: object) -> "subprocess.CompletedProcess[str]":
    """Run a command without the second that a process takes to import what it needs."""
    words = [str(word) for word in arguments]
    out, errors = (io.TextIOWrapper(io.BytesIO(), write_through=True) for _ in range(2))
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            status = main(words)
        except SystemExit as ended:  # what the words themselves have wrong
            status = int(str(ended.code))
        finally:
            logging.captureWarnings(False)  # as before: a server that starts takes them
    said, problems = (stream.buffer.getvalue().decode() for stream in (out, errors))  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(words, status, said, problems)


@contextmanager
def serving(
    data: Path, *more: object, start: Callable[..., Any] = Forked, first: str = ""
) -> Iterator[tuple[str, Any]]:
    """Run a server, a fork unless `start` is another; `first` is code that it runs before."""
    words = ["serve", "--port", "0", "--data", data, "--labs", SAMPLES, *more]
    process = start(first + COMMAND, *words, apart=True)
    try:
        said = next((line for line in process.stdout if "Course server" in line), "")
        found = re.search(r"http://\S+", said)
        assert found, process.communicate()
        yield found[0], process
    finally:
        process.kill()
        process.communicate()


def typed(code: str, *words: object, apart: bool) -> "subprocess.Popen[str]":
    """Start a command as it is typed."""
    pipe, command = subprocess.PIPE, [sys.executable, "-c", code, *map(str, words)]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe if apart else None, text=True)


@pytest.fixture(scope="module")
def course(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    data = tmp_path_factory.mktemp("course") / "data"
    with serving(data, start=typed) as (url, _):
        yield url, (data / "instructor.token").read_text().strip(), data


@pytest.fixture
def solution(tmp_path: Path) -> Path:
    path = tmp_path / "my solution.ipynb"
    path.write_text(solution_notebook(load_lab(SAMPLES / "scale_and_sum")))
    return path


@pytest.mark.sandbox
def test_enroll_submit_status_export(course: Any, solution: Path) -> None:
    url, staff, data = course
    token = autograder("enroll", "Ada", "--server", url, "--token", staff).stdout.split()[-1]
    submit = autograder("submit", "scale_and_sum", solution, "--server", url, "--token", token)
    assert submit.returncode == 0
    assert "3 checks run in the notebook, 1 more at submission." in submit.stdout
    number = submit.stdout.split()[-1]
    status = ("status", number, "--server", url, "--token", token)
    while "graded" not in (said := in_this_process(*status)).stdout:
        assert said.returncode == 0
        time.sleep(0.02)
    said = autograder(*status)
    assert "8 of 10 points, 1 answer waits for a person" in said.stdout
    done = autograder("export", AUTOGRADER_SERVER=url, AUTOGRADER_TOKEN=staff)
    assert done.returncode == 0 and "Ada" in done.stdout
    for format in ("csv", "canvas", "moodle", "gradescope"):
        export = ("export", "--format", format)
        done = in_this_process(*export, "--server", url, "--token", staff)
        assert done.returncode == 0 and "Ada" in done.stdout
        assert done.stdout == in_this_process(*export, "--data", data).stdout


def test_the_token_may_come_from_a_file(course: Any, tmp_path: Path) -> None:
    url, _, data = course
    file = str(data / "instructor.token")
    done = autograder("export", AUTOGRADER_SERVER=url, AUTOGRADER_TOKEN_FILE=file)
    assert done.returncode == 0
    done = autograder("export", AUTOGRADER_SERVER=url, AUTOGRADER_TOKEN_FILE=str(tmp_path / "no"))
    assert done.returncode == 2 and "cannot be read" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["submit", "nowhere", "{notebook}"], "unknown lab: got 'nowhere'"),
        (["submit", "scale_and_sum", "/no/such.ipynb"], "cannot read the notebook"),
        (["submit", "scale_and_sum", "/"], "cannot read the notebook"),
        (["backup", "--data", "{data}", "/no/such/file"], "backup: /no/such/file: No such file"),
        (["submit", "scale_and_sum", "{text}"], "not JSON"),
        (["status", "999"], "submission 999"),
        (["status", "../1"], "got '../1'"),
        (["status", ""], "expected the number"),
        (["enroll", "="], "cannot be a name"),
        (["export", "-o", "/no/such/file"], "/no/such/file"),
        (["export", "--data", "/no/such"], "no course in /no/such"),
        (["export", "--token", "wrong"], "token is not known"),
        (["export", "--token", "wröng"], "token is not one"),
        (["export", "--server", "http://127.0.0.1:9"], "cannot be reached"),
        (["export", "--server", "nonsense"], "expected http://HOST:PORT"),
        (["serve", "--port", "{port}", "--data", "{tmp}/d", "--labs", "{labs}"], "is taken"),
        (["serve", "--port", "0", "--data", "{data}", "--labs", "{labs}"], "in use by another"),
        (["serve", "--port", "0", "--data", "{text}", "--labs", "{labs}"], "cannot be used"),
        (["serve", "--port", "0", "--data", "{tmp}/d", "--labs", "/no/such"], "no labs directory"),
        (["serve", "--port", "0", "--data", "{tmp}/d", "--labs", "{tmp}"], "no lab in"),
        (["serve", "--port", "99999", "--data", "{tmp}/d"], "expected 0 to 65535"),
        (
            ["serve", "--host", "no.such.host.invalid", "--data", "{tmp}/d", "--labs", "{labs}"],
            "no.such",
        ),
        (["start", "--labs", "/no/such", "--work", "{tmp}/w", "--no-browser"], "no labs directory"),
        (["start", "--port", "{port}", "--work", "{tmp}/w", "--labs", "{labs}"], "is taken"),
        (["serve", *NEW, "--public-url", "ftp://x"], "--public-url: got 'ftp://x'"),
        (["serve", *NEW, "--jupyterhub", "hub"], "--jupyterhub: got 'hub'"),
        (["serve", *NEW, "--openid-issuer", "http://x"], "needs --client-id and"),
        (["serve", *NEW, "--openid-issuer", "http://x", "--jupyterhub", "http://y"], "one of them"),
        (["serve", *NEW, "--scheduler", "nonsense"], "--scheduler: got 'nonsense'"),
        (["serve", *NEW, "--scheduler", "s:1", "--cluster", "x.Y"], "expected one of them"),
        (["export", "--course", "ml"], "--course needs --data"),
        (["staff", "add", "x", "--role", "assistant", "--course", "ml"], "--course needs --data"),
        (["marking", "sample", "scale_and_sum", "nowhere"], "got 'nowhere', expected one of: why"),
        (["marking", "groups", "scale_and_sum", "scale"], "got 'scale', expected one of: why"),
        (["backup", "--data", "{data}", "{pipe}"], "is there and no file"),
        (["person", "Ada", "--data", "{data}"], "Say -o FILE, --remove, or both"),
        (["news", "write", "{binary}"], "no text in UTF-8"),
        (["roster", "import", "{binary}"], "save it as CSV UTF-8"),
        (["tokens", "-o", "{text}"], "Name another file"),
        (["import-otter", "/no/such", "-o", "{tmp}/d"], "import /no/such: No such file"),
    ],
)
def test_what_cannot_be_done_is_one_line_and_exit_code_2(
    course: Any,
    solution: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    says: str,
) -> None:
    url, staff, data = course
    (tmp_path / "text").write_text("certainly no notebook")
    (tmp_path / "binary").write_bytes(b"\xff\x00")
    facts = {"notebook": solution, "port": url.rpartition(":")[2]}
    os.mkfifo(tmp_path / "pipe")
    facts |= {name: tmp_path / name for name in ("text", "binary", "pipe")}
    filled = [a.format(**facts, labs=SAMPLES, tmp=tmp_path, data=data) for a in arguments]
    monkeypatch.setenv("AUTOGRADER_SERVER", url)
    monkeypatch.setenv("AUTOGRADER_TOKEN", staff)
    done = in_this_process(*filled)
    assert done.returncode == 2
    assert says in done.stderr and "Traceback" not in done.stderr
    said = done.stderr.rpartition("usage:")[2].splitlines()
    assert len([line for line in said if line.startswith("autograder")]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["restore", "/no/such", "--data", "{new}"],
        ["restore", "{text}", "--data", "{new}"],
        ["migrate", "--data", "{new}"],
        ["migrate", "--data", "{empty}"],
        ["courses", "add", "Ml", "--data", "{new}"],
        ["courses", "add", "ml", "--data", "{new}", "--labs", "/no/such"],
        ["start", "--labs", "/no/such", "--work", "{new}", "--no-browser"],
        ["tokens", "-o", "{new}", "--server", "http://127.0.0.1:9", "--token", "t"],
        ["serve", *NOWHERE, "--data", "{new}/deeper"],
        ["serve", *NOWHERE, "--data", "{empty}"],
    ],
)
def test_what_cannot_be_done_leaves_nothing_behind(tmp_path: Path, arguments: list[str]) -> None:
    (tmp_path / "text").write_text("certainly no backup")
    (tmp_path / "empty").mkdir()
    names = {name: tmp_path / name for name in ("text", "empty", "new")} | {"labs": SAMPLES}
    assert in_this_process(*[a.format(**names) for a in arguments]).returncode == 2
    assert {path.name for path in tmp_path.rglob("*")} == {"text", "empty"}


def test_a_start_that_fails_takes_no_log_of_a_course_away(tmp_path: Path) -> None:
    with pytest.raises(StartError), claim_directory(tmp_path) as (data, _):
        (data / "course.sqlite3").touch()
        raise StartError("no room")
    assert not list(tmp_path.iterdir())
    (tmp_path / "course.sqlite3").touch()
    with pytest.raises(StartError), claim_directory(tmp_path) as (data, _):
        (data / "course.sqlite3-wal").touch()
        raise StartError("no room")
    assert (tmp_path / "course.sqlite3-wal").exists()


def test_an_export_goes_into_what_is_no_file_and_does_not_take_its_place(
    course: Any, tmp_path: Path
) -> None:
    _, _, data = course
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert in_this_process("export", "--data", data, "-o", tmp_path / "pipe").returncode == 0
    assert os.read(reader, 1000).startswith(b"learner,lab,")
    assert (tmp_path / "pipe").is_fifo()
    os.close(reader)


def test_tokens_that_cannot_be_written_are_said_to_be_lost(
    course: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, staff, _ = course
    where = ["--server", url, "--token", staff]
    assert in_this_process("enroll", "Cy", *where).returncode == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # a disk without room
    try:
        done = in_this_process("tokens", "-o", tmp_path / "t.csv", "--renew", *where)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert done.returncode == 2 and "were given: then say --renew" in done.stderr
    assert not list(tmp_path.iterdir())


class Portal(BaseHTTPRequestHandler):
    """Answers everything with a page, as a wrong address or a hotel's network does."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", "6")
        self.end_headers()
        self.wfile.write(b"<html>")

    do_DELETE = do_GET

    def log_message(self, *_: Any) -> None: ...


def test_a_page_is_no_answer_of_a_course_server(tmp_path: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), Portal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = ["--server", f"http://127.0.0.1:{server.server_port}", "--token", "t"]
        out = tmp_path / "dates.ics"
        for command in (
            ["export"],
            ["schedule", "show"],
            ["news", "withdraw", "1"],
            ["roster", "remove", "ada"],
            ["standing", "--calendar", out],
        ):
            done = in_this_process(*command, *where)
            assert done.returncode == 2 and "does not answer like" in done.stderr
            assert not done.stdout
        server.shutdown()
    assert not out.exists()


class FullDisk(Portal):
    """Refuses as a course server does whose disk is full."""

    def do_GET(self) -> None:
        self.send_response(507)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"detail": "there is no room to store this. Try again in 30 s."}')


def test_what_a_server_says_of_every_request_begins_with_the_commands_name() -> None:
    with HTTPServer(("127.0.0.1", 0), FullDisk) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        where = ["--server", f"http://127.0.0.1:{server.server_port}", "--token", "t"]
        done = in_this_process("status", "1", *where)
        server.shutdown()
    assert done.stderr == "autograder: status: there is no room to store this. Try again in 30 s.\n"


def test_a_server_that_is_no_course_server_gets_a_message() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [*PROGRAM, "status", "1", "--server", f"http://127.0.0.1:{port}", "--token", "t"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
        _, said = process.communicate()
    assert process.returncode == 2 and "does not answer like a course server" in said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_server_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "data") as (_, process):
        process.send_signal(number)
        assert process.wait(120) == 0
        assert "Traceback" not in process.stderr.read()


def test_adding_the_commands_imports_nothing_heavy() -> None:
    program = (
        "import sys, json; from autograder.service.running.command_line import add_commands;"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    heavy = {"fastapi", "sqlalchemy", "uvicorn", "jinja2", "numpy", "urllib.request", "http.client"}
    assert not heavy & set(json.loads(done.stdout))
    assert callable(add_commands)


def test_no_room_for_temporary_files_is_said_and_the_next_is_stored(tmp_path: Path) -> None:
    """A form of over a MiB goes through a temporary file, which may find no room first."""
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20)); "
    with serving(tmp_path / "data", first=limit) as (url, _):
        token = (tmp_path / "data" / "instructor.token").read_text().strip()
        learner = Connection(url, Connection(url, token).enroll("Ada")["token"])
        cell = {"cell_type": "code", "source": "#" * (4 << 20)}
        with pytest.raises(ServerError, match="no room") as error:
            learner.submit("scale_and_sum", json.dumps({"cells": [cell]}).encode())
        assert error.value.status == 507
        small = json.dumps({"cells": [{**cell, "source": "x"}]}).encode()
        assert learner.submit("scale_and_sum", small)["id"] == 1


def test_the_log_as_json_is_one_object_a_line(tmp_path: Path) -> None:
    with serving(tmp_path / "data", "--log-format", "json") as (url, process):
        autograder("export", "--server", url, "--token", "wrong")
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate()
    found = [json.loads(line) for line in said.splitlines()]
    assert [(one["path"], one["status"]) for one in found if "path" in one] == [
        ("/api/export", 401)
    ]
    assert all({"time", "level", "message"} <= set(one) for one in found)


@pytest.mark.parametrize(
    ("content", "says"),
    [(None, "No such file"), (b"\xff\xfe", "it is no text"), (b" \n", "is empty")],
)
def test_a_secret_that_cannot_be_read_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes | None, says: str
) -> None:
    secret = tmp_path / "secret"
    if content is not None:
        secret.write_bytes(content)
    where = ["--data", str(tmp_path / "data"), "--labs", str(SAMPLES), "--port=0"]
    hub = ["--jupyterhub", "http://127.0.0.1:9", "--client-id", "x"]
    assert main(["serve", *where, *hub, "--client-secret-file", str(secret)]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "--client-secret-file" in line and str(secret) in line and says in line


def test_a_file_of_the_instructors_token_that_holds_none_is_written_anew(tmp_path: Path) -> None:
    (tmp_path / TOKEN_FILE).write_bytes(b"\xff\xfe\xfa")
    store = Store(sqlite_url(tmp_path))
    token = instructor_token(tmp_path, store.roster)
    assert (tmp_path / TOKEN_FILE).read_text().strip() == token
    assert store.roster.owner(token, "bearer")
    store.close()
