"""A learner's way through several labs: the table, beginning anew, pieces of an earlier lab."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder import earlier
from autograder.authoring.manifest import load_released
from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.source import load_lab
from autograder.cli import main
from autograder.errors import LabError, UnknownLab
from autograder.learner.commands import begin_anew
from autograder.learner.journal import Journal, Sent
from autograder.learner.practice import Practice
from autograder.learner.progress import progress
from autograder.service.running.handout import hand_out

SAMPLE = Path(__file__).parent / "sample_labs" / "scale_and_sum"
RIGHT = "def scale(x, factor):\n    return factor * x"
LATER = """# %% [markdown]
# # Lab 02: Later
# %% tags="setup"
from autograder import earlier
import numpy as np

def course_scale(x, factor):
    return np.multiply(x, factor)

scale = earlier("scale_and_sum", "scale", reference=course_scale)
# %% question="twice" points="1"
def twice(x):
    ### BEGIN SOLUTION
    return scale(x, 2.0)
    ### END SOLUTION
"""
CHECKS = """from autograder.checks import check, close

@check("twice")
def every_element_is_doubled(student, rng):
    x = rng.normal(size=3)
    close(student.call("twice", x), 2 * x, called="twice(x)")
"""


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    shutil.copytree(SAMPLE, tmp_path / "labs" / "01_scale_and_sum")
    later = tmp_path / "labs" / "02_later"
    later.mkdir()
    (later / "lab.py").write_text(LATER)
    (later / "checks.py").write_text(CHECKS)
    return tmp_path / "labs"


@pytest.fixture
def work(sources: Path, tmp_path: Path) -> Path:
    assert hand_out(sorted(sources.iterdir()), tmp_path / "work") == []
    return tmp_path / "work"


def answered(directory: Path, *cells: str) -> Callable[..., None]:
    """Write a notebook with these cells; return what runs its checks as the learner would."""
    made = [{"cell_type": "code", "source": text, "metadata": {}} for text in cells]
    (directory / "lab.ipynb").write_text(json.dumps({"cells": made}))
    names: dict[str, Any] = {}
    for text in cells:
        exec(text, names)
    practice = Practice(directory, names, lambda: list(cells))

    def check(name: str) -> None:
        question = practice.lab.question(name)
        assert question is not None
        practice.check(question)

    return check


# ---- the table


def test_a_new_folder_is_at_its_beginning(work: Path) -> None:
    text = str(progress(work))
    assert "01 Scale and sum      0 of 3  0 of 3   0 of 8  0 of 1   -" in text
    assert "02 Later" in text and "02 Lab 02" not in text
    assert text.endswith("Next: scale in 01_scale_and_sum.")


def test_what_was_checked_and_found_correct_counts(work: Path) -> None:
    answered(work / "01_scale_and_sum", RIGHT)("scale")
    first = progress(work).labs[0]
    assert (first.begun, first.correct, first.points) == (1, 1, 4.0)
    assert first.next == "predicted_size"


def test_what_was_not_checked_is_begun_and_no_more(work: Path) -> None:
    answered(work / "01_scale_and_sum", RIGHT)
    first = progress(work).labs[0]
    assert (first.begun, first.correct, first.points) == (1, 0, 0.0)


def test_an_answer_that_changed_since_its_check_counts_no_more(work: Path) -> None:
    directory = work / "01_scale_and_sum"
    answered(directory, RIGHT)("scale")
    answered(directory, RIGHT.replace("factor * x", "(factor * x)"))  # the same code
    assert progress(work).labs[0].correct == 1
    answered(directory, RIGHT.replace("*", "+"))
    assert progress(work).labs[0].correct == 0


def test_a_finished_lab_is_called_so_and_written_answers_are_counted(work: Path) -> None:
    directory = work / "01_scale_and_sum"
    (directory / "lab.ipynb").write_text(solution_notebook(load_lab(SAMPLE)))
    names: dict[str, Any] = {}
    cells = [c.text for c in load_lab(SAMPLE).cells if c.kind == "code" and "q." not in c.text]
    texts = [text for text in map(solved, cells) if "print" not in text and "lab(" not in text]
    for text in ["import numpy as np", *texts]:
        exec(text, names)
    practice = Practice(directory, names, lambda: texts)
    for question in practice.questions:
        practice.check(question)
    first = progress(work).labs[0]
    assert first.is_finished and (first.written, first.to_write) == (1, 1)
    assert str(progress(work)).endswith("Next: twice in 02_later.")


def solved(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if "###" not in line and line[:2] != "# ")


def test_what_cannot_be_read_is_said_and_hides_nothing_else(work: Path) -> None:
    (work / "01_scale_and_sum" / "lab.ipynb").write_text("{")
    (work / "02_later" / ".progress.json").write_text('{"checked": 3}')
    text = str(progress(work))
    assert "01_scale_and_sum: notebook: its JSON is broken" in text
    assert "Next: twice in 02_later." in text


def test_the_table_is_drawn_in_a_notebook_without_markup_from_titles(work: Path) -> None:
    manifest = work / "02_later" / "lab.json"
    manifest.write_text(manifest.read_text().replace("Later", "<script>"))
    drawn = progress(work)._repr_html_()
    assert drawn.startswith("<table") and "<script>" not in drawn


def test_the_command_finds_the_folder_from_near_it(work: Path, monkeypatch, capsys) -> None:
    for here in (work, work.parent, work / "02_later"):
        monkeypatch.chdir(here)
        assert main(["progress"]) == 0
        assert "0 of 2 labs finished" in capsys.readouterr().out


def test_where_there_are_no_labs_that_is_said(tmp_path: Path, capsys) -> None:
    assert main(["progress", "--work", str(tmp_path)]) == 2
    assert "autograder start" in capsys.readouterr().err
    with pytest.raises(UnknownLab, match="none here"):
        progress(tmp_path)


# ---- beginning anew


def test_a_lab_begun_anew_keeps_every_older_notebook(work: Path, monkeypatch, capsys) -> None:
    directory = work / "01_scale_and_sum"
    monkeypatch.chdir(work)
    for number in (1, 2):
        answered(directory, f"mine = {number}")
        assert main(["reset", "scale_and_sum"]) == 0
        said = capsys.readouterr().out
        kept = directory / f"lab-before-{number}.ipynb"
        assert str(kept) in said and f"mine = {number}" in kept.read_text()
    source = load_lab(work.parent / "labs" / "01_scale_and_sum")
    assert (directory / "lab.ipynb").read_text() == learner_notebook(source)


def test_a_lab_begun_anew_forgets_what_was_correct(work: Path) -> None:
    directory = work / "01_scale_and_sum"
    answered(directory, RIGHT)("scale")
    begin_anew(directory)
    assert progress(work).labs[0].begun == 0
    begin_anew(directory)  # and twice is no harm
    assert len(list(directory.glob("lab-before-*"))) == 2


def test_a_lab_begun_anew_is_still_handed_in(work: Path) -> None:
    directory = work / "01_scale_and_sum"
    journal = Journal.of(directory)
    journal.sent = Sent(7, "graded", 5.0, 8.0)
    journal.save()
    begin_anew(directory)
    assert Journal.of(directory).sent == Sent(7, "graded", 5.0, 8.0)


def test_a_source_and_a_folder_of_an_old_release_are_refused(sources: Path, work: Path) -> None:
    with pytest.raises(LabError, match="is no released lab"):
        begin_anew(sources / "01_scale_and_sum")
    manifest = work / "02_later" / "lab.json"
    content = json.loads(manifest.read_text())
    del content["notebook"]
    manifest.write_text(json.dumps(content))
    before = (work / "02_later" / "lab.ipynb").read_bytes()
    with pytest.raises(LabError, match="holds no notebook to begin anew with"):
        begin_anew(work / "02_later")
    assert (work / "02_later" / "lab.ipynb").read_bytes() == before


# ---- pieces of an earlier lab


def course(x: Any, factor: Any) -> str:
    return "the course's own"


def test_a_piece_whose_checks_pass_is_the_learners(work: Path, capsys) -> None:
    (work / "01_scale_and_sum" / "lab.ipynb").write_text(
        json.dumps({"cells": [{"cell_type": "code", "source": RIGHT, "metadata": {}}]})
    )
    found = earlier("scale_and_sum", "scale", reference=course, directory=work / "02_later")
    assert found(2, 3) == 6
    assert capsys.readouterr().out == "scale: yours, from lab scale_and_sum.\n"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("x = 1", "yours in 01_scale_and_sum is not attempted"),
        (RIGHT.replace("*", "+"), "yours in 01_scale_and_sum is incorrect"),
        ("def scale(x, factor):\n    raise NotImplementedError", "is not attempted"),
        ("def scale(x, factor):\n    return nothing", "is incorrect"),
        ("def scale(", "yours in 01_scale_and_sum is"),
    ],
)
def test_one_that_is_unfinished_is_stood_in_for(work: Path, capsys, text: str, why: str) -> None:
    cells = [{"cell_type": "code", "source": text, "metadata": {}}]
    (work / "01_scale_and_sum" / "lab.ipynb").write_text(json.dumps({"cells": cells}))
    assert earlier("scale_and_sum", "scale", reference=course, directory=work) is course
    assert why in capsys.readouterr().out


@pytest.mark.parametrize(("lab", "name"), [("nowhere", "scale"), ("scale_and_sum", "nothing")])
def test_a_lab_or_question_that_is_not_there_is_stood_in_for(work, capsys, lab, name) -> None:
    assert earlier(lab, name, reference=course, directory=work) is course
    assert "the course's own, for" in capsys.readouterr().out


def test_pieces_that_belong_together_are_all_theirs_or_all_the_courses(work: Path, capsys) -> None:
    for axis, is_theirs in ((0, True), (1, False)):
        text = f"{RIGHT}\n\ndef sum_rows(x):\n    return x.sum(axis={axis})"
        answered(work / "01_scale_and_sum", text)
        asked = ("scale", "sum_rows")
        found = earlier("scale_and_sum", *asked, reference=(course, course), directory=work)
        assert (found == (course, course)) is not is_theirs
        said = capsys.readouterr().out
        assert said.startswith("scale, sum_rows: yours, " if is_theirs else "scale, sum_rows: the")
        assert ("your sum_rows in 01_scale_and_sum is incorrect" in said) is not is_theirs


def test_a_later_lab_grades_alone(sources: Path) -> None:
    """The submission is one notebook: in the sandbox the reference stands in."""
    from autograder.grading.grade import LabGrader

    lab = load_lab(sources / "02_later")
    assert LabGrader(lab).grade(solution_notebook(lab).encode()).score == 1.0


def test_catching_up_says_whose_the_pieces_are(work: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(work)
    assert main(["catch-up"]) == 0
    said = capsys.readouterr().out
    assert "01_scale_and_sum: uses nothing of an earlier lab." in said
    assert "02_later: scale of lab scale_and_sum: the course's own, for yours in" in said
    answered(work / "01_scale_and_sum", RIGHT)
    assert main(["catch-up", "later"]) == 0
    assert "yours, its checks pass" in capsys.readouterr().out


# ---- nothing given away, nothing in the way


def test_no_released_file_holds_a_line_of_the_solution(work: Path) -> None:
    for path in work.rglob("*.*"):
        text = path.read_text()
        assert "return x * factor" not in text and "scale(x, 2.0)\n" not in text, path


def test_a_folder_that_cannot_be_written_is_no_hindrance(work: Path) -> None:
    directory = work / "01_scale_and_sum"
    check = answered(directory, RIGHT)
    (directory / ".progress.json").mkdir()
    check("scale")
    assert load_released(directory).name == "01_scale_and_sum"


def test_names_of_the_package_are_handed_on_lazily() -> None:
    loaded = "'autograder.learner.progress' in sys.modules"
    script = f"import sys, autograder; print({loaded}, autograder.progress)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.startswith("False <function progress")
