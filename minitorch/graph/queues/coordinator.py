"""Coordinator and QueueRunner: threads that fill queues, and how they end together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary

from ...errors import GraphError
from ..collections import GraphKeys
from ..node import Node
from ..scope import get_default_graph
from ..session import Session, get_default_session
from ..spaces.errors import CancelledError, OutOfRangeError
from ..waits import gone, waiting
from .queue import QueueBase

CLEAN: tuple[type[BaseException], ...] = (OutOfRangeError,)


class Coordinator:
    """Lets threads ask each other to stop, and hands on the first error of any.

    Args:
        clean_stop_exception_types: errors that only mean that the work is done.
    """

    def __init__(
        self, clean_stop_exception_types: tuple[type[BaseException], ...] | None = None
    ) -> None:
        self.clean = CLEAN if clean_stop_exception_types is None else clean_stop_exception_types
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._error: BaseException | None = None
        self._threads: list[threading.Thread] = []
        self._at_stop: list[Callable[[], None]] = []
        self.joined = False

    def should_stop(self) -> bool:
        """Whether somebody asked to stop."""
        return self._stop.is_set()

    def request_stop(self, ex: Any = None) -> None:
        """Ask all to stop; the first `ex`, an error or what sys.exc_info() gives, is kept."""
        error = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            first = not self._stop.is_set()
            if self._error is None and error is not None and not isinstance(error, self.clean):
                self._error = error
            self._stop.set()
            waking = self._at_stop if first else []
        for wake in waking:
            wake()

    def clear_stop(self) -> None:
        """Begin anew: nobody has asked to stop, nothing went wrong."""
        with self._lock:
            self._stop.clear()
            self._error, self.joined, self._at_stop = None, False, []

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until somebody asks to stop; tell whether that happened in time."""
        return self._stop.wait(timeout)

    @contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """Ask all to stop when the `with` block fails; the error goes to whoever joins."""
        try:
            yield
        except Exception as error:
            self.request_stop(error)

    def register_thread(self, thread: threading.Thread) -> None:
        """Take note of a thread that `join` is to wait for."""
        with self._lock:
            self._threads.append(thread)

    def at_stop(self, wake: Callable[[], None]) -> None:
        """Call `wake` when somebody asks to stop, at once if it has happened already."""
        with self._lock:
            if not self._stop.is_set():
                self._at_stop.append(wake)
                return
        wake()

    def raise_requested_exception(self) -> None:
        """Raise the error that somebody asked to stop with, if there was one."""
        if self._error is not None:
            raise self._error

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120.0,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until all threads have ended; then raise the error that one asked to stop with.

        Args:
            threads: those to wait for besides the registered ones.
            stop_grace_period_secs: how long after the stop a thread may go on.
            ignore_live_threads: leave those alone that go on for longer.
        Raises:
            RuntimeError: a thread goes on for longer than the grace period; names it.
        """
        joining = list(dict.fromkeys([*self._threads, *(threads or ())]))
        with waiting(lambda: self._stop.is_set() or gone(joining)):
            while not self._stop.is_set() and not gone(joining):
                self._stop.wait(0.05)
        until = time.monotonic() + stop_grace_period_secs
        with waiting(lambda: gone(joining)):
            for thread in joining:
                if thread.is_alive():  # one that was never started cannot be joined
                    thread.join(max(until - time.monotonic(), 0.0))
        self.joined = True
        self.raise_requested_exception()
        late = [thread.name for thread in joining if thread.is_alive()]
        if late and not ignore_live_threads:
            raise RuntimeError(
                f"Coordinator.join: threads have not ended {stop_grace_period_secs:g} s after the "
                f"stop: got {', '.join(late)}, expected none. Let them ask should_stop()."
            )


class QueueRunner:
    """Threads that run the operations which fill a queue, one thread for each.

    Args:
        queue: it is closed when the last thread is done, and cancelled when all are to stop.
        enqueue_ops: what the threads run, again and again.
        queue_closed_exception_types: errors that only mean that there is nothing more to put in.
    """

    def __init__(
        self,
        queue: QueueBase,
        enqueue_ops: Sequence[Node],
        close_op: Node | None = None,
        cancel_op: Node | None = None,
        queue_closed_exception_types: tuple[type[BaseException], ...] | None = None,
    ) -> None:
        if not enqueue_ops:
            raise GraphError("QueueRunner: got no enqueue_ops, expected one or more.")
        self.queue, self.enqueue_ops = queue, list(enqueue_ops)
        self.close_op = queue.close() if close_op is None else close_op
        self.cancel_op = (
            queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
        )
        self.done = queue_closed_exception_types or (OutOfRangeError, CancelledError)
        self.exceptions_raised: list[BaseException] = []
        self._running: WeakKeyDictionary[Session, int] = WeakKeyDictionary()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """The queue's name."""
        return self.queue.name

    def create_threads(
        self,
        sess: Session,
        coord: Coordinator | None = None,
        daemon: bool = True,
        start: bool = False,
    ) -> list[threading.Thread]:
        """Return a thread for each operation, started if asked; none if they run there already."""
        with self._lock:
            if self._running.get(sess):
                return []
            self._running[sess] = len(self.enqueue_ops)
        made = [
            threading.Thread(target=self._run, args=(sess, op, coord), name=f"{self.name}-{i}")
            for i, op in enumerate(self.enqueue_ops)
        ]
        for thread in made:
            thread.daemon = daemon
            if coord is not None:
                coord.register_thread(thread)
        if coord is not None:
            coord.at_stop(lambda: self._quietly(sess, self.cancel_op))
        for thread in made if start else []:
            thread.start()
        return made

    def _run(self, sess: Session, op: Node, coord: Coordinator | None) -> None:
        """Run `op` until there is nothing to put in, or all are to stop."""
        try:
            while not sess.closed and not (coord is not None and coord.should_stop()):
                sess.run(op)
        except self.done:
            pass
        except Exception as error:
            if not sess.closed:
                self._failed(error, coord)
        finally:
            with self._lock:
                self._running[sess] -= 1
                last = not self._running[sess]
            if last:
                self._quietly(sess, self.close_op)

    def _failed(self, error: Exception, coord: Coordinator | None) -> None:
        """Keep an error, and hand it on to whoever joins."""
        self.exceptions_raised.append(error)
        if coord is not None:
            coord.request_stop(error)

    def _quietly(self, sess: Session, op: Node) -> None:
        """Run `op`, unless the session is closed: then nobody waits any more."""
        try:
            if not sess.closed:
                sess.run(op)
        except GraphError:
            if not sess.closed:
                raise


