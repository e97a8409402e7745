"""The queue's workers: claim a submission, grade it, write the grade; survive everything.

A submission whose grading ended without a report is tried once more and then given up as
`failed`, with a report that says so. So nothing loops, and one bad submission costs the others
two attempts' time at most.
"""

import json
import logging
import threading
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from autograder.records import Report
from autograder.service.errors import GraderDied
from autograder.service.grading import Grader
from autograder.service.ledger import Claim, Ledger
from autograder.service.manual import keeping_manual

if TYPE_CHECKING:
    from collections.abc import Iterator

# Deaths of the grader that we saw, and claims in all (the server itself may have died of it).
MAX_CRASHES = 2
MAX_ATTEMPTS = 5

# Other servers may put work into the same database; ours wake us without waiting.
_POLL_S = 1.0

log = logging.getLogger(__name__)


class Queue:
    """`workers` threads over one ledger; each has a grader of its own.

    `owner` names this server's claims. `full_marks(lab)` is for the report of a submission that
    could not be graded.
    """

    def __init__(
        self,
        ledger: Ledger,
        make_grader: Callable[[], Grader],
        *,
        owner: str,
        full_marks: Callable[[str], float],
        workers: int = 1,
        lease_s: float = 30.0,
    ) -> None:
        self._ledger = ledger
        self._owner = owner
        self._full_marks = full_marks
        self._lease_s = lease_s
        self._graders = [make_grader() for _ in range(workers)]
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._work = threading.Semaphore(0)

    def start(self) -> None:
        """Begin to grade, in threads."""
        for grader in self._graders:
            thread = threading.Thread(target=self._run, args=(grader,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def wake(self) -> None:
        """Say that there is work."""
        self._work.release()

    def stop(self) -> None:
        """Stop: what is being graded goes back to be graded by the next server."""
        self._stopping.set()
        for grader in self._graders:
            grader.close()
        for _ in self._threads:
            self._work.release()
        for thread in self._threads:
            thread.join()

    def _run(self, grader: Grader) -> None:
        while not self._stopping.is_set():
            try:
                busy = self.work(grader)
            except Exception:  # the database is away; the lease runs out and is taken again
                log.exception("queue: a worker could not read or write the database")
                busy = False
            if not busy:
                self._work.acquire(timeout=_POLL_S)

    def work(self, grader: Grader) -> bool:
        """Grade one submission; return False when none waits."""
        claim = self._ledger.claim(self._owner, self._lease_s)
        if claim is None:
            return False
        if claim.attempts > MAX_ATTEMPTS:
            self._give_up(claim, f"grading began {MAX_ATTEMPTS} times and never ended")
            return True
        try:
            with self._renewed(claim):
                report = grader.grade(claim.lab, claim.notebook)
        except GraderDied as death:
            self._count(claim, str(death))
        except Exception as error:
            log.exception("submission %d: the grader raised", claim.id)
            self._count(claim, f"{type(error).__name__}: {error}")
        else:
            self._write(claim, report)
        return True

    @contextmanager
    def _renewed(self, claim: Claim) -> "Iterator[None]":
        """Keep the claim alive while the grader works."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(self._lease_s / 3):
                self._ledger.renew(claim.id, self._owner, self._lease_s)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _write(self, claim: Claim, report: Report) -> None:
        before = self._ledger.report(claim.id)
        if before is not None:
            report = keeping_manual(report, Report.from_dict(json.loads(before)))
        text = json.dumps(report.to_dict())
        score, full = report.score, report.max_score
        self._ledger.finish(claim.id, self._owner, score=score, max_score=full, report=text)
        log.info("submission %d: %s: %g of %g", claim.id, claim.lab, score, full)

    def _count(self, claim: Claim, reason: str) -> None:
        """The grader gave no report: try again, or give up."""
        if self._stopping.is_set():
            self._ledger.put_back(claim.id, self._owner, crashed=False)
            return
        attempt = claim.crashes + 1
        log.warning("submission %d: %s; attempt %d of %d", claim.id, reason, attempt, MAX_CRASHES)
        if attempt < MAX_CRASHES:
            self._ledger.put_back(claim.id, self._owner, crashed=True, reason=reason)
        else:
            self._give_up(claim, f"grading ended {attempt} times without a result", reason)

    def _give_up(self, claim: Claim, problem: str, last: str = "") -> None:
        """Write `failed`. The learner is told the problem; staff also see the `last` death."""
        full = self._full_marks(claim.lab)
        told = f"{problem}. Your instructor sees this and can grade it again."
        report = Report(lab=claim.lab, results=(), max_score=full, error=told)
        text = json.dumps(report.to_dict())
        reason = f"{problem}: {last}" if last else problem
        self._ledger.fail(claim.id, self._owner, reason=reason, max_score=full, report=text)
        log.error("submission %d: failed: %s", claim.id, reason)
