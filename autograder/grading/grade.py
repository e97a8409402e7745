"""Grading: a lab and the bytes of a submission make a Report.

What is the learner's runs in a student (the sandbox, unless another is given); what is ours runs
here. A submission that cannot be read has a report too.
"""

import secrets
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING

from autograder.authoring.manifest import read_handout as released_notebook
from autograder.authoring.regions import PLACEHOLDER, form_below, learner_text, solution_text
from autograder.authoring.requirements import apply_requirements
from autograder.authoring.source import SOURCE, load_lab
from autograder.checks import Checks, load_checks, run_check
from autograder.errors import LabError, SubmissionError
from autograder.grading.deadline import deadline
from autograder.grading.slicing import (
    Analysed,
    definitions,
    find_changed,
    same_code,
    select_needed,
    statements_of,
    words_of_hidden_bindings,
)
from autograder.grading.submission import manual_answers, read
from autograder.grading.time_budget import Task, deal_time
from autograder.printable import printable
from autograder.records import (
    CheckResult,
    Failure,
    Lab,
    Limits,
    ManualAnswer,
    Outcome,
    Question,
    Report,
    Statement,
    Submission,
)
from autograder.student.protocol import WorkerStudent

if TYPE_CHECKING:
    from autograder.sandbox.worker_pool import Supply

CHECKS = "checks.py"
CALL_SHARE = 0.25  # of a submission's wall time for one call, so that one that hangs leaves some
READ_S = 60.0  # to read a notebook in; the largest that intake lets through takes a tenth
SPARE_S = 2.0  # for a check's own code, over what it may ask of the learner's
LOST = "This held until all that you wrote had run. Run all cells of a new kernel, and check again."
MAX_NOTES = 5  # of cells that stopped; the first ones are the cause of the others

OpenStudent = Callable[[Limits], AbstractContextManager[WorkerStudent]]


