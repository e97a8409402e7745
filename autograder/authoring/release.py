"""Release: from the one source to what learners get, once the lab has proved itself.

A lab proves itself by running: its starter scores nothing, its solution everything, and each
wrong answer in wrong.py fails its own check with a message of its own.
"""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from autograder.audit.audit import find_unearned_points
from autograder.audit.variants import Trials, Variant
from autograder.authoring.magics import is_python, plain_python
from autograder.authoring.manifest import MANIFEST, NOTEBOOK, to_manifest
from autograder.authoring.notebook import learner_notebook, solution_notebook
from autograder.authoring.public_checks import public_checks
from autograder.authoring.regions import learner_text, solution_text
from autograder.authoring.source import load_wrong_answers
from autograder.checks import Checks, load_checks
from autograder.errors import LabError, ReleaseRefused
from autograder.grading.grade import CHECKS, tasks_of
from autograder.records import CheckResult, Lab, Outcome, WrongAnswer

SOLUTION = "solution.ipynb"
ASSETS = "assets"  # pictures and data that a lab's text shows
SHARED = "*.mplstyle"  # what all labs use lies beside them, and goes beside their notebooks
SEEDS = (1, 2, 3)  # the solution is right on inputs drawn anew, not on one draw


def release(
    lab: Lab,
    out_dir: Path | str,
    solutions: bool = False,
    *,
    audited: bool = True,
    jobs: int | None = None,
) -> list[Path]:
    """Write what learners get to `out_dir`/<lab>/ and return the paths written.

    lab.ipynb, checks.py without the hidden checks, lab.json, and assets; with `solutions` also
    solution.ipynb, for staff. `audited` tries answers that do nothing, of which none may earn.
    What is tried runs in `jobs` workers, as many as there are cores by default.

    Raises:
        ReleaseRefused: the lab contradicts itself; nothing has been written.
        LabError: its checks or wrong answers are malformed, or `out_dir` is where its source lies.
    """
    target = Path(out_dir) / lab.name
    if target.resolve() == lab.directory.resolve():
        problem = f"release: {target} is the lab's source, whose checks.py would be overwritten"
        raise LabError(f"{problem}. Name another directory with -o.")
    checks = load_checks(lab.directory / CHECKS)
    with Trials(lab, jobs=jobs) as trials:
        reasons = list(contradictions(lab, checks, trials))
        if audited and not reasons:
            reasons = [_UNEARNED.format(**paid) for paid in find_unearned_points(lab, trials)]
    if reasons:
        raise ReleaseRefused(lab.name, reasons)
    files = learner_files(lab, checks)
    if solutions:
        files[SOLUTION] = solution_notebook(lab)
    return write_files(lab.directory, target, files)


def learner_files(lab: Lab, checks: Checks) -> dict[str, str]:
    """Return what a learner is handed of a lab, by file; the manifest comes last."""
    hidden = [check for check in checks.checks if check.hidden]
    text = (lab.directory / CHECKS).read_text(encoding="utf-8")
    return {
        NOTEBOOK: learner_notebook(lab),
        CHECKS: public_checks(text, [check.name for check in hidden]),
        MANIFEST: to_manifest(lab, [check.question for check in hidden]),
    }


def write_files(directory: Path, target: Path, files: Mapping[str, str]) -> list[Path]:
    """Write a lab's files to `target`, after what its `directory` has beside them; return them."""
    target.mkdir(parents=True, exist_ok=True)
    if (directory / ASSETS).is_dir():
        shutil.copytree(directory / ASSETS, target / ASSETS, dirs_exist_ok=True)
    for path in directory.resolve().parent.glob(SHARED):  # what all labs use
        shutil.copy(path, target.parent)
    for name, content in files.items():
        (target / name).write_text(content, encoding="utf-8")
    return [target / name for name in files]


def write_in_place(lab: Lab) -> Path:
    """Write the learner's notebook beside the lab's source and return its path."""
    path = lab.directory / NOTEBOOK
    path.write_text(learner_notebook(lab), encoding="utf-8")
    return path


def is_stale(lab: Lab) -> bool:
    """Return whether the notebook beside the source is not the one that it makes."""
    path = lab.directory / NOTEBOOK
    return not path.is_file() or path.read_text(encoding="utf-8") != learner_notebook(lab)


