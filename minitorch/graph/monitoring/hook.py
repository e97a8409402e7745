"""SessionRunHook: what is told of a monitored session's runs, and may add fetches or end it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...errors import GraphError
from ..queues.coordinator import Coordinator
from ..session import Session
from ..state import Variable
from ..train.averages import get_global_step


class SessionRunArgs(NamedTuple):
    """What a hook wants to have run beside the program's own fetches."""

    fetches: Any
    feed_dict: Mapping[Any, Any] | None = None
    options: Any = None


class SessionRunValues(NamedTuple):
    """What a hook's own fetches gave."""

    results: Any
    options: Any = None
    run_metadata: Any = None


class SessionRunContext:
    """A run, as hooks see it.

    Attributes:
        original_args: the fetches and feeds of the program.
        session: where it runs.
        stop_requested: whether a hook has asked to end.
    """

    def __init__(self, original_args: SessionRunArgs, session: Session) -> None:
        self.original_args, self.session = original_args, session
        self.stop_requested = False

    def request_stop(self) -> None:
        """End the session's loop: `should_stop` says so from now on."""
        self.stop_requested = True


class SessionRunHook:
    """Base of the hooks; each method may be left as it is."""

    def begin(self) -> None:
        """Build what is needed: the graph is still open."""

    def after_create_session(self, session: Session, coord: Coordinator) -> None:
        """Look at the session, whose variables have their values."""

    def before_run(self, run_context: SessionRunContext) -> SessionRunArgs | None:
        """Return what is to be run as well, or None."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: SessionRunValues) -> None:
        """Look at what came out."""

    def end(self, session: Session) -> None:
        """Finish: the loop ended without an error, and the session is still open."""


class SecondOrStepTimer:
    """Says when something that happens every so many steps, or seconds, is due."""

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if (every_secs is None) == (every_steps is None):
            raise GraphError(
                f"SecondOrStepTimer: got {every_secs} seconds and {every_steps} steps, expected "
                "one of them."
            )
        self.every_s, self.every_steps = every_secs, every_steps
        self.last: int | None = None
        self._then = 0.0

    def should_trigger_for_step(self, step: int) -> bool:
        """Tell whether it is due at this step."""
        if self.last is None:
            return True
        if step == self.last:
            return False
        if self.every_steps is not None:
            return step >= self.last + self.every_steps
        return time.monotonic() >= self._then + (self.every_s or 0.0)

    def update_last_triggered_step(self, step: int) -> None:
        """Take note that it has happened at this step."""
        self.last, self._then = step, time.monotonic()


def required_step(hook: SessionRunHook) -> Variable:
    """Return the variable that counts the steps.

    Raises:
        GraphError: the graph has none; names the hook.
    """
    found = get_global_step()
    if found is None:
        raise GraphError(
            f"{type(hook).__name__}: the graph counts no steps. Make the count with "
            "train.get_or_create_global_step(), and give it to minimize(global_step=...)."
        )
    return found
