"""Practice: a learner's way through one lab, in their own notebook. Prints and draws nothing.

Finds the lab's released folder, runs its public checks against the learner's names, and keeps
what came of them and which hints were shown. `notebook_ui` says it in words, `panel` draws it.
"""

import difflib
import secrets
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from autograder.authoring.magics import plain_python
from autograder.authoring.manifest import MANIFEST, NOTEBOOK, load_released
from autograder.authoring.requirements import apply_requirements
from autograder.authoring.source import SOURCE
from autograder.checks import Checks, load_checks, run_check
from autograder.errors import UnknownLab
from autograder.grading.grade import CHECKS, tasks_of, unusable
from autograder.grading.slicing import definitions, find_changed, same_code, statements_of
from autograder.grading.time_budget import Task
from autograder.learner.answer_files import (
    AnswerFileError,
    answer_file,
    cell_text,
    run,
    text_in_file,
)
from autograder.learner.journal import Checked, Journal, digest
from autograder.records import CheckResult, Lab, Outcome, Question, without_number
from autograder.student.local import LocalStudent

History = Callable[[], Sequence[str]]


def find_lab(name: str, start: Path) -> Path:
    """Return the released folder of the lab called `name`, looking from `start` upward.

    A folder counts if it is the lab's, or holds it. The name may leave out the number, or be it.

    Raises:
        UnknownLab: there is none; names those that are near.
    """
    seen: dict[str, Path] = {}
    for folder in (start, *start.parents):
        for path in (folder, *_children(folder)):
            if is_lab(path):
                seen.setdefault(path.name, path)
                if name in (path.name, without_number(path.name), _number(path.name)):
                    return path
    names = [without_number(n) for n in seen]
    near = difflib.get_close_matches(name, [*names, *seen], n=1)
    expected = f"Did you mean {near[0]!r}?" if near else f"Labs here: {', '.join(names) or 'none'}."
    problem = f"lab: there is no lab called {name!r} in {start} or above. {expected}"
    raise UnknownLab(f"{problem} Help: when_it_does_not_work.html#a-notebook-finds-no-lab")


def _children(folder: Path) -> list[Path]:
    """Return what may be a lab; above may lie thousands of folders, or one that none may read."""
    try:
        return sorted(path.parent for path in folder.glob(f"*/{CHECKS}"))
    except OSError:
        return []


def is_lab(folder: Path) -> bool:
    """Return whether `folder` is a lab's, released or source."""
    try:
        return (folder / CHECKS).is_file() and any((folder / mark).is_file() for mark in _MARKS)
    except OSError:
        return False


_MARKS = (MANIFEST, SOURCE)


def _number(name: str) -> str:
    number = name.partition("_")[0]
    return number if number.isdigit() else name


@dataclass(frozen=True)
class Judgement:
    """What a check of one question found; `results` is empty where it was not attempted."""

    question: str
    outcome: Outcome
    results: tuple[CheckResult, ...] = ()

    def failures(self) -> Iterator[tuple[str, str]]:
        """Yield the title of each check that does not pass, and what it says.

        What several say in the same words is said at the first of them.
        """
        first: dict[str, str] = {}
        for result in self.results:
            if result.outcome is Outcome.INCORRECT:
                output = result.output
                if output and output in first:
                    yield result.title, f'The same as for "{first[output]}".'
                else:
                    first[output] = result.title
                    yield result.title, output
            elif result.outcome is Outcome.NOT_ATTEMPTED:
                yield result.title, "What this asks for is not written yet."

    @property
    def broken(self) -> bool:
        """Whether a check itself failed, which is no fault of the learner's."""
        return any(result.broken for result in self.results)


