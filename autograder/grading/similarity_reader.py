"""Reads learners' code for `similarity`, in a process of its own: reading alone can kill it.

`python -m autograder.grading.similarity_reader LAB`. `{"notebook": BASE64}` is answered with the
learner's own `texts`, by question, and their `prints` beyond what the lab explains.
"""

import base64
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from autograder.authoring.source import load_lab
from autograder.errors import SubmissionError
from autograder.grading.line_process import Answer, LineProcess, ProcessEnded, Request, Serving
from autograder.grading.paths import content_of
from autograder.grading.pool import Pool
from autograder.grading.similarity import (
    ALIKE,
    Prints,
    answers,
    fingerprint_handouts,
    pairs,
    prints,
)
from autograder.printable import printable

_READ_S = 60.0  # one notebook; the largest that is let in takes a tenth


@dataclass(frozen=True)
class Reading:
    """What was read of a notebook: the answers as code, and what is their own of it."""

    texts: dict[str, str]
    prints: Prints


class Reader:
    """Reads notebooks of the lab in a directory; to be closed."""

    def __init__(self, lab: Path) -> None:
        command = ["-m", "autograder.grading.similarity_reader", str(lab.absolute())]
        self._pool = Pool(partial(LineProcess, command))
        self.close = self._pool.close

    def read(self, notebook: bytes) -> Reading:
        """Return what was read of a notebook: nothing where it ended the process."""
        try:
            text = base64.b64encode(notebook).decode()
            answer = self._pool.ask({"notebook": text}, _READ_S)
        except ProcessEnded:
            return Reading({}, {})
        return Reading(
            answer["texts"], {name: frozenset(own) for name, own in answer["prints"].items()}
        )


def alike(lab: Path, paths: Sequence[Path], least: float = ALIKE) -> list[str]:
    """Return a line for each pair of answers that are alike, the most alike first."""
    prints_by_name: dict[str, Prints] = {}
    with closing(Reader(lab)) as reader:
        for path in paths:
            try:
                prints_by_name[str(path)] = reader.read(content_of(path)).prints
            except SubmissionError:
                continue
    return [
        f"alike {p.share:.0%}: {p.question}: {_name(p.left)} and {_name(p.right)}"
        for p in pairs(prints_by_name, least)
    ]


def _name(path: str) -> str:
    return " ".join(printable(path).split())  # a learner's file may be called anything


def main() -> None:
    """Serve notebooks until the input closes."""
    lab = load_lab(Path(sys.argv[1]))
    handout_prints = fingerprint_handouts(lab)

    def read(request: Request) -> Answer:
        try:
            texts = answers(lab, base64.b64decode(request["notebook"]))
        except (SubmissionError, RecursionError, MemoryError):
            texts = {}
        fresh = {name: list(prints(text) - handout_prints[name]) for name, text in texts.items()}
        return {"texts": texts, "prints": fresh}

    Serving().run(read)


if __name__ == "__main__":
    main()
