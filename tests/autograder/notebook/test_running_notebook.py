"""Which notebook runs: told by Jupyter or VS Code, handed over by Colab's page, or guessed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.cli import main
from autograder.errors import SubmissionError
from autograder.grading.submission import MAX_BYTES, read
from autograder.learner.notebook_ui import NotSubmitted
from autograder.learner.running_notebook import ON_COLAB, Origin, from_page, page, running_notebook

RIGHT = "def scale(x, factor):\n    return x * factor"


class Page:
    """Colab's page: answers as it was told to, and remembers what it was asked."""

    def __init__(self, *cells: str, answer: Any = ...) -> None:
        self.notebook = {
            "cells": [{"cell_type": "code", "source": [text], "outputs": []} for text in cells],
            "metadata": {"colab": {"name": "Copy of colab.ipynb"}},
            "nbformat": 4,
            "nbformat_minor": 0,
        }
        self.answer = {"ipynb": self.notebook} if answer is ... else answer
        self.asked: list[tuple[str, float]] = []

    def __call__(self, what: str, request: str = "", timeout_sec: float = 5, parent: Any = None):
        self.asked.append((what, timeout_sec))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Server:
    """A connection that stores what it gets."""

    def __init__(self) -> None:
        self.stored: list[tuple[bytes, str]] = []

    def submit(self, lab: str, notebook: bytes, filename: str) -> dict[str, Any]:
        self.stored.append((notebook, filename))
        return {"id": len(self.stored), "state": "stored", "url": "http://127.0.0.1:1/1"}

    def page(self, path: str) -> str:
        return f"http://127.0.0.1:1{path}"


@pytest.fixture
def on_colab(session: Any) -> Callable[[Page], Server]:
    """Return a way to put the session on Colab; the server that it hands in to."""

    def put(shown: Page) -> Server:
        server = Server()
        session.connect, session.ask = lambda: server, shown
        return server

    return put


def test_on_colab_the_notebook_of_the_page_is_handed_in(session, on_colab, capsys) -> None:
    shown = Page("import numpy", RIGHT)
    server = on_colab(shown)
    (session.folder / "lab.ipynb").unlink()
    session.run(RIGHT)
    session.q.submit()
    assert capsys.readouterr().out.startswith("Submitted Copy of colab.ipynb. The grade will be")
    ((data, name),) = server.stored
    assert (json.loads(data), name) == (shown.notebook, "Copy of colab.ipynb")
    ((what, wait_s),) = shown.asked
    assert what == "get_ipynb" and 5 <= wait_s <= 60


def test_on_colab_the_page_counts_and_no_file_that_lies_about(session, on_colab) -> None:
    server = on_colab(Page(RIGHT))
    assert (session.folder / "lab.ipynb").exists()
    session.q.submit()
    assert b"x * factor" in server.stored[0][0]


def test_on_colab_a_named_file_goes_all_the_same(session, on_colab) -> None:
    shown = Page(RIGHT)
    server = on_colab(shown)
    session.q.submit("lab.ipynb")
    assert server.stored[0][0] == (session.folder / "lab.ipynb").read_bytes()
    assert shown.asked == []


def test_on_colab_a_cell_changed_after_its_run_is_said(session, on_colab, capsys) -> None:
    server = on_colab(Page(RIGHT.replace("*", "+")))
    session.run(RIGHT)
    with pytest.raises(NotSubmitted) as caught:
        session.q.submit()
    out = str(caught.value)
    assert "on this page does not have the scale that you ran last" in out and "Ctrl" not in out
    assert not server.stored
    session.q.submit(anyway=True)
    assert len(server.stored) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, "did not answer within 20 s"),
        (RuntimeError("permission denied"), "cannot be asked for it: permission denied"),
        (RuntimeError(), "cannot be asked for it: RuntimeError"),
        ({}, "answered with something that is no notebook"),
        ({"ipynb": None}, "answered with something that is no notebook"),
        ({"ipynb": {"cells": "none"}}, "answered with something that is no notebook"),
        ("ipynb", "answered with something that is no notebook"),
    ],
)
def test_a_page_that_hands_over_nothing_gets_a_message(
    session, on_colab, capsys, answer: Any, said: str
) -> None:
    server = on_colab(Page(answer=answer))
    with pytest.raises(NotSubmitted) as caught:
        session.q.submit()
    out = str(caught.value)
    assert out.startswith("Not submitted. submit: Colab's page") and said in out
    assert out.count("Download .ipynb") == 1
    assert not server.stored


def test_on_colab_a_server_that_is_not_there_leaves_the_way_by_hand(
    session, on_colab, capsys
) -> None:
    from autograder.service.client import Connection

    on_colab(Page(RIGHT))
    session.connect = lambda: Connection.choose(None, None, {})
    with pytest.raises(NotSubmitted) as caught:
        session.q.submit()
    out = str(caught.value)
    assert "no token" in out and "Download .ipynb" in out


@pytest.mark.parametrize("cells", [[3, None], [{"cell_type": "code"}], []])
def test_cells_that_are_none_do_no_harm(session, on_colab, cells: list[Any]) -> None:
    server = on_colab(Page(answer={"ipynb": {"cells": cells}}))
    session.q.submit()
    assert server.stored[0][1] == "lab.ipynb"


