"""Answers to the labs themselves that do nothing and forge what a check would see of it.

A file is called `<lab>__<what it does>.py`. What it defines replaces the solution's; each check
of those questions has to see through it, and nothing else may suffer.
"""

import json
from pathlib import Path

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.grading.grade import grade
from autograder.grading.report import to_text
from autograder.grading.slicing import definitions, statements_of

HERE = Path(__file__).parent
LABS = HERE.parents[1] / "labs"
FORGERIES = sorted((HERE / "answers_to_labs").glob("*.py"))


@pytest.mark.sandbox
@pytest.mark.timeout(280)
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda path: path.stem)
def test_a_forged_fact_earns_nothing(forgery: Path) -> None:
    lab = load_lab(LABS / forgery.stem.partition("__")[0])
    text = forgery.read_text(encoding="utf-8")
    notebook = json.loads(solution_notebook(lab))
    notebook["cells"].append({"cell_type": "code", "metadata": {}, "source": text})
    report = grade(lab, json.dumps(notebook).encode())
    forged = definitions(statements_of([("code", text)]))
    named = {question.name for question in lab.questions if question.name in forged}
    assert named
    paid = [result.name for result in report.results if result.question in named and result.score]
    assert paid == [], to_text(report)
