"""Each lab as released, from top to bottom: nothing is begun, and it stops cleanly.

In a warm shell, for the imports take most of the time, and without the cells that no answer has to
do with: solved or not they are the same, and `test_labs_solved` runs them. One starter runs whole,
in a kernel of its own too, all with WIDE=1.
"""

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.notebook import learner_notebook
from autograder.authoring.regions import learner_text
from autograder.authoring.source import find_labs, load_lab
from autograder.grading.slicing import select_needed, statements_of
from autograder.records import Lab
from tests.labs.conftest import in_small

pytestmark = pytest.mark.slow

BEGUN = {"correct": "✓", "incorrect": "✗", "not attempted": "○"}
LABS = find_labs(Path(__file__).parents[2] / "labs")


def signs(said: str) -> dict[str, str]:
    """Return {question: sign} as the check cells said it."""
    lines = [line.split() for line in said.splitlines() if line[:1] in "✓✗○" and line]
    return {name.rstrip(":"): sign for sign, name, *_ in lines if name.endswith(":")}


def problem_with(lab: Lab, said: str, errors: list[str]) -> str:
    """Return what is wrong with a starter that said this and had these errors; or nothing."""
    checked = {question.name for question in lab.questions if not question.manual}
    if signs(said) != dict.fromkeys(checked, BEGUN["not attempted"]):
        return f"checks said {signs(said)}"
    if not errors or "NotImplementedError" not in errors[0]:
        return f"stopped at {errors[:1]}"
    if not any(question.name in errors[0] for question in lab.questions):
        return f"names no question: {errors[0]}"
    if found := re.search(r"NotImplementedError\S*\s+Traceback|failed: NotImplementedError:", said):
        return f"a traceback where a line is enough: {found[0]}"
    return ""


def touched_by_answers(lab: Lab, texts: list[str]) -> list[str]:
    """Return those of a starter's code cells that answers have to do with, and what these need.

    They read or change an answer's name, or the panel, or what a cell binds that does.
    """
    code = [c for c in lab.cells if c.kind == "code"]
    cells = [statements_of([*[("markdown", "")] * n, ("code", t)]) for n, t in enumerate(texts)]
    names = {"q", *(name for question in lab.questions for name in question.defines)}
    kept, reads = set[int](), set[str]()
    for n, (cell, statements) in enumerate(zip(code, cells, strict=True)):
        binds = {name for s in statements for name in s.statement.binds}
        from_others = {name for s in statements for name in (*s.reads, *s.acts_on)} - binds
        if "question" in cell.attributes or names & from_others:
            kept.add(n)
            names |= binds
            reads |= from_others
    needed = select_needed([s for statements in cells for s in statements], reads)
    kept |= {statement.cell - 1 for statement in needed}
    return [text for n, text in enumerate(texts) if n in kept]


def test_the_starter_is_not_attempted_and_stops_at_something_unwritten(
    lab: Lab, shells: Callable[..., dict[str, Any]]
) -> None:
    """Every cell is run, whatever the one before did; JupyterLab's run-all stops at the first."""
    cells = [learner_text(c, lab.directory) for c in lab.cells if c.kind == "code"]
    code = in_small(lab, cells)
    if not os.environ.get("WIDE"):
        code = touched_by_answers(lab, code)
    found = shells(code, lab.directory, backend="agg")  # of a starter no figure is of interest
    assert problem_with(lab, found["said"], found["errors"]) == ""


def said_of(cells: list[Any]) -> str:
    """Return the text of every output that is no error."""
    outputs = [output for cell in cells for output in cell.outputs]
    texts = [
        o.text if o.output_type == "stream" else o.get("data", {}).get("text/plain", "")
        for o in outputs
    ]
    return "\n".join(texts)


@pytest.mark.parametrize(
    "path",
    [pytest.param(p, id=p.name, marks=pytest.mark.wide if at else ()) for at, p in enumerate(LABS)],
)
def test_the_starter_does_so_in_a_kernel_too(path: Path, run_notebook: Callable[..., Any]) -> None:
    lab = load_lab(path)
    cells = run_notebook(lab, learner_notebook(lab), stop_at_errors=False)
    errors = [o for cell in cells for o in cell.outputs if o.output_type == "error"]
    texts = [f"{error.ename}: {error.evalue}" for error in errors]
    said = "\n".join([said_of(cells), *(line for e in errors for line in e.traceback)])
    assert problem_with(lab, said, texts) == ""
