"""What the commands release, check, grade and audit do, with arguments already parsed."""

import argparse
import contextlib
import functools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from autograder.authoring import landing
from autograder.authoring.manifest import NOTEBOOK
from autograder.authoring.source import find_labs, load_lab
from autograder.errors import AutograderError, ReleaseRefused, SubmissionError
from autograder.grading.cluster import Cluster
from autograder.grading.judges import Graded, Judges, default_jobs, summary
from autograder.grading.paths import Item, content_of, follow_link, items_of
from autograder.printable import printable
from autograder.records import Lab, Outcome

if TYPE_CHECKING:
    from autograder.grading.grade import LabGrader

UNSANDBOXED = "unsandboxed"


def release(arguments: argparse.Namespace) -> int:
    """Release labs; 2 when any was refused, 1 when `--check` finds one stale."""
    from autograder.authoring.release import is_stale, write_in_place
    from autograder.authoring.release import release as release_lab

    if arguments.colab and arguments.out is None:
        raise AutograderError("release: --colab needs -o: it adds to what -o writes.")
    labs = [load_lab(directory) for directory in find_labs(arguments.labs)]
    page = _landing_page(arguments.labs)
    if arguments.check:
        stale = [f"{lab.name}: {NOTEBOOK}" for lab in labs if is_stale(lab)]
        if page is not None and page.read_text(encoding="utf-8") != _landing(page, labs):
            stale.append(str(page))
        for path in stale:
            print(f"{path} is stale. Run: autograder release --in-place {arguments.labs}")
        return int(bool(stale))
    if arguments.in_place and page is not None:
        page.write_text(_landing(page, labs), encoding="utf-8")
    refused = 0
    with _for_colab(arguments.colab) as add_colab:
        for lab in labs:
            try:
                if arguments.in_place:
                    paths = [write_in_place(lab)]
                else:
                    paths = release_lab(
                        lab, arguments.out, arguments.solutions, audited=not arguments.no_audit
                    )
                    paths += add_colab(lab, arguments.out / lab.name)
                print("\n".join(map(str, paths)))
            except ReleaseRefused as error:
                print(f"autograder: {error}", file=sys.stderr)
                refused += 1
    return 2 if refused else 0


def _landing_page(labs: str) -> Path | None:
    """Return the page over a directory of labs, where there is one; a single lab has none."""
    page = Path(labs) / landing.PAGE
    return page if page.is_file() and find_labs(labs) != [Path(labs)] else None


def _landing(page: Path, labs: Sequence[Lab]) -> str:
    return landing.with_table(page.read_text(encoding="utf-8"), labs)


@contextlib.contextmanager
def _for_colab(wanted: bool) -> Iterator[Callable[[Lab, Path], list[Path]]]:
    """Give what adds Colab's files to a released folder: with one wheel for all, or nothing."""
    if not wanted:
        yield lambda lab, target: []
        return
    from autograder.formats.colab import add_colab, build_wheel

    with tempfile.TemporaryDirectory() as directory:
        yield functools.partial(add_colab, wheel=build_wheel(Path(directory)))


def check(arguments: argparse.Namespace) -> int:
    """Print what the public checks say of a notebook; 1 unless all are correct."""
    from autograder.authoring.manifest import load_released
    from autograder.grading.grade import LabGrader
    from autograder.grading.report import to_text
    from autograder.learner.answer_files import with_files

    grader = LabGrader(load_released(arguments.lab))
    counted = _count_checks(grader)
    grader.tasks = tuple(task for task in grader.tasks if not task.check.hidden)
    try:
        path = follow_link(arguments.notebook)
        data = with_files(content_of(path), path.parent)
        report = grader.grade(data, submission=arguments.notebook.name)
    except SubmissionError as error:
        raise AutograderError(str(error)) from error
    if report.error:
        raise AutograderError(report.error)
    print(to_text(report, colour=sys.stdout.isatty()) + f"  {counted}")
    return int(any(result.outcome is not Outcome.CORRECT for result in report.results))


def _count_checks(grader: "LabGrader") -> str:
    """Return how many checks learners run themselves, and how many more run at submission."""
    from autograder.learner.card import count_checks

    hidden = sum(task.check.hidden for task in grader.tasks)
    here = len(grader.tasks) - hidden
    more = hidden + sum(question.hidden_checks for question in grader.lab.questions)
    return count_checks(here, more)


