"""A lab in the making, for those who import one from another grader's notebook.

Cells with attributes become lab.py; tests become a checks.py that runs each beside the learner's
code and says what it asserts.
"""

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autograder.authoring.magics import plain_python
from autograder.authoring.source import SOURCE
from autograder.errors import LabError, SubmissionError
from autograder.grading.grade import CHECKS
from autograder.grading.submission import read
from autograder.records import Cell

_GIVES_Q = re.compile(r"^(?:from autograder import lab|q = lab\(.*\))[ \t]*$\n*", re.M)
_HEADER = '''"""Checks of the lab {name}, made from its source for another grader."""

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


@dataclass(frozen=True)
class Test:
    """The code of one test of a question; `weight` is what it is worth.

    One that `continues` earns nothing without the test before it.
    """

    question: str
    text: str
    weight: float
    hidden: bool = False
    continues: bool = False


@dataclass
class Draft:
    """What has been read so far."""

    cells: list[Cell] = field(default_factory=list)
    tests: list[Test] = field(default_factory=list)


def notebook_cells(path: Path) -> list[dict[str, Any]]:
    """Return the cells of a notebook, each with `text` and `kind` beside what it has.

    Raises:
        LabError: it cannot be read as one.
    """
    try:
        data = path.read_bytes()
        cells = read(data).cells
        raw = json.loads(data)["cells"]
    except (OSError, SubmissionError, ValueError, KeyError, TypeError) as error:
        why = getattr(error, "strerror", None) or error
        raise LabError(f"import {path}: {why}") from error
    pairs = zip(raw, cells, strict=True)
    return [{**cell, "kind": kind, "text": text} for cell, (kind, text) in pairs if kind]


def write(draft: Draft, path: Path, directory: Path) -> list[Path]:
    """Write lab.py and checks.py to `directory` and return their paths; `path` is for errors.

    Raises:
        LabError: there is no question in the draft.
    """
    if not any("question" in cell.attributes for cell in draft.cells):
        raise LabError(f"import {path}: no cell in it that is graded.")
    directory.mkdir(parents=True, exist_ok=True)
    files = {SOURCE: _source(draft, directory.name), CHECKS: _checks(draft, directory.name)}
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    return [directory / name for name in files]


def list_defined_names(text: str) -> list[str]:
    """Return the names of functions and classes that a cell defines; else of its variables."""
    try:
        body = ast.parse(plain_python(text)).body
    except SyntaxError:
        return []
    names = [n.name for n in body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    targets = [t for n in body if isinstance(n, ast.Assign) for t in n.targets]
    return names or [t.id for t in targets if isinstance(t, ast.Name)]


def has_code(text: str) -> bool:
    """Return whether a text is Python and more than comments."""
    try:
        return bool(ast.parse(plain_python(text)).body)
    except SyntaxError:
        return False


def check_cell(question: str) -> Cell:
    """Return the cell in which learners check their answer."""
    return Cell("code", f'q.check("{question}")', {"tags": "check"})


def alone(text: str) -> str:
    """Return a cell's text without what gives learners `q`: another grader has no use for it."""
    return _GIVES_Q.sub("", text)


def _source(draft: Draft, name: str) -> str:
    points: dict[str, float] = {}
    for test in draft.tests:
        points[test.question] = points.get(test.question, 0.0) + test.weight
    setup = Cell("code", f'from autograder import lab\n\nq = lab("{name}")', {"tags": "setup"})
    first = next((i for i, cell in enumerate(draft.cells) if cell.kind == "code"), 0)
    parts = []
    for cell in [*draft.cells[:first], setup, *draft.cells[first:]]:
        attributes = dict(cell.attributes)
        if "question" in attributes:
            attributes.setdefault("points", f"{points.get(attributes['question'], 0.0):g}")
        parts.append(_write_cell(replace(cell, attributes=attributes)))
    return "\n\n".join(parts) + "\n"


def _write_cell(cell: Cell) -> str:
    words = ["# %%", *(["[markdown]"] if cell.kind == "markdown" else [])]
    for key, value in cell.attributes.items():
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        words.append(f'{key}="{escaped}"')
    lines = cell.text.split("\n")
    if cell.kind == "markdown":
        lines = [f"# {line}".rstrip() for line in lines]
    else:
        lines = [f"# {line}" if re.match(r"[%!]", line) else line for line in lines]
    return "\n".join([" ".join(words), *lines])


def _checks(draft: Draft, name: str) -> str:
    parts = [_HEADER.format(name=name)]
    title = ""
    for number, test in enumerate(draft.tests, 1):
        before, title = title, f"{test.question}_{'hidden_' if test.hidden else ''}test_{number}"
        options = f", weight={test.weight:g}" + (", hidden=True" if test.hidden else "")
        options += f', requires="{before}"' if test.continues else ""
        body = _as_function_body(test.text)
        lines = "\n".join(f"        {line}".rstrip() for line in body.splitlines())
        parts.append(
            f'@check("{test.question}"{options})\ndef {title}(student, rng):\n'
            f'    """{title.replace("_", " ")}"""\n\n    def cell():\n{lines}\n\n'
            f"    asserts(student, cell)\n"
        )
    return "\n\n".join(parts)


def _as_function_body(text: str) -> str:
    """Return a test cell as the body of a function, with the notebook's names as it has them."""
    tree = ast.parse(plain_python(text))
    shared = sorted(_find_names_of_the_notebook(tree))
    tree.body = [node for node in tree.body if not isinstance(node, ast.Global)]
    if shared:
        tree.body.insert(0, ast.Global(shared))
    return ast.unparse(tree)


def _find_names_of_the_notebook(tree: ast.Module) -> set[str]:
    """Return the names that a cell binds and that are the notebook's before or after.

    Its functions call them global, or it deletes them, or reads them before it binds them.
    """
    found = {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}
    bound = set[str]()
    for statement in tree.body:
        nodes = list(_walk_scope(statement))
        names = [n for n in nodes if isinstance(n, ast.Name)]
        stored = {n.id for n in names if isinstance(n.ctx, ast.Store)}
        found |= {n.id for n in names if isinstance(n.ctx, ast.Del)} - bound
        added_to = (n.target for n in nodes if isinstance(n, ast.AugAssign))
        found |= {target.id for target in added_to if isinstance(target, ast.Name)} - bound
        found |= {n.id for n in names if isinstance(n.ctx, ast.Load)} & stored - bound
        bound |= stored
    return found


def _walk_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement's nodes, without those of functions and classes in it."""
    scopes = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    comprehensions = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    yield node
    if not isinstance(node, scopes + comprehensions):
        for child in ast.iter_child_nodes(node):
            yield from _walk_scope(child)