class LabGrader:
    """A lab made ready to grade submissions with.

    `open_student` gives a fresh student for each; by default a sandboxed one of `source`, or of
    the workers that all share.

    Raises:
        LabError: the lab itself is malformed.
    """

    def __init__(
        self,
        lab: Lab,
        *,
        open_student: OpenStudent | None = None,
        source: "Supply | None" = None,
    ) -> None:
        self.lab = lab
        self.checks = load_checks(lab.directory / CHECKS)
        self.tasks = tuple(tasks_of(lab, self.checks))
        self.limits = self.checks.settings.limits()
        self.read_s = READ_S
        self._open = open_student or self._open_sandbox
        self._source = (lambda: None) if open_student else _workers(source)
        handed_out = statements_of([("code", text) for text in _read_handed_out_code(lab)])
        self._given = definitions(handed_out)
        self._given_texts = frozenset(analysed.statement.text for analysed in handed_out)
        starters = {q.name: statements_of([("code", q.starter)]) for q in lab.questions}
        self._names = {q.name: {*q.defines, *definitions(starters[q.name])} for q in lab.questions}

    @cached_property
    def solution(self) -> list[Analysed]:
        """The statements of the lab's own solution."""
        return statements_of([("code", text) for text in solution_cells(self.lab)])

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that checks ask of the learner, besides the answers' own."""
        return self.checks.find_names({*self._given, *definitions(self.solution)})

    def grade(self, data: bytes, *, submission: str = "") -> Report:
        """Return the report on the notebook in `data`.

        Raises:
            SandboxError: the sandbox could not be started.
        """
        blank = Report(self.lab.name, (), title=self.lab.title, submission=submission)
        try:
            with deadline(self.read_s):
                arrived = read(data)
                statements = statements_of(arrived.cells)
        except SubmissionError as error:
            return self.unreadable(str(error), submission)
        except TimeoutError as error:
            return self.unreadable(f"notebook: not read: {error}. Send a smaller one.", submission)
        texts = definitions(statements)
        own = [s for s in statements if s.statement.text not in self._given_texts]
        unseen = words_of_hidden_bindings(own) | find_changed(own)
        ready = {
            q.name
            for q in self.lab.questions
            if not q.manual and (self.is_attempted(q, texts) or not unseen.isdisjoint(q.defines))
        }
        tasks = [t for t in self.tasks if t.question.name in ready]
        seed = secrets.randbits(63)
        by_check, notes, sandbox = self.run(statements, tasks, seed, given=self._given_texts)
        results = [
            by_check.get(t) or _not_attempted(t, _explain_not_attempted(t.question, texts))
            for t in self.tasks
        ]
        manual = tuple(self._manual(arrived))
        written = [m.question for m in manual if m.answer]
        report = replace(
            blank,
            results=tuple(results),
            manual=manual,
            notes=(*self._note_other_lab(arrived, len(ready), written), *arrived.notes, *notes),
            sandbox=sandbox,
            seed=str(seed),
        )
        return report.with_totals()

    def unreadable(self, reason: str, submission: str = "") -> Report:
        """Return the report on what could not be read: nothing attempted, and why."""
        results = tuple(_not_attempted(task, "") for task in self.tasks)
        report = Report(self.lab.name, results, title=self.lab.title, submission=submission)
        manual = tuple(self._manual(None))
        return replace(report, error=printable(reason), manual=manual).with_totals()

    def allow(self, wall_s: float) -> None:
        """Give each submission `wall_s` seconds, cells and checks together."""
        call_s = min(self.limits.call_s, wall_s * CALL_SHARE)
        self.limits = replace(self.limits, wall_s=wall_s, cpu_s=wall_s, call_s=call_s)

    def is_attempted(self, question: Question, texts: dict[str, str]) -> bool:
        """Return whether a definition of the answer, or of its cell, is not the one given."""
        written = [name for name in self._names[question.name] if name in texts]
        return any(
            name not in self._given or not same_code(texts[name], self._given[name])
            for name in written
        )

    def run(
        self,
        statements: Sequence[Analysed],
        tasks: Sequence[Task],
        seed: int,
        *,
        given: Collection[str] | None = None,
    ) -> tuple[dict[Task, CheckResult], list[str], str]:
        """Return the results of `tasks`, notes on what stopped, and what the code ran in.

        With `given`, the texts of the lab's own statements, a question of which a check fails is
        tried once more after all other statements, whether or not it is seen to need them.

        Raises:
            SandboxError: it could not be started, or a check's own could not.
        """
        if not tasks:
            return {}, [], ""
        source = self._source()
        if source is not None:
            source.failure = None
        with self._open(self.limits) as student:
            ends = time.monotonic() + self.limits.wall_s  # to start a sandbox is our time
            student.allow(self.limits.wall_s)
            sliced = select_needed(statements, self._roots(tasks))
            failures = student.load(sliced)
            by_check = self._in_turn(self._check, tasks, student, seed, ends)
            kind, student_notes = student.kind, student.notes
        by_check = apply_requirements(by_check, [task.check for task in tasks])
        missed = {r.question for r in by_check.values() if r.outcome is not Outcome.CORRECT}
        if missed and given is not None:
            whole = select_needed(statements, self._roots(tasks), given=given)
            again = [t for t in tasks if t.question.name in missed]
            if whole != sliced:
                by_check |= self._retry_with_everything(whole, again, seed, ends, by_check)
        if source is not None and source.failure is not None:
            raise source.failure  # a check that asked for another took it for a mistake
        results = {task: by_check[task.check.name] for task in tasks}
        notes = list(dict.fromkeys(map(_describe_stop, failures)))
        return results, [*notes[:MAX_NOTES], *student_notes], kind

    def _retry_with_everything(
        self,
        whole: Sequence[Statement],
        tasks: Sequence[Task],
        seed: int,
        ends: float,
        first: Mapping[str, CheckResult],
    ) -> dict[str, CheckResult]:
        """Return the results of questions that earn more once all that the learner wrote has run.

        A slice of text cannot see everything that an answer needs: a list that is filled under
        another name, a file, an environment variable. All results of a question come from one run,
        so that an answer cannot hold here by one part of the checks and there by the other. What
        held is asked again where another check gained: it may have kept less.
        """
        left = ends - time.monotonic()
        if left <= 0:
            return {}
        with self._open(replace(self.limits, wall_s=left)) as student:
            student.load(whole)
            ask = partial(self._in_turn, self._ask, student=student, seed=seed, ends=ends)
            missed = [t for t in tasks if first[t.check.name].outcome is not Outcome.CORRECT]
            again = ask(missed)
            gained = {r.question for name, r in again.items() if r.score > first[name].score}
            held = ask([t for t in tasks if t not in missed and t.question.name in gained])
        again |= {name: _silence(result) for name, result in held.items()}
        again = apply_requirements(again, [task.check for task in tasks])
        better: dict[str, CheckResult] = {}
        for question in gained:
            names = [task.check.name for task in tasks if task.question.name == question]
            earns_more = sum(again[n].score for n in names) > sum(first[n].score for n in names)
            if earns_more and not any(again[n].broken for n in names):
                better |= {name: again[name] for name in names}
        return better

    def _open_sandbox(self, limits: Limits) -> AbstractContextManager[WorkerStudent]:
        from autograder.sandbox.host import Sandbox

        return Sandbox(limits, preload=self.checks.settings.loaded, source=self._source())

    def _in_turn(
        self,
        ask: Callable[[Task, WorkerStudent, int, float], CheckResult],
        tasks: Sequence[Task],
        student: WorkerStudent,
        seed: int,
        ends: float,
    ) -> dict[str, CheckResult]:
        in_turn = deal_time(tasks, ends, self.limits.call_s)
        return {task.check.name: ask(task, student, seed, left) for task, left in in_turn}

    def _check(self, task: Task, student: WorkerStudent, seed: int, left: float) -> CheckResult:
        result = self._ask(task, student, seed, left)
        if result.broken or _lacks_module(result):
            return self._judge_broken(task, result, seed)
        return result

    def _ask(self, task: Task, student: WorkerStudent, seed: int, left: float) -> CheckResult:
        if left <= 0:
            output = f"The time limit of {self.limits.wall_s:g} s was used up before this check."
            return task.check.no_points(task.max_score, Outcome.INCORRECT, output)
        student.allow(left)
        return run_check(task.check, student, seed, task.max_score, within_s=left + SPARE_S)

    def _judge_broken(self, task: Task, result: CheckResult, seed: int) -> CheckResult:
        """Return a broken result as it stands, or as incorrect if the answer provoked it.

        A check that breaks on an odd answer and not on the solution would otherwise be a way to
        full marks: return what makes it raise. A module that the solution lacks as well is one that
        is not installed here, which is no mistake of the learner's. The solution has all the time
        of a check, however little the answer has left.
        """
        within_s = (task.check.timeout_s or self.limits.call_s) + SPARE_S
        with self._open(replace(self.limits, call_s=self.limits.wall_s)) as student:
            student.allow(self.limits.wall_s)
            student.load(select_needed(self.solution, self._roots([task])))
            again = run_check(task.check, student, seed, task.max_score, within_s=within_s)
        passes = again.outcome is Outcome.CORRECT and not again.broken
        if not result.broken:
            return _not_installed(result) if _lacks_module(again) and not passes else result
        return unusable(result) if passes else result

    def _roots(self, tasks: Sequence[Task]) -> set[str]:
        answers = {name for task in tasks for name in task.question.defines}
        return answers | self.names

    def _note_other_lab(
        self, arrived: Submission, n_ready: int, written: Sequence[str]
    ) -> Iterator[str]:
        """Yield a note on a notebook of another lab, unless it answers all that is checked."""
        other = arrived.find_other_lab(self.lab.name)
        asked = sum(not q.manual for q in self.lab.questions)
        if other and n_ready < asked:
            but = f" but {', '.join(written)}" if written else ""
            note = f"This is a notebook of lab {other}, graded by {self.lab.name}: "
            some = f"{n_ready} of {asked} answers were found. Is it the right one?"
            yield note + (some if n_ready else f"nothing of it was found{but}; hand it in there.")

    def _manual(self, arrived: Submission | None) -> Iterator[ManualAnswer]:
        answers = manual_answers(arrived) if arrived else {}
        for question in self.lab.questions:
            if question.manual:
                text = printable(answers.get(question.name, ""), 20_000)
                form = printable(form_below(question.name, question.starter), 20_000)
                answer = "" if text in (PLACEHOLDER, form) else text
                yield ManualAnswer(question.name, question.points, question.rubric, answer)


