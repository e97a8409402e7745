"""Labs from Otter's source notebooks and back."""

import contextlib
import json
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.regions import learner_text, solution_text
from autograder.authoring.release import release
from autograder.authoring.source import cells_of, load_lab
from autograder.cli import main
from autograder.errors import ReleaseRefused
from autograder.formats.otter import export_notebook, from_marks
from autograder.grading.grade import LabGrader
from autograder.records import Lab, Outcome
from autograder.student.local import LocalStudent


def cell(kind: str, text: str, shows: str = "") -> dict[str, object]:
    outputs = [{"output_type": "execute_result", "data": {"text/plain": shows}}] if shows else []
    about = {"outputs": outputs} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True), **about}


HIDDEN = '''""" # BEGIN TEST CONFIG
points: 3
hidden: true
""" # END TEST CONFIG
def test_nothing(squares):
    assert squares(0) == [], "none for 0"

test_nothing(squares)  # IGNORE'''

SOURCE = [
    cell("raw", "# ASSIGNMENT CONFIG\ngenerate: true"),
    cell("markdown", "# Squares"),
    cell("code", "import math"),
    cell("raw", "# BEGIN QUESTION\nname: squares"),
    cell("markdown", "Write `squares`."),
    cell("raw", "# BEGIN SOLUTION"),
    cell(
        "code",
        "def squares(n):\n    # BEGIN SOLUTION\n    return [i**2 for i in range(1, n + 1)]\n"
        "    # END SOLUTION",
    ),
    cell("raw", "# END SOLUTION"),
    cell("raw", "# BEGIN TESTS"),
    cell("code", '""" # BEGIN TEST CONFIG\npoints: 1\n""" # END TEST CONFIG\nsquares(2)', "[1, 4]"),
    cell("code", HIDDEN),
    cell("raw", "# END TESTS"),
    cell("raw", "# END QUESTION"),
    cell("raw", "# BEGIN QUESTION\nname: q-2\npoints: 2"),
    cell("raw", "# BEGIN SOLUTION"),
    cell("code", "nine = squares(3)[-1] # SOLUTION"),
    cell("raw", "# END SOLUTION"),
    cell("raw", "# BEGIN TESTS"),
    cell("code", "# HIDDEN\nassert nine == 9"),
    cell("raw", "# END TESTS"),
    cell("raw", "# END QUESTION"),
    cell("raw", "# BEGIN QUESTION\nname: why\nmanual: true\npoints: 2"),
    cell("markdown", "Why?"),
    cell("raw", "# BEGIN SOLUTION"),
    cell("markdown", "Because."),
    cell("raw", "# END SOLUTION"),
    cell("raw", "# END QUESTION"),
]


def write(path: Path, cells: list[dict[str, object]]) -> Path:
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4}
    path.write_text(json.dumps(content))
    return path


@pytest.fixture
def imported(tmp_path: Path) -> Lab:
    path = write(tmp_path / "squares.ipynb", SOURCE)
    assert main(["import-otter", str(path), "-o", str(tmp_path / "squares")]) == 0
    return load_lab(tmp_path / "squares")


def test_an_imported_lab_has_otters_questions_points_and_starters(imported: Lab) -> None:
    found = [(q.name, q.points, q.defines, q.manual) for q in imported.questions]
    assert found == [
        ("squares", 4.0, ("squares",), False),
        ("q_2", 2.0, ("nine",), False),
        ("why", 2.0, (), True),
    ]
    starter, solution = learner_notebook(imported), solution_notebook(imported)
    assert "nine = ..." in starter
    assert "Because" not in starter
    assert "nine = squares(3)[-1]" in solution
    assert "Because" in solution


def test_an_imported_lab_proves_itself(imported: Lab, tmp_path: Path) -> None:
    with pytest.raises(ReleaseRefused, match=r"squares_hidden_test_2 pays for nothing"):
        release(imported, tmp_path / "out")  # squares(0) == [] is a test of its own in Otter
    release(imported, tmp_path / "out", audited=False)
    public = (tmp_path / "out" / "squares" / "checks.py").read_text()
    assert "[1, 4]" in public
    assert "squares(0)" not in public


