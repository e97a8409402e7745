"""Answers to the labs themselves that do nothing and forge what a check would see of it.

A file is called `<lab>__<what it does>.py`. What it defines replaces the solution's; each check
of those questions has to see through it, or those that it lists as UNPAID.
"""

import ast
import json
import re
from pathlib import Path

import pytest

from autograder.authoring.notebook import solution_notebook
from autograder.authoring.source import load_lab
from autograder.grading.grade import LabGrader
from autograder.grading.report import to_text
from autograder.grading.slicing import definitions, select_needed, statements_of

HERE = Path(__file__).parent
LABS = HERE.parents[1] / "labs"
FORGERIES = sorted((HERE / "answers_to_labs").glob("*.py"))


def is_said_only(text: str) -> bool:
    """Tell whether a statement of a forgery is for its readers: its docstring, or UNPAID."""
    return text.startswith(('"""', "UNPAID = "))


@pytest.mark.sandbox
@pytest.mark.timeout(280)
@pytest.mark.parametrize("forgery", FORGERIES, ids=lambda path: path.stem)
def test_a_forged_fact_earns_nothing(forgery: Path) -> None:
    lab = load_lab(LABS / forgery.stem.partition("__")[0])
    text = forgery.read_text(encoding="utf-8")
    seen_through = re.search(r"^UNPAID = (\[.*?\]|\(.*?\))$", text, re.MULTILINE | re.DOTALL)
    checks = ast.literal_eval(seen_through[1]) if seen_through else None
    forged = definitions(statements_of([("code", text)]))
    named = {question.name for question in lab.questions if forged.keys() & {*question.defines}}
    assert named
    grader = LabGrader(lab)
    grader.tasks = tuple(task for task in grader.tasks if task.question.name in named)
    # Of the solution what these questions need: ranks would run its demonstrations too.
    names = {name for task in grader.tasks for name in task.question.defines}
    needs = select_needed(grader.solution, names | grader.names)
    notebook = json.loads(solution_notebook(lab))
    # And of the forgery what runs: the judge would try again with its words and its UNPAID.
    own = [f for f in statements_of([("code", text)]) if not is_said_only(f.statement.text)]
    texts = [statement.text for statement in (*needs, *(f.statement for f in own))]
    notebook["cells"] = [{"cell_type": "code", "metadata": {}, "source": each} for each in texts]
    report = grader.grade(json.dumps(notebook).encode())
    paid = {result.name for result in report.results if result.question in named and result.score}
    assert paid & set(checks or paid) == set(), to_text(report)
