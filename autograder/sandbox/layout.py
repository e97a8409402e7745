"""What of this machine a sandboxed process sees: its interpreter, its packages, nothing else.

Never the project's own folder: labs, checks, solutions and tests stay outside. Of `autograder` the
worker's own files go in, one by one; the course's packages are its neighbours.
"""

import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path

COURSE = ("minitorch", "ddp_lab", "lessons")
COURSE_AT, WORKER_AT = "/course", "/judge"
# Where a worker mounts scratch space of its own; what stands there outside is seen elsewhere.
SCRATCH, ELSEWHERE = ("/tmp", "/dev/shm"), "/elsewhere"
WORKER_FILES = (
    *("__init__", "errors", "records", "plain"),
    *("student/__init__", "student/protocol", "student/local", "student/local_ranks"),
    "student/withheld",
    *("learner/__init__", "learner/earlier", "learner/predictions"),
    *("sandbox/__init__", "sandbox/wire", "sandbox/worker", "sandbox/endpoint"),
    "sandbox/zygote",
)


@dataclass(frozen=True)
class Layout:
    """`mounts` are (outside, inside), read-only, in order; outside None covers what is there."""

    python: str
    mounts: tuple[tuple[str | None, str], ...]
    path: tuple[str, ...]  # for sys.path, before the standard library's own entries


def find() -> Layout:
    """Return the layout for this interpreter."""
    # The interpreter is named by its real file, so that it finds its own standard library.
    python = os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)
    prefix = Path(os.path.realpath(sys.base_prefix))
    library = [prefix / "lib", prefix / "lib64", Path(python)]
    sites = site_folders()
    seen = {p: None for p in (*library, *sites) if p.exists() and not p.is_relative_to("/usr")}
    roots = [p for p in seen if not any(p.is_relative_to(other) for other in seen if other != p)]
    ours = Path(__file__).resolve().parent.parent
    neighbours = [ours.parent / name for name in COURSE]
    course = [(str(p), f"{COURSE_AT}/{p.name}") for p in neighbours if p.is_dir()]
    worker = [(f"{ours}/{f}.py", f"{WORKER_AT}/autograder/{f}.py") for f in WORKER_FILES]
    hidden = cover([Path("/usr"), *roots], ours)
    back = [p for p in sites if any(p.is_relative_to(c) for c in hidden)]
    mounts = (
        *((str(p), inside(p)) for p in roots),
        *((None, inside(p)) for p in hidden),
        *((str(p), inside(p)) for p in back),
    )
    path = (WORKER_AT, COURSE_AT, *map(inside, sites))
    return Layout(inside(python), (*mounts, *course, *worker), path)


def inside(path: Path | str) -> str:
    """Return where a file of this machine is seen inside."""
    return f"{ELSEWHERE}{path}" if any(Path(path).is_relative_to(s) for s in SCRATCH) else str(path)


def original(path: str) -> str:
    """Return which file of this machine is seen as `path` inside; undoes `inside`."""
    return path.removeprefix(ELSEWHERE)


def site_folders() -> list[Path]:
    """Return the folders of `sys.path` that hold installed packages, NumPy's among them."""
    named = [Path(p) for p in sys.path if Path(p).name in ("site-packages", "dist-packages")]
    numpy = importlib.util.find_spec("numpy")
    packages = list(numpy.submodule_search_locations or ()) if numpy is not None else []
    folders = [*named, *(Path(package).resolve().parent for package in packages[:1])]
    return list(dict.fromkeys(p.resolve() for p in folders if p.is_dir()))


def cover(visible: list[Path], ours: Path) -> list[Path]:
    """Return the folders of the judge that would be seen with `visible`, to be covered."""
    installed = ours.parent.name in ("site-packages", "dist-packages")
    judges = [ours, ours.parent / "labs"] if installed else [ours.parent]
    return [j for j in judges if j.is_dir() and any(j.is_relative_to(v) for v in visible)]
