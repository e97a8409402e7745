"""Right answers that are not the solution's words: the checks pay them in full."""

from pathlib import Path

import pytest

from autograder.audit.variants import Trials, Variant
from autograder.authoring.regions import solution_text
from autograder.authoring.source import load_lab
from autograder.checks import load_checks
from autograder.grading.grade import CHECKS
from autograder.records import Outcome

LABS = Path(__file__).parents[2] / "labs"

OTHERWISE = [  # lab, question, words of its solution, other words that are as right
    (  # a step that its only user reads twice joins that user
        "06_graph_optimization",
        "fuse",
        "len(users[i]) == 1 and users[i][0] is not None",
        "len(set(users[i])) == 1 and users[i][0] is not None",
    ),
    ("02_autodiff", "topological_order", "return order", "return tuple(order)"),
]


@pytest.mark.parametrize(("name", "question", "before", "after"), OTHERWISE)
def test_another_right_answer_has_all_points(
    name: str, question: str, before: str, after: str
) -> None:
    lab = load_lab(LABS / name)
    cells = []
    for cell in lab.cells:
        if cell.kind == "code":
            text = solution_text(cell, lab.directory)
            if cell.attributes.get("question") == question:
                assert before in text
                text = text.replace(before, after)
            cells.append(text)
    own = tuple(check.name for check in load_checks(lab.directory / CHECKS).of(question))
    with Trials(lab, jobs=1) as trials:
        (trial,) = trials.run([Variant(tuple(cells), own, seed=1)])
    said = {v.check: v.said for v in trial.verdicts if v.outcome is not Outcome.CORRECT}
    assert (said, trial.ended) == ({}, "")
