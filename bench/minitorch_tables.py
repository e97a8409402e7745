"""Record tables of the course's layers: what every schedule of a task takes on this processor.

Every point is timed in two passes over all, so that a busy minute spoils no point twice; the least
counts. Writes a file a task to minitorch/compile/recorded, which `recorded(task)` reads; a table
that is there already is left. Run: python bench/minitorch_tables.py [FOLDER]
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
PASSES = 2


def record(task: tuple[object, ...], path: Path) -> None:
    """Time every schedule of a task and write its table."""
    clock, points = Clock(task_of(task)), space(task)
    library = min(clock.of(clock.compute_with_numpy) for _ in range(PASSES))
    seconds = [
        min(times)
        for times in zip(*([clock(p) for p in points.points()] for _ in range(PASSES)), strict=True)
    ]
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
