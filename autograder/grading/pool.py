"""Many submissions of one lab: a pool of judges on this machine, each with its own sandboxes.

A judge that dies or hangs over a submission is replaced, and the submission has a report that
says so. Nothing of one submission stays for the next.
"""

import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograder.errors import AutograderError
from autograder.grading.line_process import LinePool, LineProcess, ProcessEnded
from autograder.grading.paths import Item
from autograder.grading.pool_worker import write
from autograder.records import Lab, Report

WORKER = "autograder.grading.pool_worker"
GRACE_S = 60.0  # for reading, judging and writing, over the learner's own wall time
DEFAULT_WALL_S = 600.0  # where the lab sets the wall time, which the judge knows and we do not


@dataclass(frozen=True)
class Graded:
    """One submission's report as Gradescope's JSON; `broken` are checks at fault, for staff."""

    item: Item
    report: Mapping[str, Any]
    broken: Sequence[str] = ()


@dataclass
class Farm:
    """Judges for one lab; `grade` yields reports as they are ready."""

    lab: Lab
    out: Path
    jobs: int = 1
    timeout_s: float | None = None
    staff: bool = False
    _judges: LinePool | None = field(default=None, init=False)
    _stopped: bool = field(default=False, init=False)

    def grade(self, items: Sequence[Item]) -> Iterator[Graded]:
        """Grade `items` and yield each as its reports are written, in the order of completion.

        Raises:
            AutograderError: nothing can be graded: the lab is malformed or there is no sandbox.
        """
        jobs = max(1, min(self.jobs, len(items)))
        self._judges = LinePool(self._judge, jobs)
        try:
            with ThreadPoolExecutor(jobs) as pool:
                waiting = [pool.submit(self._one, item) for item in items]
                try:
                    for done in as_completed(waiting):
                        yield done.result()
                except BaseException:
                    self._stop(waiting, self._judges)
                    raise
        finally:
            self._judges.close()

    def _stop(self, waiting: Sequence[Future[Graded]], judges: LinePool) -> None:
        """End all judges at once; what they were at has no report."""
        self._stopped = True
        for future in waiting:
            future.cancel()
        judges.kill()

    def _one(self, item: Item) -> Graded:
        assert self._judges is not None
        request = {"path": str(item.path.absolute()), "name": item.label, "stem": item.stem}
        try:
            answer = self._judges.ask(request, (self.timeout_s or DEFAULT_WALL_S) + GRACE_S)
        except ProcessEnded as error:
            if self._stopped:
                raise AutograderError("grade: stopped.") from error
            return self._lost(item, str(error))
        if "fatal" in answer:
            raise AutograderError(answer["fatal"])
        return Graded(item, answer["report"], answer["broken"])

    def _judge(self) -> LineProcess:
        options = {"out": str(self.out.absolute()), "timeout_s": self.timeout_s}
        arguments = json.dumps({**options, "staff": self.staff})
        return LineProcess(WORKER, [str(self.lab.directory.absolute()), arguments])

    def _lost(self, item: Item, why: str) -> Graded:
        """Return the report on a submission that the judge did not survive."""
        reason = f"grading ended before it was done: {why}. Staff must look at this one."
        return self._unread(item, reason)

    def _unread(self, item: Item, reason: str) -> Graded:
        """Return the report on a submission of which nothing could be graded."""
        from autograder.grading.grade import Grader
        from autograder.grading.report import to_gradescope

        report: Report = Grader(self.lab).unreadable(reason, item.label)
        write(report, self.out, item.stem, staff=self.staff)
        return Graded(item, to_gradescope(report, staff=self.staff))


def default_jobs() -> int:
    """Return how many judges this machine has cores for."""
    return len(os.sched_getaffinity(0))


def summary(graded: Sequence[Graded]) -> str:
    """Return a table: how many answers to each question had which outcome, and the mean score."""
    counts: dict[str, Counter[str]] = {}
    for one in graded:
        for test in one.report["tests"]:
            counts.setdefault(f"{test['question']}: {test['title']}", Counter())[
                test["outcome"]
            ] += 1
    columns = ("correct", "incorrect", "not attempted")
    width = max([len(name) for name in counts] or [8])
    lines = [" ".join([" " * width, *(f"{c:>13}" for c in columns)])]
    for name, count in counts.items():
        lines.append(" ".join([f"{name:<{width}}", *(f"{count[c]:>13}" for c in columns)]))
    return "\n".join(lines)
