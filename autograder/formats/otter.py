"""Labs from the notebooks of Otter Assign, and for it.

Raw cells bound questions, solutions and tests; in a code cell comments say which lines are the
solution. A test cell becomes a check that runs it beside the learner's code: its asserts, the test
function that it defines, or the output that it is to have. The way back makes a test cell of each
check, which asks this package; so Otter's learners and judge need it installed. Otter's marks for
solutions are turned into our regions and back:

    x = 3 # SOLUTION                            x = ... stays
    x = 3 # SOLUTION NO PROMPT                  goes
    # BEGIN SOLUTION ... # END SOLUTION         ... stays; NO PROMPT: goes
    \"\"\" # BEGIN PROMPT ... \"\"\" # END PROMPT    stays, in place of `...`

Format: https://otter-grader.readthedocs.io, "Notebook Format", as of Otter 3 to 7.
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from autograder.authoring.magics import plain_python
from autograder.authoring.notebook import as_dict, notebook_text
from autograder.authoring.regions import PLACEHOLDER, learner_text, parts_of, uncomment
from autograder.checks import load_checks
from autograder.errors import LabError
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
from autograder.records import Cell, Lab, Question

_BOUND = re.compile(r"#\s*(BEGIN|END) (QUESTION|PROMPT|SOLUTION|TESTS)\b")
_SETTING = re.compile(r"^(\w+):[ \t]*(.*)$", re.M)
_TEST_CONFIG = re.compile(
    r'^"""\s*# BEGIN TEST CONFIG\s*\n(.*?)^"""\s*;?\s*# END TEST CONFIG', re.M | re.S
)
_IGNORED = re.compile(r"^.*#\s*IGNORE\s*$\n?", re.M)
_HIDDEN = re.compile(r"\A\s*#\s*HIDDEN\b")


@dataclass
class Block:
    """One question of Otter's: its settings, and the cells of each of its parts."""

    settings: dict[str, str]
    solution: list[dict[str, Any]] = field(default_factory=list)
    tests: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Its name, made fit to be ours."""
        return re.sub(r"\W", "_", self.settings.get("name", "")) or "question"


def import_notebook(path: Path, directory: Path) -> list[Path]:
    """Write lab.py and checks.py to `directory` from Otter's source; return their paths.

    Raises:
        LabError: it is no notebook, or has no question of Otter's.
    """
    draft, block, part = Draft(), None, ""
    for cell in notebook_cells(path):
        bound = _BOUND.match(cell["text"].lstrip()) if cell["kind"] == "raw" else None
        if bound is None:
            if block is not None and part in ("SOLUTION", "TESTS"):
                (block.solution if part == "SOLUTION" else block.tests).append(cell)
            elif part != "PROMPT" and cell["kind"] != "raw":
                draft.cells.append(Cell(cell["kind"], cell["text"].strip("\n")))
            continue
        edge, mark = bound.groups()
        part = mark if edge == "BEGIN" and mark != "QUESTION" else ""
        if mark == "QUESTION":
            if block is not None:
                _close(draft, block)
            block = Block(_settings(cell["text"])) if edge == "BEGIN" else None
    if block is not None:
        raise LabError(f"import {path}: question {block.name} has no # END QUESTION.")
    return write(draft, path, directory)


def _settings(text: str) -> dict[str, str]:
    """Return the settings of a cell's YAML that are on one line, as all of ours are."""
    return {key: value.strip().strip("'\"") for key, value in _SETTING.findall(text)}


def _close(draft: Draft, block: Block) -> None:
    """Add a question's answer cell, its tests, and the cell that checks it."""
    code = "\n\n".join(c["text"] for c in block.solution if c["kind"] == "code").strip("\n")
    manual = block.settings.get("manual", "").lower() == "true"
    if manual:
        if code:
            draft.cells.append(Cell("code", from_marks(code)))
        text = "\n\n".join(c["text"] for c in block.solution if c["kind"] == "markdown")
        lines = ["### BEGIN SOLUTION", text.strip() or PLACEHOLDER, "### END SOLUTION"]
        points = block.settings.get("points") or "1"
        about = {"question": block.name, "points": points, "manual": "true"}
        draft.cells.append(Cell("markdown", "\n".join(lines), about))
    elif code:
        names = list_defined_names(code)
        about = {"question": block.name}
        if names and names != [block.name]:
            about["defines"] = " ".join(dict.fromkeys(names))
        draft.cells.append(Cell("code", from_marks(code), about))
        draft.tests += _weigh(block, [t for c in block.tests for t in _test(block.name, c)])
        draft.cells.append(check_cell(block.name))


