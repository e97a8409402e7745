"""Who gets in, for how long, and that no client takes the server from the others."""

import hashlib
import http.client
import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import sqlalchemy as sa

from autograder.cli import main
from autograder.records import Report
from autograder.service.client import Connection
from autograder.service.errors import Refused, StartError
from autograder.service.records.people import LEARNER
from autograder.service.records.store import Store, sqlite_url
from autograder.service.records.submissions.submissions import Submissions
from autograder.service.reports.exports import export
from autograder.service.web.limits import RateLimit

RIGHT = json.dumps({"cells": [{"cell_type": "code", "source": "x = 1"}]}).encode()
WRONG = json.dumps({"cells": [{"cell_type": "code", "source": "x = 2"}]}).encode()
NOBODY = "0" * 8 + "." + "0" * 48


def ask(
    who: Connection, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any, Any]:
    """Return status, body and headers of an answer."""
    connection = http.client.HTTPConnection(urlsplit(who.server).netloc, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("Authorization", f"Bearer {who.token}")
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    is_json = answer.getheader("Content-Type", "").startswith("application/json")
    return answer.status, json.loads(text) if is_json else text.decode(), answer.headers


def submitted(who: Connection, notebook: bytes, lab: str = "first", **headers: str) -> Any:
    body = (
        '--zz\r\nContent-Disposition: form-data; name="lab"\r\n\r\n'
        f"{lab}\r\n"
        '--zz\r\nContent-Disposition: form-data; name="notebook"; filename="a.ipynb"\r\n\r\n'
    ).encode()
    kind = "multipart/form-data; boundary=zz"
    whole = body + notebook + b"\r\n--zz--\r\n"
    return ask(who, "POST", "/api/submissions", whole, Content_Type=kind, **headers)[:2]


def enrolled(running: Any, **body: Any) -> tuple[int, Any]:
    return ask(running.staff, "POST", "/api/learners", json.dumps(body))[:2]


def test_a_full_disk_is_said_and_stores_nothing_and_the_next_is_stored(running: Any) -> None:
    ada, engine = running.enroll("Ada"), running.server.course.store.submissions.database.engine

    def limit(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA max_page_count = 1")  # as many as there are

    sa.event.listen(engine, "connect", limit)
    engine.dispose()
    large = json.dumps({"cells": [{"cell_type": "code", "source": "#" * 500_000}]}).encode()
    status, found = submitted(ada, large)
    assert status == 507 and "no room" in found["detail"]
    sa.event.remove(engine, "connect", limit)
    engine.dispose()
    assert running.server.course.store.submissions.all() == []
    assert submitted(ada, large)[0] == 201


def test_a_renewed_token_ends_the_old_one_and_its_sessions(running: Any, browser: Any) -> None:
    ada = running.enroll("Ada")
    browser.log_in(ada.token)
    code = ada._json("login", "/api/login-codes", b"")["code"]
    assert browser.get("/submissions").status == 200
    running.staff.enroll("Ada", renew=True)
    assert browser.get("/submissions").status == 303
    assert browser.ask("POST", "/enter", {"code": code}).status == 401
    assert ask(ada, "GET", "/api/submissions/1")[0] == 401


def test_a_bearer_expires_and_what_came_of_it_with_it(tmp_path: Path) -> None:
    now = [1000.0]
    store = Store(sqlite_url(tmp_path), clock=lambda: now[0])
    ada = store.roster.add("Ada", LEARNER)
    bearer = store.roster.give_token(ada, "bearer", expires_at=1100.0)
    session = store.roster.give_token(ada, "session", lives_s=14 * 86400)
    assert store.roster.owner(bearer, "bearer") and store.roster.owner(session, "session")
    now[0] = 1101.0
    assert store.roster.owner(bearer, "bearer") is None
    assert store.roster.owner(session, "session") is None
    store.close()


def test_a_token_lives_for_a_term_unless_told_otherwise(running: Any) -> None:
    status, found = enrolled(running, login="Ada")
    days = (datetime.fromisoformat(found["expires"]) - datetime.now(UTC)).days
    assert status == 201 and 150 < days < 200
    soon = datetime.now(UTC) + timedelta(seconds=2)
    status, found = enrolled(running, login="Bob", expires=soon.isoformat())
    bob = Connection(running.staff.server, found["token"])
    assert ask(bob, "GET", "/api/submissions/1")[0] == 404
    while datetime.now(UTC) < soon:
        assert ask(bob, "GET", "/api/submissions/1")[0] in (404, 401)
    assert ask(bob, "GET", "/api/submissions/1")[0] == 401


@pytest.mark.parametrize(
    "expires", ["", "soon", "2031-02-30T00:00:00Z", "2031-02-28T12:00:00", "2001-01-01T00:00Z", 5]
)
def test_an_end_that_is_no_time_to_come_with_a_zone_is_refused(unmoved: Any, expires: Any) -> None:
    status, found = enrolled(unmoved, login="Ada", expires=expires)
    assert status == 422 and "with its zone" in found["detail"]


def test_a_learner_has_a_login_and_a_name(running: Any) -> None:
    status, found = enrolled(running, login="ada1", name="Ada Lovelace")
    assert (status, found["login"], found["name"]) == (201, "ada1", "Ada Lovelace")
    status, found = enrolled(running, name="Bob")
    assert (status, found["login"], found["name"]) == (201, "Bob", "Bob")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("Ada", "ada"),
        ("Zoë", "ZOË"),
        ("STRASSE", "straße"),
        ("Ada", "\uff21da"),
    ],
)
@pytest.mark.parametrize("renew", [False, True])
def test_logins_are_unique_whatever_their_case(
    running: Any, first: str, second: str, renew: bool
) -> None:
    assert enrolled(running, login=first)[0] == 201
    status, found = enrolled(running, login=second, renew=renew)
    assert status == 409 and repr(first) in found["detail"]
    assert len(running.server.course.store.roster.learners()) == 1


