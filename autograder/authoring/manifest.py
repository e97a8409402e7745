"""lab.json: what the notebook's panel and checks know of a lab, and the notebook as handed out.

No solution, no rubric.
"""

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from autograder.authoring.notebook import as_text, learner_notebook
from autograder.authoring.source import SOURCE, load_lab
from autograder.errors import LabError, UnknownLab
from autograder.records import Lab, Question

MANIFEST = "lab.json"
NOTEBOOK = "lab.ipynb"  # the learner's, beside it
_OF_QUESTION = ("name", "points", "defines", "hints", "starter", "manual")


def to_manifest(lab: Lab, hidden: Iterable[str] = ()) -> str:
    """Return the manifest's text; `hidden` are the questions of the hidden checks, one a check."""
    counts = Counter(hidden)
    questions = [
        {name: getattr(q, name) for name in _OF_QUESTION} | {"hidden_checks": counts[q.name]}
        for q in lab.questions
    ]
    notebook = json.loads(learner_notebook(lab))
    content = {
        "name": lab.name, "title": lab.title, "audience": lab.audience, "questions": questions,
        "notebook": notebook,
    }  # fmt: skip
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
        lab = load_lab(directory)
        questions = tuple(replace(q, solution="", rubric=()) for q in lab.questions)
        return replace(lab, cells=(), questions=questions)
    try:
        content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        questions = tuple(_question(q) for q in content["questions"])
        names = (content["name"], content["title"])
        return Lab(*names, directory, (), questions, content["audience"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise LabError(f"lab: cannot read {path}: {error!r}. Release the lab again.") from error


def read_handout(directory: Path) -> str:
    """Return the notebook of a released directory as it was handed out.

    Raises:
        LabError: its lab.json has none, or cannot be read.
    """
    path = directory / MANIFEST
    try:
        notebook = json.loads(path.read_text(encoding="utf-8"))["notebook"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        problem = f"lab: {path} holds no notebook to begin anew with"
        raise LabError(f"{problem}. Release the lab again.") from error
    return as_text(notebook)


def _question(data: dict[str, Any]) -> Question:
    lists = {name: tuple(data[name]) for name in ("defines", "hints")}
    return Question(**{**{name: data[name] for name in (*_OF_QUESTION, "hidden_checks")}, **lists})