def add_queue_runner(qr: QueueRunner, collection: Any = GraphKeys.QUEUE_RUNNERS) -> None:
    """Let `start_queue_runners` start this one too."""
    get_default_graph().add_to_collection(collection, qr)


def start_queue_runners(
    sess: Session | None = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: Any = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Return the threads of all queue runners of the session's graph, started unless told."""
    session = sess or get_default_session()
    found: list[threading.Thread] = []
    for runner in session.graph.get_collection(collection):
        found += runner.create_threads(session, coord, daemon, start)
    return found


class LooperThread(threading.Thread):
    """A thread that runs a function again and again until a coordinator stops."""

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Any = (),
        kwargs: Any = None,
    ) -> None:
        super().__init__(daemon=True)
        self._coord, self._pause_s = coord, timer_interval_secs
        self._work = (target, tuple(args), dict(kwargs or {}))
        coord.register_thread(self)

    @classmethod
    def loop(
        cls,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Any = (),
        kwargs: Any = None,
    ) -> LooperThread:
        """Return such a thread, started."""
        made = cls(coord, timer_interval_secs, target, args, kwargs)
        made.start()
        return made

    def run(self) -> None:
        """Call the function until the coordinator stops, with a pause after each call."""
        target, args, kwargs = self._work
        with self._coord.stop_on_exception():
            while not self._coord.should_stop():
                if target is not None:
                    target(*args, **kwargs)
                self._coord.wait_for_stop(self._pause_s or 0.0)