def _weigh(block: Block, tests: list[Test]) -> list[Test]:
    """Return the tests with weights that sum to the question's points, 1 where it names none."""
    points = block.settings.get("points", "")
    named = sum(test.weight for test in tests)
    total = float(points) if re.fullmatch(r"[0-9.]+", points) else named or 1.0
    whole = named or len(tests)
    return [replace(t, weight=total * (t.weight if named else 1.0) / whole) for t in tests]


def _test(question: str, cell: dict[str, Any]) -> Iterator[Test]:
    text = cell["text"]
    match = _TEST_CONFIG.search(text)
    settings = _settings(match[1]) if match else {}
    hidden = settings.get("hidden", "").lower() == "true" or bool(_HIDDEN.match(text))
    text = plain_python(_IGNORED.sub("", _TEST_CONFIG.sub("", text)))
    if cell["kind"] == "code" and has_code(text):
        body = ast.parse(text).body
        lines = [_write_assertion(body, _output(cell))]
        lines += [_write_call(node) for node in body if isinstance(node, ast.FunctionDef)]
        weight = float(settings.get("points") or 0.0)
        yield Test(question, "\n".join(filter(None, lines)), weight, hidden)


def _write_call(function: ast.FunctionDef) -> str:
    """Return the call of a test function: its arguments are the learner's names."""
    names = [argument.arg for argument in function.args.args]
    return f"{function.name}({', '.join(names)})" if function.name.startswith("test") else ""


def _write_assertion(body: list[ast.stmt], output: str) -> str:
    """Return a test whose output is given as one that asserts it."""
    if not output or any(isinstance(node, ast.FunctionDef) for node in body):
        return "\n".join(map(ast.unparse, body))
    *before, last = body
    lines = ["import contextlib, io", "printed = io.StringIO()"]
    lines += ["with contextlib.redirect_stdout(printed):"]
    shown = f"value = {ast.unparse(last)}" if isinstance(last, ast.Expr) else ast.unparse(last)
    inside = [*map(ast.unparse, before), "value = None", shown]
    lines += [f"    {line}" for text in inside for line in text.splitlines()]
    lines += ["shown = printed.getvalue() + ('' if value is None else repr(value))"]
    lines += [f"assert shown.strip() == {output!r}, 'The output is not the one expected.'"]
    return "\n".join(lines)


def _output(cell: dict[str, Any]) -> str:
    """Return what a test cell printed and showed when its author ran it."""
    parts = []
    for output in cell.get("outputs", []):
        text = output.get("text") or output.get("data", {}).get("text/plain") or ""
        parts.append(text if isinstance(text, str) else "".join(text))
    return "".join(parts).strip()


def export_notebook(lab: Lab) -> str:
    """Return Otter's source of a lab: solutions between its marks, a test cell a check.

    The whole checks.py goes to the judge alone; learners need the one that `release` writes.
    """
    tasks = tuple(tasks_of(lab, load_checks(lab.directory / CHECKS)))
    settings = f"name: {lab.name}\nautograder_files:\n    - {CHECKS}\nexport_cell: false"
    parts = [("raw", f"# ASSIGNMENT CONFIG\n{settings}")]
    for cell in lab.cells:
        question = lab.question(cell.attributes.get("question", ""))
        if question is not None:
            parts += _question(cell, question, lab, [t for t in tasks if t.question is question])
        elif "check" not in cell.tags:
            # Of what is in no question Otter clears nothing: learners get what they get from us.
            parts.append((cell.kind, alone(learner_text(cell, lab.directory))))
    cells = enumerate(parts)
    return notebook_text(lab, [as_dict(kind, f"cell-{n}", text, {}) for n, (kind, text) in cells])


def _question(
    cell: Cell, question: Question, lab: Lab, tasks: list[Task]
) -> Iterator[tuple[str, str]]:
    """Yield a question. Points that its tests share unequally stand with each, and there alone.

    Otter refuses tests whose points sum to more than the question's, as rounded ones may.
    """
    shared = len({task.max_score for task in tasks}) < 2
    lines = ["# BEGIN QUESTION", f"name: {question.name}"]
    lines += [f"points: {question.points:g}"] if shared else []
    lines += ["manual: true"] if question.manual else []
    yield "raw", "\n".join(lines)
    if question.manual:
        yield "markdown", question.starter.partition("**Answer**")[0].strip()
    yield "raw", "# BEGIN SOLUTION"
    solution = question.solution.partition(":\n")[2].strip() or question.solution
    yield cell.kind, solution if question.manual else to_marks(cell, lab.directory)
    yield "raw", "# END SOLUTION"
    if tasks:
        yield "raw", "# BEGIN TESTS"
        yield from (("code", _test_cell(task, shared)) for task in tasks)
        yield "raw", "# END TESTS"
    yield "raw", "# END QUESTION"


