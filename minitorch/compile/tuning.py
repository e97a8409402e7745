"""Tuning: a search over the schedules of a task, trial by trial, and what it found.

A log has a line of JSON a trial, which a later search goes on from and another shape uses:

    {"task": ["matmul", 512, 512, 512], "point": {"rows": 8, ...}, "seconds": 0.0024,
     "processor": "znver4"}

Lines are only added, each in one write. What cannot be used is left where it is and said: a line of
another task or processor, a damaged one, the last one of a search that was cut off.

May import: errors, engine, tasks, schedule, spaces, searches, trials.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ArgumentError, CompileError
from . import engine
from .schedule import NAIVE, Schedule
from .searches import SEARCHES, State
from .spaces import Point, Space
from .tasks import Task, task_of
from .trials import Clock

_say = logging.getLogger("minitorch.compile")
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
        known, why = read(log, task.operator, task, on)
        skipped += why
        for trial in known:
            state.add(trial.point, trial.seconds)
    measure = measure or _clock(space)
    while len(state.history) < trials and len(state.untried()):
        for number in propose(state, min(BATCH, trials - len(state.history))):
            point = dict(state.points[number])
            seconds = _seconds(measure, point)
            if log is not None:
                append(log, task, point, seconds, on)
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
    found, skipped = read(path, task.operator, on=on)
    return [(t.point, t.seconds / t.task.flops * task.flops) for t in found], skipped


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


# Logs


class Trial(NamedTuple):
    """A point that was measured."""

    task: Task
    point: dict[str, Any]
    seconds: float


def read(
    path: str | os.PathLike[str], operator: str, task: Task | None = None, on: str = ""
) -> tuple[list[Trial], list[str]]:
    """Return the trials of one operator in a log, of one task or of all, and what was skipped.

    Args:
        on: the processor they were measured on; this one unless given.
    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    found: list[Trial] = []
    whys: dict[int, str] = {}
    lines = Path(path).read_bytes().decode("utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        trial = _parsed(line, operator, task, on or engine.processor()) if line.strip() else ""
        if isinstance(trial, Trial):
            found.append(trial)
        elif trial:
            whys[number] = trial
    for why, count in Counter(whys.values()).items():
        _say.warning("tune: %s: %d lines are skipped: %s", path, count, why)
    return found, [f"line {number} is skipped: {why}" for number, why in whys.items()]


def _parsed(line: str, operator: str, wanted: Task | None, on: str) -> Trial | str:
    """Return the trial of a line, or why it is of no use here."""
    try:
        entry = json.loads(line)
        task, point = task_of(entry["task"]), dict(entry["point"])
        seconds, measured_on = float(entry["seconds"]), entry["processor"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "it is damaged"
    if task.operator != operator or (wanted is not None and task != wanted):
        return f"it is of another task, {task}"
    if measured_on != on:
        return f"it was measured on {measured_on}, and this is {on}"
    why = Schedule.fault(task, NAIVE | point)
    if why:
        return f"its schedule is illegal: {why}"
    if not seconds > 0 or math.isnan(seconds):
        return f"it says {seconds} seconds"
    return Trial(task, point, seconds)


def append(
    path: str | os.PathLike[str],
    task: Task,
    point: Mapping[str, object],
    seconds: float,
    on: str = "",
) -> None:
    """Add a line, on a new one even after a line that was cut off."""
    entry = {"task": task.key, "point": dict(point), "seconds": seconds}
    entry["processor"] = on or engine.processor()
    file = Path(path)
    old = file.read_bytes() if file.exists() else b""
    torn = old and not old.endswith(b"\n")
    with file.open("ab") as more:
        more.write((b"\n" if torn else b"") + json.dumps(entry).encode() + b"\n")
