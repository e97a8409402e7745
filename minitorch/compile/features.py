"""Features: schedules as rows of numbers, which is what a cost model sees.

`raw` has the knobs as they are, sizes as logarithms; `derived` adds what decides a kernel's time
and what a linear model could not make of the knobs by itself: arithmetic a load, live vectors
against registers, bytes against caches, the strides of what is not packed, work wasted at edges.

May import: schedule, tasks.
Source: Chen et al., NeurIPS 2018 (Learning to Optimize Tensor Programs), section 3.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .schedule import NAIVE, tiles_of
from .tasks import Task

_Array = np.ndarray[Any, Any]
Points = Sequence[Mapping[str, Any]]
WHOLE = 12.0  # the logarithm that stands for a tile of the whole axis
L1, L2, LINE = 32 * 2**10, 2**19, 64  # bytes: of usual caches, and of what they fetch at once


def raw(points: Points, knobs: Sequence[str]) -> _Array:
    """Return a row for each point; what is text has a column for each of its values."""
    columns: list[list[float]] = []
    for knob in knobs:
        values = [point.get(knob, NAIVE.get(knob)) for point in points]
        if not any(isinstance(v, str) for v in values):
            columns.append([_number(v) for v in values])
        elif knob == "order":  # which axis is outermost, and which innermost
            columns += [[v[at] == axis for v in values] for at in (0, 2) for axis in "mnk"]
        else:
            columns += [[v == kind for v in values] for kind in sorted({*map(str, values)})]
    return np.array(columns, float).T.reshape(len(points), len(columns))


def _number(value: Any) -> float:
    if value is None:
        return WHOLE
    if isinstance(value, bool):
        return float(value)
    return math.log2(value) if value > 0 else float(value)


def derived(points: Points, knobs: Sequence[str], task: Task) -> _Array:
    """Return the raw columns and those that are made from several knobs."""
    extra = np.array([_of(task, NAIVE | dict(point)) for point in points], float)
    return np.hstack([raw(points, knobs), extra.reshape(len(points), -1)])


def _of(task: Task, s: Mapping[str, Any]) -> list[float]:
    m, n, k = task.axes
    rows, vectors, lanes, item = s["rows"], s["vectors"], s["lanes"], task.item_bytes
    high, wide, depth = tiles_of(task, s)
    columns, block = vectors * lanes, rows * vectors
    width = min(lanes * item, LINE)
    spilled = max(0.0, block + vectors + 1 - 32)
    panels = (rows * depth * item, columns * depth * item, high * depth * item)
    waste = (-(-m // rows) * rows / m) * (-(-n // columns) * columns / n)
    return [
        math.log2(block),
        math.log2(min(block, 10)),  # sums that are under way at once hide the latency of one
        block / (rows + vectors),  # multiply-adds a load
        math.log2(rows * columns / (rows + columns)),
        math.log2(width),
        math.log2(block * lanes * s["unroll"]),
        spilled,
        float(spilled > 0),
        *(max(0.0, math.log2(p / L1)) for p in panels),
        max(0.0, math.log2(depth * wide * item / L2)),
        1.0 / depth + 1.0 / max(1, k),  # how often C goes through the caches
        float(not s["pack_a"]) * max(0.0, math.log2(k * item / LINE)),
        float(not s["pack_b"])
        * max(0.0, math.log2(n * item / LINE))
        / max(1, columns * item / LINE),
        float(s["pack_a"]) * (n / columns) ** -0.5,
        float(s["pack_b"]) * (m / rows) ** -0.5,
        math.log2(waste),
    ]
