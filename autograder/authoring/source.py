"""The lab source: one percent-format file that holds text, starters, solutions, points and tags.

The format is described in docs/architecture.md. `load_lab` reads a lab's directory; `cells_of`
splits a text into cells and knows nothing of labs; `learner_text` and `solution_text` are the two
readings of a cell.
"""

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from autograder.authoring.regions import learner_text, solution_text
from autograder.errors import LabError, SourceError, UnknownLab
from autograder.records import Cell, Lab, Question, RubricItem, WrongAnswer

SOURCE = "lab.py"
WRONG = "wrong.py"

_MARKER = re.compile(r"^# %%(?:\s+(?P<rest>.*))?$")
_KIND = re.compile(r"\[(?P<kind>markdown|md|raw)\]")
_PAIR = re.compile(r'(?P<key>\w+)=(?P<value>"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^\s"\[]+)(?=\s|$)')
_MAGIC = re.compile(r"^# (?=%%?[A-Za-z_]\w*(?:\s|$)|![A-Za-z])")
_NAME = re.compile(r"[A-Za-z_]\w*")
_KNOWN = {"question", "points", "defines", "manual", "rubric", "tags"}
_KNOWN |= {"builds", "needs", "audience"}  # of a lab's first cell, for the table of labs
_KNOWN_WRONG = {"wrong", "question", "check", "says"}


def load_lab(directory: Path | str) -> Lab:
    """Return the lab whose source is `directory`/lab.py.

    Raises:
        UnknownLab: there is no such directory, or it has no lab.py.
        SourceError: the source cannot be read; names file and line.
    """
    directory = Path(directory)
    path = directory / SOURCE
    if not path.is_file():
        reason = "no such directory" if not directory.is_dir() else f"it has no {SOURCE}"
        raise UnknownLab(f"lab: {directory}: {reason}. Name a directory with lab.py and checks.py.")
    cells = tuple(cells_of(_read(path), str(path)))
    for cell in cells:
        _check_attributes(cell, path, _KNOWN, hints=True)
    name = directory.resolve().name
    questions = tuple(_questions(cells, path))
    audience = cells[0].attributes.get("audience", "cpu") if cells else "cpu"
    return Lab(name, _title(cells) or name, directory, cells, questions, audience)


def find_labs(path: Path | str) -> list[Path]:
    """Return the directories of the labs at `path`: itself, or those in it, in order."""
    path = Path(path)
    if (path / SOURCE).is_file():
        return [path]
    directories = sorted(p.parent for p in path.glob(f"*/{SOURCE}")) if path.is_dir() else []
    if not directories:
        problem = "holds no lab" if path.is_dir() else "no such directory"
        raise UnknownLab(f"labs: {path}: {problem}. Name a lab or a directory of labs.")
    return directories


def load_wrong_answers(directory: Path | str) -> tuple[WrongAnswer, ...]:
    """Return the named mistakes in `directory`/wrong.py; none where there is no such file."""
    path = Path(directory) / WRONG
    if not path.is_file():
        return ()
    cells = [c for c in cells_of(_read(path), str(path)) if "wrong" in c.attributes]
    for cell in cells:
        _check_attributes(cell, path, _KNOWN_WRONG)
        lacking = sorted(_KNOWN_WRONG - cell.attributes.keys())
        if lacking:
            raise SourceError(str(path), cell.line, f"wrong answer lacks {', '.join(lacking)}.")
    return tuple(
        WrongAnswer(a["wrong"], a["question"], a["check"], a["says"], cell.text)
        for cell in cells
        for a in [cell.attributes]
    )


def cells_of(text: str, path: str = "<source>") -> Iterator[Cell]:
    """Yield the cells of a percent-format text.

    Text before the first marker is a code cell of its own, unless it is a header: blank lines,
    comments and a docstring, or a block between two lines `# ---`.
    """
    marker = Cell("code", "", {}, 0)
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        match = _MARKER.match(line)
        if match:
            yield from _close_cell(marker, lines, path)
            marker = _parse_marker(match["rest"] or "", path, number)
            lines = []
        else:
            lines.append(line)
    yield from _close_cell(marker, lines, path)


def _parse_marker(rest: str, path: str, line: int) -> Cell:
    kind = _KIND.search(rest)
    pairs = list(_PAIR.finditer(rest))
    attributes = {m["key"]: _value(m["value"]) for m in pairs}
    left = _PAIR.sub("", rest)
    if "=" in left or len(attributes) < len(pairs):
        raise SourceError(path, line, f'attributes: got {rest!r}, expected key="value" pairs.')
    name = "code" if kind is None else {"md": "markdown"}.get(kind["kind"], kind["kind"])
    return Cell(name, "", attributes, line)


def _value(text: str) -> str:
    if text.startswith("["):
        try:
            return " ".join(str(item) for item in json.loads(text))
        except ValueError:
            return text
    if text.startswith('"'):
        return re.sub(r"\\(.)", r"\1", text[1:-1])
    return text


