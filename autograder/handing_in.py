"""Handing in from a notebook: which file it is, whether it is saved, and where it goes.

What is sent is the file on the disk, so a cell that was run and not saved would be missing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.errors import SubmissionError
from autograder.practice import Practice
from autograder.records import Question
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.slicing import definitions, same_code, statements_of
from autograder.submission import read

NOTEBOOK = "lab.ipynb"

# jupyter_server tells the kernel the notebook's path in this variable.
_SESSION = "JPY_SESSION_NAME"
_VSCODE = "__vsc_ipynb_file__"


@dataclass
class HandedIn:
    """A submission as this notebook knows it; `url` shows its page and logs the browser in."""

    number: int
    url: str
    state: str = "stored"
    score: float | None = None
    max_score: float | None = None

    @property
    def is_final(self) -> bool:
        """Whether the server has nothing more to say."""
        return self.state in ("graded", "failed")


def notebook_file(
    named: str | None, folder: Path, namespace: Mapping[str, Any], environment: Mapping[str, str]
) -> Path:
    """Return the file of the notebook that runs, or the one that was named.

    Raises:
        SubmissionError: it cannot be told which it is.
    """
    if named is not None:
        return Path(named) if Path(named).is_file() else folder / named
    told = [Path(str(p)) for p in (namespace.get(_VSCODE), environment.get(_SESSION)) if p]
    found = [p for p in (*told, folder / NOTEBOOK) if p.suffix == ".ipynb" and p.is_file()]
    found = found or sorted(folder.glob("*.ipynb"))[:2]
    if not found or (len(found) > 1 and not told and found[0].name != NOTEBOOK):
        problem = "several notebooks are" if found else "no notebook is"
        raise SubmissionError(
            f'submit: {problem} in {folder}. Name yours: q.submit("my_notebook.ipynb").'
        )
    return found[0]


def load(path: Path) -> bytes:
    """Return a notebook's bytes.

    Raises:
        SubmissionError: there is no such file.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        problem = f"submit: cannot read {path}: {error.strerror}"
        raise SubmissionError(f"{problem}. Save the notebook and try again.") from error


def unsaved(practice: Practice, notebook: bytes) -> list[str]:
    """Return the questions whose answer that was run last is not the one in the file."""
    saved = definitions(statements_of(read(notebook).cells))
    return [q.name for q in practice.questions if _differs(practice, q, saved)]


def _differs(practice: Practice, question: Question, saved: Mapping[str, str]) -> bool:
    for name in question.defines:
        text = practice.executed(name)
        if text is not None and not same_code(text, saved.get(name, "")):
            return True
    return False


def send(connection: Connection, lab: str, path: Path, notebook: bytes) -> HandedIn:
    """Return the submission that the server has stored, and the address of its page."""
    found = connection.submit(lab, notebook, path.name)
    try:
        url = connection.page(f"/submissions/{found['id']}")
    except ServerError:  # stored it is; the page then asks who is there
        url = found["url"]
    return HandedIn(found["id"], url)


def refresh(connection: Connection, handed_in: HandedIn) -> None:
    """Ask the server how far it is."""
    found = connection.submission(str(handed_in.number))
    handed_in.state = found["state"]
    handed_in.score, handed_in.max_score = found["score"], found["max_score"]
