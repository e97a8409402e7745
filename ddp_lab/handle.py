"""Collectives under way: handles, the thread that runs them in their order, and those beside it."""

import contextlib
import queue
import threading
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from ddp_lab.arguments import wait_limit
from ddp_lab.errors import InvalidArgument, RankTimeout

Beside: TypeAlias = Callable[[Callable[[], Any]], Callable[[], Any]]
KEPT = 4  # threads of a crew that wait for its next jobs; more end with their job


class Handle:
    """The result of a collective that was started with `async_op=True`.

    `beside` makes of a job one that takes its turn on a device; None where there is none.
    """

    def __init__(self, beside: Beside | None = None) -> None:
        self._beside = beside
        self._done = threading.Event()
        self._result: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Handle], None]] = []
        self._lock = threading.Lock()
        self._asked: Callable[[], None] | None = None  # what else to tell that it was waited for
        self.seen = False  # whether somebody has asked how it ended

    def wait(self, timeout_s: float | None = None) -> Any:
        """Return the result.

        Raises:
            RankTimeout: it is not there after `timeout_s`; waiting again is allowed.
            Exception: whatever the collective raised.
        """
        if not self._done.wait(wait_limit("wait", timeout_s)):
            raise RankTimeout(
                f"wait: not complete after {timeout_s} s. Wait again, or see which rank is late."
            )
        self._see()
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
        self._done.wait()
        self._see()
        return self._error

    def raise_unseen(self) -> None:
        """Wait for the end, and raise what the collective raised if nobody has asked."""
        self._done.wait()
        if self._error is not None and not self.seen:
            raise self._error

    def _see(self) -> None:
        self.seen = True
        if self._asked is not None:
            self._asked()

    def then(self, fn: Callable[[Any], Any]) -> "Handle":
        """Return a handle for `fn(result)`.

        `fn` runs in the thread in which the collective ends; if that has ended already, it runs at
        once. If the collective raised, `fn` is not called, and the new handle raises the same.

        All ranks must start their collectives in one order. So `fn` may call some only if this
        rank starts no others until `fn` has returned.
        """
        if not callable(fn):
            raise InvalidArgument(
                f"then: not a function: got {fn!r}, expected fn(result). Pass the function itself."
            )
        after = Handle(self._beside)
        after._asked = self._see

        def run(done: Handle) -> None:
            if done._error is not None:
                after.finish(error=done._error)
            else:
                job = partial(fn, done._result)
                after.run(job if self._beside is None else self._beside(job))

        self.when_done(run)
        return after

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


class Worker:
    """One thread that runs jobs in the order of submission; it ends with the process."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[tuple[Handle, Callable[[], Any]]] = queue.SimpleQueue()
        self._unfinished = 0
        self._lock = threading.Lock()
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        """Whether a job is waiting or running, as seen by the thread that submits."""
        return self._unfinished > 0 and threading.current_thread() is not self._thread

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is this one, which must not wait for a job of its own."""
        return threading.current_thread() is self._thread

    def submit(self, job: Callable[[], Any], beside: Beside | None = None) -> Handle:
        """Queue a job; `beside` puts it, and what is to follow it, in order on a device."""
        handle = Handle(beside)
        job = job if beside is None else beside(job)
        with self._lock:
            self._unfinished += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name=self._name, daemon=True)
                self._thread.start()
        self._jobs.put((handle, job))
        return handle

    def finish(self, timeout_s: float) -> None:
        """Wait until all jobs that are queued now have ended, at most `timeout_s`."""
        if self.busy:
            with contextlib.suppress(RankTimeout):
                self.submit(lambda: None).wait(timeout_s)

    def _work(self) -> None:
        while True:
            handle, job = self._jobs.get()
            handle.run(job)
            with self._lock:
                self._unfinished -= 1
            del handle, job


class Crew:
    """Threads for jobs that may wait for each other: no job waits until a thread is free."""

    def __init__(self, name: str) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], Any]] = queue.SimpleQueue()
        self._name = name
        self._changed = threading.Condition()
        self._unfinished = 0
        self._idle = 0  # threads that wait for a job and are promised to none
        self._members: set[int] = set()

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
        if is_thread_free:
            self._jobs.put(job)
            return
        try:
            threading.Thread(target=self._work, args=(job,), name=self._name, daemon=True).start()
        except RuntimeError:  # no thread to be had: better here than never
            self._end(job)

    def finish(self, timeout_s: float) -> None:
        """Wait until all jobs but the calling thread's have ended, at most `timeout_s`."""
        with self._changed:
            self._changed.wait_for(lambda: not self.busy, timeout_s)

    def _end(self, job: Callable[[], Any]) -> None:
        try:
            job()
        except Exception:
            traceback.print_exc()  # a callback's error must not end the thread of the others
        with self._changed:
            self._unfinished -= 1
            self._changed.notify_all()

    def _work(self, job: Callable[[], Any]) -> None:
        self._members.add(threading.get_ident())
        while True:
            self._end(job)
            del job
            with self._changed:
                if self._idle == KEPT:
                    break
                self._idle += 1
            job = self._jobs.get()
        self._members.discard(threading.get_ident())