def test_a_name_written_with_combining_signs_is_the_same_name(running: Any) -> None:
    assert enrolled(running, login="Zoe\u0308")[1]["login"] == "Zo\u00eb"
    assert enrolled(running, login="Zo\u00eb")[0] == 409


def test_wrong_logins_are_limited_and_never_close_the_door_to_a_good_token(
    start: Callable[..., Any], browse: Any
) -> None:
    with start(wrong_logins=5, wrong_per_minute=1.0) as running:
        guest = browse(running.staff.server)
        ada = running.enroll("Ada")
        stranger = Connection(running.staff.server, NOBODY)
        answers = [guest.log_in(NOBODY).status for _ in range(4)]
        answers += [ask(stranger, "GET", "/api/submissions/1")[0] for _ in range(4)]
        answers += [guest.ask("POST", "/enter", {"code": "x"}).status for _ in range(2)]
        assert answers == [401] * 5 + [429] * 5
        status, found, headers = ask(stranger, "GET", "/api/queue")
        assert status == 429 and int(headers["Retry-After"]) > 0 and "Try again" in found["detail"]
        assert ask(ada, "GET", "/api/submissions/1")[0] == 404
        assert ada.submit("first", RIGHT)["id"] == 1
        assert guest.log_in(ada.token).status == 303


def test_an_address_that_guesses_is_not_another_one(start: Callable[..., Any]) -> None:
    with start(wrong_logins=2, wrong_per_minute=1.0) as running:
        assert statuses(running, "127.0.0.2", 4) == [401, 401, 429, 429]
        assert statuses(running, "127.0.0.3", 1) == [401]


def statuses(running: Any, source: str, count: int) -> list[int]:
    found = []
    for _ in range(count):
        connection = http.client.HTTPConnection(
            urlsplit(running.staff.server).netloc, timeout=30, source_address=(source, 0)
        )
        connection.request("GET", "/api/queue", headers={"Authorization": f"Bearer {NOBODY}"})
        found.append(connection.getresponse().status)
        connection.close()
    return found


def test_a_limit_forgets_whom_it_need_not_remember() -> None:
    now = [0.0]
    limit = RateLimit(1, 60.0, lambda: now[0])
    for caller in range(30_000):
        now[0] += 0.001
        limit.spend(caller)
    assert len(limit._buckets) <= 10_000
    limit.spend("last")
    with pytest.raises(Refused):
        limit.spend("last")


@contextmanager
def held_open(running: Any, source: str, count: int) -> Iterator[list[socket.socket]]:
    """Hold connections from one address on which a request never ends."""
    address = urlsplit(running.staff.server)
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            raw = socket.create_connection(
                (address.hostname, address.port), timeout=30, source_address=(source, 0)
            )
            stack.enter_context(raw)
            raw.sendall(b"GET /login HTTP/1.1\r\nX-Slow: ")
            found.append(raw)
        yield found


def test_slow_connections_of_one_address_leave_room_for_another(start: Callable[..., Any]) -> None:
    with (
        start(connections=40, of_one_address=10) as running,
        held_open(running, "127.0.0.2", 60) as flood,
    ):
        assert running.enroll("Ada").submit("first", RIGHT)["id"] == 1
        refused = [raw for raw in flood[10:] if raw.recv(100).startswith(b"HTTP/1.1 503")]
        assert len(refused) == 50


