"""Record a table: measure every schedule of a task's space, in an order that can be cut off.

    python -m minitorch.compile.record matmul 512 512 512 --notes trials.txt -o table.json

Trials are noted as they are made, so that a second call goes on. When all are there, those near the
best are measured again, `--again` times, for the least of thousands is also the luckiest.

May import: engine, products, spaces, tasks, trials.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import products
from .engine import processor
from .spaces import Space
from .tasks import task_of
from .trials import Clock

NEAR = 1.35  # times the best: what is measured again
Notes = dict[int, list[float]]


def noted(path: Path) -> Notes:
    """Return what is noted: the seconds of each point, as often as it was measured."""
    found: Notes = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        number, seconds = json.loads(line)
        found.setdefault(number, []).append(seconds)
    return found


def missing(notes: Notes, count: int, again: int) -> Iterator[int]:
    """Give the points that are still to be measured: all in a drawn order, then those near."""
    yield from (int(i) for i in np.random.default_rng(0).permutation(count) if int(i) not in notes)
    for turn in range(2, again + 2):
        best = min(map(min, notes.values()))
        near = [i for i, found in notes.items() if min(found) < NEAR * best]
        yield from (i for i in near if len(notes[i]) < turn)


def main() -> None:
    """Measure until all is measured or the time is up."""
    parser = argparse.ArgumentParser(description="Records what every schedule of a task takes.")
    parser.add_argument("task", nargs="+", help="matmul M N K, or conv2d N C H W O KH KW S P")
    parser.add_argument("--notes", type=Path, required=True, help="trials made so far; added to")
    parser.add_argument("-o", "--out", type=Path, required=True, help="the table")
    parser.add_argument("--again", type=int, default=3, help="more measurements near the best")
    parser.add_argument("--limit-s", type=float, default=math.inf, help="stop after so long")
    given = parser.parse_args()
    task = task_of([given.task[0], *map(int, given.task[1:])])
    space, notes = Space(task), noted(given.notes)
    points, clock, began = space.points(), Clock(task), time.monotonic()
    clock.best = min(map(min, notes.values()), default=math.inf)
    with given.notes.open("a") as file:
        for number in missing(notes, len(points), given.again):
            if time.monotonic() - began > given.limit_s:
                print(f"{len(notes)} of {len(points)} points")
                return
            seconds = clock(points[number])
            products.code_for.cache_clear()
            notes.setdefault(number, []).append(seconds)
            file.write(json.dumps([number, seconds]) + "\n")
            file.flush()
    given.out.write_text(table(space, notes, clock))


def table(space: Space, notes: Notes, clock: Clock) -> str:
    """Return a table as text."""
    library = min(clock.once(clock.compute_with_numpy) for _ in range(50))
    entry: dict[str, Any] = {
        "task": space.task.key,
        "knobs": space.knobs,
        "processor": processor(),
        "blas_microseconds": round(library * 1e6, 1),
        "microseconds": [round(min(notes[i]) * 1e6, 1) for i in range(len(space))],
    }
    return json.dumps(entry) + "\n"


if __name__ == "__main__":
    main()
