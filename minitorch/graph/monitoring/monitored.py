"""MonitoredSession: initialises or restores, starts the queues, asks the hooks, ends in order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...errors import GraphError
from ..defaults import (
    initialize_all_variables,
    local_variables_initializer,
    report_uninitialized_variables,
)
from ..node import Node
from ..queues.coordinator import Coordinator, start_queue_runners
from ..scope import Graph, get_default_graph
from ..session import Session
from ..spaces.errors import OutOfRangeError
from ..spaces.summary import merge_all
from ..train.saver import Saver, latest_checkpoint
from .hook import SessionRunArgs, SessionRunContext, SessionRunHook, SessionRunValues
from .hooks import CheckpointSaverHook, SummarySaverHook, shared_saver


class Scaffold:
    """What a session needs before its first run; each part is made unless it is given.

    Attributes:
        init_op, local_init_op: give the variables their first values.
        init_fn: called with the scaffold and the session after `init_op`.
        ready_op: names, as bytes, of the variables that still have no value.
        saver: restores variables; None where there are none.
    """

    def __init__(
        self,
        init_op: Node | None = None,
        init_feed_dict: Mapping[Any, Any] | None = None,
        init_fn: Callable[[Scaffold, Session], None] | None = None,
        ready_op: Node | None = None,
        local_init_op: Node | None = None,
        summary_op: Node | None = None,
        saver: Saver | None = None,
    ) -> None:
        self.init_op, self.init_feed_dict, self.init_fn = init_op, init_feed_dict, init_fn
        self.ready_op, self.local_init_op = ready_op, local_init_op
        self.summary_op, self.saver = summary_op, saver

    def finalize(self) -> Scaffold:
        """Build what was not given, and close the graph."""
        graph = get_default_graph()
        if self.saver is None and graph.variables:
            self.saver = shared_saver()
        self.init_op = _part("init_op", self.init_op, initialize_all_variables)
        self.local_init_op = _part("local_init_op", self.local_init_op, local_variables_initializer)
        self.ready_op = _part("ready_op", self.ready_op, report_uninitialized_variables)
        self.summary_op = _part("summary_op", self.summary_op, merge_all)
        graph.finalize()
        return self


def _part(key: str, given: Node | None, make: Callable[[], Node | None]) -> Node | None:
    """Return what was given; else what an earlier session of the graph has, or a new one."""
    if given is not None:
        return given
    there = get_default_graph().get_collection_ref(key)
    if not there and not get_default_graph().finalized:
        there.append(make())
    return there[0] if there else None


class ChiefSessionCreator:
    """Makes a session: restored from the newest checkpoint where there is one, else initialised."""

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: str | Path | None = None,
        checkpoint_filename_with_path: str | Path | None = None,
    ) -> None:
        self.scaffold, self.master, self.config = scaffold or Scaffold(), master, config
        self.directory, self.file = checkpoint_dir, checkpoint_filename_with_path

    def create_session(self) -> Session:
        """Return the session, all its variables set.

        Raises:
            GraphError: some variables are not; names them.
        """
        parts = self.scaffold.finalize()
        session = Session(self.master, config=self.config)
        found = self.file or (latest_checkpoint(self.directory) if self.directory else None)
        if found is not None and parts.saver is not None:
            parts.saver.restore(session, found)
        else:
            session.run(parts.init_op, parts.init_feed_dict)
            if parts.init_fn is not None:
                parts.init_fn(parts, session)
        session.run(parts.local_init_op)
        missing = [name.decode() for name in session.run(parts.ready_op)]
        if missing:
            session.close()
            raise GraphError(
                f"MonitoredSession: variables have no value: got {', '.join(missing)} not set by "
                "the init_op or the checkpoint. Initialise them in the scaffold."
            )
        return session


class SingularMonitoredSession:
    """A session that looks after itself; use it in a `with` block.

        with MonitoredSession(hooks=[...]) as session:
            while not session.should_stop():
                session.run(step)

    At the end of the block the hooks end, the threads are joined, the session is closed. The end of
    an input (OutOfRangeError) ends the block without an error.
    """

    def __init__(
        self,
        hooks: Sequence[SessionRunHook] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        stop_grace_period_secs: float = 120.0,
        checkpoint_dir: str | Path | None = None,
    ) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
        self._begin(creator, hooks, stop_grace_period_secs)

    def _begin(self, creator: Any, hooks: Sequence[SessionRunHook] | None, grace_s: float) -> None:
        self._hooks, self._grace_s = list(hooks or ()), grace_s
        for hook in self._hooks:
            if not isinstance(hook, SessionRunHook):
                raise GraphError(
                    f"MonitoredSession: got {type(hook).__name__}, expected a SessionRunHook."
                )
            hook.begin()
        self._coord = Coordinator()
        self._session: Session | None = creator.create_session()
        try:
            start_queue_runners(self._session, self._coord)
            for hook in self._hooks:
                hook.after_create_session(self._session, self._coord)
        except BaseException:
            self._close(failed=True)
            raise

    @property
    def graph(self) -> Graph:
        """The session's graph, which takes no more nodes."""
        return self.raw_session().graph

    def raw_session(self) -> Session:
        """Return the session itself, of whose runs no hook is told."""
        if self._session is None:
            raise GraphError("MonitoredSession: the session is closed. Open a new one.")
        return self._session

    def should_stop(self) -> bool:
        """Whether the loop is to end: a hook or a thread asked for it, or the session is closed."""
        return self._session is None or self._coord.should_stop()

    def run(
        self,
        fetches: Any,
        feed_dict: Mapping[Any, Any] | None = None,
        options: Any = None,
        run_metadata: Any = None,
    ) -> Any:
        """Return the values of `fetches`; the hooks are asked before and told after."""
        session = self.raw_session()
        context = SessionRunContext(SessionRunArgs(fetches, feed_dict, options), session)
        asked = {i: a for i, h in enumerate(self._hooks) if (a := h.before_run(context))}
        extra = {i: a.fetches for i, a in asked.items() if a.fetches is not None}
        feeds = dict(feed_dict or {})
        for args in asked.values():
            feeds.update(args.feed_dict or {})
        try:
            values, found = session.run((fetches, extra), feeds, options, run_metadata)
        except Exception:
            self._coord.raise_requested_exception()  # a thread's error comes before its effects
            raise
        for i, hook in enumerate(self._hooks):
            hook.after_run(context, SessionRunValues(found.get(i)))
        if context.stop_requested:
            self._coord.request_stop()
        return values

    def run_step_fn(self, step_fn: Callable[[Any], Any]) -> Any:
        """Return what a function makes of a `StepContext`."""
        return step_fn(StepContext(self))

    def close(self) -> None:
        """End the hooks, join the threads, close the session."""
        self._close(failed=False)

    def _close(self, failed: bool) -> None:
        session = self._session
        if session is None:
            return
        try:
            for hook in [] if failed else self._hooks:
                hook.end(session)
        finally:
            self._session = None
            self._coord.request_stop()
            try:
                self._coord.join((), self._grace_s, ignore_live_threads=True)
            finally:
                session.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> bool:
        ended = kind is not None and issubclass(kind, OutOfRangeError | StopIteration)
        try:
            self._close(failed=kind is not None and not ended)
        except Exception:
            if kind is None or ended:  # else the block's own error came first
                raise
        return ended