def test_a_connection_that_ends_makes_room(start: Callable[..., Any]) -> None:
    with start(connections=40, of_one_address=2) as running:
        for _ in range(3):
            with held_open(running, "127.0.0.2", 2):
                pass
        while statuses_or_none(running) != [401]:
            continue  # the server sees the last end a little later


def statuses_or_none(running: Any) -> list[int]:
    try:
        return statuses(running, "127.0.0.2", 1)
    except OSError:
        return []


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1:1"])
def test_the_host_that_a_client_names_comes_back_nowhere(running: Any, host: str) -> None:
    status, receipt = submitted(running.enroll("Ada"), RIGHT, Host=host)
    assert status == 201 and receipt["url"] == f"{running.staff.server}/submissions/1"
    for path in ("/api/submissions/", "/submissions/", "/static", "/nowhere", "/login/"):
        status, body, headers = ask(running.staff, "GET", path, Host=host)
        assert host not in str(body) and host not in headers.get("Location", "")


def test_receipts_carry_the_public_address(start: Callable[..., Any]) -> None:
    with start(public_url="https://course.example.org/ml/") as running:
        url = running.enroll("Ada").submit("first", RIGHT)["url"]
        assert url == "https://course.example.org/ml/submissions/1"


def test_a_receipt_proves_what_was_stored(running: Any) -> None:
    ada = running.enroll("Ada")
    status, receipt = submitted(ada, RIGHT)
    assert status == 201
    assert receipt["sha256"] == hashlib.sha256(RIGHT).hexdigest()
    assert datetime.fromisoformat(receipt["submitted_at"]).tzinfo is not None
    found = ada.submission(str(receipt["id"]))
    assert (found["sha256"], found["submitted_at"]) == (
        receipt["sha256"],
        receipt["submitted_at"],
    )


def test_a_receipt_counts_the_checks_as_they_are_now(running: Any) -> None:
    ada = running.enroll("Ada")
    path = running.server.course.catalog.path("01_first") / "checks.py"
    text = "@check('scale')\ndef one(student, rng): ...\n"
    for number, (now, expected) in enumerate(
        (
            (text, {"here": 1, "at_submission": 0}),
            (text + text.replace("')", "', hidden=True)"), {"here": 1, "at_submission": 1}),
            ("def broken(", None),
        )
    ):
        path.write_text(now)
        os.utime(path, ns=(number, number))  # a file system's clock may be coarse
        assert ada.submit("first", RIGHT)["checks"] == expected


def test_a_client_that_asks_again_stores_once(running: Any) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    first = submitted(ada, RIGHT, Idempotency_Key="one")
    running.wait(first[1]["id"])
    again = submitted(ada, RIGHT, Idempotency_Key="one")
    assert (first[0], again[0]) == (201, 200) and again[1] == first[1]
    second = submitted(ada, RIGHT, Idempotency_Key="two")
    assert second[0] == 201
    running.wait(second[1]["id"])
    assert submitted(bob, RIGHT, Idempotency_Key="one")[0] == 201
    assert submitted(ada, RIGHT)[0] == 201  # on purpose, once those are graded
    assert len(running.server.course.store.submissions.all()) == 4


def test_a_key_for_something_else_is_refused(running: Any) -> None:
    ada = running.enroll("Ada")
    assert submitted(ada, RIGHT, Idempotency_Key="one")[0] == 201
    for notebook, lab in ((WRONG, "first"), (RIGHT, "second")):
        status, found = submitted(ada, notebook, lab, Idempotency_Key="one")
        assert status == 422 and "Send a new key" in found["detail"]
    for key in ("", "k" * 201):
        assert submitted(ada, RIGHT, Idempotency_Key=key)[0] == 422
    assert len(running.server.course.store.submissions.all()) == 1


def test_the_same_bytes_that_wait_are_not_stored_again(running: Any) -> None:
    waits = json.dumps({"cells": [{"cell_type": "code", "source": "wait"}]}).encode()
    ada = running.enroll("Ada")
    first = submitted(ada, waits)
    running.grader.entered.wait(30)
    assert submitted(ada, waits) == (200, first[1])
    assert submitted(ada, waits, "second")[0] == 201
    running.grader.gate.set()
    running.wait(first[1]["id"])
    assert submitted(ada, waits)[0] == 201


def test_a_retry_is_answered_where_there_is_no_room_for_more(start: Callable[..., Any]) -> None:
    with start(kept_bytes=len(RIGHT)) as running:
        ada = running.enroll("Ada")
        first = submitted(ada, RIGHT, Idempotency_Key="one")
        assert submitted(ada, RIGHT, Idempotency_Key="one") == (200, first[1])
        assert submitted(ada, WRONG, Idempotency_Key="two")[0] == 413


