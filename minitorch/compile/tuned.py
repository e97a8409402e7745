"""What was tuned, kept for this processor, and used where it was measured to be faster.

`keep(tune(task))` times the best schedule and NumPy's way in turns and adds a line to a table in a
directory of the user's, a file a processor; operator, shape and dtype are the line's key, the last
line counts. `kernel_for` gives the kernel of a task where its time was the smaller one. Nothing is
tuned unless somebody asks, and without a table nothing is looked for but the directory.

May import: engine, tasks, schedule, products, tuning.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from . import engine
from .schedule import NAIVE, Schedule
from .tasks import ITEM_BYTES, Task, task_of

if TYPE_CHECKING:
    from .products import ProductKernel
    from .tuning import Tuned

TURNS = 15


class Kept(NamedTuple):
    """A schedule of the table.

    Attributes:
        point: the schedule.
        seconds: of its kernel.
        library_seconds: of NumPy's way, in turns with it.
    """

    point: dict[str, Any]
    seconds: float
    library_seconds: float


class TunedTable:
    """The table of this process: where it lies, what it held when it was read, and the kernels."""

    def __init__(self) -> None:
        self.directory = _home() / ".cache" / "minitorch" / "tuned"
        self.forget()

    def forget(self) -> None:
        """Read the table again when it is next asked for."""
        self.entries: dict[Task, Kept] | None = None
        self.kernels: dict[Task, ProductKernel] = {}

    @property
    def path(self) -> Path:
        """The table of this processor."""
        return self.directory / f"{engine.processor()}.jsonl"

    def table(self) -> dict[Task, Kept]:
        """Return what is kept; lines that cannot be used are passed over."""
        if self.entries is None:
            there = self.directory.is_dir() and engine.available() and self.path.is_file()
            lines = self.path.read_text(errors="replace").splitlines() if there else []
            self.entries = dict(filter(None, map(_parse_line, lines)))
        return self.entries


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # an account without a home
        return Path("/nonexistent")


def _parse_line(line: str) -> tuple[Task, Kept] | None:
    import json

    try:
        entry = json.loads(line)
        task, point = task_of(entry["task"]), dict(entry["point"])
        choice = Kept(point, float(entry["seconds"]), float(entry["library_seconds"]))
        return None if Schedule.fault(task, NAIVE | point) else (task, choice)
    except (ValueError, KeyError, TypeError):
        return None


_table = TunedTable()


def set_cache_directory(directory: str | Path) -> None:
    """Keep tuned schedules in another directory, and take them from there."""
    _table.directory = Path(directory)
    _table.forget()


def get_cache_directory() -> Path:
    """Return the directory where tuned schedules are kept."""
    return _table.directory


def keep(tuned: "Tuned") -> Kept:
    """Add what `tune` found to the table of this processor, with NumPy's time beside it.

    Raises:
        CompileError: there is no llvmlite here; or the kernel's result is wrong.
        OSError: the directory cannot be written to.
    """
    import json

    entry = measure_in_turns(tuned.best)
    _table.directory.mkdir(parents=True, exist_ok=True)
    line = {"task": tuned.best.task.key, **entry._asdict()}
    with _table.path.open("a") as file:
        file.write(json.dumps(line) + "\n")
    _table.forget()
    return entry


def measure_in_turns(schedule: Schedule) -> Kept:
    """Return medians of a schedule's kernel and of NumPy's way, which take turns."""
    import statistics

    from .products import ProductKernel
    from .tuning import Clock

    clock, kernel = Clock(schedule.task), ProductKernel(schedule.task, schedule)
    runs = (clock.computing_with(kernel), clock.compute_with_numpy)
    turns = [[clock.once(run) for run in runs] for _ in range(TURNS)]
    seconds, library_seconds = map(statistics.median, zip(*turns, strict=True))
    point = {k: v for k, v in schedule.items() if v != NAIVE[k]}
    return Kept(point, seconds, library_seconds)


def kernel_for(task: Task | Sequence[object]) -> "ProductKernel | None":
    """Return the tuned kernel of a task where it was faster than NumPy; None otherwise."""
    task = task_of(task)
    entry = _table.table().get(task)
    if entry is None or entry.seconds >= entry.library_seconds:
        return None
    if task not in _table.kernels:
        from .products import ProductKernel

        _table.kernels[task] = ProductKernel(task, entry.point)
    return _table.kernels[task]


def convolution(
    x: Any, w: Any, stride: Sequence[int], padding: Sequence[int]
) -> "ProductKernel | None":
    """Return the tuned kernel for the convolution of such arrays, if it is one and pays."""
    sizes, square = (*x.shape, *w.shape), len({*stride}) == len({*padding}) == 1
    if not _table.table() or len(x.shape) != 4 or x.dtype != w.dtype or not square:
        return None
    if x.dtype.name not in ITEM_BYTES or None in sizes or 0 in sizes:
        return None
    key = (*x.shape, w.shape[0], *w.shape[2:], stride[0], padding[0])
    return kernel_for(Task("conv2d", key, x.dtype.name))
