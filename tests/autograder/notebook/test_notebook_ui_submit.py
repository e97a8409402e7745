"""q.submit(): what goes to the server, when it does not, and what the learner is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from autograder.learner.notebook_ui import NotSubmitted, submission_line
from autograder.learner.submit import HandedIn
from autograder.service.client import Connection
from autograder.service.errors import ServerError

RIGHT = "def scale(x, factor):\n    return x * factor"


class FakeServer:
    """A connection that stores in a list and grades at the first question."""

    def __init__(self) -> None:
        self.stored: list[tuple[str, bytes]] = []
        self.known: list[dict[str, Any]] = []
        self.solutions: dict[str, str] = {}
        self.news: list[dict[str, Any]] = []

    def announcements(self, *, unread: bool) -> list[dict[str, Any]]:
        assert unread
        return self.news

    def mark_read(self, number: int) -> None:
        self.news = [news for news in self.news if news["id"] != number]

    def labs(self) -> list[dict[str, Any]]:
        return self.known

    def solution(self, lab: str, question: str) -> str:
        if question not in self.solutions:
            raise ServerError(f"{lab}: its solutions are not given out.", status=403)
        return self.solutions[question]

    def submit(self, lab: str, notebook: bytes, filename: str) -> dict[str, Any]:
        self.stored.append((lab, notebook))
        return {
            "id": len(self.stored),
            "lab": lab,
            "state": "stored",
            "url": "http://127.0.0.1:1/plain",
        }

    def page(self, path: str) -> str:
        return f"http://127.0.0.1:1{path}"

    def submission(self, number: str) -> dict[str, Any]:
        return {"id": int(number), "state": "graded", "score": 4.0, "max_score": 8.0}


@pytest.fixture
def server(session: Any) -> FakeServer:
    fake = FakeServer()
    session.connect = lambda: fake
    return fake


def save(folder: Path, *cells: str) -> None:
    made = [{"cell_type": "code", "source": text} for text in cells]
    (folder / "lab.ipynb").write_text(json.dumps({"cells": made}))


def test_the_saved_file_is_sent_and_the_page_is_told(
    session: Any, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    save(session.folder, RIGHT)
    session.run(RIGHT)
    session.q.submit()
    assert "http://127.0.0.1:1/submissions/1" in capsys.readouterr().out
    assert server.stored == [("09_scale_and_sum", (session.folder / "lab.ipynb").read_bytes())]


class Holding(FakeServer):
    """Holds the grades of its lab back."""

    def submission(self, number: str) -> dict[str, Any]:
        return {**super().submission(number), "score": None, "max_score": None, "held_back": True}


def test_a_grade_that_is_held_back_is_said_to_be(session: Any) -> None:
    server = Holding()
    session.connect = lambda: server
    save(session.folder, RIGHT)
    session.run(RIGHT)
    session.q.submit()
    panel = pytest.importorskip("autograder.learner.panel").Panel(session.q)
    panel._answer_click(panel, {"act": "poll"}, [])
    shown = panel.state["submission"]
    assert shown["held_back"] and shown["state"] == "graded" and shown["score"] is None
    handed_in = HandedIn(1, "", "graded", held_back=True)
    assert submission_line(handed_in) == "submission 1: graded, grades are held back"


def test_what_is_announced_is_in_the_status_and_the_panel_until_it_is_read(
    session: Any, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    who = {"starts": "2031-03-01T12:00:00Z", "by": "Grace\x1b[31m"}
    server.news = [{"id": n, "text": f"No {n}:\n*none*", **who} for n in (7, 4)]
    session.q.status()
    said = capsys.readouterr().out
    assert "announced 2031-03-01 by Grace" in said and "No 7: *none*" in said
    assert "\x1b" not in said
    panel = pytest.importorskip("autograder.learner.panel").Panel(session.q)
    panel._answer_click(panel, {"act": "dates"}, [])
    assert [news["text"] for news in panel.state["news"]] == ["No 7:\n*none*", "No 4:\n*none*"]
    for name, left in (("7", [4]), ("99", [4]), (None, [4]), ("4", [])):
        panel._answer_click(panel, {"act": "read", "name": name}, [])
        assert [news["id"] for news in panel.state["news"]] == left


def test_the_panel_says_dates_and_attempts_before_anything_is_handed_in(
    session: Any, server: FakeServer
) -> None:
    panel = pytest.importorskip("autograder.learner.panel").Panel(session.q)
    panel._answer_click(panel, {"act": "dates"}, [])
    assert panel.state["dates"] == ""  # this server knows of none
    lab = {"name": "09_scale_and_sum", "opens": "2001-01-01T00:00:00Z", "attempts_left": 3}
    lab |= {"due": "2099-02-28T23:59:00+01:00", "late_until": "2099-03-02T23:59:00+01:00"}
    server.known = [{"name": "another"}, {**lab, "penalty_per_day": 0.25}]
    panel._answer_click(panel, {"act": "dates"}, [])
    assert panel.state["dates"] == (
        "due Sat 28 Feb 2099, 23:59 UTC+01:00; late until Mon 02 Mar 2099, 23:59 UTC+01:00; "
        "each late day costs 25%; attempts left: 3"
    )
    server.known[1]["attempts_left"] = 2
    panel._answer_click(panel, {"act": "submit"}, [])
    assert panel.state["dates"].endswith("attempts left: 2")


def test_a_solution_is_the_servers_to_give(
    session: Any, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    session.q.solution("scale")
    session.q.solution("scal")
    session.q.solution()
    first, second, third = capsys.readouterr().out.splitlines()
    assert first == "09_scale_and_sum: its solutions are not given out."
    assert "'scale'" in second and "which question" in third
    server.solutions["scale"] = "def scale(x, factor):\n    return factor * x"
    session.q.solution("scale")
    assert capsys.readouterr().out.strip() == server.solutions["scale"]


def test_a_stored_submission_is_never_called_not_submitted(
    session: Any, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    class HalfAway(FakeServer):
        def page(self, path: str) -> str:
            raise ServerError("login: the course server cannot be reached")

    session.connect = HalfAway
    session.q.submit()
    said = "Submitted lab.ipynb. The grade will be at http://127.0.0.1:1/plain"
    counts = "3 checks run here; 1 more runs when you submit."
    assert capsys.readouterr().out == f"{said} {counts}\n"


def test_what_was_run_and_not_saved_is_not_sent_without_it(
    session: Any, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(RIGHT)
    session.namespace["__vsc_ipynb_file__"] = str(session.folder / "lab.ipynb")
    with pytest.raises(NotSubmitted) as caught:
        session.q.submit()
    out = str(caught.value)
    assert "lab.ipynb does not have the scale that you ran last" in out and "Ctrl+S" in out
    assert not server.stored
    session.q.submit(anyway=True)
    assert len(server.stored) == 1


def test_spacing_and_comments_are_no_difference(session: Any, server: FakeServer) -> None:
    save(session.folder, "# mine\n" + RIGHT.replace("x * factor", "(x  *  factor)  # so"))
    session.run(RIGHT)
    session.q.submit()
    assert len(server.stored) == 1


def test_status_asks_how_far_the_submission_is(
    session: Any, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    save(session.folder, RIGHT)
    session.q.submit()
    session.q.status()
    assert "submission 1: graded, 4 of 8 points" in capsys.readouterr().out


def test_a_server_that_is_not_running_gets_a_clear_message(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.connect = lambda: Connection("http://127.0.0.1:9", "token")
    with pytest.raises(NotSubmitted) as caught:
        session.q.submit()
    out = str(caught.value)
    assert out.startswith("Not submitted.") and "cannot be reached" in out and "running?" in out


def test_no_token_gets_a_clear_message(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    session.connect = lambda: Connection.choose(None, None, {})
    with pytest.raises(NotSubmitted, match="no token"):
        session.q.submit()


@pytest.mark.parametrize("text", ["", "not json", '{"cells": 3}', "\ud800"])
def test_a_file_that_is_no_notebook_gets_a_message(
    session: Any, server: FakeServer, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (session.folder / "lab.ipynb").write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(NotSubmitted, match=r"^Not submitted\. notebook:"):
        session.q.submit()


def test_a_named_file_that_is_not_there_gets_a_message(
    session: Any, server: FakeServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for named in ("mine.ipynb", "a\0b.ipynb", Path("mine.ipynb"), 3):
        with pytest.raises(NotSubmitted) as caught:
            session.q.submit(named)
        out = str(caught.value)
        assert "cannot read" in out and str(named).replace("\0", "") in out


@pytest.mark.parametrize("server", ["nonsense", "ftp://x", "http://"])
def test_an_address_that_is_none_is_refused(server: str) -> None:
    with pytest.raises(ServerError, match="expected http://HOST:PORT"):
        Connection.choose(server, "t")
