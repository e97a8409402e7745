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
from autograder.service.times import format_local, moment


@dataclass
class HandedIn:
    """A submission as this notebook knows it; `url` shows its page and logs the browser in."""

    number: int
    url: str
    state: str = "stored"
    score: float | None = None
    max_score: float | None = None
    held_back: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the server has nothing more to say."""
        return self.state in ("graded", "parked")


def list_unsaved(practice: Practice, notebook: bytes) -> list[str]:
    """Return the questions whose answer that was run last is not the one in the file."""
    saved = definitions(statements_of(read(notebook).cells))
    return [q.name for q in practice.questions if _differs(practice, q, saved)]


def _differs(practice: Practice, question: Question, saved: Mapping[str, str]) -> bool:
    for name in question.defines:
        text = practice.find_definition(name)
        if text is not None and not same_code(text, saved.get(name, "")):
            return True
    return False


def send(connection: Connection, lab: str, notebook: RunningNotebook) -> HandedIn:
    """Return the submission that the server has stored, and the address of its page."""
    receipt = connection.submit(lab, notebook.data, notebook.name)
    try:
        url = connection.page(f"/submissions/{receipt['id']}")
    except ServerError:  # stored it is; the page then asks who is there
        url = receipt["url"]
    return HandedIn(receipt["id"], url)


def dates(connection: Connection, lab: str) -> str:
    """Return until when this learner may hand in a lab, and how often, as far as it is limited."""
    lab_dates = next((each for each in connection.labs() if each["name"] == lab), {})
    lines = [
        f"{words} {format_local(lab_dates[name])}"
        for name, words in (("opens", "opens"), ("due", "due"), ("late_until", "late until"))
        if lab_dates.get(name) and not (name == "opens" and moment(lab_dates[name]) < time.time())
    ]
    if lab_dates.get("due") and lab_dates["penalty_per_day"]:
        lines.append(f"each late day costs {lab_dates['penalty_per_day']:.0%}")
    if lab_dates.get("attempts_left") is not None:
        lines.append(f"attempts left: {lab_dates['attempts_left']}")
    return "; ".join(lines)


def refresh(connection: Connection, handed_in: HandedIn) -> None:
    """Ask the server how far it is."""
    submission = connection.submission(str(handed_in.number))
    handed_in.state = submission["state"]
    handed_in.score, handed_in.max_score = submission["score"], submission["max_score"]
    handed_in.held_back = handed_in.score is None and submission.get("held_back", False)