def unusable(result: CheckResult) -> CheckResult:
    """Return a broken result as that of an answer which is at fault."""
    output = result.unusable or "What your code returned is not what the docstring asks for."
    return replace(result, outcome=Outcome.INCORRECT, score=0.0, broken=False, output=output)


def _silence(result: CheckResult) -> CheckResult:
    """Return the result of a check that was asked after hidden ones, without a learner's words."""
    lost = not result.hidden and result.outcome is not Outcome.CORRECT
    return replace(result, output=LOST) if lost else result


def _lacks_module(result: CheckResult) -> bool:
    """Tell whether an answer was incorrect since something could not be imported."""
    incorrect = result.outcome is Outcome.INCORRECT and not result.broken
    return incorrect and f"raised {ModuleNotFoundError.__name__}" in result.detail


def _not_installed(result: CheckResult) -> CheckResult:
    """Return a result that says that the place of grading lacks something; it costs nothing."""
    output = "Something that this lab imports is not installed where it was graded. "
    output += "That is our mistake and costs you nothing."
    return replace(
        result, outcome=Outcome.CORRECT, score=result.max_score, broken=True, output=output
    )


def tasks_of(lab: Lab, checks: Checks) -> Iterator[Task]:
    """Yield every check with its share of its question's points, in the order of the questions.

    Raises:
        LabError: a check names no question of the lab, or a manual one.
    """
    question_names = {q.name for q in lab.questions if not q.manual}
    for check in checks.checks:
        if check.question not in question_names:
            problem = f"check {check.name}: {check.question!r} is no question of {lab.name}"
            raise LabError(f"{problem}. Its questions: {', '.join(sorted(question_names))}.")
    for question in lab.questions:
        own = checks.of(question.name)
        total = sum(check.weight for check in own) or 1.0
        for check in own:
            yield Task(check, question, question.points * check.weight / total)


