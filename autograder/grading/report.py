"""A report for people and machines: Gradescope's JSON and more, text, HTML.

Everything here is what a learner may see, unless `staff=True`. The page of HTML has no script and
makes no request; the learner's text stands in it as text only, and outcome is said in words too.
"""

import contextlib
import functools
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.errors import ReportError
from autograder.printable import printable
from autograder.records import CheckResult, ManualAnswer, Outcome, Report

if TYPE_CHECKING:
    from jinja2 import Template


SIGNS = {Outcome.CORRECT: "✓", Outcome.INCORRECT: "✗", Outcome.NOT_ATTEMPTED: "·"}
# What Gradescope's JSON has as it is.
_OF_REPORT = ("score", "max_score", "lab", "title", "submission", "sandbox", "error")
_OF_RESULT = ("score", "max_score", "output", "question", "title", "hidden", "broken")
COLOURS = {Outcome.CORRECT: "32", Outcome.INCORRECT: "31", Outcome.NOT_ATTEMPTED: "33"}


def to_gradescope(report: Report, *, staff: bool = False) -> dict[str, Any]:
    """Return a superset of Gradescope's results.json.

    Its keys are `score`, `max_score`, `output` and `tests`; a test has `name`, `score`,
    `max_score`, `status`, `output`, `visibility`, and of ours `outcome`, `question`, `title`,
    `hidden`, `broken`, and `ratio` where a timed check measured one. With `staff=True` also each
    test's `detail` and the seed.
    """
    as_dict: dict[str, Any] = {
        **{name: getattr(report, name) for name in _OF_REPORT},
        "output": report.error,
        "visibility": "visible",
        "tests": [_test(result, staff) for result in report.results],
        "notes": list(report.notes),
        "manual": [{**asdict(m), "items": list(m.items)} for m in report.manual],
    }
    return {**as_dict, "seed": report.seed} if staff else as_dict


def from_gradescope(data: Mapping[str, Any]) -> Report:
    """Return the report that `to_gradescope` wrote, as far as it says it."""
    tests = [{**test, "name": test["check"]} for test in data["tests"]]
    return Report.from_dict({**data, "results": tests})


def to_json(report: Report, *, staff: bool = False) -> str:
    """Return `to_gradescope` as text."""
    return json.dumps(to_gradescope(report, staff=staff), indent=2, allow_nan=False) + "\n"


def to_text(report: Report, *, colour: bool = False) -> str:
    """Return the report for a terminal, a line a check and its message below it."""
    lines = [printable(report.title or report.lab, 200)]
    if report.error:
        lines.append(f"  {_one_line(report.error)}")
    for result in report.results:
        sign = SIGNS[result.outcome]
        sign = f"\x1b[{COLOURS[result.outcome]}m{sign}\x1b[0m" if colour else sign
        points = f"{number(result.score)}/{number(result.max_score)}"
        name = printable(f"{result.question}: {title_of(result)}", 300)
        name += " (runs at submission only)" if result.hidden else ""
        lines.append(f"  {sign} {points:>9}  {name}")
        if result.output:
            lines += [f"{' ' * 15}{line}" for line in printable(result.output).splitlines()]
    lines += [
        f"  ○       {number(m.points):>3}  {m.question}: "
        f"{'a person grades it' if m.answer else 'not attempted'}"
        for m in report.manual
    ]
    lines.append(f"  {number(report.score)} of {number(report.max_score)} points")
    lines += [f"  note: {_one_line(note)}" for note in report.notes]
    if report.sandbox == "unsandboxed":
        lines.append("  note: unsandboxed: the code ran without a sandbox.")
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    """Return text that may quote a learner's on one line: the next could look like one of ours."""
    return " ".join(printable(text).split())


def write(report: Report, out: Path, stem: str, *, staff: bool = False) -> None:
    """Write the reports of one submission, each whole or not at all; keep what a person graded.

    Raises:
        ReportError: they cannot be written there.
    """
    report = _with_manual(report, out / f"{stem}.json")
    _replace(out / f"{stem}.html", to_html(report))
    _replace(out / f"{stem}.json", to_json(report, staff=staff))


def _with_manual(report: Report, path: Path) -> Report:
    """Return the report with the scores that a person gave to the same answers before."""
    if not report.manual or not path.is_file():
        return report
    try:
        before = json.loads(path.read_text(encoding="utf-8"))["manual"]
        if report.error:  # nothing of the answers is known: what was marked stays with its answer
            marked = {m["question"]: m for m in before if m["score"] is not None}
            manual = tuple(_restore_answer(m, marked.get(m.question)) for m in report.manual)
            return replace(report, manual=manual).with_totals()
        marks = {(m["question"], m["answer"]): m for m in before if m["score"] is not None}
    except (OSError, ValueError, KeyError, TypeError):
        return report
    manual = tuple(_restore_score(m, marks.get((m.question, m.answer))) for m in report.manual)
    return replace(report, manual=manual).with_totals()


def _restore_answer(answer: ManualAnswer, before: Mapping[str, Any] | None) -> ManualAnswer:
    if before is None:
        return answer
    return _restore_score(replace(answer, answer=str(before["answer"])), before)


def _restore_score(answer: ManualAnswer, before: Mapping[str, Any] | None) -> ManualAnswer:
    if before is None:
        return answer
    return replace(answer, score=float(before["score"]), comment=str(before.get("comment", "")))


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name[:200]}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise ReportError(f"grade: cannot write {path}: {error.strerror or error}.") from error


def title_of(result: CheckResult) -> str:
    """Return what a learner reads as the name of a check."""
    return result.title or result.name.replace("_", " ")


def _test(result: CheckResult, staff: bool) -> dict[str, Any]:
    as_dict = {
        "name": f"{result.question}: {title_of(result)}",
        **{name: getattr(result, name) for name in _OF_RESULT},
        "status": "passed" if result.outcome is Outcome.CORRECT else "failed",
        "visibility": "visible",
        "outcome": str(result.outcome),
        "check": result.name,
    }
    if result.ratio is not None:
        as_dict["ratio"] = result.ratio
    return {**as_dict, "detail": result.detail} if staff else as_dict


CLASSES = {Outcome.CORRECT: "ok", Outcome.INCORRECT: "bad", Outcome.NOT_ATTEMPTED: "none"}
LONGEST = 20_000  # characters of one text


def to_html(report: Report) -> str:
    """Return the whole page; everything that is not ours is escaped."""
    names = dict.fromkeys(result.question for result in report.results)
    questions = [(name, [r for r in report.results if r.question == name]) for name in names]
    notes = list(report.notes)
    if report.sandbox == "unsandboxed":
        notes.append("Unsandboxed: the code ran without a sandbox.")
    return _page().render(report=report, questions=questions, notes=notes, classes=CLASSES)


@functools.cache
def _page() -> "Template":
    from jinja2 import Environment, PackageLoader, StrictUndefined

    pages = Environment(
        loader=PackageLoader("autograder"),
        autoescape=True,
        finalize=lambda v: printable(v, LONGEST) if isinstance(v, str) else v,
        trim_blocks=True,
        undefined=StrictUndefined,
    )
    pages.filters["points"] = number
    return pages.get_template("report.html.j2")


def number(value: float) -> str:
    """Return points as people read them."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