def test_imported_tests_catch_a_wrong_answer(imported: Lab, notebook) -> None:
    grader = LabGrader(imported, open_student=lambda limits: contextlib.nullcontext(LocalStudent()))
    wrong = "def squares(n):\n    return [i**2 for i in range(n)]\nnine = 8"
    found = grader.grade(notebook([("code", wrong)])).results
    assert [(r.outcome, r.max_score, r.hidden) for r in found] == [
        (Outcome.INCORRECT, 1.0, False),
        (Outcome.CORRECT, 3.0, True),
        (Outcome.INCORRECT, 2.0, True),
    ]
    assert found[0].output == "The output is not the one expected."


@pytest.mark.parametrize(
    ("marked", "starter", "solution"),
    [
        ("x = 3 # SOLUTION", "x = ...", "x = 3"),
        ("x = 3 # SOLUTION NO PROMPT\ny = 1", "y = 1", "x = 3\ny = 1"),
        ("a, b = 1, 2  # SOLUTION", "a, b = ...", "a, b = 1, 2"),
        ("f(x) == 3 # SOLUTION", "...", "f(x) == 3"),
        (
            "def f(x):\n    y = x # SOLUTION NO PROMPT\n    return y # SOLUTION\n"
            "z = f(1) # SOLUTION",
            "def f(x):\n    ...\nz = ...",
            "def f(x):\n    y = x\n    return y\nz = f(1)",
        ),
        (
            "def f(r):\n    # BEGIN SOLUTION NO PROMPT\n    return 2 * r\n    # END SOLUTION\n"
            '    """ # BEGIN PROMPT\n    # Now you.\n    pass\n    """; # END PROMPT',
            "def f(r):\n    # Now you.\n    pass",
            "def f(r):\n    return 2 * r",
        ),
    ],
)
def test_otters_marks_mean_what_they_mean_there(marked, starter, solution) -> None:
    (made,) = cells_of(f'# %% question="f" points="1"\n{from_marks(marked)}')
    assert learner_text(made, Path()) == starter
    assert solution_text(made, Path()) == solution


def test_an_exported_lab_is_a_valid_notebook_that_tells_learners_nothing(sample_lab: Lab) -> None:
    found = nbformat.reads(export_notebook(sample_lab), as_version=4)
    nbformat.validate(found)
    raw = [c.source for c in found.cells if c.cell_type == "raw"]
    assert raw[0].startswith("# ASSIGNMENT CONFIG")
    assert "\nfiles:" not in raw[0]  # they go to learners
    for what in ("QUESTION", "SOLUTION", "TESTS"):
        begun = sum(text.startswith(f"# BEGIN {what}") for text in raw)
        assert begun == raw.count(f"# END {what}") == (3 if what == "TESTS" else 4)
    assert sum("hidden: true" in c.source for c in found.cells) == 1
    assert not any("q = lab(" in c.source for c in found.cells)


def test_a_round_trip_keeps_questions_points_starters_and_solutions(
    sample_lab: Lab, tmp_path: Path
) -> None:
    out = tmp_path / "x.ipynb"
    assert main(["export-otter", str(sample_lab.directory), "-o", str(out)]) == 0
    assert main(["import-otter", str(out), "-o", str(tmp_path / "back")]) == 0
    back = load_lab(tmp_path / "back")
    asked = [(q.name, q.points, q.manual) for q in back.questions]
    assert asked == [(q.name, q.points, q.manual) for q in sample_lab.questions]
    for mine, other in zip(sample_lab.questions[:3], back.questions, strict=False):
        assert (other.starter, other.solution) == (mine.starter, mine.solution)


@pytest.mark.parametrize("cells", [[], SOURCE[:3], SOURCE[:9]])
def test_what_is_no_otter_source_is_refused(cells, tmp_path: Path, capsys) -> None:
    path = write(tmp_path / "a.ipynb", cells)
    assert main(["import-otter", str(path), "-o", str(tmp_path / "a")]) == 2
    assert capsys.readouterr().err.startswith("autograder: import ")
    assert not (tmp_path / "a").exists()