class Practice:
    """One lab, the learner's names, and what has come of each question so far."""

    def __init__(self, directory: Path, namespace: MutableMapping[str, Any], history: History):
        self.lab: Lab = load_released(directory)
        self.namespace = namespace
        self.history = history
        self.judgements: dict[str, Judgement] = {}
        self.hints_shown: dict[str, int] = {}
        self.journal = Journal.of(directory)
        self._by_cell: dict[str, tuple[dict[str, str], frozenset[str]]] = {}
        self.followed: dict[str, str] = {}  # the files of answers, as they ran last

    @cached_property
    def _checks(self) -> Checks:
        return load_checks(self.lab.directory / CHECKS)

    @cached_property
    def _student(self) -> LocalStudent:
        without = self._checks.settings.withheld
        return LocalStudent(self.namespace, sources=self.find_definition, withheld=without)

    @cached_property
    def tasks(self) -> tuple[Task, ...]:
        """The public checks of the lab, with their points."""
        return tuple(task for task in self._every_task if not task.check.hidden)

    @cached_property
    def _every_task(self) -> tuple[Task, ...]:
        """The checks that are here: all of them in a lab's source, the public ones in a release."""
        return tuple(tasks_of(self.lab, self._checks))

    def counts(self, *questions: Question) -> tuple[int, int]:
        """Return how many checks of these questions run here, and how many more at submission."""
        names = {question.name for question in questions}
        own = [task for task in self._every_task if task.question.name in names]
        hidden = sum(task.check.hidden for task in own)
        return len(own) - hidden, hidden + sum(q.hidden_checks for q in questions)

    @property
    def questions(self) -> tuple[Question, ...]:
        """The questions that checks answer; the manual ones wait for a person."""
        return tuple(question for question in self.lab.questions if not question.manual)

    def check(self, question: Question) -> Judgement:
        """Run the public checks of `question` on what the learner has now, and note the result.

        Raises:
            AnswerFileError: the answer lies in a file that cannot be run.
        """
        try:
            self._run_file(question)
        except AnswerFileError:
            self.judgements[question.name] = Judgement(question.name, Outcome.INCORRECT)
            raise
        judgement = self.judge(question)
        self.judgements[question.name] = judgement
        self._note(question, judgement)
        return judgement

    def follow(self, cell: str = "") -> None:
        """Run the files of answers that have changed, and those in whose place a cell has run.

        Raises:
            AnswerFileError: one of them cannot be run; it is not tried again until it changes.
        """
        for question in self.questions:
            text = text_in_file(self.lab.directory, question.name)
            if text is None:
                continue
            has_changed = text != self.followed.get(question.name, text)
            ran = definitions(statements_of([("code", cell)])) if cell else {}
            if has_changed or ran.keys() & set(question.defines):
                self._run_file(question)

    def _run_file(self, question: Question) -> None:
        text = text_in_file(self.lab.directory, question.name)
        if text is None:
            self.followed.pop(question.name, None)
            return
        self.followed[question.name] = text
        run(text, answer_file(self.lab.directory, question.name), self.namespace)

    def judge(self, question: Question) -> Judgement:
        """Return what the public checks of `question` find in what the learner has now."""
        results = self._run(question) if self.is_attempted(question) else ()
        if all(result.outcome is Outcome.NOT_ATTEMPTED for result in results):
            return Judgement(question.name, Outcome.NOT_ATTEMPTED)
        if all(result.outcome is Outcome.CORRECT for result in results):
            return Judgement(question.name, Outcome.CORRECT, results)
        return Judgement(question.name, Outcome.INCORRECT, results)

    def _note(self, question: Question, judgement: Judgement) -> None:
        """Write down what was found, for the table over all labs."""
        texts = {name: text for name in question.defines if (text := self.find_definition(name))}
        answer = digest(question.defines, texts)
        self.journal.checked[question.name] = Checked(str(judgement.outcome), answer)
        self.journal.save()

    def _run(self, question: Question) -> tuple[CheckResult, ...]:
        seed = secrets.randbits(63)
        own = [task for task in self.tasks if task.question.name == question.name]
        ran = [run_check(task.check, self._student, seed, task.max_score) for task in own]
        # There is no solution here to ask whose fault it is; mostly it is the answer's.
        results = {r.name: unusable(r) if r.unusable else r for r in ran}
        return tuple(apply_requirements(results, [task.check for task in own]).values())

    def is_attempted(self, question: Question) -> bool:
        """Return whether the learner has written anything of an answer."""
        starters = definitions(statements_of([("code", question.starter)]))
        return any(self._is_own(name, starters.get(name, "")) for name in question.defines)

    def _is_own(self, name: str, starter: str) -> bool:
        if self.namespace.get(name, ...) is ...:
            return False
        text = self.find_definition(name)
        return text is None or not same_code(text, starter) or self._is_changed(name)

    def _is_changed(self, name: str) -> bool:
        """Return whether cells have changed `name` in place since it was bound."""
        for cell in reversed(self.history()):
            if name in cell:
                bound, changed = self._read(cell)
                if name in changed or name in bound:
                    return name in changed
        return False

    def _read(self, cell: str) -> tuple[dict[str, str], frozenset[str]]:
        """Return the definitions in a cell by name, and the names that it changes in place."""
        if cell not in self._by_cell:
            statements = statements_of([("code", cell)])
            self._by_cell[cell] = definitions(statements), find_changed(statements)
        return self._by_cell[cell]

    def find_definition(self, name: str) -> str | None:
        """Return the text of the definition of `name` that holds, or None.

        It is the one in a file of answers, else the one that was run last.
        """
        for cell in (*self._in_files(name), *reversed(self.history())):
            if name in cell and (text := self._read(cell)[0].get(name)) is not None:
                return text
        return None

    def _in_files(self, name: str) -> Iterator[str]:
        for question in self.lab.questions:
            if name in question.defines:
                text = text_in_file(self.lab.directory, question.name)
                yield from () if text is None else (text,)

    def current_text(self, question: Question) -> str:
        """Return the text of an answer as it stands: what was run last, saved, or handed out."""
        for cell in reversed(self.history()):
            text = plain_python(cell)
            if definitions(statements_of([("code", text)])).keys() & set(question.defines):
                return text
        try:
            saved = cell_text((self.lab.directory / NOTEBOOK).read_bytes(), question.name)
        except OSError:
            saved = None
        return question.starter if saved is None else saved

    def next_hint(self, question: Question) -> tuple[int, str] | None:
        """Return the number and text of the next hint, the last one again at the end, or None."""
        if not question.hints:
            return None
        shown = min(self.hints_shown.get(question.name, 0) + 1, len(question.hints))
        self.hints_shown[question.name] = shown
        return shown, question.hints[shown - 1]

    def score(self) -> tuple[float, float]:
        """Return the points of the questions found correct, and of all that checks answer."""
        correct = {name for name, f in self.judgements.items() if f.outcome is Outcome.CORRECT}
        total = sum(question.points for question in self.questions)
        return sum(q.points for q in self.questions if q.name in correct), total
