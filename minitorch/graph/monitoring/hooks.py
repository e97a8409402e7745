"""The hooks that programs use: end, save, log, watch for NaN, feed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import GraphError
from ..collections import GraphKeys
from ..node import Node
from ..queues.coordinator import Coordinator
from ..scope import get_default_graph
from ..session import Session
from ..spaces import logging, summary
from ..train.saver import Saver
from .hook import (
    SecondOrStepTimer,
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
    required_step,
)


class StopAtStepHook(SessionRunHook):
    """Ends training at a step: the last one, or so many after the first run."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if (num_steps is None) == (last_step is None):
            raise GraphError(
                f"StopAtStepHook: got num_steps {num_steps} and last_step {last_step}, expected "
                "one of them."
            )
        self.num_steps, self.last_step = num_steps, last_step

    def begin(self) -> None:
        """Find the count of steps."""
        self._step = required_step(self)

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Count from where the session begins."""
        if self.last_step is None:
            self.last_step = int(session.run(self._step)) + (self.num_steps or 0)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Ask to stop once the step is reached."""
        if int(run_context.session.run(self._step)) >= (self.last_step or 0):
            run_context.request_stop()


class CheckpointSaverHook(SessionRunHook):
    """Saves the variables at the beginning, every so many steps or seconds, and at the end."""

    def __init__(
        self,
        checkpoint_dir: str | Path,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Saver | None = None,
        checkpoint_basename: str = "model.ckpt",
    ) -> None:
        self.path = Path(checkpoint_dir) / checkpoint_basename
        self.timer = SecondOrStepTimer(save_secs, save_steps)
        self.saver = saver

    def begin(self) -> None:
        """Find the count of steps, and make a saver unless one was given."""
        self._step = required_step(self)
        self.saver = self.saver or shared_saver()

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Save what training starts from."""
        self._save(session, int(session.run(self._step)))

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Save if it is due."""
        step = int(run_context.session.run(self._step))
        if self.timer.should_trigger_for_step(step):
            self._save(run_context.session, step)

    def end(self, session: Session) -> None:
        """Save the last step unless it is saved."""
        step = int(session.run(self._step))
        if step != self.timer.last:
            self._save(session, step)

    def _save(self, session: Session, step: int) -> None:
        self.timer.update_last_triggered_step(step)
        if self.saver is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.saver.save(session, self.path, global_step=step)


def shared_saver() -> Saver:
    """Return the saver of the default graph, made at the first use."""
    graph = get_default_graph()
    found: list[Saver] = graph.get_collection_ref(GraphKeys.SAVERS)
    if not found:
        found.append(Saver())
    return found[0]


class _Periodic(SessionRunHook):
    """Base of hooks that fetch something every so many of the session's runs, or seconds."""

    def __init__(self, fetches: Any, timer: SecondOrStepTimer | None) -> None:
        self.fetches, self.timer, self.runs, self._due = fetches, timer, 0, False

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Ask for the values when it is due."""
        self._due = self.timer is not None and self.timer.should_trigger_for_step(self.runs)
        return SessionRunArgs(self.fetches) if self._due else None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Hand the values on."""
        if self._due and self.timer is not None:
            self.timer.update_last_triggered_step(self.runs)
            self.take(run_values.results)
        self.runs += 1

    def take(self, values: Any) -> None:
        """Do something with the values."""


class LoggingTensorHook(_Periodic):
    """Logs values every so many runs, or seconds, and if asked at the end.

    Args:
        tensors: nodes or their names; in a dict by the words to log them with.
        formatter: a function from the dict of values to what is logged.
    """

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        if every_n_iter is not None and every_n_iter < 1:
            raise GraphError(
                f"LoggingTensorHook: got every_n_iter {every_n_iter}, expected 1 or more."
            )
        timer = None
        if not (at_end and every_n_iter is None and every_n_secs is None):
            timer = SecondOrStepTimer(every_n_secs, every_n_iter)
        named = tensors if isinstance(tensors, Mapping) else {_called(t): t for t in tensors}
        super().__init__(dict(named), timer)
        self.at_end, self.formatter = at_end, formatter

    def take(self, values: Any) -> None:
        """Log the values."""
        if self.formatter is not None:
            logging.info(self.formatter(values))
        else:
            logging.info(", ".join(f"{name} = {value}" for name, value in values.items()))

    def end(self, session: Session) -> None:
        """Log the last values, if asked."""
        if self.at_end:
            self.take(session.run(self.fetches))


def _called(tensor: Any) -> str:
    return tensor.name if isinstance(tensor, Node) else str(tensor)


class SummarySaverHook(_Periodic):
    """Writes a summary every so many runs, or seconds."""

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | Path | None = None,
        summary_writer: summary.FileWriter | None = None,
        summary_op: Node | Sequence[Node] | None = None,
    ) -> None:
        if summary_op is None or (output_dir is None) == (summary_writer is None):
            raise GraphError(
                "SummarySaverHook: expected a summary_op, and either output_dir or summary_writer."
            )
        listed = [summary_op] if isinstance(summary_op, Node) else list(summary_op)
        super().__init__(listed, SecondOrStepTimer(save_secs, save_steps))
        self.summaries = listed
        self.writer = summary_writer or summary.FileWriter(str(output_dir))

    def begin(self) -> None:
        """Find the count of steps."""
        self.fetches = [required_step(self), *self.summaries]

    def take(self, values: Any) -> None:
        """Write the summaries."""
        step, *found = values
        for one in found:
            self.writer.add_summary(one, step)

    def end(self, session: Session) -> None:
        """Close the file: what was written is there."""
        self.writer.close()


class NanLossDuringTrainingError(GraphError):
    """The loss is not a number any more."""


class NanTensorHook(SessionRunHook):
    """Fails, or only ends training, once a value is NaN."""

    def __init__(self, loss_tensor: Node, fail_on_nan_loss: bool = True) -> None:
        self.loss, self.fails = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask for the value."""
        return SessionRunArgs(self.loss)

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Look at it.

        Raises:
            NanLossDuringTrainingError: it is NaN; names the node and its line.
        """
        if not np.isnan(run_values.results).any():
            return
        says = f"NanTensorHook: {self.loss.name!r} is NaN (built at {self.loss.location})."
        if self.fails:
            raise NanLossDuringTrainingError(f"{says} Try a lower learning rate.")
        logging.error(says)
        run_context.request_stop()


class FeedFnHook(SessionRunHook):
    """Feeds what a function returns to every run."""

    def __init__(self, feed_fn: Callable[[], Mapping[Any, Any]]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs:
        """Ask the function."""
        return SessionRunArgs(None, self.feed_fn())


class FinalOpsHook(SessionRunHook):
    """Runs something once more at the end; `final_ops_values` is what it gave."""

    def __init__(
        self, final_ops: Any, final_ops_feed_dict: Mapping[Any, Any] | None = None
    ) -> None:
        self.final_ops, self.feeds = final_ops, final_ops_feed_dict
        self.final_ops_values: Any = None

    def end(self, session: Session) -> None:
        """Run it."""
        self.final_ops_values = session.run(self.final_ops, self.feeds)
