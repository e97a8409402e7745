"""The HTTP interface, over real sockets: who may do what, and what bad clients are told."""

import asyncio
import http.client
import json
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from autograder.cli import main
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.service.running.server import listen
from autograder.service.settings import Settings
from autograder.service.web.limits import Limits

RIGHT = json.dumps({"cells": [{"cell_type": "code", "source": "x = 1"}]}).encode()
WRONG = json.dumps({"cells": [{"cell_type": "code", "source": "x = 2"}]}).encode()


def ask(
    who: Connection, method: str, path: str, body: Any = None, **headers: str
) -> tuple[int, Any]:
    connection = http.client.HTTPConnection(urlsplit(who.server).netloc, timeout=30)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named.setdefault("Authorization", f"Bearer {who.token}")
    connection.request(method, path, body, named)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, json.loads(text) if text else None


def notebook(source: str) -> bytes:
    return json.dumps({"cells": [{"cell_type": "code", "source": source}]}).encode()


def form(boundary: str, **fields: bytes) -> bytes:
    parts = b""
    for name, value in fields.items():
        parts += f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"'.encode()
        parts += b'; filename="a.ipynb"' if name == "notebook" else b""
        parts += b"\r\n\r\n" + value + b"\r\n"
    return parts + f"--{boundary}--\r\n".encode()


def test_a_submission_is_stored_then_graded(running: Any) -> None:
    learner = running.enroll("Ada")
    stored = learner.submit("01_first", RIGHT)
    assert stored["state"] == "stored"
    assert running.wait(stored["id"]) == "graded"
    found = learner.submission(str(stored["id"]))
    assert (found["state"], found["score"], found["max_score"]) == ("graded", 4.0, 4.0)


def test_a_lab_is_found_without_its_number(running: Any) -> None:
    assert running.enroll("Ada").submit("second", RIGHT)["lab"] == "02_second"


def test_score_is_null_until_graded(running: Any) -> None:
    learner = running.enroll("Ada")
    number = learner.submit("01_first", b'{"cells": [{"cell_type": "code", "source": "wait"}]}')
    running.grader.entered.wait(30)
    found = learner.submission(str(number["id"]))
    assert (found["state"], found["score"], found["max_score"]) == ("grading", None, None)


@pytest.mark.parametrize(
    "path", ["/healthz", "/login", "/static/course.css", "/nowhere", "/api/labs"]
)
def test_head_has_the_headers_of_get_and_no_body(unmoved: Any, path: str) -> None:
    got, head = (httpx.request(m, unmoved.server.url + path, verify=False) for m in ("GET", "HEAD"))
    assert (head.status_code, head.content) == (got.status_code, b"")
    assert {**head.headers, "date": ""} == {**got.headers, "date": ""}


def test_a_learner_sees_the_property_and_the_hint_of_hidden_checks_and_no_detail(
    running: Any,
) -> None:
    learner = running.enroll("Ada")
    number = learner.submit("01_first", WRONG)["id"]
    running.wait(number)
    status, body = ask(learner, "GET", f"/api/submissions/{number}")
    assert status == 200
    text = json.dumps(body)
    assert "output of open check" in text
    assert "output of secret check" in text  # a hint: `run_check` puts no value into it
    assert '"name": "secret check"' not in text and "detail of" not in text
    assert '"42"' not in text  # the seed; a time may have these digits
    text = json.dumps(ask(running.staff, "GET", f"/api/submissions/{number}")[1])
    assert "output of secret check" in text


def test_a_learner_sees_only_their_own(running: Any) -> None:
    ada, bob = running.enroll("Ada"), running.enroll("Bob")
    number = ada.submit("01_first", RIGHT)["id"]
    assert ask(bob, "GET", f"/api/submissions/{number}")[0] == 404
    assert ask(bob, "GET", f"/api/submissions/{number}/notebook")[0] == 404
    assert ask(ada, "GET", f"/api/submissions/{number}")[0] == 200
    assert ask(running.staff, "GET", f"/api/submissions/{number}")[0] == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/submissions"),
        ("POST", "/api/learners"),
        ("GET", "/api/export?format=csv"),
        ("POST", "/api/submissions/1/regrade"),
    ],
)
def test_what_is_for_staff_is_refused_to_learners(running: Any, method: str, path: str) -> None:
    learner = running.enroll("Ada")
    status, body = ask(learner, method, path)
    assert status == 403 and isinstance(body["detail"], str)


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer " + "a" * 300])
def test_a_wrong_token_is_401(running: Any, header: str) -> None:
    for method, path in (("GET", "/api/submissions"), ("POST", "/api/submissions")):
        status, body = ask(running.staff, method, path, Authorization=header)
        assert status == 401 and "token" in body["detail"]


