"""Handing in from a notebook: whether it is saved, and where it goes.

What is sent is mostly the file on the disk, so a cell that was run and not saved would be missing.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from autograder.grading.slicing import definitions, same_code, statements_of
from autograder.grading.submission import read
from autograder.learner.practice import Practice
from autograder.learner.running_notebook import RunningNotebook
from autograder.records import Question
from autograder.service.client import Connection
from autograder.service.errors import ServerError
from autograder.service.times import moment, zoned


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
        return self.state in ("graded", "parked")


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


def send(connection: Connection, lab: str, notebook: RunningNotebook) -> HandedIn:
    """Return the submission that the server has stored, and the address of its page."""
    found = connection.submit(lab, notebook.data, notebook.name)
    try:
        url = connection.page(f"/submissions/{found['id']}")
    except ServerError:  # stored it is; the page then asks who is there
        url = found["url"]
    return HandedIn(found["id"], url)


def dates(connection: Connection, lab: str) -> str:
    """Return until when this learner may hand in a lab, and how often, as far as it is limited."""
    found = next((known for known in connection.labs() if known["name"] == lab), {})
    said = [
        f"{words} {zoned(found[name])}"
        for name, words in (("opens", "opens"), ("due", "due"), ("late_until", "late until"))
        if found.get(name) and not (name == "opens" and moment(found[name]) < time.time())
    ]
    if found.get("due") and found["penalty_per_day"]:
        said.append(f"each late day costs {found['penalty_per_day']:.0%}")
    if found.get("attempts_left") is not None:
        said.append(f"attempts left: {found['attempts_left']}")
    return "; ".join(said)


def refresh(connection: Connection, handed_in: HandedIn) -> None:
    """Ask the server how far it is."""
    found = connection.submission(str(handed_in.number))
    handed_in.state = found["state"]
    handed_in.score, handed_in.max_score = found["score"], found["max_score"]
