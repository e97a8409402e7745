"""Tuning: a search over the schedules of a task, trial by trial, and what it found.

A log has a line of JSON a trial, which a later search goes on from and another shape uses:

    {"task": ["matmul", 512, 512, 512], "point": {"rows": 8, ...}, "seconds": 0.0024,
     "processor": "znver4"}

Lines are only added, each in one write. What cannot be used is left where it is and said: a line of
another task or processor, a damaged one, the last one of a search that was cut off.

Of several runs of a trial the least counts: whatever interrupts a run makes it longer. A candidate
that is three times as slow as the best is run once, or twice where it takes so little that
code which runs for the first time decides. Between candidates the same reference is timed;
where it takes longer than it did at its best, the machine is busy and the candidate is run again.

May import: errors, engine, tasks, schedule, products, spaces, searches.
"""

import json
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError, CompileError
from . import engine
from .products import ProductKernel, by_numpy
from .schedule import NAIVE, Schedule
from .searches import SEARCHES, State
from .spaces import Point, Space, Trial, by_their_mean, recorded_trials
from .tasks import Task, task_of

_say = logging.getLogger("minitorch.compile")
PathLike = str | os.PathLike[str]
STOP = 3.0  # times the best: the search learns nothing from how slow a slow one is
COLD = 1e-3  # seconds that a kernel's first run may take more than its others
BUSY = 1.25  # times its best, of the reference
TOLERANCE = {"float32": 1e-4, "float64": 1e-11}
BATCH = 2  # trials between two fits of the model


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
        least, curve = math.inf, []
        for _, seconds in self.history:
            least = min(least, seconds)
            curve.append(least)
        return curve