def test_a_token_with_another_secret_is_401(running: Any) -> None:
    learner = running.enroll("Ada")
    other = Connection(
        learner.server, learner.token[:-1] + ("0" if learner.token[-1] != "0" else "1")
    )
    assert ask(other, "GET", "/api/submissions/1")[0] == 401


def test_staff_list_everything(running: Any) -> None:
    for name in ("Ada", "Bob"):
        running.wait(running.enroll(name).submit("first", RIGHT)["id"])
    status, body = ask(running.staff, "GET", "/api/submissions")
    assert status == 200
    assert {(e["learner"], e["state"], e["score"]) for e in body} == {
        ("Ada", "graded", 4.0),
        ("Bob", "graded", 4.0),
    }


@pytest.mark.parametrize("number", ["0", "-1", "99", "abc", "1.5", "9" * 30, "%00", "1%2F..", "٣"])
def test_a_number_that_is_none_gets_a_message(unmoved: Any, number: str) -> None:
    from urllib.parse import quote

    status, body = ask(unmoved.staff, "GET", f"/api/submissions/{quote(number, safe='%')}")
    assert status in (404, 422) and isinstance(body["detail"], str)


@pytest.mark.parametrize(
    ("fields", "status", "says"),
    [
        ({"lab": b"first"}, 422, "notebook"),
        ({"notebook": RIGHT}, 422, "lab"),
        ({"lab": b"first", "notebook": b""}, 422, "notebook"),
        ({"lab": b"nowhere", "notebook": RIGHT}, 404, "unknown lab: got 'nowhere'"),
        ({"lab": b"../labs/01_first", "notebook": RIGHT}, 404, "unknown lab"),
        ({"lab": b"first", "notebook": b"not json"}, 422, "not JSON"),
        ({"lab": b"first", "notebook": b"[" * 100_000}, 422, "notebook"),
    ],
)
def test_a_bad_form_gets_a_message(
    unmoved: Any, fields: dict[str, bytes], status: int, says: str
) -> None:
    kind = "multipart/form-data; boundary=zz"
    body = form("zz", **fields)
    got, answer = ask(unmoved.staff, "POST", "/api/submissions", body, Content_Type=kind)
    assert got == status and says in answer["detail"]


@pytest.mark.parametrize(
    "kind", ["application/json", "", "multipart/form-data", "multipart/form-data; boundary=other"]
)
def test_a_wrong_content_type_gets_a_message(unmoved: Any, kind: str) -> None:
    body = form("zz", lab=b"first", notebook=RIGHT)
    status, answer = ask(unmoved.staff, "POST", "/api/submissions", body, Content_Type=kind)
    assert status == 422 and isinstance(answer["detail"], str)


def test_too_large_is_413_and_nothing_is_stored(start: Callable[..., Any]) -> None:
    with start(upload_bytes=200_000) as running:
        learner = running.enroll("Ada")
        for size in (300_000, 5_000_000):
            with pytest.raises(ServerError, match="too large") as refused:
                learner.submit("first", b"x" * size)
            assert refused.value.status == 413
        assert running.server.course.store.submissions.all() == []


def test_only_a_notebook_may_be_large(running: Any) -> None:
    body = b"token=" + b"x" * 400_000
    kind = "application/x-www-form-urlencoded"
    status, answer = ask(running.staff, "POST", "/api/learners", body, Content_Type=kind)
    assert status == 413 and "KiB" in answer["detail"]
    request = http.client.HTTPConnection(urlsplit(running.staff.server).netloc, timeout=30)
    request.request("POST", "/login", body, {"Content-Type": kind})
    status = request.getresponse().status
    request.close()
    assert status in (400, 413)  # the framework reads this form, and calls what it meets 400


