"""lab.json: what the notebook's panel and checks know of a lab; no solution, no rubric."""

import json
from pathlib import Path
from typing import Any

from autograder.errors import LabError, UnknownLab
from autograder.records import Lab, Question
from autograder.source import SOURCE, load_lab

MANIFEST = "lab.json"


def to_manifest(lab: Lab) -> str:
    """Return the manifest's text."""
    questions = [
        {
            "name": q.name,
            "points": q.points,
            "defines": list(q.defines),
            "hints": list(q.hints),
            "starter": q.starter,
            "manual": q.manual,
        }
        for q in lab.questions
    ]
    content = {"name": lab.name, "title": lab.title, "questions": questions}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def load_released(directory: Path | str) -> Lab:
    """Return the lab in a released directory, or in a source directory; no cells, no solutions.

    Raises:
        UnknownLab: it has neither lab.json nor lab.py.
        LabError: its lab.json cannot be read.
    """
    directory = Path(directory)
    path = directory / MANIFEST
    if not path.is_file():
        if not (directory / SOURCE).is_file():
            problem = f"lab: {directory}: has neither {MANIFEST} nor {SOURCE}"
            raise UnknownLab(f"{problem}. Name a lab's directory.")
        return _without_solutions(load_lab(directory))
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        questions = tuple(_question(q) for q in content["questions"])
        return Lab(content["name"], content["title"], directory, (), questions)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"lab: cannot read {path}: {error!r}. Release the lab again.") from error


def _question(data: dict[str, Any]) -> Question:
    return Question(
        name=data["name"],
        points=float(data["points"]),
        defines=tuple(data["defines"]),
        hints=tuple(data["hints"]),
        starter=data["starter"],
        manual=bool(data["manual"]),
    )


def _without_solutions(lab: Lab) -> Lab:
    questions = tuple(
        Question(q.name, q.points, q.defines, q.hints, q.starter, manual=q.manual)
        for q in lab.questions
    )
    return Lab(lab.name, lab.title, lab.directory, (), questions)
