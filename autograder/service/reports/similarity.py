"""The answers of a lab that are most alike, for staff; see `autograder.grading.similarity`."""

import threading
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from autograder.grading.similarity import Pair, Prints, Reader, Reading, pairs
from autograder.service.grading.catalog import LabCatalog
from autograder.service.records.submissions.submissions import Submissions

_LEAST = 0.5
_MOST = 100  # pairs; nobody looks at more


Side = dict[str, Any]  # {submission, login}


@dataclass(frozen=True)
class Alike:
    """The pairs that are most alike of the `compared` learners' latest submissions."""

    compared: int
    pairs: list[tuple[Pair, Side, Side]]  # and the two submissions, with whose they are


class Similarity:
    """Compares the latest submissions of a lab; keeps what it read of the lab asked for last."""

    def __init__(self, submissions: Submissions, catalog: LabCatalog) -> None:
        self._submissions = submissions
        self._catalog = catalog
        self._turn = threading.Lock()
        self._key: tuple[str, int] | None = None
        self._kept: dict[str, Prints] = {}

    def of(self, lab: str) -> Alike:
        """Return what is alike in a lab.

        Raises:
            Refused: 422, the lab cannot be read.
        """
        latest = self._submissions.latest(lab)
        sides: dict[str, Side] = {
            str(number): {"submission": number, "login": login} for number, login in latest
        }
        with self._turn:
            key = (lab, self._stamp(lab))
            if key != self._key:
                self._key, self._kept = key, {}
            with closing(Reader(self._catalog.path(lab))) as reader:
                for name, side in sides.items():
                    if name not in self._kept:
                        self._kept[name] = self._read(reader, side["submission"]).prints
            alike = pairs({name: self._kept[name] for name in sides}, _LEAST)[:_MOST]
        return Alike(len(sides), [(p, sides[p.left], sides[p.right]) for p in alike])

    def texts(self, lab: str, question: str, numbers: list[int]) -> list[str]:
        """Return the answers of some submissions to a question, as code."""
        self._stamp(lab)
        with closing(Reader(self._catalog.path(lab))) as reader:
            return [self._read(reader, n).texts.get(question, "") for n in numbers]

    def _stamp(self, lab: str) -> int:
        self._catalog.questions(lab)  # for what it raises
        return (self._catalog.path(lab) / "lab.py").stat().st_mtime_ns

    def _read(self, reader: Reader, number: int) -> Reading:
        return reader.read(self._submissions.notebook(number) or b"")