def test_a_notebook_too_large_with_its_pictures_goes_without_them() -> None:
    shown = Page(RIGHT)
    shown.notebook["cells"][0]["outputs"] = [{"data": {"image/png": "x" * MAX_BYTES}}]
    shown.notebook["metadata"]["widgets"] = {"state": "y"}
    found = from_page(shown)
    assert len(found.data) < 10_000
    assert read(found.data).cells == (("code", RIGHT),)
    shown.notebook["cells"][0]["outputs"] = [{"data": [[]] * 600_000}]
    assert len(from_page(shown).data) < 10_000


def test_a_notebook_too_large_without_them_is_refused(session, on_colab, capsys) -> None:
    server = on_colab(Page("#" * MAX_BYTES))
    with pytest.raises(NotSubmitted, match="notebook: too large"):
        session.q.submit()
    assert not server.stored


def test_only_on_colab_is_a_page_asked() -> None:
    assert page({}) is None
    asked = page({ON_COLAB: "release-colab_20260101"})
    assert asked is not None
    with pytest.raises(SubmissionError, match=r"cannot be asked for it: No module.*Download"):
        from_page(asked)  # this is not Colab, whatever a variable says


def test_the_notebook_is_the_one_that_jupyter_names(released: Path) -> None:
    named = released / "copy of mine.ipynb"
    named.write_text("{}")
    told = running_notebook(None, released, {}, {"JPY_SESSION_NAME": str(named)})
    assert (told.name, told.data, told.origin) == (named.name, b"{}", Origin.FILE)
    for environment in ({}, {"JPY_SESSION_NAME": str(released / "gone.ipynb")}):
        found = running_notebook(None, released, {}, environment)
        assert (found.name, found.origin) == ("lab.ipynb", Origin.GUESS)
    console = {"JPY_SESSION_NAME": str(released / "checks.py")}  # jupyter names consoles too
    assert running_notebook(None, released, {}, console).origin is Origin.GUESS


def test_one_notebook_needs_no_name_and_two_or_none_do(released: Path) -> None:
    (released / "lab.ipynb").unlink()
    assert running_notebook(None, released, {}, {}).name == "solution.ipynb"
    (released / "another.ipynb").write_text("{}")
    expected = r"nothing tells here which notebook runs, and several.*Name yours: q\.submit\("
    with pytest.raises(SubmissionError, match=expected):
        running_notebook(None, released, {}, {})
    for path in released.glob("*.ipynb"):
        path.unlink()
    with pytest.raises(SubmissionError, match=r"which notebook runs, and no notebook is in"):
        running_notebook(None, released, {}, {})


def test_where_nothing_tells_the_notebook_a_guess_that_differs_is_not_sent(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As under nbclient, papermill and plain IPython: what runs may be saved nowhere."""
    server = Server()
    session.connect = lambda: server
    session.run(RIGHT)
    with pytest.raises(NotSubmitted) as caught:
        session.q.submit()
    out = str(caught.value)
    assert "nothing tells here which notebook runs" in out
    assert 'name yours: q.submit("path/to/my_notebook.ipynb")' in out
    assert not server.stored


def test_a_path_from_home_is_found(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(released))
    found = running_notebook("~/solution.ipynb", released / "elsewhere", {}, {})
    assert (found.name, found.origin) == ("solution.ipynb", Origin.FILE)


def test_reset_on_colab_says_where_the_notebook_is(released, monkeypatch, capsys) -> None:
    monkeypatch.setenv(ON_COLAB, "release-colab_20260101")
    kept = (released / "lab.ipynb").read_bytes()
    (released / "lab.ipynb").unlink()
    (released / ".progress.json").write_text("{}")
    assert main(["reset", str(released)]) == 2
    said = capsys.readouterr().err
    assert "on Colab the notebook is not on this machine's disk" in said
    assert "Save a copy in Drive" in said
    assert (released / ".progress.json").exists() and not (released / "lab.ipynb").exists()
    (released / "lab.ipynb").write_bytes(kept)  # a course cloned there has files as elsewhere
    assert main(["reset", str(released)]) == 0


def test_progress_without_a_file_says_who_knows(released: Path, capsys) -> None:
    (released / "lab.ipynb").unlink()
    assert main(["progress", "--work", str(released.parent)]) == 0
    assert "it has no lab.ipynb" in (out := capsys.readouterr().out) and "q.status()" in out


def test_what_a_lab_asks_of_earlier_ones_is_known_without_its_file(released, capsys) -> None:
    manifest = json.loads((released / "lab.json").read_text())
    asks = 'x = earlier("before", "piece", reference=None)'
    cell = {"cell_type": "code", "id": "a", "metadata": {}, "source": asks, "outputs": []}
    manifest["notebook"]["cells"].append({**cell, "execution_count": None})
    (released / "lab.json").write_text(json.dumps(manifest))
    (released / "lab.ipynb").unlink()
    assert main(["catch-up", str(released), "--work", str(released.parent)]) == 0
    assert "piece of lab before: the course's own" in capsys.readouterr().out
