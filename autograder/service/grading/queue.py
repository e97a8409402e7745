"""The queue's workers: claim a submission, grade it, write the grade; survive everything.

Where a grader gives no report, or a cell stopped for a module that is not there, the same grader
gets the solution of the lab. If that fails too, or the grader says that it can grade nothing, the
fault is not the notebook's: grading of that lab pauses, says why, and goes on by itself once its
solution can be graded again. If the solution passes, a try without a report counts against the
submission, and after two of them it is parked for staff. A grader that was killed from outside, or
a server that ended, counts against nobody.
"""

import logging
import math
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from autograder.records import Report
from autograder.service.errors import GraderDied, GraderKilled, GraderUnable
from autograder.service.grading.process import Grader
from autograder.service.records.submissions.claims import Claim, Claims

MAX_TRIES = 2

# So many kills from outside over one submission are no bad luck: something there ends graders in
# a way that we cannot see, such as a watchdog for memory. Then they are tries like others.
MAX_KILLS = 20

# Other servers may put work into the same database; ours wake us without waiting.
_POLL_S = 1.0

# How soon a paused lab is looked at again; each look costs a grader's start and a solution.
_FIRST_LOOK_S, _LAST_LOOK_S = 2.0, 10.0

# How much of what is handed in for a lab that pauses is put aside together.
_GATHER_S = 0.2

# What a report's note says of a cell whose import failed.
_MISSING = re.compile(r"stopped: ((?:ModuleNotFound|Import)Error: .*)")

# How soon after finding none the next look for what others put aside; it reads all of that.
_HELD_LOOK_S = 5.0

log = logging.getLogger(__name__)


@dataclass
class Pause:
    """A lab whose own solution the graders cannot grade; `look_at` is when they try again."""

    reason: str
    look_at: float
    wait_s: float = _FIRST_LOOK_S


@dataclass
class Tally:
    """What this server's graders have done since it started."""

    outcomes: dict[str, int] = field(
        default_factory=lambda: dict.fromkeys(("graded", "tried", "parked", "killed", "paused"), 0)
    )
    graded_s: float = 0.0