def test_the_client_asks_again_with_the_same_key_when_the_answer_is_lost() -> None:
    """A server that reads the whole request and hangs up, once."""
    keys: list[str] = []
    receipt = b'{"id": 7}'

    def serve(listener: socket.socket) -> None:
        for answer in (b"", b"HTTP/1.1 201 Created\r\nContent-Length: 9\r\n\r\n" + receipt):
            connection, _ = listener.accept()
            with connection, connection.makefile("rb") as lines:
                length = 0
                while (line := lines.readline().strip()) != b"":
                    name, _, value = line.decode().partition(": ")
                    length = int(value) if name.lower() == "content-length" else length
                    keys.extend([value] if name.lower() == "idempotency-key" else [])
                lines.read(length)
                connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        client = Connection(f"http://127.0.0.1:{listener.getsockname()[1]}", "token")
        assert client.submit("first", RIGHT) == {"id": 7}
        thread.join()
    assert len(keys) == 2 and keys[0] == keys[1]


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/api/learners", "application/json", b'{"name": "Ada", "name": "Bob"}'),
        ("/api/learners", "application/json", b'{"name": "Ada", "x": {"a": 1, "a": 2}}'),
        ("/login", "application/x-www-form-urlencoded", b"token=a&next=/&token=b"),
        ("/enter", "application/x-www-form-urlencoded", b"code=a&code=b"),
        (
            "/api/submissions",
            "multipart/form-data; boundary=zz",
            b'--zz\r\nContent-Disposition: form-data; name="lab"\r\n\r\nfirst\r\n'
            b'--zz\r\nContent-Disposition: form-data; name="lab"\r\n\r\nsecond\r\n'
            b'--zz\r\nContent-Disposition: form-data; name="notebook"\r\n\r\n'
            + RIGHT
            + b"\r\n--zz--\r\n",
        ),
    ],
)
def test_a_key_that_comes_twice_is_refused(unmoved: Any, path: str, kind: str, body: bytes) -> None:
    status, found, _ = ask(unmoved.staff, "POST", path, body, Content_Type=kind)
    assert status == 422 and "twice" in str(found)


def test_no_form_of_a_page_takes_a_key_twice(running: Any, browser: Any) -> None:
    browser.log_in(running.staff.token)
    form = [("question", "why"), ("score", "1"), ("score", "2")]
    assert browser.ask("POST", "/submissions/1/manual", form).status == 422


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:geheim@127.0.0.1:9/course",
        "nosuchdialect://ada:geheim@db/course",
        "postgresql+nosuchdriver://ada:geheim@db/course",
        "geheim@db:course",
    ],
)
def test_a_database_that_cannot_be_opened_does_not_say_its_password(url: str) -> None:
    with pytest.raises(StartError) as refused:
        Store(url)
    assert "geheim" not in str(refused.value) and "database" in str(refused.value)


def chunked(pieces: int, whole: bool) -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for _ in range(pieces):
        yield b"100000\r\n" + b"a" * (1 << 20) + b"\r\n"
    if whole:
        yield b"0\r\n\r\n"


@pytest.mark.parametrize(("pieces", "whole"), [(70, True), (3, False)])
def test_an_export_is_read_whole_however_large_and_one_that_is_cut_is_an_error(
    tmp_path: Path, pieces: int, whole: bool
) -> None:
    """It once was read to 64 MiB and cut there without a word."""

    def serve(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(10_000)
            for piece in chunked(pieces, whole):
                connection.sendall(piece)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        url, path = f"http://127.0.0.1:{listener.getsockname()[1]}", tmp_path / "grades.csv"
        asked = ["export", "--server", url, "--token", "t", "-o", str(path)]
        status = main(asked)
        thread.join()
    assert status == (0 if whole else 2)
    assert path.exists() is whole
    assert not whole or path.stat().st_size == pieces << 20


def test_an_export_reads_one_report_at_a_time(running: Any) -> None:
    ada = running.enroll("Ada")
    for lab in ("first", "second"):
        running.wait(ada.submit(lab, RIGHT)["id"])
    course, read = running.server.course, list[int]()

    class Counting(Submissions):
        def report(self, submission_id: int) -> Report | None:
            read.append(submission_id)
            return super().report(submission_id)

    submissions = Counting(course.store.submissions.database, time.time)
    _, pieces = export("gradescope", course.store.roster, submissions)
    assert read == []
    next(pieces)
    assert read == [1]
    assert len(list(pieces)) == 2 and read == [1, 2]