def test_the_uploads_of_one_learner_take_turns_and_do_not_hold_up_another(
    settings: Settings,
) -> None:
    order: list[str] = []

    async def upload(turns: Mapping[int, asyncio.Lock], caller: int, name: str) -> None:
        async with turns[caller]:
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    async def all_at_once() -> None:
        turns = Limits(settings).turns
        await asyncio.gather(*(upload(turns, c, n) for c, n in ((1, "a"), (1, "b"), (2, "c"))))

    asyncio.run(all_at_once())
    assert order.index("a ends") < order.index("b begins")
    assert order.index("c begins") < order.index("a ends")


def test_a_learners_notebooks_are_kept_up_to_a_bound(start: Callable[..., Any]) -> None:
    with start(kept_bytes=2 * len(RIGHT)) as running:
        ada, bob = running.enroll("Ada"), running.enroll("Bob")
        ada.submit("01_first", RIGHT)
        ada.submit("01_first", WRONG)
        with pytest.raises(ServerError, match="Clear the outputs") as refused:
            ada.submit("02_second", RIGHT)
        assert refused.value.status == 413
        assert bob.submit("01_first", RIGHT)["state"] == "stored"


def test_too_large_in_chunks_is_413(start: Callable[..., Any]) -> None:
    with start(upload_bytes=200_000) as running:
        body = form("zz", lab=b"first", notebook=b"x" * 2_000_000)
        chunks = (body[i : i + 50_000] for i in range(0, len(body), 50_000))
        kind = "multipart/form-data; boundary=zz"
        assert ask(running.staff, "POST", "/api/submissions", chunks, Content_Type=kind)[0] == 413


def test_a_large_upload_with_a_wrong_token_still_reads_its_answer(running: Any) -> None:
    stranger = Connection(running.staff.server, "nobody")
    with pytest.raises(ServerError, match="token is not known") as refused:
        stranger.submit("first", b"x" * 8_000_000)
    assert refused.value.status == 401


def test_a_truncated_upload_stores_nothing(running: Any) -> None:
    body = form("zz", lab=b"first", notebook=RIGHT)
    head = (
        f"POST /api/submissions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.staff.token}"
        f"\r\nContent-Type: multipart/form-data; boundary=zz\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    address = urlsplit(running.staff.server)
    with socket.create_connection((address.hostname, address.port)) as raw:
        raw.sendall(head.encode() + body[:-20])
    assert running.enroll("Ada").submit("first", RIGHT)["id"] == 1


def test_a_form_that_ends_early_is_422(running: Any) -> None:
    body = form("zz", lab=b"first", notebook=RIGHT)[:-30]
    kind = "multipart/form-data; boundary=zz"
    assert ask(running.staff, "POST", "/api/submissions", body, Content_Type=kind)[0] == 422


def test_a_slow_upload_is_ended(start: Callable[..., Any]) -> None:
    with start(upload_s=0.2) as running:
        address = urlsplit(running.staff.server)
        head = (
            "POST /api/submissions HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {running.staff.token}\r\n"
            "Content-Type: multipart/form-data; boundary=zz\r\nContent-Length: 1000\r\n\r\n--zz"
        )
        with socket.create_connection((address.hostname, address.port)) as raw:
            raw.sendall(head.encode())
            assert raw.recv(100).startswith(b"HTTP/1.1 408")


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-A: "])
def test_who_dawdles_over_the_headers_is_hung_up_on(start: Callable[..., Any], sent: bytes) -> None:
    with start(headers_s=0.5) as running:
        address = urlsplit(running.staff.server)
        with socket.create_connection((address.hostname, address.port)) as raw:
            raw.sendall(sent)
            assert raw.recv(100) == b""
        assert ask(running.staff, "GET", "/api/submissions")[0] == 200


def test_an_answer_may_take_longer_than_the_headers(start: Callable[..., Any]) -> None:
    with start(headers_s=0.5, upload_s=1.0) as running:
        address = urlsplit(running.staff.server)
        head = (
            "POST /api/submissions HTTP/1.1\r\nHost: x\r\n"
            f"Authorization: Bearer {running.staff.token}\r\n"
            "Content-Type: multipart/form-data; boundary=zz\r\nContent-Length: 1000\r\n\r\n--zz"
        )
        with socket.create_connection((address.hostname, address.port)) as raw:
            raw.sendall(head.encode())
            assert raw.recv(100).startswith(b"HTTP/1.1 408")


def test_too_many_submissions_are_429_with_a_time(start: Callable[..., Any]) -> None:
    with start(burst=2, per_minute=1.0) as running:
        ada, bob = running.enroll("Ada"), running.enroll("Bob")
        for _ in range(2):
            ada.submit("first", RIGHT)
        with pytest.raises(ServerError, match="Try again in") as refused:
            ada.submit("first", RIGHT)
        assert refused.value.status == 429
        assert bob.submit("first", RIGHT)["id"]


@pytest.mark.parametrize("name", ["", " ", "=1+1", "-x", "@x", "+x", "a\nb\x00", "<b>", "x" * 200])
def test_a_name_that_cannot_be_one_is_refused(unmoved: Any, name: str) -> None:
    with pytest.raises(ServerError, match="cannot be a name") as refused:
        unmoved.staff.enroll(name)
    assert refused.value.status == 422


def test_a_taken_name_is_409_and_renew_ends_the_old_token(running: Any) -> None:
    old = running.enroll("Zoë O'Neil")
    with pytest.raises(ServerError, match="taken") as refused:
        running.staff.enroll("Zoë O'Neil")
    assert refused.value.status == 409
    token = running.staff.enroll("Zoë O'Neil", renew=True)["token"]
    assert ask(old, "GET", "/api/submissions/1")[0] == 401
    assert ask(Connection(old.server, token), "GET", "/api/submissions/1")[0] == 404


def test_the_instructor_cannot_be_enrolled_over(running: Any) -> None:
    with pytest.raises(ServerError, match="taken"):
        running.staff.enroll("instructor", renew=True)


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"name": 3}', b"\xff", b"[" * 100_000])
def test_an_enrolment_that_is_not_json_gets_a_message(unmoved: Any, body: bytes) -> None:
    status, answer = ask(unmoved.staff, "POST", "/api/learners", body)
    assert status == 422 and isinstance(answer["detail"], str)