def _close_cell(marker: Cell, lines: list[str], path: str) -> Iterator[Cell]:
    first = marker.line == 0
    if first and _is_header(lines):
        return
    if marker.kind == "markdown":
        text = "\n".join(_uncomment(lines))
    else:
        text = "\n".join(_MAGIC.sub("", line) for line in lines)
    text = text.strip("\n").rstrip()
    if not (first and not text):
        yield Cell(marker.kind, text, marker.attributes, max(marker.line, 1))


def _is_header(lines: list[str]) -> bool:
    text = "\n".join(lines).strip()
    if not text or (text.startswith("# ---") and text.endswith("# ---")):
        return True
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return False
    return not body or (len(body) == 1 and ast.get_docstring(ast.parse(text)) is not None)


def _uncomment(lines: list[str]) -> Iterator[str]:
    text = "\n".join(lines).strip()
    for quotes in ('"""', "'''"):
        if text.startswith(quotes) and text.endswith(quotes) and len(text) >= 6:
            yield from text[3:-3].strip("\n").split("\n")
            return
    for line in lines:
        yield re.sub(r"^# ?", "", line)


def _questions(cells: Iterable[Cell], path: Path) -> Iterator[Question]:
    seen: dict[str, int] = {}
    for cell in cells:
        name = cell.attributes.get("question")
        if name is None:
            continue
        if not _NAME.fullmatch(name):
            raise SourceError(str(path), cell.line, f"question: got {name!r}, expected a name.")
        if name in seen:
            problem = f"question {name}: already stands at line {seen[name]}. Rename one."
            raise SourceError(str(path), cell.line, problem)
        seen[name] = cell.line
        yield _question(cell, name, path)


def _question(cell: Cell, name: str, path: Path) -> Question:
    attributes = cell.attributes
    manual = attributes.get("manual", "false").lower() == "true"
    if (cell.kind == "markdown") != manual:
        problem = f'question {name}: a Markdown cell has manual="true", and a code cell has not.'
        raise SourceError(str(path), cell.line, problem)
    points = _points(cell, name, path)
    return Question(
        name=name,
        points=points,
        defines=() if manual else tuple(attributes.get("defines", name).split()),
        hints=_read_numbered(attributes, "hint"),
        starter=learner_text(cell, path),
        solution=solution_text(cell, path),
        manual=manual,
        rubric=_rubric(cell, name, points, path),
    )


def _read_numbered(attributes: Mapping[str, str], word: str) -> tuple[str, ...]:
    """Return the values of word1, word2, ... in that order."""
    numbers = [key.removeprefix(word) for key in attributes if key.startswith(word)]
    return tuple(attributes[f"{word}{n}"] for n in sorted(filter(str.isdigit, numbers), key=int))


def _rubric(cell: Cell, name: str, points: float, path: Path) -> tuple[RubricItem, ...]:
    """Return the items of a question's rubric; `rubric="..."` alone is one item for all points."""
    if whole := cell.attributes.get("rubric"):
        return (RubricItem(points, whole),)
    items = []
    for text in _read_numbered(cell.attributes, "rubric"):
        match = re.fullmatch(r"(\d+(?:\.\d+)?): *(.+)", text)
        if match is None:
            problem = f'question {name}: rubric: got "{text}", expected "2: what they are for".'
            raise SourceError(str(path), cell.line, problem)
        items.append(RubricItem(float(match[1]), match[2]))
    total = sum(item.points for item in items)
    if items and abs(total - points) > 1e-9:
        problem = f"question {name}: rubric: the items sum to {total:g}, expected {points:g}."
        raise SourceError(str(path), cell.line, problem)
    return tuple(items)


def _points(cell: Cell, name: str, path: Path) -> float:
    text = cell.attributes.get("points", "")
    try:
        points = float(text)
    except ValueError:
        points = -1.0
    if not 0 <= points < 1e6:
        problem = f"question {name}: points: got {text!r}, expected a number such as 4."
        raise SourceError(str(path), cell.line, problem)
    return points


def _check_attributes(cell: Cell, path: Path, allowed: set[str], hints: bool = False) -> None:
    for key in cell.attributes:
        if key not in allowed and not (hints and re.fullmatch(r"(hint|rubric)\d+", key)):
            expected = ", ".join(sorted(allowed))
            problem = f"attribute: got {key!r}, expected one of {expected}."
            raise SourceError(str(path), cell.line, problem)
    if "question" not in cell.attributes and "points" in cell.attributes:
        raise SourceError(str(path), cell.line, "points: belong to a question: add question=.")


def _title(cells: Iterable[Cell]) -> str:
    for cell in cells:
        if cell.kind == "markdown":
            match = re.search(r"^#\s+(.+)$", cell.text, re.MULTILINE)
            if match:
                return match[1].strip()
    return ""


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise LabError(f"lab: cannot read {path}: {error}.") from error
