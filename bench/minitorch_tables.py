"""Record tables of the course's layers: what every schedule of a task takes on this processor.

The fast ones are timed again in a second pass, so that a busy minute spoils none twice. Writes a
file a task to minitorch/compile/recorded, which `recorded(task)` reads; a table that is there
already is left. Run: python bench/minitorch_tables.py [FOLDER]
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import json
import sys
from pathlib import Path

from minitorch.arrays.threads import set_num_threads
from minitorch.compile import engine, space
from minitorch.compile.spaces import FOLDER
from minitorch.compile.tasks import task_of
from minitorch.compile.tuning import Clock

TASKS: tuple[tuple[object, ...], ...] = (
    ("matmul", 128, 200, 784),  # the MLP's first two layers
    ("matmul", 128, 100, 200),
    ("conv2d", 64, 16, 4, 4, 32, 3, 3, 1, 1),  # the CNN's second, and its gradient
    ("conv2d", 64, 32, 4, 4, 16, 3, 3, 1, 1),
    ("conv2d", 1, 64, 28, 28, 64, 3, 3, 1, 1),  # one sample
    ("matmul", 768, 512, 128),  # the GPT's widest
)
NEAR = 2.0  # times the best: from there on it does not matter how slow one is


def record(task: tuple[object, ...], path: Path) -> None:
    """Time every schedule of a task and write its table."""
    clock, points = Clock(task_of(task)), space(task)
    library = min(clock.of(clock.compute_with_numpy) for _ in range(3))
    seconds = [clock(point) for point in points.points()]
    for i, point in enumerate(points.points()):
        if seconds[i] < NEAR * clock.best:
            seconds[i] = min(seconds[i], clock(point))
    table = {
        "task": list(task),
        "knobs": points.knobs,
        "processor": engine.processor(),
        "blas_microseconds": round(library * 1e6, 1),
        "microseconds": [round(s * 1e6, 1) for s in seconds],
    }
    path.write_text(json.dumps(table) + "\n")
    print(f"{task}: {len(seconds)} schedules, the best {min(seconds) / library:.2f} of BLAS")


def main(folder: Path) -> None:
    set_num_threads(1)
    for task in TASKS:
        path = folder / ("_".join(map(str, task)) + ".json")
        if not path.exists():
            record(task, path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
