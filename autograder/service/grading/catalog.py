"""The labs that this server grades, by name. A lab has `lab.py` and `checks.py`."""

import re
import threading
from functools import cached_property, lru_cache
from pathlib import Path

from autograder.errors import AutograderError
from autograder.records import Lab, Submission, without_number
from autograder.service.errors import GraderUnable, Refused, StartError

# One thread at a time: before Python 3.12.3 two that parse at once can fail (CPython issue 106905).
_READING = threading.Lock()
_WORD = re.compile(r"[^\W\d]\w*")


class Titles(dict[str, str]):
    """The titles of labs by their names; a lab that is not here is called by its name."""

    def __missing__(self, name: str) -> str:
        return name


class LabCatalog:
    """The labs of one directory, looked up with or without their number."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory.resolve()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of all labs here, in order.

        Raises:
            StartError: there is no such directory, or no lab in it.
        """
        try:
            folders = [p for p in self.directory.iterdir() if (p / "lab.py").is_file()]
            names = sorted(p.name for p in folders if (p / "checks.py").is_file())
        except OSError as error:
            problem = f"got {self.directory}: {error.strerror}"
            raise StartError(
                f"serve: no labs directory: {problem}. Say --labs DIR. "
                "Help: when_it_does_not_work.html#no-labs-directory"
            ) from error
        if not names:
            raise StartError(
                f"serve: no lab in {self.directory}: expected directories that hold lab.py and "
                "checks.py. Say --labs DIR. Help: when_it_does_not_work.html#no-labs-directory"
            )
        return tuple(names)

    @property
    def titles(self) -> Titles:
        """The titles of all labs here, as their notebooks have them now."""
        return Titles((name, self.title(name)) for name in self.names)

    def title(self, name: str) -> str:
        """Return the title of a lab; its name where it has none, or cannot be read."""
        try:
            return self._read(name).title
        except (AutograderError, OSError, ValueError):
            return name

    def require(self) -> None:
        """Raise the `StartError` of `names` now, if there is one, rather than later."""
        _ = self.names

    def resolve(self, name: str) -> str:
        """Return the full name of the lab called `name`.

        Raises:
            Refused: 404, there is none.
        """
        for full in self.names:
            if name in (full, without_number(full)):
                return full
        expected = f"{'one of ' if len(self.names) > 1 else ''}{', '.join(self.names)}"
        raise Refused(404, f"unknown lab: got {name!r}, expected {expected}.")

    def require_of(self, name: str, notebook: Submission) -> None:
        """Let a notebook of another lab here through only if it may hold answers of this one.

        An answer is found by its name, wherever it stands: one such word is enough, unless the
        other lab's text has it too, and not as code that it asks for. A notebook that is refused
        would earn nothing, but by what people mark in every lab, such as a reading note.

        Raises:
            Refused: 422, it says that it is of another lab, and nothing in it is of this one.
        """
        other = notebook.find_other_lab(name)
        if not other:
            return
        try:
            other = self.resolve(other)
            theirs, questions = self._read(other), self._read(name).questions
        except (AutograderError, OSError):  # there is no such lab, or one cannot be read now
            return
        their_words = {word for cell in theirs.cells for word in _WORD.findall(cell.text)}
        words = {word for _, text in notebook.cells for word in _WORD.findall(text)}
        their_words |= {q.name for q in theirs.questions if q.manual}
        their_words -= {name for q in theirs.questions if not q.manual for name in q.defines}
        answers = {word for q in questions for word in (q.name, *q.defines)}
        if words.isdisjoint(answers - their_words):
            problem = f"this is a notebook of lab {other}, and nothing in it answers {name}"
            raise Refused(422, f"submit: {problem}. Hand it in there. This cost no attempt.")

    def path(self, name: str) -> Path:
        """Return the directory of the lab whose full name is `name`."""
        return self.directory / name

    def questions(self, name: str) -> tuple[str, ...]:
        """Return the names of a lab's questions.

        Raises:
            Refused: 422, the lab's source cannot be read.
        """
        return tuple(question.name for question in self._require_read(name).questions)

    def _require_read(self, name: str) -> Lab:
        try:
            return self._read(name)
        except (AutograderError, OSError) as error:
            problem = str(error).splitlines()[0][:200]
            raise Refused(422, f"{name} cannot be read: {problem}") from error

    def checks(self, name: str) -> tuple[int, int] | None:
        """Return how many checks run in the notebook and how many more here; None: unreadable."""
        path = self.path(name) / "checks.py"
        try:
            return _checks(path, path.stat().st_mtime_ns)
        except (OSError, SyntaxError, ValueError):
            return None

    def solution(self, name: str) -> bytes:
        """Return the solution notebook of a lab.

        Raises:
            GraderUnable: the lab is gone.
            LabError, OSError: the lab's source cannot be read.
        """
        from autograder.authoring.notebook import solution_notebook

        return solution_notebook(self._read(name)).encode()

    def solution_of(self, name: str, question: str) -> str | None:
        """Return the solution of one question of a lab; None: there is no such question.

        Raises:
            Refused: 422, the lab's source cannot be read.
        """
        named = self._require_read(name).question(question)
        return None if named is None else named.solution

    def rubrics(self, name: str) -> dict[str, tuple[str, ...]]:
        """Return the items of the rubric of each question that people mark; none where unread."""
        try:
            manual = [question for question in self._read(name).questions if question.manual]
        except (AutograderError, OSError):
            return {}
        return {q.name: tuple(item.text for item in q.rubric) for q in manual}

    def read_question(self, name: str, question: str) -> tuple[str, str]:
        """Return what a question for a person asks and its model answer, as Markdown.

        Both are empty where the lab has no such question, or cannot be read now.
        """
        from autograder.authoring.regions import answer_line, form_below

        try:
            named = self._read(name).question(question)
        except (AutograderError, OSError):
            named = None
        if named is None:
            return "", ""
        text = named.starter.partition(answer_line(question))[0].strip()
        return text, form_below(question, named.solution)

    def _read(self, name: str) -> Lab:
        path = self.path(name)
        try:
            changed = (path / "lab.py").stat().st_mtime_ns
        except FileNotFoundError as error:
            message = f"the lab is not in {self.directory} any more: expected {name}/lab.py"
            raise GraderUnable(f"{message}. Put it back.") from error
        return _lab(path, changed)


@lru_cache(maxsize=256)
def _lab(path: Path, _changed: int) -> Lab:
    from autograder.authoring.source import load_lab

    with _READING:
        return load_lab(path)


@lru_cache(maxsize=256)
def _checks(path: Path, _changed: int) -> tuple[int, int]:
    from autograder.authoring.public_checks import counts

    with _READING:
        return counts(path.read_text("utf-8"))