def solution_cells(lab: Lab) -> list[str]:
    """Return the code of the solution notebook, cell by cell."""
    return [solution_text(c, lab.directory) for c in lab.cells if c.kind == "code"]


def _workers(source: "Supply | None") -> "Callable[[], Supply | None]":
    """Return what gives the source of workers: the one given, else the one that all share."""
    if source is not None:
        return lambda: source
    from autograder.sandbox import worker_pool

    return worker_pool.supply


def _read_handed_out_code(lab: Lab) -> list[str]:
    """Return the code that learners are given, cell by cell, as far as the lab has it."""
    if not lab.cells and (lab.directory / SOURCE).is_file():
        lab = load_lab(lab.directory)
    code = [cell for cell in lab.cells if cell.kind == "code"]
    if code:
        return [learner_text(cell, lab.directory) for cell in code]
    try:
        cells = read(released_notebook(lab.directory).encode()).cells
    except (LabError, SubmissionError):
        return [q.starter for q in lab.questions if not q.manual]
    return [text for kind, text in cells if kind == "code"]


def _not_attempted(task: Task, output: str) -> CheckResult:
    return task.check.no_points(task.max_score, Outcome.NOT_ATTEMPTED, output)


def _explain_not_attempted(question: Question, texts: dict[str, str]) -> str:
    names = [name for name in question.defines if name not in texts]
    if len(names) < len(question.defines):
        return "Not attempted: the starter is unchanged."
    return f"Not attempted: nothing in the notebook defines {' or '.join(names)}."


def _describe_stop(failure: Failure) -> str:
    at = failure.statement
    text = f"Cell {at.cell}, line {at.line} stopped: {failure.type_name}: {failure.message}"
    return printable(text, 300)