def _test_cell(task: Task, shared: bool) -> str:
    settings = [] if shared else [f"points: {task.max_score:g}"]
    settings += ["hidden: true"] if task.check.hidden else []
    edges = ['""" # BEGIN TEST CONFIG', '""" # END TEST CONFIG']
    config = [edges[0], *settings, edges[1]] if settings else []
    call = f'assert_check("{task.check.name}", globals())'
    return "\n".join([*config, "from autograder.formats.nbgrader import assert_check", call])


_LINE = re.compile(r"^(?P<indent>\s*)(?P<code>.*?)\s*#\s*(?:SOLUTION(?P<no> NO PROMPT)?|SEED)\s*$")
_BEGIN = re.compile(r"^(?P<indent>\s*)#\s*BEGIN SOLUTION(?P<no> NO PROMPT)?\s*$")
_END = re.compile(r"^\s*#\s*END SOLUTION\s*$")
_PROMPT = re.compile(r"""^\s*(?:\"{3}|'{3})\s*#\s*BEGIN PROMPT\s*$""")
_PROMPT_END = re.compile(r"""^\s*(?:\"{3}|'{3});?\s*#\s*END PROMPT\s*$""")
_INDENT = re.compile(r"^(\s*)(.*)$", re.DOTALL)
_ASSIGNED = re.compile(r"^(?P<left>[A-Za-z_][\w.,\[\] ]*?)\s*=(?!=)")


def from_marks(text: str) -> str:
    """Return a cell of Otter's with our regions.

    In functions our own placeholder stands in place of `...`; where a solution at the top level or
    a prompt is in the cell, it keeps all of Otter's.
    """
    pieces = list(_pieces(text.split("\n")))
    is_kept = any(_stays_as_it_is(*piece) for piece in pieces)
    lines: list[str] = []
    for kind, content, starter in pieces:
        if kind != "SOLUTION":
            lines += content
            continue
        indent = _INDENT.sub(r"\1", (content or starter or [""])[0])
        if is_kept:
            shown = [_INDENT.sub(r"\1# \2", line) for line in starter]
            lines += [f"{indent}### BEGIN STARTER", *shown, f"{indent}### END STARTER"]
        if content:
            lines += [f"{indent}### BEGIN SOLUTION", *content, f"{indent}### END SOLUTION"]
    return "\n".join(lines)


def _stays_as_it_is(kind: str, content: list[str], starter: list[str]) -> bool:
    """Return whether a solution is one for which our placeholder will not do."""
    first = (content or starter or [""])[0]
    prompted = bool(starter) and starter[0].strip() != "..."
    return kind == "SOLUTION" and (prompted or not first.startswith((" ", "\t")))


Piece = tuple[str, list[str], list[str]]  # "SOLUTION" or "", its lines, what stays instead


def _pieces(lines: list[str]) -> Iterator[Piece]:
    waiting = iter(lines)
    for line in waiting:
        begin, single = _BEGIN.match(line), _LINE.match(line)
        if begin:
            content = list(_until(waiting, _END))
            yield "SOLUTION", content, [] if begin["no"] else [f"{begin['indent']}..."]
        elif _PROMPT.match(line):
            yield "SOLUTION", [], list(_until(waiting, _PROMPT_END))
        elif single and single["code"]:
            indent, code = single["indent"], single["code"]
            is_removed = single["no"] or line.rstrip().endswith("SEED")
            left = _ASSIGNED.match(code)
            stays = f"{indent}{left['left']} = ..." if left else f"{indent}..."
            yield "SOLUTION", [indent + code], [] if is_removed else [stays]
        else:
            yield "", [line], []


def _until(lines: Iterator[str], end: re.Pattern[str]) -> Iterator[str]:
    for line in lines:
        if end.match(line):
            return
        yield line


def to_marks(cell: Cell, path: Path) -> str:
    """Return a cell of ours with Otter's marks."""
    lines: list[str] = []
    parts = parts_of(cell, path)
    started = any(part.region == "STARTER" for part in parts)
    for part in parts:
        if part.region == "SOLUTION":
            no_prompt = " NO PROMPT" if started else ""
            lines += [f"{part.indent}# BEGIN SOLUTION{no_prompt}", *part.lines]
            lines += [f"{part.indent}# END SOLUTION"]
        elif part.region == "STARTER":
            lines += [f'{part.indent}""" # BEGIN PROMPT', *uncomment(part.lines)]
            lines += [f'{part.indent}"""; # END PROMPT']
        else:
            lines += part.lines
    return "\n".join(lines).strip("\n")
