"""What was tuned, kept for this processor, and used where it was measured to be faster.

`keep(tune(task))` times the best schedule and NumPy's way in turns and adds a line to a table in a
directory of the user's, a file a processor; operator, shape and dtype are the line's key, the last
line counts. `kernel_for` gives the kernel of a task where its time was the smaller one. Nothing is
tuned unless somebody asks, and without a table nothing is looked for but the directory.

May import: engine, tasks, schedule, products, tuning.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from . import engine
from .products import ProductKernel
from .schedule import NAIVE, Schedule
from .tasks import ITEM_BYTES, Task, task_of
from .tuning import Clock, Tuned

TURNS = 15
TURNED = ("a", "b", "ab")
"""Operands of a product that lie as transposes: a kernel packs them in another time."""

Times = tuple[float, float]
"""Seconds of a kernel, and of NumPy's way."""


class Kept(NamedTuple):
    """A schedule of the table.

    Attributes:
        point: the schedule.
        seconds: of its kernel.
        library_seconds: of NumPy's way, in turns with it.
        turned: of a product both times where operands lie as transposes, by `TURNED`.
    """

    point: dict[str, Any]
    seconds: float
    library_seconds: float
    turned: dict[str, Times]


class TunedTable:
    """The table of this process: where it lies, what it held when it was read, and the kernels."""

    def __init__(self) -> None:
        self.directory = _home() / ".cache" / "minitorch" / "tuned"
        self.forget()

    def forget(self) -> None:
        """Read the table again when it is next asked for."""
        self.entries: dict[Task, Kept] | None = None
        self.kernels: dict[tuple[Task, str | None], ProductKernel] = {}

    @property
    def path(self) -> Path:
        """The table of this processor."""
        return self.directory / f"{engine.processor()}.jsonl"

    def table(self) -> dict[Task, Kept]:
        """Return what is kept; lines that cannot be used are passed over."""
        if self.entries is None:
            there = self.directory.is_dir() and engine.available() and self.path.is_file()
            lines = self.path.read_text(errors="replace").splitlines() if there else []
            self.entries = dict(filter(None, map(_parsed, lines)))
        return self.entries


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # an account without a home
        return Path("/nonexistent")


def _parsed(line: str) -> tuple[Task, Kept] | None:
    try:
        entry = json.loads(line)
        task, point = task_of(entry["task"]), dict(entry["point"])
        turned = {k: (float(a), float(b)) for k, (a, b) in entry.get("turned", {}).items()}
        kept = Kept(point, float(entry["seconds"]), float(entry["library_seconds"]), turned)
        return None if Schedule.fault(task, NAIVE | point) else (task, kept)
    except (ValueError, KeyError, TypeError):
        return None


_shelf = TunedTable()


def set_cache_directory(directory: str | Path) -> None:
    """Keep tuned schedules in another directory, and take them from there."""
    _shelf.directory = Path(directory)
    _shelf.forget()


def get_cache_directory() -> Path:
    """Return the directory where tuned schedules are kept."""
    return _shelf.directory


def keep(found: Tuned) -> Kept:
    """Add what `tune` found to the table of this processor, with NumPy's time beside it.

    Raises:
        CompileError: there is no llvmlite here; or the kernel's result is wrong.
        OSError: the directory cannot be written to.
    """
    entry = measured(found.best)
    _shelf.directory.mkdir(parents=True, exist_ok=True)
    line = {"task": found.best.task.key, **entry._asdict()}
    with _shelf.path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    _shelf.forget()
    return entry


def measured(schedule: Schedule) -> Kept:
    """Return medians of a schedule's kernel and of NumPy's way, which take turns."""
    clock, kernel = Clock(schedule.task), ProductKernel(schedule.task, schedule)
    a, b = clock.arrays
    seconds, library_seconds = _in_turns(clock, kernel)
    turned = {}
    for lies in TURNED if schedule.task.operator == "matmul" else ():
        turned_a, turned_b = (np.asfortranarray(x) for x in (a, b))
        clock.arrays = (turned_a if "a" in lies else a, turned_b if "b" in lies else b)
        turned[lies] = _in_turns(clock, kernel)
    point = {k: v for k, v in schedule.items() if v != NAIVE[k]}
    return Kept(point, seconds, library_seconds, turned)


def _in_turns(clock: Clock, kernel: ProductKernel) -> Times:
    times: list[list[float]] = [[], []]
    for _ in range(TURNS):
        for kept, run in zip(
            times, (clock.computing_with(kernel), clock.compute_with_numpy), strict=True
        ):
            kept.append(clock.once(run))
    own, library = map(statistics.median, times)
    return own, library


def any_kept() -> bool:
    """Tell whether this process has a table with anything in it."""
    return bool(_shelf.table())


def times_of(task: Task | Sequence[object], turned: str = "") -> Times | None:
    """Return what a task's kernel and NumPy took, where the kernel took less."""
    kept = _shelf.table().get(task_of(task))
    if kept is None:
        return None
    times = kept.turned.get(turned) if turned else (kept.seconds, kept.library_seconds)
    return times if times and times[0] < times[1] else None


def kernel_for(
    task: Task | Sequence[object], epilogue: str | None = None, turned: str = ""
) -> ProductKernel | None:
    """Return the tuned kernel of a task where it was faster than NumPy; None otherwise.

    Args:
        epilogue: what the kernel does at the end; the measured times are those without.
        turned: which operands of a product lie as transposes: "", "a", "b" or "ab".
    """
    task = task_of(task)
    if times_of(task, turned) is None:
        return None
    known = (task, epilogue)
    if known not in _shelf.kernels:
        _shelf.kernels[known] = ProductKernel(task, _shelf.table()[task].point, epilogue)
    return _shelf.kernels[known]


def convolution(
    x: Any, w: Any, stride: Sequence[int], padding: Sequence[int], epilogue: str | None = None
) -> ProductKernel | None:
    """Return the tuned kernel for the convolution of such arrays, if it is one and pays."""
    sizes, square = (*x.shape, *w.shape), len({*stride}) == len({*padding}) == 1
    if not any_kept() or len(x.shape) != 4 or x.dtype != w.dtype or not square:
        return None
    if x.dtype.name not in ITEM_BYTES or None in sizes or 0 in sizes:
        return None
    key = (*x.shape, w.shape[0], *w.shape[2:], stride[0], padding[0])
    return kernel_for(Task("conv2d", key, x.dtype.name), epilogue)
