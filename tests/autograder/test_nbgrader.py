"""Labs from nbgrader's source notebooks and back."""

import json
from pathlib import Path

import nbformat
import pytest

from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.release import release
from autograder.authoring.source import load_lab
from autograder.cli import main
from autograder.formats.nbgrader import assert_check, export_notebook, import_notebook
from autograder.formats.otter import export_notebook as export_for_otter
from autograder.records import Lab


def cell(kind: str, text: str, **about: object) -> dict[str, object]:
    metadata = {"nbgrader": {"schema_version": 3, **about}} if about else {}
    return {"cell_type": kind, "metadata": metadata, "source": text.splitlines(keepends=True)}


SOURCE = {
    "cells": [
        cell("markdown", "# Squares\n\nText."),
        cell("code", "%matplotlib inline\nimport numpy as np"),
        cell(
            "code",
            "def squares(n):\n    ### BEGIN SOLUTION\n    return [i**2 for i in range(1, n + 1)]\n"
            "    ### END SOLUTION",
            grade=False, grade_id="squares", solution=True,
        ),
        cell(
            "code",
            '"""Check squares."""\nassert squares(2) == [1, 4], "starts at one"\n'
            "### BEGIN HIDDEN TESTS\nassert squares(0) == []\n### END HIDDEN TESTS",
            grade=True, grade_id="test-squares", solution=False, points=3,
        ),
        cell("markdown", "Why?", grade=True, grade_id="why", solution=True, points=2),
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 2,
}  # fmt: skip


@pytest.fixture
def imported(tmp_path: Path) -> Lab:
    path = tmp_path / "squares.ipynb"
    path.write_text(json.dumps(SOURCE))
    import_notebook(path, tmp_path / "squares")
    return load_lab(tmp_path / "squares")


def test_an_imported_lab_has_nbgraders_questions_and_points(imported: Lab) -> None:
    found = [(q.name, q.points, q.manual) for q in imported.questions]
    assert found == [("squares", 3.0, False), ("why", 2.0, True)]
    assert imported.title == "Squares"
    assert "%matplotlib inline" in learner_notebook(imported)


def test_an_imported_lab_proves_itself(imported: Lab, tmp_path: Path) -> None:
    release(imported, tmp_path / "out")
    public = (tmp_path / "out" / "squares" / "checks.py").read_text()
    assert "starts at one" in public
    assert "squares(0)" not in public


def test_an_assertion_is_what_an_imported_check_says(imported: Lab, notebook) -> None:
    import contextlib

    from autograder.grading.grade import LabGrader
    from autograder.student.local import LocalStudent

    grader = LabGrader(imported, open_student=lambda limits: contextlib.nullcontext(LocalStudent()))
    wrong = "def squares(n):\n    return [i**2 for i in range(n)]"
    report = grader.grade(notebook([("code", wrong)]))
    shown, hidden = report.results
    assert (shown.output, shown.score) == ("starts at one", 0.0)
    assert (hidden.score, hidden.max_score, hidden.hidden) == (0.0, 1.5, True)  # a cell is whole


def test_what_is_no_nbgrader_source_is_refused(tmp_path: Path, capsys) -> None:
    for name, text in (("a", "no json"), ("b", '{"cells": []}')):
        path = tmp_path / f"{name}.ipynb"
        path.write_text(text)
        assert main(["import-nbgrader", str(path), "-o", str(tmp_path / name)]) == 2
        assert capsys.readouterr().err.startswith("autograder: import ")


def test_an_exported_lab_is_a_valid_nbgrader_source(sample_lab: Lab) -> None:
    found = nbformat.reads(export_notebook(sample_lab), as_version=4)
    nbformat.validate(found)
    about = [c.metadata.nbgrader for c in found.cells if "nbgrader" in c.metadata]
    assert len({a.grade_id for a in about}) == len(about)
    assert sum(a.points for a in about if a.grade) == 10
    text = "\n".join(c.source for c in found.cells)
    assert text.count("### BEGIN SOLUTION") == text.count("### END SOLUTION") == 4
    assert text.count("### BEGIN HIDDEN TESTS") == 1


def test_the_test_cells_of_an_exported_lab_ask_the_checks(sample_lab: Lab) -> None:
    directory = str(sample_lab.directory)
    right = {"predicted_size": 3}
    assert_check("one_element_for_each_column", right, directory)
    with pytest.raises(AssertionError, match="x has shape"):
        assert_check("one_element_for_each_column", {"predicted_size": 2}, directory)
    with pytest.raises(AssertionError, match="not defined"):
        assert_check("one_element_for_each_column", {}, directory)


def test_a_round_trip_keeps_questions_points_and_the_solution(sample_lab: Lab, tmp_path) -> None:
    assert (
        main(["export-nbgrader", str(sample_lab.directory), "-o", str(tmp_path / "x.ipynb")]) == 0
    )
    assert main(["import-nbgrader", str(tmp_path / "x.ipynb"), "-o", str(tmp_path / "back")]) == 0
    back = load_lab(tmp_path / "back")
    assert [(q.name, q.points) for q in back.questions] == [
        (q.name, q.points) for q in sample_lab.questions
    ]
    assert "return x * factor" in solution_notebook(back)
    assert "return x * factor" not in learner_notebook(back)


TWICE = """def twice(n):
    if n is None:
        raise NotImplementedError
    return 2 * n
"""
COUNTED = """calls = 0

def counted(n):
    global calls
    calls += 1
    return twice(n)

assert counted(2) == 4 and calls == 1
for n in range(3):
    total += twice(n)
assert total == 6
"""
GONE = """assert twice(1) == 2
before = twice
del twice
try:
    counted(1)
except NameError:
    pass
else:
    raise AssertionError("counted does not use twice")
finally:
    twice = before
"""
TASK = {"grade": False, "solution": False, "task": True, "points": 4}
HAND_GRADED = {
    **SOURCE,
    "cells": [
        cell("code", "total = 0\n\ndef counted(n):\n    return twice(n)"),
        cell("code", TWICE, grade_id="twice", solution=True, grade=False),
        cell("code", COUNTED, grade=True, grade_id="count", solution=False, points=1),
        cell("code", GONE, grade=True, grade_id="gone", solution=False, points=1),
        cell("code", "print(twice(3))", grade=True, grade_id="use", solution=True, points=2),
        cell("markdown", "Because.", grade=True, grade_id="why", solution=True, points=3),
        cell("markdown", "Try it.", grade_id="try", **TASK),
    ],
}


def test_what_people_grade_keeps_its_points_and_no_solution_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "hand.ipynb"
    path.write_text(json.dumps(HAND_GRADED))
    import_notebook(path, tmp_path / "hand")
    lab = load_lab(tmp_path / "hand")
    found = [(q.name, q.points, q.manual) for q in lab.questions]
    assert found == [("twice", 2, False), ("use", 2, True), ("why", 3, True), ("try", 4, True)]
    shown, whole = learner_notebook(lab), solution_notebook(lab)
    for solution in ("return 2 * n", "print(twice(3))", "Because."):
        assert solution not in shown and solution in whole
    assert "Try it." in shown


def test_a_test_cell_has_the_names_of_the_notebook(tmp_path: Path) -> None:
    """It counts in a variable of its own by `global`, and deletes a function for a moment."""
    path = tmp_path / "hand.ipynb"
    path.write_text(json.dumps(HAND_GRADED))
    import_notebook(path, tmp_path / "hand")
    release(load_lab(tmp_path / "hand"), tmp_path / "out")  # the solution passes, the starter not


def test_predictions_are_regions_where_nbgrader_takes_them(tmp_path: Path) -> None:
    """It refuses a region in any other cell than a solution's."""
    (tmp_path / "lab.py").write_text(
        '# %% [markdown]\n# # Predict\n\n# %%\n### BEGIN STARTER\n# predicted = ...\n'
        "### END STARTER\n### BEGIN SOLUTION\npredicted = 41.5\n### END SOLUTION\n\n"
        '# %% question="f" points="1"\ndef f():\n    ### BEGIN SOLUTION\n    return predicted\n'
        "    ### END SOLUTION\n"
    )  # fmt: skip
    (tmp_path / "checks.py").write_text(
        'from autograder.checks import check\n\n\n@check("f")\ndef f_returns(student, rng):\n'
        '    """it returns"""\n    student.call("f")\n'
    )
    lab = load_lab(tmp_path)
    cells = nbformat.reads(export_notebook(lab), as_version=4).cells
    (predicted,) = [c for c in cells if "41.5" in c.source]
    assert predicted.source.startswith("predicted = ...\n### BEGIN SOLUTION\n")
    about = predicted.metadata.nbgrader
    assert about.solution and not about.grade
    assert "41.5" not in export_for_otter(lab) and "predicted = ..." in export_for_otter(lab)