def grade(arguments: argparse.Namespace) -> None:
    """Grade submissions; 0 when each has its reports."""
    lab = load_lab(arguments.lab)
    items = items_of(arguments.paths)
    _make_directory(arguments.out)
    stored = [submission for item in items if (submission := _find_graded(arguments, item))]
    before = {submission.item for submission in stored}
    graded = stored + _grade_all(lab, [item for item in items if item not in before], arguments)
    if not arguments.json and len(graded) > 1:
        print(summary(graded))
    if not arguments.json and len(graded) > len(stored):
        print(_run_by_whom(lab))
    for submission in graded:
        for line in submission.broken:
            print(
                f"broken check, no learner lost by it: {printable(submission.item.stem)}: {line}",
                file=sys.stderr,
            )
    if any(submission.report["sandbox"] == UNSANDBOXED for submission in graded):
        problem = "submissions ran unsandboxed, with this user's files in reach"
        advice = "What to do: autograder doctor. Help: when_it_does_not_work.html#no-sandbox"
        print(f"grade: {problem}. {advice}", file=sys.stderr)
    if arguments.similarity:
        from autograder.grading.similarity import alike

        print("\n".join(alike(lab.directory, [item.path for item in items])))


def _run_by_whom(lab: Lab) -> str:
    """Return which of a lab's checks learners can run themselves, for who reads its points."""
    from autograder.authoring.public_checks import counts
    from autograder.grading.grade import CHECKS
    from autograder.learner.card import count

    here, more = counts((lab.directory / CHECKS).read_text(encoding="utf-8"))
    return f"{count(here + more, 'check')}: {here} in the notebook too, {more} at submission only."


def _grade_all(lab: Lab, items: Sequence[Item], arguments: argparse.Namespace) -> list[Graded]:
    from rich.console import Console
    from rich.progress import Progress

    cluster = Cluster(arguments.scheduler) if arguments.scheduler else None
    how = (arguments.jobs or default_jobs(), arguments.timeout_s, arguments.staff, cluster)
    judges, graded = Judges(lab, arguments.out, *how), list[Graded]()
    console = Console(stderr=True)
    bar = Progress(
        console=console,
        transient=True,
        disable=not console.is_terminal,
        redirect_stdout=sys.stdout.isatty(),
    )
    with bar:
        task = bar.add_task("grading", total=len(items))
        for submission in judges.grade(items):
            graded.append(submission)
            print(_line(submission, len(graded), len(items), arguments.json), flush=True)
            bar.advance(task)
    return graded


def _line(submission: Graded, number: int, total: int, as_json: bool) -> str:
    if as_json:
        return json.dumps(submission.report)
    score, full = submission.report["score"], submission.report["max_score"]
    notes = submission.report["notes"] if not score else []  # such as whose notebook it is
    reason = submission.report["error"] or "".join(notes[:1])
    problem = f": {reason}" if reason else ""
    line = f"{printable(submission.item.stem, 80)}: {score:g} of {full:g} points{problem}"
    return f"[{number}/{total}] {' '.join(line.split())}"  # a name, or a reason, may hold line ends


def audit(arguments: argparse.Namespace) -> None:
    """Print how many mutants of the solution the checks catch, and those that they miss."""
    from autograder.audit.audit import audit as audit_lab

    result = audit_lab(load_lab(arguments.lab), jobs=arguments.jobs)
    if arguments.json:
        print(json.dumps(result, indent=2))
        return
    for survivor in result["survivors"]:
        print(f"survived: {survivor['question']}: {survivor['change']}")
        print("".join(f"    {line}\n" for line in survivor["diff"].splitlines()), end="")
    for paid in result["paid"]:
        print(f"paid for nothing: {paid['question']}: {paid['check']}: returns {paid['answer']}")
    print(f"{result['killed']} of {result['mutants']} mutants killed")


def _make_directory(out: Path) -> None:
    problem = ""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        problem = error.strerror or str(error)
    if not problem and not os.access(out, os.W_OK | os.X_OK):
        problem = "no permission"
    if problem:
        raise AutograderError(f"grade: cannot write to {out}: {problem}. Name another with -o.")


def _find_graded(arguments: argparse.Namespace, item: Item) -> Graded | None:
    """Return what `--resume` need not grade again.

    Both reports of a submission, and of no other, are there and younger than it.
    """
    from autograder.grading.report import from_gradescope

    if not arguments.resume:
        return None
    out: Path = arguments.out
    try:
        written = min((out / f"{item.stem}.{kind}").stat().st_mtime_ns for kind in ("json", "html"))
        report = json.loads((out / f"{item.stem}.json").read_text(encoding="utf-8"))
        whole = from_gradescope(report).submission == item.label
        fresh = item.path.stat().st_mtime_ns <= written
        return Graded(item, report) if whole and fresh else None
    except (OSError, ValueError, KeyError, TypeError):
        return None
