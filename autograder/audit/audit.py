"""Do a lab's checks catch wrong answers? The solution is broken in many ways, and each is tried.

A mutant is killed when any check of the lab no longer calls its answer correct. The survivors are
mistakes that a learner could make for full marks. And answers that do nothing are given to each
question, of which none may earn anything.
"""

import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from autograder.audit.mutation import Mutant, mutants_of
from autograder.audit.trivial import trivial_answers
from autograder.audit.variants import Trial, Trials, Variant
from autograder.authoring.regions import parts_of, solution_text
from autograder.checks import load_checks
from autograder.errors import LabError
from autograder.grading.grade import CHECKS
from autograder.records import Cell, Lab, Outcome

SEED = 1
SLOWER = 10  # a mutant that needs so many times the solution's time hangs
LEAST_S = 10.0  # a fork on a busy machine takes its time too, and a stall is no hang


@dataclass(frozen=True)
class Case:
    """A mutant of the answer to one question, as a variant of the whole lab."""

    question: str
    mutant: Mutant
    cells: tuple[str, ...]


def audit(lab: Lab, *, jobs: int | None = None) -> dict[str, Any]:
    """Return {"lab": name, "mutants": n, "killed": k, "survivors": [...], "paid": [...]}.

    A survivor has `question`, `line` (in the answer), `change`, `before`, `after` and `diff`;
    what was paid, see `find_unearned_points`.

    Raises:
        LabError: the solution itself does not pass the checks.
    """
    checks = load_checks(lab.directory / CHECKS)
    every = tuple(check.name for check in checks.checks)
    cases = list(_cases(lab))
    with Trials(lab, jobs=jobs) as trials:
        timeout_s = _time_of_solution(lab, every, trials)
        own = [tuple(c.name for c in checks.of(case.question)) for case in cases]
        alive = _survivors(trials, cases, own, timeout_s)
        alive = _survivors(trials, alive, [every] * len(alive), timeout_s)
        paid = find_unearned_points(lab, trials, timeout_s=timeout_s)
    return {
        "lab": lab.name,
        "mutants": len(cases),
        "killed": len(cases) - len(alive),
        "survivors": [_survivor(case) for case in alive],
        "paid": paid,
    }


def find_unearned_points(
    lab: Lab,
    trials: Trials,
    *,
    kinds: Collection[str] | None = None,
    timeout_s: float | None = None,
) -> list[dict[str, str]]:
    """Return which checks are passed by answers that do nothing; none of a lab that is right.

    Each has `question`, `answer` (what it gives back) and `check`. One question at a time is
    answered so, and all others by the solution. `kinds` are the answers to try, all by default.
    No answer may take longer than `timeout_s`, by default a multiple of what the solution takes.
    """
    checks = load_checks(lab.directory / CHECKS)
    paid, variants = [], []
    for index, cell, solved in _answers(lab):
        name = cell.attributes["question"]
        own = tuple(check.name for check in checks.of(name))
        for answer in trivial_answers(solved[index], _solution_lines(cell, lab)):
            if kinds is not None and answer.kind not in kinds:
                continue
            paid.append((name, answer.kind))
            cells = (*solved[:index], answer.text, *solved[index + 1 :])
            variants.append(Variant(cells, own, SEED))
    if timeout_s is None:
        timeout_s = _time_of_solution(lab, tuple(check.name for check in checks.checks), trials)
    results = trials.run(variants, timeout_s=timeout_s)
    return [
        {"question": name, "answer": kind, "check": verdict.name}
        for (name, kind), trial in zip(paid, results, strict=True)
        for verdict in trial.verdicts
        if verdict.outcome is Outcome.CORRECT
    ]


def _survivors(
    trials: Trials, cases: Sequence[Case], checks: Sequence[tuple[str, ...]], timeout_s: float
) -> list[Case]:
    variants = [Variant(c.cells, own, SEED) for c, own in zip(cases, checks, strict=True)]
    results = trials.run(variants, timeout_s=timeout_s)
    return [case for case, trial in zip(cases, results, strict=True) if _passes(trial)]


def _passes(trial: Trial) -> bool:
    wrong = [v for v in trial.verdicts if v.outcome is not Outcome.CORRECT]
    return not wrong and not trial.ended


def _time_of_solution(lab: Lab, checks: tuple[str, ...], trials: Trials) -> float:
    """Return the time limit for a mutant, from what the solution takes."""
    cells = tuple(solution_text(c, lab.directory) for c in lab.cells if c.kind == "code")
    trials.run([Variant((), (), SEED)])  # a worker is there, and has imported
    began = time.monotonic()
    (trial,) = trials.run([Variant(cells, checks, SEED)])
    took = time.monotonic() - began
    if not _passes(trial):
        messages = "; ".join(f"{v.name}: {v.said}" for v in trial.verdicts if v.said)
        raise LabError(
            f"audit {lab.name}: the solution fails its own checks: {messages or trial.ended}"
        )
    return max(LEAST_S, SLOWER * took)


def _cases(lab: Lab) -> Iterator[Case]:
    for index, cell, solved in _answers(lab):
        name = cell.attributes["question"]
        for mutant in mutants_of(solved[index], _solution_lines(cell, lab)):
            yield Case(name, mutant, (*solved[:index], mutant.text, *solved[index + 1 :]))


def _answers(lab: Lab) -> Iterator[tuple[int, Cell, list[str]]]:
    """Yield each cell that answers a question: its place, itself, and all cells solved."""
    code = [cell for cell in lab.cells if cell.kind == "code"]
    solved = [solution_text(cell, lab.directory) for cell in code]
    for index, cell in enumerate(code):
        if "question" in cell.attributes:
            yield index, cell, solved


def _solution_lines(cell: Cell, lab: Lab) -> frozenset[int]:
    """Return which lines of the solution's text stand in a solution region, 1-based."""
    numbers: set[int] = set()
    line = 1
    for part in parts_of(cell, lab.directory):
        if part.region != "STARTER":
            if part.region == "SOLUTION":
                numbers.update(range(line, line + len(part.lines)))
            line += len(part.lines)
    return frozenset(numbers)


def _survivor(case: Case) -> dict[str, Any]:
    mutant = asdict(case.mutant)
    del mutant["text"]
    diff = f"- {mutant['before']}\n+ {mutant['after']}"
    return {"question": case.question, **mutant, "diff": diff}