def contradictions(
    lab: Lab, checks: Checks, trials: Trials, seeds: Sequence[int] = SEEDS
) -> Iterator[str]:
    """Yield in words what is wrong with a lab; nothing where it is right."""
    yield from _broken_cells(lab)
    every = tuple(task.check.name for task in tasks_of(lab, checks))
    for question in lab.questions:
        if not question.manual and not checks.of(question.name):
            yield f"question {question.name} has no check: add one to {CHECKS}."
    wrong = load_wrong_answers(lab.directory)
    _check_names(checks, wrong)
    starter, *rest = _variants(lab, every, seeds)
    caught = [_with_mistake(lab, mistake) for mistake in wrong]
    started, *others = trials.run([starter, *rest, *caught])
    yield from _starter_faults(started.verdicts)
    for trial in others[: len(seeds)]:
        lost = [v for v in trial.verdicts if v.outcome is not Outcome.CORRECT or v.broken]
        yield from (
            f"the solution fails {v.name}: {_short(v)}{_explain_missing_module(v)}" for v in lost
        )
        if trial.ended:
            yield f"the solution does not come to an end: ended {trial.ended}."
        if lost or trial.ended:
            break
    for mistake, trial in zip(wrong, others[len(seeds) :], strict=True):
        verdict = trial.of(mistake.check)
        yield from _not_caught(mistake, verdict, trial.ended)


def _broken_cells(lab: Lab) -> Iterator[str]:
    """Yield the code cells that are no Python even when they are solved."""
    for cell in lab.cells:
        if cell.kind == "code" and not is_python(plain_python(solution_text(cell, lab.directory))):
            yield f"the solution of the cell at line {cell.line} is no Python: mend it."


_UNEARNED = (
    "the check {check} pays for nothing: {question} passes it by giving back {answer}. A loop over "
    "zip() ends with the shorter side: compare lengths first, or let the check wait with requires=."
)


def _variants(lab: Lab, checks: tuple[str, ...], seeds: Sequence[int]) -> Iterator[Variant]:
    code = [cell for cell in lab.cells if cell.kind == "code"]
    yield Variant(tuple(learner_text(c, lab.directory) for c in code), checks)
    solved = tuple(solution_text(c, lab.directory) for c in code)
    yield from (Variant(solved, checks, seed) for seed in seeds)


def _with_mistake(lab: Lab, mistake: WrongAnswer) -> Variant:
    """Return the solution with the mistake right behind the answer that it replaces."""
    cells = []
    for cell in lab.cells:
        if cell.kind == "code":
            cells.append(solution_text(cell, lab.directory))
            if cell.attributes.get("question") == mistake.question:
                cells.append(mistake.text)
    return Variant(tuple(cells), (mistake.check,), seed=SEEDS[0])


def _check_names(checks: Checks, wrong: tuple[WrongAnswer, ...]) -> None:
    for mistake in wrong:
        own = [check.name for check in checks.of(mistake.question)]
        if mistake.check not in own:
            problem = f"got {mistake.check!r}, expected one of {', '.join(own) or 'none'}"
            raise LabError(f"wrong answer {mistake.name}: no check of its question: {problem}.")


def _starter_faults(verdicts: tuple[CheckResult, ...]) -> Iterator[str]:
    """Yield what the starter scores.

    A starter that is wrong counts as not attempted too, because it is found unchanged; one that
    is right would make every learner's blank notebook an answer.
    """
    for verdict in verdicts:
        if verdict.broken:
            yield f"the check {verdict.name} breaks on the starter: {_short(verdict)}"
        elif verdict.outcome is Outcome.CORRECT:
            yield f"the starter passes {verdict.name}: expected it to be not attempted."


def _not_caught(mistake: WrongAnswer, verdict: CheckResult | None, ended: str) -> Iterator[str]:
    name = f"wrong answer {mistake.name}"
    if verdict is None:
        yield f"{name} does not come to an end: ended {ended or 'early'}."
    elif verdict.broken:
        yield f"{name} breaks {mistake.check}: {_short(verdict)}"
    elif verdict.outcome is not Outcome.INCORRECT:
        yield f"{name} is {verdict.outcome} by {mistake.check}, expected it to be caught."
    elif mistake.says.lower() not in verdict.said.lower():
        yield f"{name}: {mistake.check} says {_short(verdict)!r}, expected {mistake.says!r} in it."


def _explain_missing_module(verdict: CheckResult) -> str:
    """Return that it is no fault of the solution's, where it lacks a module; else nothing."""
    if f"raised {ModuleNotFoundError.__name__}" not in verdict.said:
        return ""
    return " It is not installed here: install it (mlsys-labs[lab] has what our labs import)."


def _short(verdict: CheckResult) -> str:
    """Return what a check said on one line; of a traceback the last one."""
    lines = verdict.said.strip().splitlines() or ["nothing"]
    return lines[-1 if verdict.broken else 0][:300]
