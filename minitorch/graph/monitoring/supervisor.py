"""Supervisor: the older way to look after training, over the same parts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..node import Node
from ..queues.coordinator import Coordinator, LooperThread, start_queue_runners
from ..session import Session
from ..spaces.errors import OutOfRangeError
from ..spaces.summary import FileWriter
from ..train.averages import get_global_step
from ..train.saver import Saver
from .monitored import ChiefSessionCreator, Scaffold


class Supervisor:
    """Initialises or restores a session, starts its queues, saves it every so often and at the end.

    Args:
        logdir: where checkpoints and summaries go; None for nowhere.
        init_op, local_init_op, saver: made unless given.
        global_step: the count of steps, for the checkpoints' names; the graph's unless given.
        save_model_secs: how often variables are saved; 0 for only at the end.
    """

    def __init__(
        self,
        logdir: str | Path | None = None,
        init_op: Node | None = None,
        local_init_op: Node | None = None,
        saver: Saver | None = None,
        global_step: Node | None = None,
        save_model_secs: float = 600,
        init_fn: Callable[[Any], None] | None = None,
        checkpoint_basename: str = "model.ckpt",
    ) -> None:
        called = None if init_fn is None else (lambda _, session: init_fn(session))
        step = get_global_step() if global_step is None else global_step
        self._parts = Scaffold(init_op, None, called, None, local_init_op, None, saver).finalize()
        self.coord, self.global_step = Coordinator(), step
        self.logdir = None if logdir is None else Path(logdir)
        self._every_s, self._name = save_model_secs, checkpoint_basename
        self._saving = threading.Lock()  # a thread saves every so often, the program at the end
        self.summary_writer = None if logdir is None else FileWriter(logdir)

    @property
    def saver(self) -> Saver | None:
        """What saves the variables."""
        return self._parts.saver

    def should_stop(self) -> bool:
        """Whether somebody asked to stop."""
        return self.coord.should_stop()

    def request_stop(self, ex: Any = None) -> None:
        """Ask all to stop."""
        self.coord.request_stop(ex)

    def prepare_or_wait_for_session(self, master: str = "", config: Any = None) -> Session:
        """Return a session whose variables are set and whose queues are being filled."""
        session = ChiefSessionCreator(self._parts, master, config, self.logdir).create_session()
        start_queue_runners(session, self.coord)
        if self.logdir is not None and self._every_s:
            LooperThread.loop(self.coord, self._every_s, self._save, (session,))
        return session

    def summary_computed(self, sess: Session, summary: Any, global_step: Any = None) -> None:
        """Write what a run of a summary gave."""
        step = self.global_step if global_step is None else global_step
        if self.summary_writer is not None:
            at = sess.run(step) if isinstance(step, Node) else step
            self.summary_writer.add_summary(summary, at)

    def loop(
        self, timer_interval_secs: float, target: Callable[..., Any], args: Any = (),
        kwargs: Any = None,
    ) -> LooperThread:  # fmt: skip
        """Call a function every so often in a thread, until all are to stop."""
        return LooperThread.loop(self.coord, timer_interval_secs, target, args, kwargs)

    @contextmanager
    def managed_session(self, master: str = "", config: Any = None) -> Iterator[Session]:
        """Give a session; at the end all threads are joined, and the variables saved."""
        session = self.prepare_or_wait_for_session(master, config)
        try:
            with session.as_default():
                yield session
            self._save(session)
        except OutOfRangeError:
            self._save(session)
        except Exception as error:
            self.request_stop(error)
        finally:
            self.request_stop()
            try:
                self.coord.join(ignore_live_threads=True)
            finally:
                session.close()

    def _save(self, session: Session) -> None:
        if self.logdir is not None and self.saver is not None:
            with self._saving:
                self.logdir.mkdir(parents=True, exist_ok=True)
                self.saver.save(session, self.logdir / self._name, self.global_step)
