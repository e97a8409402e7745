"""A thread that keeps the course totals of all courses of a server up to date, for its pages.

It is woken by what changes everybody's here, and looks by itself for what other servers and the
clock do: a lab that closes changes totals too.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from autograder.service.periodic import Periodic
from autograder.service.records.submissions.submissions import Submissions
from autograder.service.reports.everybodys_totals import work_some_out

_LOOK_S = 5.0  # a look reads the rule, the dates and one entry of an index

log = logging.getLogger(__name__)


class TotalsWorker(Periodic):
    """Works out what is stale in the courses that it serves, some people of each in turn."""

    def __init__(self, look_s: float = _LOOK_S) -> None:
        super().__init__("totals", self.work, look_s)
        self._served: list[Submissions] = []

    @contextmanager
    def serving(self, submissions: Submissions) -> Iterator[None]:
        """Keep the totals of a course up to date meanwhile."""
        self._served.append(submissions)
        try:
            yield
        finally:
            self._served.remove(submissions)

    def work(self) -> bool:
        """Work out some totals of each course; return whether one of them has more."""
        more = [self._work(submissions) for submissions in list(self._served)]
        return any(more)

    def _work(self, submissions: Submissions) -> bool:
        try:
            return work_some_out(submissions)
        except Exception:  # the database is away, or this course's is broken: others go on
            log.exception("totals: those of a course cannot be worked out now")
            return False
