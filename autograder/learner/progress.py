"""How far a learner is: every lab of their working folder in one table.

Read off the files, so that it costs no run: which answers stand in each notebook, and what the
checks said of these very answers when the notebook last asked (`journal`).
"""

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from autograder.authoring.manifest import NOTEBOOK, load_released
from autograder.authoring.regions import PLACEHOLDER, form_below
from autograder.errors import AutograderError, SubmissionError, UnknownLab
from autograder.grading.slicing import definitions, find_changed, own_texts, statements_of
from autograder.grading.submission import manual_answers, read
from autograder.learner.answer_files import AnswerFileError, with_files
from autograder.learner.journal import Journal, Sent, digest
from autograder.learner.practice import is_lab
from autograder.learner.rates import rates_in
from autograder.records import Lab, Outcome, Question

WORK = "work"  # where `autograder start` puts a learner's folders
_NUMBERED = re.compile(r"^Lab \d+[:.]? ")  # a title may begin with what the name says
COLUMNS = ("lab", "begun", "correct", "points", "written", "handed in")


@dataclass(frozen=True)
class LabProgress:
    """One lab. Questions that checks answer are `begun` and `correct`; `written` a person reads.

    Optional questions, which have no points, do not count. `next` is the first question that is
    not correct yet, or empty.
    """

    lab: Lab
    begun: int = 0
    correct: int = 0
    questions: int = 0
    points: float = 0.0
    max_points: float = 0.0
    written: int = 0
    to_write: int = 0
    sent: Sent | None = None
    next: str = ""
    problem: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether every question that checks answer is correct."""
        return not self.problem and self.correct == self.questions

    def row(self) -> tuple[str, ...]:
        """Return what the table says, by column."""
        return (
            f"{self.lab.name.partition('_')[0]} {_NUMBERED.sub('', self.lab.title)}",
            f"{self.begun} of {self.questions}",
            f"{self.correct} of {self.questions}",
            f"{self.points:g} of {self.max_points:g}",
            f"{self.written} of {self.to_write}",
            _describe_sent(self.sent),
        )


@dataclass(frozen=True)
class Progress:
    """The table over all labs: plain text for a terminal, HTML for a notebook.

    `rates` are amounts a second that the learner has measured of this machine, by name.
    """

    labs: tuple[LabProgress, ...]
    rates: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        rows = [COLUMNS, *(lab.row() for lab in self.labs), self._total()]
        widths = [max(len(row[i]) for row in rows) for i in range(len(COLUMNS))]
        lines = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)) for row in rows]
        ruled = [lines[0], "-" * len(lines[0].rstrip()), *lines[1:-1], "-" * len(lines[0].rstrip())]
        return "\n".join(line.rstrip() for line in [*ruled, lines[-1], *self._words()])

    __repr__ = __str__

    def _total(self) -> tuple[str, ...]:
        every = self.labs
        points, most = sum(s.points for s in every), sum(s.max_points for s in every)
        questions = sum(s.questions for s in every)
        return (
            f"{sum(s.is_finished for s in every)} of {len(every)} labs finished",
            f"{sum(s.begun for s in every)} of {questions}",
            f"{sum(s.correct for s in every)} of {questions}",
            f"{points:g} of {most:g}",
            f"{sum(s.written for s in every)} of {sum(s.to_write for s in every)}",
            "",
        )

    def _words(self) -> Iterator[str]:
        """Yield what to do next, and what could not be read."""
        yield from (f"{s.lab.name}: {s.problem}" for s in self.labs if s.problem)
        if self.rates:
            measured = ", ".join(f"{rate:.2g} {name}" for name, rate in self.rates.items())
            yield f"This machine, each second: {measured}."
        ahead = next((s for s in self.labs if not s.is_finished and not s.problem), None)
        if ahead is not None:
            yield f"Next: {ahead.next} in {ahead.lab.name}."
        elif self.labs and all(s.is_finished for s in self.labs):
            yield "Every question that checks answer is correct."

    def _repr_html_(self) -> str:
        cells = "".join(f"<th style='text-align:left'>{name}</th>" for name in COLUMNS)
        rows = [f"<tr>{cells}</tr>"]
        for row in (*(lab.row() for lab in self.labs), self._total()):
            parts = "".join(f"<td style='text-align:left'>{html.escape(c)}</td>" for c in row)
            rows.append(f"<tr>{parts}</tr>")
        words = "".join(f"<p>{html.escape(line)}</p>" for line in self._words())
        return f"<table aria-label='Progress over all labs'>{''.join(rows)}</table>{words}"


def progress(folder: Path | str | None = None) -> Progress:
    """Return how far the learner is in every lab of `folder`, or of the one around here.

    Raises:
        UnknownLab: there is no folder with labs.
    """
    work = work_folder(Path.cwd() if folder is None else Path(folder), named=folder is not None)
    labs = labs_in(work)
    rates = next(filter(None, map(rates_in, labs)), {})
    return Progress(tuple(lab_progress(path) for path in labs), rates)


def work_folder(start: Path, *, named: bool = False) -> Path:
    """Return the folder that holds the labs: `start`, `work` in it, or one above.

    Raises:
        UnknownLab: there is none.
    """
    start = start.resolve()
    above = [] if named else list(start.parents)
    for folder in (start, start / WORK, *above):
        if labs_in(folder):
            return folder
    raise UnknownLab(f"labs: {start}: none here. `autograder start` puts them into {WORK}/.")


def labs_in(folder: Path) -> list[Path]:
    """Return the labs' directories in `folder`, in order."""
    try:
        return sorted(path for path in folder.iterdir() if is_lab(path))
    except OSError:
        return []


