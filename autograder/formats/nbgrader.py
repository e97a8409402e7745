"""Labs from nbgrader's source notebooks, and for nbgrader.

Solution regions are the same in both. A test cell becomes a check that runs its asserts beside the
learner's code, a region of hidden tests a hidden check. The way back makes a test cell of each
check, which asks this package; so nbgrader's learners and judge need it installed.

Format: https://nbgrader.readthedocs.io, "Creating and grading assignments", metadata version 3.
"""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.authoring.notebook import as_dict, cells_as_dicts, for_nbgrader, notebook_text
from autograder.authoring.regions import parts_of, uncomment
from autograder.checks import Check, load_checks
from autograder.formats.draft import (
    Draft,
    Test,
    alone,
    check_cell,
    has_code,
    list_defined_names,
    notebook_cells,
    write,
)
from autograder.grading.grade import CHECKS, tasks_of
from autograder.grading.time_budget import Task
from autograder.records import Cell, Lab

_HIDDEN = re.compile(
    r"^\s*### BEGIN HIDDEN TESTS\s*\n(.*?)^\s*### END HIDDEN TESTS\s*$", re.M | re.S
)
_REGION = re.compile(r"^\s*### BEGIN SOLUTION\s*$", re.M)
_STUB = re.compile(r"^[ \t]*# YOUR CODE HERE[ \t]*\n", re.M)


def import_notebook(path: Path, directory: Path) -> list[Path]:
    """Write lab.py and checks.py to `directory` from an nbgrader source; return their paths.

    Raises:
        LabError: it is no notebook, or has no cell that nbgrader would grade.
    """
    draft, question = Draft(), ""
    for raw in notebook_cells(path):
        about = raw.get("metadata", {}).get("nbgrader", {})
        kind = "markdown" if raw["kind"] == "markdown" else "code"
        question = _add(draft, Cell(kind, _STUB.sub("", raw["text"]).strip("\n")), about, question)
    return write(draft, path, directory)


def export_notebook(lab: Lab) -> str:
    """Return an nbgrader source notebook: solutions in their regions, a test cell a check."""
    tasks = tuple(tasks_of(lab, load_checks(lab.directory / CHECKS)))
    cells = [cell for cell in lab.cells if "check" not in cell.tags]
    exported: list[dict[str, Any]] = []
    for exported_cell, cell in zip(cells_as_dicts(lab, cells, _as_written), cells, strict=True):
        exported.append(exported_cell)
        name = cell.attributes.get("question", "")
        if not name and any(part.region == "SOLUTION" for part in parts_of(cell, lab.directory)):
            own = f"answer_{len(exported)}"  # elsewhere nbgrader refuses a region
            exported_cell["metadata"]["nbgrader"] = for_nbgrader(own, None, solution=True)
        exported += [_test_cell(task) for task in tasks if task.question.name == name]
    return notebook_text(lab, exported)


def assert_check(name: str, namespace: dict[str, Any], directory: str = ".") -> None:
    """Raise AssertionError with what the check `name` of `directory`/checks.py says, if it fails.

    For the test cells of exported notebooks. What the check requires is run with it.
    """
    import secrets

    from autograder.authoring.requirements import apply_requirements, list_requirements
    from autograder.checks import run_check
    from autograder.records import Outcome
    from autograder.student.local import LocalStudent

    checks = load_checks(Path(directory) / CHECKS).checks
    names = {name, *list_requirements(checks, name)}
    student, seed = LocalStudent(namespace), secrets.randbits(63)
    results = {c.name: run_check(c, student, seed) for c in checks if c.name in names}
    result = apply_requirements(results, checks)[name]
    if result.outcome is not Outcome.CORRECT:
        raise AssertionError(result.output or str(result.outcome))


def _add(draft: Draft, cell: Cell, about: dict[str, Any], question: str) -> str:
    """Add a cell to the draft and return the question to which tests after it belong."""
    graded, solution = about.get("grade"), about.get("solution")
    name = re.sub(r"\W", "_", str(about.get("grade_id", "")))
    points = float(about.get("points") or 0)
    by_hand = {"question": name, "points": f"{points:g}", "manual": "true"}
    if cell.kind == "markdown" and (about.get("task") or (solution and graded)):
        text = _with_region(cell.text) if solution else cell.text
        draft.cells.append(replace(cell, text=text, attributes=by_hand))
    elif solution and graded:  # code that people grade: their question is the text below it
        draft.cells.append(replace(cell, text=_with_region(cell.text)))
        draft.cells.append(Cell("markdown", "Say how your code above works.", by_hand))
    elif solution and cell.kind == "code":
        names = list_defined_names(cell.text)
        question = names[0] if names else name
        attributes = {"question": question}
        if len(names) > 1:
            attributes["defines"] = " ".join(names)
        draft.cells.append(replace(cell, text=_with_region(cell.text), attributes=attributes))
    elif graded and cell.kind == "code" and question:
        draft.tests += _tests(question, cell.text, points)
        draft.cells.append(check_cell(question))
    else:
        draft.cells.append(cell)
    return question


def _with_region(text: str) -> str:
    """Return a solution cell with its region: without one nbgrader clears all of it."""
    if _REGION.search(text) or not text.strip():
        return text
    return f"### BEGIN SOLUTION\n{text}\n### END SOLUTION"


def _tests(question: str, text: str, points: float) -> list[Test]:
    """Return what a test cell asserts openly and what it hides, the points shared.

    The hidden half earns nothing by itself, as the cell in nbgrader.
    """
    halves = [(_HIDDEN.sub("", text), False), ("\n".join(_HIDDEN.findall(text)), True)]
    present = [(part, hidden) for part, hidden in halves if has_code(part)]
    share = points / len(present) if present else 0.0
    return [Test(question, part, share, hidden, i > 0) for i, (part, hidden) in enumerate(present)]


def _as_written(cell: Cell, path: Path) -> str:
    """Return a cell with its solution regions.

    Starters, which nbgrader lacks, stay where they say what to predict: as lines before the region.
    """
    lines: list[str] = []
    for part in parts_of(cell, path):
        if part.region == "SOLUTION":
            edges = [f"{part.indent}### {edge} SOLUTION" for edge in ("BEGIN", "END")]
            lines += [edges[0], *part.lines, edges[1]]
        elif not part.region:
            lines += part.lines
        elif "question" not in cell.attributes:
            lines += uncomment(part.lines)
    return alone("\n".join(lines).strip("\n"))


def _test_cell(task: Task) -> dict[str, Any]:
    check: Check = task.check
    call = f'assert_check("{check.name}", globals())'
    lines = ["from autograder.formats.nbgrader import assert_check", "", call]
    if check.hidden:
        lines[2:] = ["### BEGIN HIDDEN TESTS", call, "### END HIDDEN TESTS"]
    about = for_nbgrader(f"test_{check.name}", task.max_score, solution=False)
    identity = f"test-{check.name[:50]}".replace("_", "-")
    return as_dict("code", identity, "\n".join(lines), {"nbgrader": about})
