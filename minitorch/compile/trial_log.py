"""Logs of trials: a line of JSON each, which a later search goes on from and another shape uses.

    {"task": ["matmul", 512, 512, 512], "point": {"rows": 8, ...}, "seconds": 0.0024,
     "processor": "znver4"}

Lines are only added, each in one write. What cannot be used is left where it is and said: a line of
another task or processor, a damaged one, the last one of a search that was cut off.

May import: errors, tasks, schedule, engine.
"""

from __future__ import annotations

import json
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .engine import processor
from .schedule import NAIVE, Schedule
from .tasks import Task, task_of

_say = logging.getLogger("minitorch.compile")


class Trial(NamedTuple):
    """A point that was measured."""

    task: Task
    point: dict[str, Any]
    seconds: float


class Contents(NamedTuple):
    """What a log holds: the trials that can be used, and why other lines cannot."""

    trials: list[Trial]
    skipped: list[str]


def read(
    path: str | os.PathLike[str], operator: str, task: Task | None = None, on: str = ""
) -> Contents:
    """Return the trials of one operator in a log, of one task or of all; say what was skipped.

    Args:
        on: the processor they were measured on; this one unless given.
    Raises:
        OSError: there is no such file, or it cannot be read.
    """
    found, alike = Contents([], []), dict[str, list[str]]()
    text = Path(path).read_bytes().decode("utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        trial = _parsed(line, operator, task, on or processor())
        if isinstance(trial, Trial):
            found.trials.append(trial)
        else:
            found.skipped.append(f"line {number} is skipped: {trial}")
            alike.setdefault(trial, []).append(found.skipped[-1])
    for first, *others in alike.values():
        more = f" (and {len(others)} more)" if others else ""
        _say.warning("tune: %s: %s%s", path, first, more)
    return found


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
    entry["processor"] = on or processor()
    with Path(path).open("ab+") as file:
        torn = False
        if file.tell():
            file.seek(-1, os.SEEK_END)
            torn = file.read(1) != b"\n"
        file.write((b"\n" if torn else b"") + json.dumps(entry).encode() + b"\n")
