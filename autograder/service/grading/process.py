"""Grading in a process of its own, so that what kills the judge does not kill the server.

The process ends when the server does, however that happens: its standard input closes.
"""

import re
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from autograder.grading.judge import judge_process, notebook_request
from autograder.grading.line_process import JobRefused, LineProcess, ProcessEnded
from autograder.grading.pool import Pool
from autograder.records import Report
from autograder.service.errors import GraderDied, GraderKilled

# Signals that nobody sends to themselves by mistake, unlike those of a crash.
_FROM_OUTSIDE = (-signal.SIGKILL, -signal.SIGTERM, -signal.SIGINT, -signal.SIGHUP)


class Grader(Protocol):
    """Whoever turns a notebook into a report."""

    def grade(self, lab: str, notebook: bytes) -> Report:
        """Return the report on `notebook`; `lab` is a name, or a path elsewhere.

        Raises:
            GraderDied: there is no report; the notebook may be at fault.
            GraderKilled: there is no report; the notebook is not at fault.
            GraderUnable: no notebook of this lab can be graded here.
        """
        ...

    def close(self) -> None:
        """Release everything; a `grade` under way in another thread raises `GraderDied`."""
        ...


class ProcessGrader:
    """Grades the labs in `labs` by the judge that `start` starts, `timeout_s` for a submission."""

    def __init__(self, labs: Path, start: Callable[[], LineProcess], *, timeout_s: float) -> None:
        self._labs = labs.absolute()
        self._timeout_s = timeout_s
        self._pool = Pool(start)

    @classmethod
    def behind(cls, wall: str | None, labs: Path, *, timeout_s: float) -> "ProcessGrader":
        """Return a grader behind `wall` and no lesser one; behind any, where it is None."""
        return cls(labs, partial(judge_process, wall=wall, shown=True), timeout_s=timeout_s)

    def grade(self, lab: str, notebook: bytes) -> Report:
        """Return the report on `notebook`; see `Grader`."""
        out_of_memory = _out_of_memory()
        request = notebook_request(self._labs / lab, notebook)
        try:
            answer = self._pool.ask(request, self._timeout_s)
        except JobRefused as refused:
            kind = f"{refused.kind}: " if refused.kind else ""
            raise GraderDied(f"{kind}{refused}") from refused
        except ProcessEnded as ended:
            raise self._death(ended, out_of_memory) from ended
        return Report.from_dict(answer["report"])

    def close(self) -> None:
        """End the judge; every later `grade` raises `GraderDied`."""
        self._pool.kill()
        self._pool.close()

    def _death(self, ended: ProcessEnded, out_of_memory: int | None) -> GraderDied:
        """Return how the judge ended.

        One that sends itself a signal says so first (`judge`), and one that the system ended for
        its memory is counted there: what is left was killed from outside.
        """
        if ended.status is None:
            return GraderDied("the server is stopping")
        message = f"the grading process ended with status {ended.status}"
        if ended.overran:
            message += f": no answer in {self._timeout_s:.0f} s"
        outside = ended.status in _FROM_OUTSIDE and not ended.ours
        if outside and out_of_memory is not None and _out_of_memory() == out_of_memory:
            return GraderKilled(message)
        return GraderDied(message)


def _out_of_memory() -> int | None:
    """Return how many processes this machine has ended for want of memory, if it says so."""
    try:
        line = re.search(r"^oom_kill (\d+)$", Path("/proc/vmstat").read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(line[1]) if line else None
