"""Each lab as released, from top to bottom in a kernel: nothing is begun, and it stops cleanly."""

from collections.abc import Callable
from typing import Any

import pytest

from autograder.authoring.notebook import learner_notebook
from autograder.records import Lab

pytestmark = pytest.mark.slow

BEGUN = {"correct": "✓", "incorrect": "✗", "not attempted": "○"}


def said(cells: list[Any]) -> str:
    """Return the text of every output that is no error."""
    outputs = [output for cell in cells for output in cell.outputs]
    texts = [
        o.text if o.output_type == "stream" else o.get("data", {}).get("text/plain", "")
        for o in outputs
    ]
    return "\n".join(texts)


def signs(cells: list[Any]) -> dict[str, str]:
    """Return {question: sign} as the check cells said it."""
    lines = [line.split() for line in said(cells).splitlines() if line[:1] in "✓✗○" and line]
    return {name.rstrip(":"): sign for sign, name, *_ in lines if name.endswith(":")}


def checked(lab: Lab) -> set[str]:
    return {question.name for question in lab.questions if not question.manual}


def test_the_starter_is_not_attempted_and_stops_at_something_unwritten(
    lab: Lab, run_notebook: Callable[..., Any]
) -> None:
    """Every cell is run, whatever the one before did; JupyterLab's run-all stops at the first."""
    cells = run_notebook(lab, learner_notebook(lab), stop_at_errors=False)
    assert signs(cells) == dict.fromkeys(checked(lab), BEGUN["not attempted"])
    errors = [o for cell in cells for o in cell.outputs if o.output_type == "error"]
    first = f"{errors[0].ename}: {errors[0].evalue}"
    assert "NotImplementedError" in first
    assert any(question.name in first for question in lab.questions)
