"""Collectives under way: handles, the thread that runs them in their order, and those beside it."""

import atexit
import contextlib
import os
import queue
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any
from weakref import WeakSet, finalize

from ddp_lab.arguments import wait_limit
from ddp_lab.errors import RankTimeout
from ddp_lab.transport.board import waiting_for

EXIT_S = 0.5  # for all jobs that still run when the interpreter ends: some never would
KEPT = 4  # threads of a crew that wait for its next jobs; more end with their job


class Handle:
    """The result of a collective that was started with `async_op=True`."""

    def __init__(self) -> None:
        self._done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Handle], None]] = []
        self._lock = threading.Lock()
        self.seen = False  # whether somebody has asked how it ended

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the result.

        Raises:
            RankTimeout: it is not there after `timeout_s`; waiting again is allowed.
            Exception: whatever the collective raised.
        """
        if timeout_s is None:
            self._await_end()
        elif not self._done.wait(wait_limit("wait", timeout_s)):
            raise RankTimeout(
                f"wait: not complete after {timeout_s} s. Wait again, or see which rank is late."
            )
        self.seen = True
        if self._error is not None:
            raise self._error
        return self._result

    def test(self) -> bool:
        """Return whether `wait` would return at once."""
        return self._done.is_set()

    @property
    def failed(self) -> bool:
        """Whether the collective has ended and raised."""
        return self._error is not None

    def exception(self) -> BaseException | None:
        """Return what the collective raised, or None; waits for its end."""
        self._await_end()
        self.seen = True
        return self._error

    def raise_unseen(self) -> None:
        """Wait for the end, and raise what the collective raised if nobody has asked."""
        self._await_end()
        if self._error is not None and not self.seen:
            raise self._error

    def _await_end(self) -> None:
        if not self._done.is_set():
            with waiting_for(self._done.is_set):
                self._done.wait()

    def when_done(self, callback: Callable[["Handle"], None]) -> None:
        """Call `callback(self)` at the end, at once if that is past."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        callback(self)

    def run(self, job: Callable[[], Any]) -> None:
        """Run the job and keep what it returns or raises."""
        try:
            result = job()
        except Exception as error:
            self.finish(error=error)
        else:
            self.finish(result)

    def finish(self, result: Any = None, error: BaseException | None = None) -> None:
        """Keep the outcome and call the callbacks."""
        with self._lock:
            self._result, self._error = result, error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:
                traceback.print_exc()  # a callback's error must not end the thread of the others


# A thread that lets go of a torch tensor while the interpreter ends aborts the process. So jobs are
# unfinished until nothing of them is held here, and the end waits for those that have begun.
_at_work: "WeakSet[Worker | Crew]" = WeakSet()
os.register_at_fork(after_in_child=_at_work.clear)  # a child has no such threads


@atexit.register
def finish_all() -> None:
    """Wait until all jobs have ended, for `EXIT_S` at most."""
    give_up = time.monotonic() + EXIT_S
    for jobs in list(_at_work):
        jobs.finish(max(0.0, give_up - time.monotonic()))


class JobThread(threading.Thread):
    """The thread of a worker: it runs jobs in the order of submission, up to a None."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name, daemon=True)
        self.jobs: queue.SimpleQueue[tuple[Handle, Callable[[], Any]] | None] = queue.SimpleQueue()
        self._unfinished = 0
        self._lock = threading.Lock()

    @property
    def is_idle(self) -> bool:
        """Whether it does nothing unless another thread gives it a job."""
        return self._unfinished == 0

    def submit(self, job: Callable[[], Any]) -> Handle:
        """Queue a job."""
        handle = Handle()
        with self._lock:
            self._unfinished += 1
        self.jobs.put((handle, job))
        return handle

    def run(self) -> None:
        """Run the jobs; a job is finished when nothing of it is held here."""
        while (entry := self.jobs.get()) is not None:
            entry[0].run(entry[1])
            del entry
            with self._lock:
                self._unfinished -= 1


class Worker:
    """One thread that runs jobs in the order of submission; it ends with the worker."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._thread: JobThread | None = None
        _at_work.add(self)

    @property
    def busy(self) -> bool:
        """Whether a job is waiting or running, as seen by the thread that submits."""
        thread = self._thread
        return thread not in (None, threading.current_thread()) and not thread.is_idle

    def submit(self, job: Callable[[], Any]) -> Handle:
        """Queue a job."""
        with self._lock:
            if self._thread is None:
                self._thread = JobThread(self._name)
                self._thread.start()
                finalize(self, self._thread.jobs.put, None).atexit = False
        return self._thread.submit(job)

    def finish(self, timeout_s: float) -> None:
        """Wait until all jobs that are queued now have ended, at most `timeout_s`."""
        if self.busy:
            with contextlib.suppress(RankTimeout):
                self.submit(lambda: None).wait(timeout_s)


class CrewThread(threading.Thread):
    """One of the threads of a crew."""

    def __init__(self, crew: "Crew") -> None:
        super().__init__(target=crew.work, name=crew.name, daemon=True)
        self._crew = crew

    @property
    def is_idle(self) -> bool:
        """Whether it does nothing unless another thread gives the crew a job."""
        return not self._crew.has_jobs


class Crew:
    """Threads for jobs that may wait for each other: no job waits until a thread is free."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self.name = name
        self._changed = threading.Condition()
        self._unfinished = 0
        self._idle = 0  # threads that wait for a job and are promised to none
        self._members: set[int] = set()
        _at_work.add(self)

    @property
    def has_jobs(self) -> bool:
        """Whether a job waits or runs."""
        return self._unfinished > 0

    @property
    def busy(self) -> bool:
        """Whether a job runs, other than that of the calling thread."""
        return self._unfinished > (threading.get_ident() in self._members)

    def run(self, job: Callable[[], Any]) -> None:
        """Start a job in another thread."""
        with self._changed:
            self._unfinished += 1
            is_thread_free = self._idle > 0
            self._idle -= is_thread_free
        if not is_thread_free:
            try:
                CrewThread(self).start()
            except RuntimeError:  # no thread to be had: better here than never
                attempt(job)
                self._count_end()
                return
        self._jobs.put(job)

    def finish(self, timeout_s: float) -> None:
        """Wait until all jobs but the calling thread's have ended, at most `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: not self.busy, timeout_s)

    def dismiss(self) -> None:
        """Let the threads end that wait for a job."""
        with self._changed:
            for _ in range(self._idle):
                self._jobs.put(None)
            self._idle = 0

    def _count_end(self) -> bool:
        """Count a job as finished; return whether its thread is to wait for another."""
        with self._changed:
            self._unfinished -= 1
            self._changed.notify_all()
            return self._idle < KEPT

    def work(self) -> None:
        """Run jobs, as one of its threads."""
        self._members.add(threading.get_ident())
        while (job := self._jobs.get()) is not None:
            attempt(job)
            del job
            with self._changed:
                stays = self._count_end()
                self._idle += stays
            if not stays:
                break
        self._members.discard(threading.get_ident())


def attempt(job: Callable[[], Any]) -> None:
    """Run a job; an error must not end the thread of the others."""
    try:
        job()
    except Exception:
        traceback.print_exc()
