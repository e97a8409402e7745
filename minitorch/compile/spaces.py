"""Spaces: the schedules that a search chooses from, and recorded tables of what they took.

A space is a table of values a knob. A recorded one has what every schedule took on one machine: a
search on it takes a second and is the same for everybody.

May import: errors, threads, tasks, schedule.
"""

import functools
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..arrays.threads import get_num_threads
from ..errors import ArgumentError
from .schedule import plain, schedule_for
from .tasks import Task, task_of

Point = dict[str, Any]
FOLDER = Path(__file__).parent / "recorded"
STEP = 11  # of a table a search gets each 11th trial, which meets all values of all knobs


class Trial(NamedTuple):
    """A point that was measured."""

    task: Task
    point: Point
    seconds: float


MATMUL: dict[str, tuple[Any, ...]] = {
    "rows": (1, 2, 4, 8, 12, 16, 24, 32),
    "vectors": (1, 2, 4),
    "lanes": (1, 2, 4, 8, 16),
    "unroll": (1, 4),
    "tile_k": (2, 8, 32, 256),
    "pack_a": (False, True),
    "pack_b": (False, True),
}
BLOCKS: dict[str, tuple[Any, ...]] = {
    "rows": (1, 4, 8),
    "vectors": (1, 2),
    "lanes": (1, 2, 4),
    "unroll": (1, 8),
    "tile_m": (32, 64, 128),
    "tile_n": (32, 64, 128),
    "tile_k": (8, 16, 32),
    "order": ("mnk", "nmk"),
}
CONV2D = MATMUL | {"tile_k": (1, 9, 72, None)}
WIDE_BYTES = 2**20  # of a tile of B as wide as the matrix: more than the second cache keeps


class Space:
    """The points of a task: a value for each knob, those that are legal together.

    Attributes:
        task: the task.
        knobs: the values of each knob, by name.
        device: "cpu", or "cuda" for thread blocks.
        schedule: the class of its schedules.
    """

    def __init__(
        self,
        task: Task | Sequence[Any],
        knobs: Mapping[str, Sequence[Any]] | None = None,
        device: str = "cpu",
    ) -> None:
        self.task, self.device = task_of(task), device
        self.schedule = schedule_for(device)
        if knobs is None:
            knobs = _default(self.task) if device == "cpu" else BLOCKS
        self.knobs = {name: tuple(map(plain, values)) for name, values in knobs.items()}

    def __len__(self) -> int:
        return len(self._points)

    def __repr__(self) -> str:
        of = math.prod(map(len, self.knobs.values()))
        return f"Space({self.task}: {len(self):,} legal points of {of:,})"

    @cached_property
    def _points(self) -> list[Point]:
        every = itertools.product(*self.knobs.values())
        points = (dict(zip(self.knobs, values, strict=True)) for values in every)
        left_out = self.schedule.complete_alike(tuple(self.knobs))
        if left_out is None:
            return [point for point in points if self.legal(point)]
        task, fault = self.task, self.schedule.fault
        return [point for point in points if fault(task, left_out | point) is None]

    def points(self) -> list[Point]:
        """Return the legal points, each a dict of knob to value, always in the same order."""
        return [dict(point) for point in self._points]

    @cached_property
    def _numbers(self) -> dict[tuple[object, ...], int]:
        return {_key(point): i for i, point in enumerate(self._points)}

    def number_of(self, point: Mapping[str, object]) -> int | None:
        """Return the place of a point among `points()`; None if it is not among them."""
        return self._numbers.get(_key(point))

    def legal(self, point: Mapping[str, object]) -> bool:
        """Tell whether a point is a schedule of this task; it need not be in the space."""
        if not isinstance(point, Mapping):
            return False
        return self.schedule.fault(self.task, self.schedule.complete(point)) is None


def _key(point: Mapping[str, object]) -> tuple[object, ...]:
    return tuple(sorted((knob, str(value)) for knob, value in point.items()))


def _default(task: Task) -> dict[str, tuple[object, ...]]:
    """Return the usual knobs; tiles of columns for wide matrices, threads where there are any."""
    _, n, k = task.axes
    knobs = dict(MATMUL if task.operator == "matmul" else CONV2D)
    if n * min(k, 256) * task.item_bytes > WIDE_BYTES:
        knobs |= {"tile_n": (256, None), "order": ("nkm", "mnk")}
    if get_num_threads() > 1:
        knobs["parallel"] = (1, get_num_threads())
    return knobs


def space(task: Task | Sequence[object], device: str = "cpu") -> Space:
    """Return the schedules among which `tune` searches; for "cuda", those of thread blocks.

    Raises:
        ArgumentError: no such task or device.
    """
    return Space(task, device=device)


class Table:
    """The seconds of every point of a space; called with a point it is what `tune` measures by.

    Attributes:
        task: what the schedules compute.
        space: its points, in the order of `seconds`.
        seconds: one number a point.
        processor: where they were measured.
        blas_seconds: what the BLAS of NumPy took there.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.space = Space(entry["task"], entry["knobs"])
        self.task = self.space.task
        self.seconds = np.array(entry["microseconds"], float) * 1e-6
        self.processor = str(entry["processor"])
        self.blas_seconds = float(entry["blas_microseconds"]) * 1e-6

    def trials(self) -> list[Trial]:
        """Return every point with its seconds."""
        pairs = zip(self.space.points(), self.seconds.tolist(), strict=True)
        return [Trial(self.task, point, seconds) for point, seconds in pairs]

    def __call__(self, point: Mapping[str, Any]) -> float:
        """Return what a point took.

        Raises:
            ArgumentError: the point is not in the table.
        """
        number = self.space.number_of(point)
        if number is None:
            raise ArgumentError(f"table: {dict(point)} is none of its points.")
        return float(self.seconds[number])


def recorded_trials(seed: int = 0) -> list[Trial]:
    """Return some trials of each table, each table's seconds by their mean."""
    tables = map(recorded, recorded_tasks())
    return [trial for t in tables for trial in by_their_mean(t.trials()[seed % STEP :: STEP])]


def by_their_mean(trials: Sequence[Trial]) -> list[Trial]:
    """Return trials of one task with seconds over their geometric mean, so that tasks compare."""
    logs = [math.log(trial.seconds) for trial in trials]
    mean = math.exp(sum(logs) / max(1, len(logs)))
    return [trial._replace(seconds=trial.seconds / mean) for trial in trials]


def recorded_tasks() -> list[tuple[Any, ...]]:
    """Return the tasks of which there is a table: layers of the course."""
    return [tuple(json.loads(p.read_text())["task"]) for p in sorted(FOLDER.glob("*.json"))]


@functools.cache
def _table(path: Path) -> Table:
    return Table(json.loads(path.read_text()))


def recorded(task: Task | Sequence[object]) -> Table:
    """Return the table of a task.

    Raises:
        ArgumentError: there is none; says of which tasks there are.
    """
    path = FOLDER / ("_".join(map(str, task_of(task).key)) + ".json")
    if not path.exists():
        there = recorded_tasks()
        raise ArgumentError(f"recorded: there is no table of {task_of(task)}, but of {there}.")
    return _table(path)