class StepContext:
    """What `run_step_fn` hands its function."""

    def __init__(self, monitored: SingularMonitoredSession) -> None:
        self._monitored = monitored

    @property
    def session(self) -> Session:
        """The session itself."""
        return self._monitored.raw_session()

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """Run as the monitored session does."""
        return self._monitored.run(*args, **kwargs)

    def request_stop(self) -> None:
        """End the step, and the block around it.

        Raises:
            StopIteration: always.
        """
        raise StopIteration("step_fn asked to stop")


class MonitoredSession(SingularMonitoredSession):
    """The same, from what makes the session."""

    def __init__(
        self,
        session_creator: Any = None,
        hooks: Sequence[SessionRunHook] | None = None,
        stop_grace_period_secs: float = 120.0,
    ) -> None:
        self._begin(session_creator or ChiefSessionCreator(), hooks, stop_grace_period_secs)


def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: str | Path | None = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[SessionRunHook] | None = None,
    chief_only_hooks: Sequence[SessionRunHook] | None = None,
    save_checkpoint_secs: float | None = 600,
    save_summaries_steps: int | None = 100,
    save_summaries_secs: float | None = None,
    config: Any = None,
    stop_grace_period_secs: float = 120.0,
    log_step_count_steps: int | None = 100,
    save_checkpoint_steps: int | None = None,
) -> MonitoredSession:
    """Return a monitored session that saves, and goes on from, checkpoints in a directory.

    `log_step_count_steps` is taken for TensorFlow's sake and has no effect.

    Args:
        is_chief: must be True: there are no other workers.
        save_checkpoint_steps, save_checkpoint_secs: how often; the steps count if both are given.
        save_summaries_steps, save_summaries_secs: how often all summaries are written there.
    Raises:
        GraphError: it is to be one of several workers.
    """
    if not is_chief:
        raise GraphError("MonitoredTrainingSession: got is_chief=False. There is one worker here.")
    parts = scaffold or Scaffold()
    own = [*(hooks or ()), *(chief_only_hooks or ())]
    if checkpoint_dir is not None:
        own += _keeping(parts, checkpoint_dir, save_checkpoint_secs, save_checkpoint_steps)
        own += _summing(parts, checkpoint_dir, save_summaries_secs, save_summaries_steps)
    creator = ChiefSessionCreator(parts, master, config, checkpoint_dir)
    return MonitoredSession(creator, own, stop_grace_period_secs)


def _keeping(
    parts: Scaffold, directory: str | Path, secs: float | None, steps: int | None
) -> list[SessionRunHook]:
    if not secs and not steps:
        return []
    every = {"save_steps": steps} if steps else {"save_secs": secs}
    return [CheckpointSaverHook(directory, saver=parts.saver, **every)]


def _summing(
    parts: Scaffold, directory: str | Path, secs: float | None, steps: int | None
) -> list[SessionRunHook]:
    found = merge_all() if parts.summary_op is None else parts.summary_op
    if found is None or (not secs and not steps):
        return []
    every = {"save_secs": secs} if secs else {"save_steps": steps}
    return [SummarySaverHook(output_dir=directory, summary_op=found, **every)]
