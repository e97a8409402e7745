"""Labs from nbgrader's source notebooks, and for nbgrader.

Solution regions are the same in both. A test cell becomes a check that runs its asserts beside the
learner's code, a region of hidden tests a hidden check. The way back makes a test cell of each
check, which asks this package; so nbgrader's learners and judge need it installed.

Format: https://nbgrader.readthedocs.io, "Creating and grading assignments", metadata version 3.
"""

import ast
import json
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autograder.checks import Check, load_checks
from autograder.errors import LabError, SubmissionError
from autograder.grade import CHECKS, Task, tasks_of
from autograder.magics import plain_python
from autograder.notebook import cells_as_dicts, notebook_text
from autograder.records import Cell, Lab
from autograder.source import SOURCE
from autograder.submission import read

_HIDDEN = re.compile(
    r"^\s*### BEGIN HIDDEN TESTS\s*\n(.*?)^\s*### END HIDDEN TESTS\s*$", re.M | re.S
)
_STUB = re.compile(r"^[ \t]*# YOUR CODE HERE[ \t]*\n", re.M)

_HEADER = '''"""Checks of the lab {name}, made from its nbgrader source."""

from autograder.checks import Feedback, check
from autograder.errors import StudentError


def asserts(student, cell):
    """Run a test cell beside the learner's code; what it asserts is what the check says."""
    try:
        student.probe(cell)
    except StudentError as error:
        if error.type_name != "AssertionError":
            raise
        raise Feedback(error.message or "An assertion of the test does not hold.") from error
'''


@dataclass
class Draft:
    """A lab in the making: its cells, and the test cells of each question."""

    cells: list[Cell] = field(default_factory=list)
    tests: list[tuple[str, str, float]] = field(default_factory=list)  # question, text, points
    question: str = ""


def import_notebook(path: Path, directory: Path) -> list[Path]:
    """Write lab.py and checks.py to `directory` from an nbgrader source; return their paths.

    Raises:
        LabError: it is no notebook, or has no cell that nbgrader would grade.
    """
    draft = _draft(path)
    if not any("question" in cell.attributes for cell in draft.cells):
        raise LabError(f"import {path}: no solution cell of nbgrader's in it.")
    directory.mkdir(parents=True, exist_ok=True)
    files = {SOURCE: _source(draft), CHECKS: _checks(draft, directory.name)}
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in files]


def export_notebook(lab: Lab) -> str:
    """Return an nbgrader source notebook: solutions in their regions, a test cell a check."""
    tasks = tuple(tasks_of(lab, load_checks(lab.directory / CHECKS)))
    cells = [cell for cell in lab.cells if "check" not in cell.tags]
    found: list[dict[str, Any]] = []
    for made, cell in zip(cells_as_dicts(lab, cells, _as_written), cells, strict=True):
        found.append(made)
        name = cell.attributes.get("question", "")
        found += [_test_cell(task) for task in tasks if task.question.name == name]
    return notebook_text(lab, found)


def assert_check(name: str, namespace: dict[str, Any], directory: str = ".") -> None:
    """Raise AssertionError with what the check `name` of `directory`/checks.py says, if it fails.

    For the test cells of exported notebooks.
    """
    import secrets

    from autograder.checks import run_check
    from autograder.local import LocalStudent
    from autograder.records import Outcome

    known = {check.name: check for check in load_checks(Path(directory) / CHECKS).checks}
    found = run_check(known[name], LocalStudent(namespace), secrets.randbits(63))
    if found.outcome is not Outcome.CORRECT:
        raise AssertionError(found.output or str(found.outcome))


def _draft(path: Path) -> Draft:
    try:
        data = path.read_bytes()
        read(data)
        content = json.loads(data)
    except (OSError, SubmissionError, ValueError) as error:
        raise LabError(f"import {path}: {error}") from error
    draft = Draft()
    for raw in content.get("cells", []):
        text = raw["source"] if isinstance(raw["source"], str) else "".join(raw["source"])
        about = raw.get("metadata", {}).get("nbgrader", {})
        kind = "markdown" if raw["cell_type"] == "markdown" else "code"
        _add(draft, Cell(kind, _STUB.sub("", text).strip("\n")), about)
    return draft


