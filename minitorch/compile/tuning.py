"""Tuning: a search over the schedules of a task, trial by trial, and what it found.

May import: errors, tasks, schedule, spaces, searches, trials, trial_log.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ArgumentError, CompileError
from . import engine, trial_log
from .schedule import Schedule
from .searches import SEARCHES, State
from .spaces import Point, Space
from .tasks import Task, task_of
from .trials import Clock

BATCH = 8  # trials between two fits of the model


@dataclass(frozen=True)
class Tuned:
    """What a search found.

    Attributes:
        best: the fastest schedule tried.
        seconds: what it took.
        history: points and seconds, in the order tried; those of the log come first.
        skipped: why lines of the logs were not used.
    """

    best: Schedule
    seconds: float
    history: list[tuple[Point, float]]
    skipped: tuple[str, ...] = ()

    def curve(self) -> list[float]:
        """Return the best seconds after each trial."""
        least, found = math.inf, []
        for _, seconds in self.history:
            least = min(least, seconds)
            found.append(least)
        return found


def tune(
    task: Task | Sequence[object],
    trials: int = 64,
    search: str = "learned",
    measure: Callable[[Point], float] | None = None,
    seed: int = 0,
    log: str | os.PathLike[str] | None = None,
    start_from: str | os.PathLike[str] | None = None,
    *,
    space: Space | None = None,
) -> Tuned:
    """Return the best of so many schedules, each measured once its result is known to be right.

    Args:
        task: ("matmul", m, n, k) or ("conv2d", n, c, h, w, o, kh, kw, stride, padding).
        trials: how many schedules are tried, those in the log included.
        search: "learned", "genetic", "annealing" or "random".
        measure: gives the seconds of a point, in place of this machine's clock.
        log: a JSONL file, added to after each trial; what it holds is not measured again.
        start_from: the log of another shape, from which the model knows something already.
        space: other points than `minitorch.compile.space(task)`.
    Raises:
        ArgumentError: arguments that cannot be; a measurement that is no number above zero.
        CompileError: there is no llvmlite here, and no `measure`.
    """
    task = task_of(task)
    propose = _checked(search, trials)
    space = space or Space(task)
    on = "" if space.device == "cpu" else space.device
    before, skipped = _transferred(task, start_from, on)
    state = State(space, seed, before)
    if log is not None and Path(log).exists():
        known = trial_log.read(log, task.operator, task, on)
        skipped += known.skipped
        for trial in known.trials:
            state.add(trial.point, trial.seconds)
    measure = measure or _clock(space)
    while len(state.history) < trials and len(state.untried()):
        for number in propose(state, min(BATCH, trials - len(state.history))):
            point = dict(state.points[number])
            seconds = _seconds(measure, point)
            if log is not None:
                trial_log.append(log, task, point, seconds, on)
            state.add(point, seconds)
    best, least = min(state.history, key=lambda trial: trial[1])
    return Tuned(space.schedule(task, best), least, state.history, tuple(skipped))


def _checked(search: str, trials: int) -> Callable[[State, int], list[int]]:
    if search not in SEARCHES:
        raise ArgumentError(f"tune: got search {search!r}, expected one of {tuple(SEARCHES)}.")
    if isinstance(trials, bool) or not isinstance(trials, int) or trials < 1:
        raise ArgumentError(f"tune: got {trials!r} trials, expected a whole number of 1 or more.")
    return SEARCHES[search]


def _transferred(task: Task, path: Any, on: str) -> tuple[list[tuple[Point, float]], list[str]]:
    """Return the trials of other shapes, as if this one did its arithmetic at the same speed."""
    if path is None:
        return [], []
    found = trial_log.read(path, task.operator, on=on)
    return [(t.point, t.seconds / t.task.flops * task.flops) for t in found.trials], found.skipped


def _clock(space: Space) -> Callable[[Mapping[str, Any]], float]:
    if space.device != "cpu":
        raise CompileError("tune: this clock is the processor's. Give `measure=` for a device.")
    if not engine.available():
        raise CompileError(
            "tune: there is nothing to measure without llvmlite: NumPy computes every schedule. "
            "Install minitorch's extra 'compile', or give `measure=`."
        )
    return Clock(space.task)


def _seconds(measure: Callable[[Point], float], point: Point) -> float:
    try:
        seconds = float(measure(dict(point)))
    except (TypeError, ValueError) as error:
        raise ArgumentError(f"tune: measure({point}) gave no number: {error}.") from error
    if not seconds > 0:
        raise ArgumentError(f"tune: measure({point}) gave {seconds}, expected seconds above zero.")
    return seconds