def lab_progress(directory: Path) -> LabProgress:
    """Return how far the learner is in the lab in `directory`."""
    try:
        lab = load_released(directory)
    except AutograderError as error:
        unknown = Lab(directory.name, directory.name, directory, (), ())
        return LabProgress(unknown, problem=str(error))
    checked = [question for question in lab.questions if question.points and not question.manual]
    whole = LabProgress(
        lab,
        questions=len(checked),
        max_points=sum(question.points for question in checked),
        to_write=sum(question.manual for question in lab.questions),
        next=checked[0].name if checked else "",
    )
    try:
        data = with_files((directory / NOTEBOOK).read_bytes(), directory)
        return _read_off(whole, checked, data)
    except FileNotFoundError:
        problem = f"it has no {NOTEBOOK}. One that is kept elsewhere, as on Colab, says: q.status()"
    except OSError as error:
        problem = f"its {NOTEBOOK} cannot be read: {error.strerror}"
    except (SubmissionError, AnswerFileError) as error:
        problem = str(error)
    return replace(whole, problem=problem)


def _read_off(whole: LabProgress, checked: Sequence[Question], data: bytes) -> LabProgress:
    arrived, journal = read(data), Journal.of(whole.lab.directory)
    statements = statements_of(arrived.cells)
    texts, changed = definitions(statements), find_changed(statements)
    begun = [q for q in checked if own_texts(q, texts) or not changed.isdisjoint(q.defines)]
    correct = [q for q in begun if _is_correct(q, texts, journal)]
    names = {question.name for question in correct}
    answers = manual_answers(arrived)
    starters = {q.name: form_below(q.name, q.starter) for q in whole.lab.questions if q.manual}
    return replace(
        whole,
        begun=len(begun),
        correct=len(correct),
        points=sum(question.points for question in correct),
        written=sum(
            text not in ("", PLACEHOLDER, starters.get(q, "")) for q, text in answers.items()
        ),
        sent=journal.sent,
        next=next((q.name for q in checked if q.name not in names), ""),
    )


def _is_correct(question: Question, texts: dict[str, str], journal: Journal) -> bool:
    about = journal.checked.get(question.name)
    if about is None or about.outcome != Outcome.CORRECT:
        return False
    return about.answer in ("", digest(question.defines, texts))


def _describe_sent(sent: Sent | None) -> str:
    if sent is None:
        return "-"
    if sent.score is None or sent.max_score is None:
        return f"no. {sent.number}: {sent.state}"
    return f"no. {sent.number}: {sent.score:g} of {sent.max_score:g}"
