"""The judge of a farm: grades one file after another and writes their reports.

`python -m autograder.grading.pool_worker LAB OPTIONS`, where OPTIONS is JSON: `out`, `timeout_s`,
`staff`, `gpu` where submissions may use one, `wall` where none but that will do. Reads a line
`{"path": ..., "name": ..., "stem": ...}`, answers with the report as a line. It ends when its
input closes, if need be in the middle of a check, because then its owner is gone; the sandboxes
end with it.
"""

import contextlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autograder.authoring.source import load_lab
from autograder.errors import (
    AutograderError,
    LabError,
    ReportError,
    SandboxError,
    SubmissionError,
)
from autograder.grading.grade import Grader
from autograder.grading.paths import content_of
from autograder.grading.report import to_gradescope, to_html, to_json
from autograder.records import ManualAnswer, Report

if TYPE_CHECKING:
    from autograder.sandbox.worker_pool import Supply

GOODBYE_S = 2.0  # to end the sandboxes in


def main() -> None:
    """Serve paths until the input closes."""
    options = json.loads(sys.argv[2])
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # a stray print must not be taken for an answer
    requests: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True).start()
    grader = _grader(Path(sys.argv[1]), options)
    while (line := requests.get()) is not None:
        answer = _answer(grader, json.loads(line), options)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _read(requests: "queue.SimpleQueue[str | None]") -> None:
    """Pass requests on; see to it that the process ends after the last of them."""
    for line in sys.stdin:
        requests.put(line)
    requests.put(None)
    time.sleep(GOODBYE_S)
    os._exit(1)  # it hangs


def _grader(directory: Path, options: Mapping[str, Any]) -> Grader | str:
    try:
        source = _behind(options.get("wall"))
        grader = Grader(load_lab(directory), gpu=options.get("gpu", False), source=source)
    except AutograderError as error:
        return str(error)
    if options["timeout_s"] is not None:
        grader.allow(options["timeout_s"])
    return grader


def _behind(wall: str | None) -> "Supply | None":
    """Return what starts workers behind `wall` and no lesser one."""
    if wall is None:
        return None
    from autograder.sandbox.worker_pool import Supply

    return Supply(wall=wall)


def _answer(
    grader: Grader | str, request: Mapping[str, Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    if isinstance(grader, str):
        return {"fatal": grader}
    try:
        report = _graded(grader, Path(request["path"]), request["name"])
        write(report, Path(options["out"]), request["stem"], staff=options["staff"])
    except (SandboxError, LabError, ReportError) as error:
        return {"fatal": str(error)}
    broken = [f"{r.question}: {r.name}: {r.detail}" for r in report.results if r.broken]
    return {"report": to_gradescope(report, staff=options["staff"]), "broken": broken}


def _graded(grader: Grader, path: Path, name: str) -> Report:
    try:
        data = content_of(path)
    except SubmissionError as error:
        return grader.unreadable(str(error), name)
    return grader.grade(data, submission=name)


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
            manual = tuple(_kept(m, marked.get(m.question)) for m in report.manual)
            return replace(report, manual=manual).with_totals()
        given = {(m["question"], m["answer"]): m for m in before if m["score"] is not None}
    except (OSError, ValueError, KeyError, TypeError):
        return report
    manual = tuple(_scored(m, given.get((m.question, m.answer))) for m in report.manual)
    return replace(report, manual=manual).with_totals()


def _kept(answer: ManualAnswer, before: Mapping[str, Any] | None) -> ManualAnswer:
    if before is None:
        return answer
    return _scored(replace(answer, answer=str(before["answer"])), before)


def _scored(answer: ManualAnswer, before: Mapping[str, Any] | None) -> ManualAnswer:
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


if __name__ == "__main__":
    main()
