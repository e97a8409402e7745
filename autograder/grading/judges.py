"""Many submissions of one lab to their reports, by judges on this machine or on a Dask cluster.

A judge that dies or hangs over a submission is replaced, and the submission has a report that
says so. Nothing of one submission stays for the next.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autograder.errors import AutograderError
from autograder.grading.cluster import Cluster
from autograder.grading.judge import judge_process, most_s
from autograder.grading.line_process import Answer, JobRefused, ProcessEnded
from autograder.grading.paths import Item
from autograder.grading.pool import Pool
from autograder.grading.report import to_gradescope, write
from autograder.records import Lab, Report


@dataclass(frozen=True)
class Graded:
    """One submission's report as Gradescope's JSON; `broken` are checks at fault, for staff."""

    item: Item
    report: Mapping[str, Any]
    broken: Sequence[str] = ()


@dataclass(frozen=True)
class Judges:
    """Judges for one lab, at most `jobs` on this machine, or those of a `cluster`."""

    lab: Lab
    out: Path
    jobs: int = 1
    timeout_s: float | None = None
    staff: bool = False
    cluster: Cluster | None = None

    def grade(self, items: Sequence[Item]) -> Iterator[Graded]:
        """Grade `items` and yield each as its reports are written, in the order of completion.

        Raises:
            AutograderError: nothing can be graded: the lab is malformed or there is no sandbox.
        """
        lab = str(self.lab.directory.resolve())
        alike = {"lab": lab, "timeout_s": self.timeout_s}
        requests = [{**alike, "path": str(i.path.absolute()), "name": i.label} for i in items]
        with (
            closing(self.cluster or Pool(judge_process, self.jobs)) as pool,
            closing(pool.answers(requests, most_s(self.timeout_s))) as answers,
        ):
            for number, answer in answers:
                yield self._make_graded(items[number], answer)

    def _make_graded(self, item: Item, answer: Answer | ProcessEnded) -> Graded:
        if isinstance(answer, JobRefused) and answer.fatal:
            raise AutograderError(str(answer)) from answer
        if isinstance(answer, ProcessEnded):
            reason = f"grading ended before it was done: {answer}. Staff must look at this one."
            return self._unread(item, reason)
        if "unread" in answer:
            return self._unread(item, answer["unread"])
        return self._write_report(item, Report.from_dict(answer["report"]))

    def _unread(self, item: Item, reason: str) -> Graded:
        """Return the report on a submission of which nothing could be graded."""
        from autograder.grading.grade import LabGrader

        return self._write_report(item, LabGrader(self.lab).unreadable(reason, item.label))

    def _write_report(self, item: Item, report: Report) -> Graded:
        write(report, self.out, item.stem, staff=self.staff)
        broken = [f"{r.question}: {r.name}: {r.detail}" for r in report.results if r.broken]
        return Graded(item, to_gradescope(report, staff=self.staff), broken)


def default_jobs() -> int:
    """Return how many judges this machine has cores for."""
    return len(os.sched_getaffinity(0))


def summary(graded: Sequence[Graded]) -> str:
    """Return a table: how many answers to each question had which outcome, and the mean score."""
    counts: dict[str, Counter[str]] = {}
    for submission in graded:
        for test in submission.report["tests"]:
            counts.setdefault(f"{test['question']}: {test['title']}", Counter())[
                test["outcome"]
            ] += 1
    columns = ("correct", "incorrect", "not attempted")
    width = max([len(name) for name in counts] or [8])
    lines = [" ".join([" " * width, *(f"{c:>13}" for c in columns)])]
    for name, count in counts.items():
        lines.append(" ".join([f"{name:<{width}}", *(f"{count[c]:>13}" for c in columns)]))
    return "\n".join(lines)