class Queue:
    """`workers` threads over one table of claims; each has a grader of its own.

    `owner` names this server's claims. `solution(lab)` is a notebook that graders must be able to
    grade; what it raises is a reason to pause the lab. `labs` is where labs lie, if it is not where
    the graders look. The threads serve the queues of other courses too (`start`), in turn.
    """

    def __init__(
        self,
        claims: Claims,
        make_grader: Callable[[], Grader],
        *,
        owner: str,
        solution: Callable[[str], bytes],
        workers: int = 1,
        lease_s: float = 30.0,
        labs: Path = Path(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.tally = Tally()
        self._claims = claims
        self._owner = owner
        self._solution = solution
        self._lease_s = lease_s
        self._labs = labs
        self._clock = clock
        self._served_at = 0.0
        self._held_look_at = -math.inf
        self._queues: list[Queue] = [self]
        self._graders = [make_grader() for _ in range(workers)]
        self._threads: list[threading.Thread] = []
        self._stopping = threading.Event()
        self._work = threading.Semaphore(0)
        self._lock = threading.Lock()  # around the pauses and the tally
        self._pauses: dict[str, Pause] = {}
        self._complete: set[str] = set()  # labs whose solution found all its modules here
        self._trouble: str | None = None  # the database is away, or full

    def start(self, others: Iterable["Queue"] = ()) -> None:
        """Begin to grade, in threads, for these other queues too, which have none of their own."""
        for other in others:
            other._work, other._stopping = self._work, self._stopping
            self._queues.append(other)
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

    def reasons(self) -> dict[str, str]:
        """Return why grading pauses, by lab, or by "database"; empty where it does not."""
        trouble = {} if self._trouble is None else {"database": self._trouble}
        return {**self._list_paused(), **trouble}

    def _list_paused(self) -> dict[str, str]:
        with self._lock:
            return {lab: pause.reason for lab, pause in sorted(self._pauses.items())}

    def resume(self) -> None:
        """Look at every paused lab now, rather than a little later."""
        with self._lock:
            for pause in self._pauses.values():
                if pause.look_at != math.inf:  # a worker is looking
                    pause.look_at = self._clock()
        self.wake()

    def _run(self, grader: Grader) -> None:
        while not self._stopping.is_set():
            # whose turn was longest ago first, so that a rush in one course holds up no other
            queues = sorted(self._queues, key=lambda queue: queue._served_at)
            if not any(queue._try(grader) for queue in queues):
                self._work.acquire(timeout=_POLL_S)
                if any(queue._pauses for queue in queues):
                    self._gather()

    def _gather(self) -> None:
        """Wait for more to put aside at once: a rush on a lab that pauses wakes us often."""
        self._stopping.wait(_GATHER_S)
        while self._work.acquire(blocking=False):
            pass

    def _try(self, grader: Grader) -> bool:
        try:
            busy = self.work(grader)
            self._trouble = None
        except Exception as error:  # the lease runs out and is taken again
            before, self._trouble = self._trouble, _first_line(error)
            if self._trouble != before:  # once, for the log may be on the disk that is full
                log.exception("queue: a worker could not read or write the database")
            busy = False
        return busy

    def work(self, grader: Grader) -> bool:
        """Look at a paused lab if it is time, and grade one submission; False when none waits."""
        self._look_again(grader)
        paused = self._list_paused()
        self._release_one(paused)
        claim = self._claims.claim(self._owner, self._lease_s, avoid=paused)
        if claim is None:
            return False
        self._served_at = time.monotonic()
        with self._keep_claim(claim):
            self._grade(grader, claim)
        return True

    def _release_one(self, paused: Iterable[str]) -> None:
        """Try one that was put aside for a lab which does not pause here.

        It was put aside while its lab was being mended, or by another server: that one's reason may
        hold here too, or be gone with it. One at a time, for there may be tens of thousands.
        """
        now = self._clock()
        if now >= self._held_look_at and not self._claims.release(tuple(paused), most=1):
            self._held_look_at = now + _HELD_LOOK_S

    @contextmanager
    def _keep_claim(self, claim: Claim) -> Iterator[None]:
        """Keep the claim alive while the grader works."""
        done = threading.Event()

        def renew() -> None:
            while not done.wait(self._lease_s / 3):
                try:
                    self._claims.renew(claim.id, self._owner, self._lease_s)
                except Exception:  # there are two more chances before the lease ends
                    log.exception("submission %d: the claim could not be renewed", claim.id)

        thread = threading.Thread(target=renew, daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _grade(self, grader: Grader, claim: Claim) -> None:
        began = self._clock()
        try:
            report = grader.grade(str(self._labs / claim.lab), claim.notebook)
        except Exception as error:
            if self._stopping.is_set():
                self._claims.put_back(claim.id, self._owner)
            elif isinstance(error, GraderKilled) and claim.kills + 1 < MAX_KILLS:
                log.warning("submission %d: %s, killed from outside: again", claim.id, error)
                self._claims.count_kill(claim.id, self._owner, str(error))
                self._count("killed")
            else:
                unable = isinstance(error, GraderUnable)
                fault = _first_line(error) if unable else self._fault(grader, claim.lab)
                self._handle_failure(claim, _first_line(error), fault)
        else:
            fault = None  # where the solution misses a module too, and not this notebook alone
            if _missing_module(report) and claim.lab not in self._complete:
                fault = self._fault(grader, claim.lab)
            if fault:
                self._handle_failure(claim, fault, fault)
                return
            self._claims.finish(claim.id, self._owner, report)
            self._count("graded", self._clock() - began)
            log.info("submission %d: %s: %g", claim.id, claim.lab, report.score)

    def _handle_failure(self, claim: Claim, reason: str, fault: str | None) -> None:
        """Act on it that there is no report; `fault` is why there would be none on a solution."""
        number, owner, attempt = claim.id, self._owner, claim.tries + 1
        if self._stopping.is_set():
            self._claims.put_back(number, owner)
        elif fault is not None:
            self._claims.hold(number, owner)
            self._pause(claim.lab, fault)  # after: what is held belongs to a pause, always
        elif attempt < MAX_TRIES:
            log.warning("submission %d: %s; try %d of %d", number, reason, attempt, MAX_TRIES)
            self._claims.count_try(number, owner, reason)
            self._count("tried")
        else:
            problem = f"grading ended {attempt} times without a result: {reason}"
            log.error("submission %d: parked: %s", number, problem)
            self._claims.park(number, owner, problem)
            self._count("parked")

    def _fault(self, grader: Grader, lab: str) -> str | None:
        """Return why the solution of `lab` cannot be graded, or None: it can."""
        try:
            report = grader.grade(str(self._labs / lab), self._solution(lab))
        except Exception as error:
            return _first_line(error)
        missing = _missing_module(report)
        if missing is not None:
            return f"the solution gets {report.score:g} of {report.max_score:g} here: {missing}"
        self._complete.add(lab)
        return None

    def _pause(self, lab: str, reason: str) -> None:
        with self._lock:
            pause = self._pauses.setdefault(lab, Pause(reason, self._clock() + _FIRST_LOOK_S))
            pause.reason = reason
        self._count("paused")
        log.error("queue: %s is paused, nothing of it can be graded: %s", lab, reason)

    def _look_again(self, grader: Grader) -> None:
        """Grade the solution of one paused lab whose time has come; if that works, go on."""
        now = self._clock()
        with self._lock:
            due = [(p.look_at, lab) for lab, p in self._pauses.items() if p.look_at <= now]
            if not due:
                return
            lab = min(due)[1]
            pause = self._pauses[lab]
            pause.look_at = math.inf  # no other worker looks meanwhile
        try:
            fault = self._fault(grader, lab)
            if fault is not None:
                pause.reason = fault
                return
            released = self._claims.release(except_of=self._list_paused().keys() - {lab})
            with self._lock:  # only now: where the database is away, the lab stays paused
                self._pauses.pop(lab, None)
        finally:
            with self._lock:
                pause.wait_s = min(2 * pause.wait_s, _LAST_LOOK_S)
                took = self._clock() - now
                # a lab whose solution hangs leaves two thirds of the time to the others
                pause.look_at = self._clock() + max(pause.wait_s, 2 * took)
        log.warning("queue: %s goes on: %d submissions waited", lab, released)
        self.resume()  # what mended this lab may have mended others

    def _count(self, outcome: str, seconds: float = 0.0) -> None:
        with self._lock:
            self.tally.outcomes[outcome] += 1
            self.tally.graded_s += seconds


def _missing_module(report: Report) -> str | None:
    """Return the error of a cell that could not import something and cost points, or None."""
    if report.score >= report.max_score:
        return None
    errors = map(_MISSING.search, report.notes)
    return next((error[1] for error in errors if error), None)


def _first_line(error: Exception) -> str:
    """Return one line of an error: a page and a metric have no room for more."""
    if isinstance(error, GraderDied):
        return str(error).splitlines()[0][:500]
    return f"{type(error).__name__}: {error}".splitlines()[0][:500]