def tune(
    task: Task | Sequence[object],
    trials: int = 64,
    search: str = "learned",
    measure: Callable[[Point], float] | None = None,
    seed: int = 0,
    log: PathLike | None = None,
    start_from: PathLike | tuple[()] | None = None,
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
        start_from: the log of other shapes, from which the model knows something already; unless
            given the recorded tables of other shapes, and with `()` nothing.
        space: other points than `minitorch.compile.space(task)`.
    Raises:
        ArgumentError: arguments that cannot be; a measurement that is no number above zero.
        CompileError: there is no llvmlite here, and no `measure`.
    """
    task = task_of(task)
    propose = _find_search(search, trials)
    space = space or Space(task)
    on = "" if space.device == "cpu" else space.device
    before, skipped = _read_earlier_trials(task, start_from, seed, on)
    state = State(space, seed, before)
    if log is not None and Path(log).exists():
        logged, why = read(log, task.operator, task, on)
        skipped += why
        for trial in logged:
            state.add(trial.point, trial.seconds)
    measure = measure or _clock(space)
    while len(state.history) < trials and len(state.list_untried()):
        for number in propose(state, min(BATCH, trials - len(state.history))):
            point = dict(state.points[number])
            seconds = _seconds(measure, point)
            if log is not None:
                append(log, task, point, seconds, on)
            state.add(point, seconds)
    best, least = min(state.history, key=lambda trial: trial[1])
    return Tuned(space.schedule(task, best), least, state.history, tuple(skipped))


def _find_search(search: str, trials: int) -> Callable[[State, int], list[int]]:
    if search not in SEARCHES:
        raise ArgumentError(f"tune: got search {search!r}, expected one of {tuple(SEARCHES)}.")
    if isinstance(trials, bool) or not isinstance(trials, Integral) or trials < 1:
        raise ArgumentError(f"tune: got {trials!r} trials, expected a whole number of 1 or more.")
    return SEARCHES[search]


def _read_earlier_trials(
    task: Task, source: PathLike | tuple[()] | None, seed: int, on: str
) -> tuple[list[Trial], list[str]]:
    """Return trials of other shapes, each shape's seconds by their mean, and what was skipped."""
    if source is None:
        return ([] if on else [t for t in recorded_trials(seed) if t.task != task]), []
    if source == ():
        return [], []
    if not isinstance(source, str | os.PathLike):
        raise ArgumentError(f"tune: got start_from={source!r}, expected the path of a log, or ().")
    trials, skipped = read(source, task.operator, on=on)
    trials = [trial for trial in trials if math.isfinite(trial.seconds)]
    shapes = dict.fromkeys(trial.task for trial in trials)
    return [
        trial for shape in shapes for trial in by_their_mean([t for t in trials if t.task == shape])
    ], skipped


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


# Trials


class Clock:
    """Measures points of one task: seconds of the fastest of several runs.

    Attributes:
        best: the least seconds so far.
    """

    def __init__(self, task: Task, repeats: int = 5, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.task, self.repeats, self.best = task, repeats, math.inf
        shapes = task.operand_shapes
        a, b = (rng.normal(size=shape).astype(task.dtype) for shape in shapes)
        self.arrays = (a, b)
        self.right = np.ascontiguousarray(by_numpy(task, *self.arrays))
        self.out = np.empty_like(self.right)
        side = np.asarray(rng.normal(size=(192, 192)), np.float32)
        into = np.empty_like(side)
        self._reference: Callable[[], Any] = lambda: np.multiply(side, side, out=into)
        self._quiet = min(_time(self._reference) for _ in range(20))

    def __call__(self, point: Mapping[str, Any]) -> float:
        """Return the seconds of one point.

        Raises:
            CompileError: the kernel's result is wrong, which is a mistake here.
        """
        kernel = ProductKernel(self.task, point)
        return self.of(self.computing_with(kernel), point)

    def computing_with(self, kernel: ProductKernel) -> Callable[[], Any]:
        """Return what computes the task: a convolution's result lies as the kernel likes it."""
        a, b = self.arrays
        out = self.out if self.task.operator == "matmul" else None
        return lambda: kernel(a, b, out=out)

    def compute_with_numpy(self) -> Any:
        """Return what NumPy's BLAS computes."""
        return by_numpy(self.task, *self.arrays, out=self.out)

    def of(self, run: Callable[[], Any], what: object = "the reference") -> float:
        """Return the seconds of a function that gives this task's result."""
        seconds = self.once(run, what)
        if seconds < STOP * self.best + COLD:
            seconds = min(seconds, _time(run))
        if seconds < STOP * self.best:
            seconds = min(seconds, *self._runs(run))
        self.best = min(self.best, seconds)
        return seconds

    def once(self, run: Callable[[], Any], what: object = "the reference") -> float:
        """Return the seconds of one run whose result is right."""
        self.out.fill(np.nan)
        began = time.perf_counter()
        result = run()
        seconds = time.perf_counter() - began
        scale = float(np.abs(self.right).max()) or 1.0
        wrong = float(np.abs(result - self.right).max()) / scale
        if not wrong < TOLERANCE[self.task.dtype]:
            raise CompileError(
                f"tune: the kernel of {self.task} is off by {wrong:.2g} of the largest element, "
                f"with {what}. This is a mistake here."
            )
        return seconds

    def _runs(self, run: Callable[[], object]) -> list[float]:
        """Run some times more, and again where the machine was busy meanwhile."""
        times = []
        for _ in range(3):
            for _ in range(self.repeats):
                times.append(_time(run))
            now = min(_time(self._reference) for _ in range(3))
            self._quiet = min(self._quiet, now)
            if now < BUSY * self._quiet:
                break
        return times


def _time(run: Callable[[], object]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


# Logs


def read(
    path: PathLike, operator: str, task: Task | None = None, on: str = ""
) -> tuple[list[Trial], list[str]]:
    """Return the trials of one operator in a log, of one task or of all, and what was skipped.

    Args:
        on: the processor they were measured on; this one unless given.
    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    trials: list[Trial] = []
    whys: dict[int, str] = {}
    lines = Path(path).read_bytes().decode("utf-8", errors="replace").splitlines()
    for number, line in enumerate(lines, 1):
        trial = _parse_trial(line, operator, task, on or engine.processor()) if line.strip() else ""
        if isinstance(trial, Trial):
            trials.append(trial)
        elif trial:
            whys[number] = trial
    for why, count in Counter(whys.values()).items():
        _say.warning("tune: %s: %d lines are skipped: %s", path, count, why)
    return trials, [f"line {number} is skipped: {why}" for number, why in whys.items()]


def _parse_trial(line: str, operator: str, wanted: Task | None, on: str) -> Trial | str:
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
    path: PathLike, task: Task, point: Mapping[str, object], seconds: float, on: str = ""
) -> None:
    """Add a line, on a new one even after a line that was cut off."""
    entry = {"task": task.key, "point": dict(point), "seconds": seconds}
    entry["processor"] = on or engine.processor()
    file = Path(path)
    old = file.read_bytes() if file.exists() else b""
    torn = old and not old.endswith(b"\n")
    with file.open("ab") as more:
        more.write((b"\n" if torn else b"") + json.dumps(entry).encode() + b"\n")
