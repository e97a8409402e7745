"""Recorded tables: what every schedule of a space took on one machine, for searches to replay.

A search on a table takes a second and is the same for everybody.

May import: errors, tasks, spaces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ArgumentError
from .spaces import Point, Space
from .tasks import Task, task_of

FOLDER = Path(__file__).parent / "recorded"


class Table:
    """The seconds of every point of a space; called with a point it is what `tune` measures by.

    Attributes:
        space: its points, in the order of `seconds`.
        seconds: one number a point.
        processor: where they were measured.
        blas_seconds: what the BLAS of NumPy took there.
    """

    def __init__(self, entry: Mapping[str, Any]) -> None:
        self.space = Space(task_of(entry["task"]), entry["knobs"])
        self.seconds = np.array(entry["microseconds"], float) * 1e-6
        self.processor = str(entry["processor"])
        self.blas_seconds = float(entry["blas_microseconds"]) * 1e-6

    def __repr__(self) -> str:
        return f"Table({self.space.task}: {len(self.seconds):,} points on {self.processor})"

    def __call__(self, point: Mapping[str, Any]) -> float:
        """Return what a point took.

        Raises:
            ArgumentError: the point is none of the table's.
        """
        number = self.space.number_of(point)
        if number is None:
            raise ArgumentError(f"table: {dict(point)} is none of its points.")
        return float(self.seconds[number])

    @property
    def task(self) -> Task:
        """What the schedules compute."""
        return self.space.task

    @property
    def best(self) -> Point:
        """The fastest point."""
        return self.space.points()[int(self.seconds.argmin())]


def recorded_tasks() -> list[tuple[object, ...]]:
    """Return the tasks that there are tables of."""
    return [tuple(json.loads(path.read_text())["task"]) for path in sorted(FOLDER.glob("*.json"))]


def recorded(task: Task | Sequence[object]) -> Table:
    """Return the table of a task.

    Raises:
        ArgumentError: there is none; says of which tasks there are.
    """
    path = FOLDER / ("_".join(map(str, task_of(task).key)) + ".json")
    if not path.exists():
        raise ArgumentError(
            f"recorded: there is no table of {task_of(task)}, but of {recorded_tasks()}."
        )
    return Table(json.loads(path.read_text()))
