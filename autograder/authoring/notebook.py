"""A lab's cells as notebooks: the learner's and the solution, the same bytes at every release.

Cell ids follow from the lab and the cell, there are no outputs, and the metadata is what nbgrader
reads. Written as JSON, sorted, so that nbformat need not be loaded.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from autograder.authoring.regions import learner_text, solution_text
from autograder.records import Cell, Lab, Question

_CHECKED = re.compile(r"""\bq\.check\(\s*["'](\w+)["']""")
Reading = Callable[[Cell, Path], str]

_METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"file_extension": ".py", "mimetype": "text/x-python", "name": "python"},
}


def learner_notebook(lab: Lab) -> str:
    """Return the learner's notebook as text: starters in place of solutions."""
    return notebook_text(lab, list(cells_as_dicts(lab, lab.cells, learner_text)))


def solution_notebook(lab: Lab) -> str:
    """Return the solution notebook as text."""
    return notebook_text(lab, list(cells_as_dicts(lab, lab.cells, solution_text)))


def notebook_text(lab: Lab, cells: list[dict[str, Any]]) -> str:
    """Return a notebook of these cells as text."""
    content = {
        "cells": cells,
        "metadata": {**_METADATA, "autograder": {"lab": lab.name}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return as_text(content)


def as_text(content: dict[str, Any]) -> str:
    """Return a notebook's JSON, the same text for the same content."""
    return json.dumps(content, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def cells_as_dicts(lab: Lab, cells: Sequence[Cell], read: Reading) -> Iterator[dict[str, Any]]:
    """Yield `cells` of a lab as the notebook format has them, their texts as `read` gives them."""
    names: set[str] = set()
    last = ""
    for cell in cells:
        last = _question(cell, lab, last)
        name = _unique(_name(cell, last), names)
        metadata = _metadata(cell, name, lab.question(last))
        yield as_dict(cell.kind, cell_id(lab, name), read(cell, lab.directory), metadata)


def as_dict(kind: str, identity: str, text: str, metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a cell that has not run, as the notebook format has it."""
    cell = {"cell_type": kind, "id": identity, "metadata": metadata}
    not_run: dict[str, Any] = {"execution_count": None, "outputs": []} if kind == "code" else {}
    return {**cell, "source": text.splitlines(keepends=True), **not_run}


def cell_id(lab: Lab, name: str) -> str:
    """Return the id of the cell `name` of a lab."""
    digest = hashlib.sha256(f"{lab.name}/{name}".encode()).hexdigest()
    return f"{name[:40]}-{digest[:8]}".replace("_", "-")


def _question(cell: Cell, lab: Lab, last: str) -> str:
    """Return the question that a cell is about: its own, the one that it checks, or the last."""
    call = _CHECKED.search(cell.text) if "check" in cell.tags else None
    checked = call.group(1) if call and lab.question(call.group(1)) else last
    return cell.attributes.get("question", checked)


def _name(cell: Cell, last_question: str) -> str:
    """Return what a cell is called: its question, its question's check, or a word for its text."""
    if "question" in cell.attributes:
        return cell.attributes["question"]
    if "check" in cell.tags and last_question:
        return f"check_{last_question}"
    return "text" if cell.kind == "markdown" else "code"


def _unique(name: str, names: set[str]) -> str:
    unique, count = name, 1
    while unique in names:
        count += 1
        unique = f"{name}_{count}"
    names.add(unique)
    return unique


def _metadata(cell: Cell, name: str, about: Question | None) -> dict[str, Any]:
    metadata: dict[str, Any] = {"tags": list(cell.tags)} if cell.tags else {}
    question = "question" in cell.attributes
    if question or "check" in cell.tags:
        graded = not question or cell.attributes.get("manual") == "true"
        points = (about.points if about else 0.0) if graded else None
        metadata["nbgrader"] = for_nbgrader(name, points, solution=question)
    return metadata


def for_nbgrader(name: str, points: float | None, *, solution: bool) -> dict[str, Any]:
    """Return what nbgrader reads of a cell; one without `points` is not graded."""
    about = {"grade": points is not None, "grade_id": name, "locked": not solution}
    about |= {"schema_version": 3, "solution": solution, "task": False}
    return about if points is None else {**about, "points": points}
