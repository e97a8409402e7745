"""Answers in files: what `q.edit` makes, what checks and submissions make of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from autograder.grading.slicing import definitions, statements_of
from autograder.grading.submission import read
from autograder.learner.answer_files import with_files
from autograder.learner.commands import begin_anew
from autograder.learner.notebook_ui import NotSubmitted
from autograder.learner.progress import lab_progress

RIGHT = "def scale(x, factor):\n    return x * factor\n"
WRONG = "def scale(x, factor):\n    return x + factor\n"


class FakeServer:
    def __init__(self) -> None:
        self.stored: list[bytes] = []

    def submit(self, lab: str, notebook: bytes, filename: str) -> dict[str, Any]:
        self.stored.append(notebook)
        return {"id": 1, "lab": lab, "state": "stored", "url": "http://127.0.0.1:1/plain"}

    def page(self, path: str) -> str:
        return f"http://127.0.0.1:1{path}"


def answers(notebook: bytes) -> dict[str, str]:
    return definitions(statements_of(read(notebook).cells))


def file_of(session: Any) -> Path:
    return Path(session.folder / "answers" / "scale.py")


def test_a_file_begins_with_what_was_run_last_and_then_holds_the_answer(
    session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run("# mine\n" + WRONG)
    session.q.edit("scale")
    assert "answers/scale.py" in capsys.readouterr().out
    assert file_of(session).read_text() == "# mine\n" + WRONG
    file_of(session).write_text(RIGHT)
    session.run(WRONG)  # the cell does not count any more
    session.q.check("scale")
    said = capsys.readouterr().out
    assert said.startswith("✓ scale") and "Read from answers/scale.py." in said
    file_of(session).unlink()
    session.run(WRONG)
    session.q.check("scale")
    assert capsys.readouterr().out.startswith("✗ scale")


def test_a_file_begins_with_the_saved_cell_or_the_starter(session: Any) -> None:
    session.q.edit("scale")
    starter = session.q.practice.lab.question("scale").starter
    assert file_of(session).read_text().rstrip() == starter.rstrip()
    file_of(session).unlink()
    notebook = session.folder / "lab.ipynb"
    content = json.loads(notebook.read_text())
    (cell,) = [c for c in content["cells"] if "def scale" in "".join(c["source"])]
    cell["source"] = RIGHT
    notebook.write_text(json.dumps(content))
    session.q.edit("scale")
    assert file_of(session).read_text() == RIGHT


def test_what_is_handed_in_and_told_by_progress_is_the_file(session: Any) -> None:
    server = FakeServer()
    session.connect = lambda: server
    before = (session.folder / "lab.ipynb").read_bytes()
    session.run(WRONG)
    session.q.edit("scale")
    file_of(session).write_text("import math\n\n\n" + RIGHT)
    session.q.check("scale")
    session.q.submit()
    (sent,) = server.stored
    assert answers(sent)["scale"].strip() == RIGHT.strip()
    counts = [len(json.loads(text)["cells"]) for text in (before, sent)]
    assert counts[0] == counts[1]
    assert (session.folder / "lab.ipynb").read_bytes() == before  # which is open elsewhere
    assert lab_progress(session.folder).correct == 1


def test_a_second_cell_of_the_question_does_not_count_and_a_lost_one_comes_back(
    session: Any,
) -> None:
    session.q.edit("scale")
    file_of(session).write_text(RIGHT)
    content = json.loads((session.folder / "lab.ipynb").read_text())
    mine = [c for c in content["cells"] if "def scale" in "".join(c["source"])]
    others = [c for c in content["cells"] if c not in mine]
    for cells in ([*mine, *others, *mine], others):
        notebook = json.dumps({**content, "cells": cells}).encode()
        assert answers(with_files(notebook, session.folder))["scale"].strip() == RIGHT.strip()
    assert with_files(b"no notebook", session.folder) == b"no notebook"


def test_a_cell_that_defines_it_anew_is_named_before_anything_is_sent(session: Any) -> None:
    server = FakeServer()
    session.connect = lambda: server
    session.q.edit("scale")
    file_of(session).write_text(RIGHT)
    notebook = session.folder / "lab.ipynb"
    content = json.loads(notebook.read_text())
    content["cells"].append({"cell_type": "code", "source": WRONG, "metadata": {}})
    notebook.write_text(json.dumps(content))
    with pytest.raises(NotSubmitted, match="a cell further down defines anew what answers/scale"):
        session.q.submit()
    assert server.stored == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("x = 1\ndef scale(x, factor) return x", "answers/scale.py, line 2: SyntaxError"),
        (RIGHT + "nowhere(1)\n", "answers/scale.py, line 3: NameError"),
    ],
)
def test_a_file_that_cannot_run_is_named_with_its_line(
    text: str, says: str, session: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(RIGHT)
    session.q.check("scale")
    session.q.edit("scale")
    file_of(session).write_text(text)
    capsys.readouterr()
    session.q.check("scale")
    said = capsys.readouterr().out
    assert said.startswith("✗ scale: ") and says in said
    assert session.q.practice.score()[0] == 0


def test_what_has_no_file_is_told(session: Any, capsys: pytest.CaptureFixture[str]) -> None:
    session.q.edit("why_scale")
    session.q.edit("scal")
    session.q.edit()
    said = capsys.readouterr().out.splitlines()
    assert "in words" in said[0] and "'scale'" in said[1] and "which question" in said[2]
    assert not file_of(session).parent.exists()


def test_a_lab_begun_anew_has_no_old_files(session: Any) -> None:
    session.q.edit("scale")
    begin_anew(session.folder)
    assert not file_of(session).exists()
    assert (session.folder / "answers-before-1" / "scale.py").exists()


def test_a_notebook_handed_in_without_its_files_is_told_so(session: Any) -> None:
    session.q.edit("scale")
    file_of(session).write_text(RIGHT)
    notebook = session.folder / "lab.ipynb"
    content = json.loads(notebook.read_text())
    content["cells"].append({"cell_type": "code", "source": 'q.edit("scale")', "metadata": {}})
    content["cells"].append({"cell_type": "code", "source": '# q.edit("other")', "metadata": {}})
    uploaded = json.dumps(content).encode()
    (note,) = read(uploaded).notes
    assert note.startswith("q.edit was used for answers/scale.py. What was graded is the notebook")
    assert "q.submit()" in note
    assert read(with_files(uploaded, session.folder)).notes == ()
    assert read(b'{"cells": [], "metadata": 3}').notes == ()
