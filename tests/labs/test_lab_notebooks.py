"""Each lab as released, from top to bottom: nothing is begun, and it stops cleanly.

In a warm shell, for the imports take most of the time. Every lab's solution runs in a kernel of
its own (test_labs_solved.py); so do the starters here: one by default, all with WIDE=1.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from autograder.authoring.notebook import learner_notebook
from autograder.authoring.regions import learner_text
from autograder.authoring.source import find_labs, load_lab
from autograder.records import Lab

pytestmark = pytest.mark.slow

BEGUN = {"correct": "✓", "incorrect": "✗", "not attempted": "○"}
WORKER = Path(__file__).parent / "shell_worker.py"
LABS = find_labs(Path(__file__).parents[2] / "labs")


@pytest.fixture(scope="module")
def shells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[Lab], dict[str, Any]]]:
    """A function that runs all cells of a lab's starter in a shell, and returns what they said."""
    environment = {
        **os.environ,
        "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython")),
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
        "OMP_NUM_THREADS": "1",
        "PYTHONHASHSEED": "0",
    }
    worker = subprocess.Popen(
        [sys.executable, str(WORKER)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdin is not None and worker.stdout is not None

    def run(lab: Lab) -> dict[str, Any]:
        assert worker.stdin is not None and worker.stdout is not None
        code = [learner_text(c, lab.directory) for c in lab.cells if c.kind == "code"]
        worker.stdin.write(json.dumps({"cells": code, "directory": str(lab.directory)}) + "\n")
        worker.stdin.flush()
        found: dict[str, Any] = json.loads(worker.stdout.readline())
        return found

    yield run
    worker.stdin.close()
    worker.wait()
    worker.stdout.close()


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
    return ""


def test_the_starter_is_not_attempted_and_stops_at_something_unwritten(
    lab: Lab, shells: Callable[[Lab], dict[str, Any]]
) -> None:
    """Every cell is run, whatever the one before did; JupyterLab's run-all stops at the first."""
    found = shells(lab)
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
    assert problem_with(lab, said_of(cells), texts) == ""
