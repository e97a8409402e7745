"""Starter and solution regions of a cell, and the two readings: the learner's and the solution.

### BEGIN SOLUTION ... ### END SOLUTION     goes; `raise NotImplementedError("name")` stays
### BEGIN STARTER ... ### END STARTER       comments that lose their `# `, in a solution's place;
                                            in a text cell a form, below the answer's line
"""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from autograder.errors import SourceError
from autograder.records import Cell

PLACEHOLDER = "*Write your answer here.*"

_EDGE = re.compile(r"^\s*(?:# )?### (?P<edge>BEGIN|END) (?P<region>SOLUTION|STARTER)\s*$")


@dataclass(frozen=True)
class Part:
    """Lines of a cell that belong together; `region` is "", "SOLUTION" or "STARTER"."""

    region: str
    lines: tuple[str, ...]
    indent: str = ""


def answer_line(question: str) -> str:
    """Return the line by which the answer to a manual question is found."""
    return f"**Answer** ({question}):"


def form_below(question: str, starter: str) -> str:
    """Return what stands below a manual question's answer line before anybody writes there."""
    return starter.partition(answer_line(question))[2].strip()


def parts_of(cell: Cell, path: Path) -> list[Part]:
    """Return the cell's text in parts.

    Raises:
        SourceError: a region is not closed, not opened, or stands in another.
    """
    parts: list[Part] = []
    lines: list[str] = []
    region, indent = "", ""
    for offset, line in enumerate(cell.text.split("\n"), 1):
        edge = _EDGE.match(line)
        if edge is None:
            lines.append(line)
            continue
        opens = edge["edge"] == "BEGIN"
        if opens == bool(region) or (not opens and edge["region"] != region):
            problem = f"{line.strip()}: got it {'inside' if region else 'outside'} a region."
            raise SourceError(str(path), cell.line + offset, problem)
        parts.append(Part(region, tuple(lines), indent))
        region = edge["region"] if opens else ""
        indent = line[: len(line) - len(line.lstrip())]
        lines = []
    if region:
        raise SourceError(str(path), cell.line, f"### BEGIN {region}: is never closed.")
    return [*parts, Part("", tuple(lines), "")]


def learner_text(cell: Cell, path: Path) -> str:
    """Return the cell as the learner gets it: no line of a solution region is left."""
    name = cell.attributes.get("question", "")
    parts = parts_of(cell, path)
    has_starter = any(part.region == "STARTER" for part in parts)
    lines: list[str] = []
    for part in parts:
        if not part.region:
            lines += part.lines
        elif cell.kind == "markdown":
            form = part.lines if part.region == "STARTER" else (PLACEHOLDER,)
            if name and (part.region == "STARTER" or not has_starter):
                lines += ["", answer_line(name), "", *form]
        elif part.region == "STARTER":
            lines += uncomment(part.lines)
        elif not has_starter:
            lines.append(f'{part.indent}raise NotImplementedError("{name or _find_name(cell)}")')
    if cell.attributes.get("manual") == "true" and answer_line(name) not in lines:
        lines += ["", answer_line(name), "", PLACEHOLDER]
    return "\n".join(lines).strip("\n")


def solution_text(cell: Cell, path: Path) -> str:
    """Return the cell as the solution has it: markers and starter regions are gone."""
    name = cell.attributes.get("question", "")
    lines: list[str] = []
    for part in parts_of(cell, path):
        if part.region == "SOLUTION" and cell.kind == "markdown" and name:
            lines += ["", answer_line(name), ""]
        if part.region != "STARTER":
            lines += part.lines
    return "\n".join(lines).strip("\n")


def uncomment(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a starter region as the learner gets them."""
    for line in lines:
        yield re.sub(r"^(\s*)# ?", r"\1", line, count=1)


def _find_name(cell: Cell) -> str:
    """Return the first name that the cell defines, for a stub that belongs to no question."""
    try:
        body = ast.parse(cell.text).body
    except SyntaxError:
        return "to be written"
    names = [getattr(node, "name", "") for node in body]
    return next((name for name in names if name), "to be written")