def _add(draft: Draft, cell: Cell, about: dict[str, Any]) -> None:
    graded, solution = about.get("grade"), about.get("solution")
    name = re.sub(r"\W", "_", str(about.get("grade_id", "")))
    points = float(about.get("points") or 0)
    if solution and graded and cell.kind == "markdown":
        attributes = {"question": name, "points": f"{points:g}", "manual": "true"}
        draft.cells.append(replace(cell, attributes=attributes))
    elif solution and cell.kind == "code":
        defined = _defined(cell.text)
        draft.question = defined[0] if defined else name
        attributes = {"question": draft.question}
        if len(defined) > 1:
            attributes["defines"] = " ".join(defined)
        draft.cells.append(replace(cell, attributes=attributes))
    elif graded and cell.kind == "code" and draft.question:
        draft.tests.append((draft.question, cell.text, points))
        draft.cells.append(Cell("code", f'q.check("{draft.question}")', {"tags": "check"}))
    else:
        draft.cells.append(cell)


def _defined(text: str) -> list[str]:
    """Return the names of functions and classes that a cell defines; else of its variables."""
    try:
        body = ast.parse(plain_python(text)).body
    except SyntaxError:
        return []
    names = [n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    targets = [t for n in body if isinstance(n, ast.Assign) for t in n.targets]
    return names or [t.id for t in targets if isinstance(t, ast.Name)]


def _source(draft: Draft) -> str:
    points: dict[str, float] = {}
    for question, _, worth in draft.tests:
        points[question] = points.get(question, 0.0) + worth
    parts = []
    for cell in draft.cells:
        attributes = dict(cell.attributes)
        if "question" in attributes:
            attributes.setdefault("points", f"{points.get(attributes['question'], 0.0):g}")
        parts.append(_written(replace(cell, attributes=attributes)))
    return "\n\n".join(parts) + "\n"


def _written(cell: Cell) -> str:
    words = ["# %%", *(["[markdown]"] if cell.kind == "markdown" else [])]
    words += [f'{key}="{_escaped(value)}"' for key, value in cell.attributes.items()]
    lines = cell.text.split("\n")
    if cell.kind == "markdown":
        lines = [f"# {line}".rstrip() for line in lines]
    else:
        lines = [f"# {line}" if re.match(r"[%!]", line) else line for line in lines]
    return "\n".join([" ".join(words), *lines])


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')


def _checks(draft: Draft, name: str) -> str:
    parts = [_HEADER.format(name=name)]
    for number, (question, text, points) in enumerate(draft.tests, 1):
        hidden = "\n".join(_HIDDEN.findall(text))
        shown = _HIDDEN.sub("", text)
        halves = [(shown, False), (hidden, True)]
        present = [(part, veiled) for part, veiled in halves if _has_code(part)]
        for part, veiled in present:
            title = f"{question}_{'hidden_' if veiled else ''}test_{number}"
            parts.append(_check(title, question, points / len(present), veiled, part))
    return "\n\n".join(parts)


def _has_code(text: str) -> bool:
    try:
        return bool(ast.parse(plain_python(text)).body)
    except SyntaxError:
        return False


def _check(name: str, question: str, weight: float, hidden: bool, text: str) -> str:
    options = f", weight={weight:g}" + (", hidden=True" if hidden else "")
    body = ast.unparse(ast.parse(plain_python(text)))
    lines = "\n".join(f"        {line}".rstrip() for line in body.splitlines())
    return (
        f'@check("{question}"{options})\ndef {name}(student, rng):\n'
        f'    """{name.replace("_", " ")}"""\n\n    def cell():\n{lines}\n\n'
        f"    asserts(student, cell)\n"
    )


def _as_written(cell: Cell, path: Path) -> str:
    """Return a cell with its solution regions, and without starters, which nbgrader lacks."""
    from autograder.regions import parts_of

    lines: list[str] = []
    for part in parts_of(cell, path):
        if part.region == "SOLUTION":
            edges = [f"{part.indent}### {edge} SOLUTION" for edge in ("BEGIN", "END")]
            lines += [edges[0], *part.lines, edges[1]]
        elif not part.region:
            lines += part.lines
    return "\n".join(lines).strip("\n")


def _test_cell(task: Task) -> dict[str, Any]:
    check: Check = task.check
    call = f'assert_check("{check.name}", globals())'
    lines = ["from autograder.nbgrader import assert_check", "", call]
    if check.hidden:
        lines[2:] = ["### BEGIN HIDDEN TESTS", call, "### END HIDDEN TESTS"]
    about = {
        "grade": True,
        "grade_id": f"test_{check.name}",
        "locked": True,
        "points": task.max_score,
        "schema_version": 3,
        "solution": False,
        "task": False,
    }
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": f"test-{check.name[:50]}".replace("_", "-"),
        "metadata": {"nbgrader": about},
        "outputs": [],
        "source": "\n".join(lines).splitlines(keepends=True),
    }