def test_an_unknown_address_and_method_get_messages(running: Any) -> None:
    assert ask(running.staff, "GET", "/api/nothing")[0] == 404
    status, body = ask(running.staff, "DELETE", "/api/submissions")
    assert status == 405 and isinstance(body["detail"], str)


def test_many_submit_at_once_and_none_is_lost(running: Any) -> None:
    learners = [running.enroll(f"L{i}") for i in range(8)]
    numbers: list[int] = []

    def submit(learner: Connection) -> None:
        sources = (f"x = 1  # {turn}" for turn in range(3))
        numbers.extend(learner.submit("first", notebook(s))["id"] for s in sources)

    threads = [threading.Thread(target=submit, args=(learner,)) for learner in learners]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(1, 25))
    assert {running.wait(number) for number in numbers} == {"graded"}
    assert len(running.grader.graded) == 24


def test_connections_send_at_once() -> None:
    with listen("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


HALF = "half \udcff of a pair"


@pytest.mark.parametrize(
    "method, path, body",
    [
        ("POST", "/api/announcements", {"text": HALF}),
        ("POST", "/api/tokens", {"section": HALF}),
        ("PUT", "/api/labs/first", {HALF: 1}),
        ("PUT", "/api/labs/first/grades/ada", {"excused": True, "comment": HALF}),
        ("POST", "/api/term", {"term": {"labs": {HALF: {}}}, "weeks": 1, "zone": "UTC"}),
    ],
)
def test_half_of_a_surrogate_pair_is_refused_wherever_it_stands(
    running: Any, method: str, path: str, body: dict[str, Any]
) -> None:
    running.enroll("ada")
    for text in (json.dumps(body).encode(), json.dumps(body, ensure_ascii=False)):
        data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
        status, answer = ask(running.staff, method, path, data)
        assert status == 422 and "not JSON" in answer["detail"]
    whole = {"text": "a whole pair \U0001f600"}
    assert ask(running.staff, "POST", "/api/announcements", json.dumps(whole))[0] == 201


def test_an_argument_that_is_no_text_is_said_in_one_line(running: Any, capsys: Any) -> None:
    server = ["--server", running.staff.server, "--token", running.staff.token]
    for arguments in (["numbers", "Zo\udceb"], ["roster", "remove", "Zo\udceb"]):
        assert main([*arguments, *server]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert f"autograder: {arguments[0]}: an argument is no UTF-8" in line
