"""Outside the wall: what a tree of processes uses in all, read off /proc, and its limits.

A limit of the kernel's is per process; a submission may be many. Where no memory cgroup can be
written this is the memory limit; it looks every `TICK_S` while the judge waits.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from autograder.errors import LimitReached
from autograder.records import MIB, Limits

TICK_S = 0.02  # at 5 GB/s of page faults, 100 MB past the limit; a look costs about 0.1 ms
MAX_FILES = 20_000
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _CUTIME, _CSTIME, _RSS = 11, 12, 13, 14, 21  # fields of stat after the name


Read = Callable[[Path], bytes]  # a seam: a process may end between the opening and the read


def descendants(pid: int, read: Read = Path.read_bytes) -> Iterator[int]:
    """Yield `pid` and every process below it that is there now."""
    waiting = [pid]
    while waiting:
        at = waiting.pop()
        yield at
        for task in tasks(at):
            with contextlib.suppress(OSError):
                waiting += map(int, read(task / "children").split())


def tasks(pid: int) -> list[Path]:
    """Return the folder of each thread of a process, none if it is gone."""
    with contextlib.suppress(OSError):
        return list(Path(f"/proc/{pid}/task").iterdir())
    return []


def stat(folder: Path, read: Read = Path.read_bytes) -> list[str]:
    """Return the state of a process or thread and what follows it; `X` alone if it is gone.

    A name, which the process chooses, may be any bytes.
    """
    with contextlib.suppress(OSError):
        return read(folder / "stat").rpartition(b")")[2].decode().split() or ["X"]
    return ["X"]


def running(pid: int, read: Read = Path.read_bytes) -> bool:
    """Return whether `pid` is there and is more than an entry that waits to be collected."""
    return stat(Path(f"/proc/{pid}"), read)[0] not in "ZX"


def usage(pid: int, read: Read = Path.read_bytes) -> tuple[int, float, int]:
    """Return resident bytes, CPU seconds and number of processes of the tree under `pid`."""
    resident, cpu, count = 0, 0.0, 0
    for process in descendants(pid, read):
        fields = stat(Path(f"/proc/{process}"), read)
        if len(fields) > _RSS:
            resident += int(fields[_RSS]) * PAGE_BYTES
            ticks = sum(int(fields[n]) for n in (_UTIME, _STIME, _CUTIME, _CSTIME))
            cpu += ticks / TICKS_PER_S
            count += 1
    return resident, cpu, count


def proportional(pid: int, read: Read = Path.read_bytes) -> int | None:
    """Return the tree's bytes with each shared page counted once, or None where unreadable."""
    total = 0
    for process in descendants(pid, read):
        try:
            lines = read(Path(f"/proc/{process}/smaps_rollup")).splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            return None
        total += sum(int(line.split()[1]) for line in lines if line.startswith(b"Pss:"))
    return total * 1024


def files(pid: int) -> int:
    """Return how many files the tree's temporary file systems hold, as far as they can be seen.

    Each costs memory of the kernel's that no size counts.
    """
    count = 0
    for place in ("tmp", "dev/shm"):
        with contextlib.suppress(OSError):
            inside = Path(f"/proc/{pid}/root/{place}")
            if inside.stat().st_dev != Path(f"/{place}").stat().st_dev:  # its own, not ours
                room = os.statvfs(inside)
                count += room.f_files - room.f_ffree
    return count


def check(pids: Sequence[int], limits: Limits) -> None:
    """Look once at the trees under `pids`, which make one submission.

    Raises:
        LimitReached: together they are over its memory, its CPU time, or `MAX_FILES`.
    """
    used = [usage(pid) for pid in pids]
    resident = sum(bytes_ for bytes_, _, _ in used)
    if resident > limits.memory_bytes:
        # Forked processes share pages, which the sum counts once for each.
        counted = [proportional(pid) for pid in pids]
        resident = resident if None in counted else sum(c or 0 for c in counted)
    if resident > limits.memory_bytes:
        at = limits.memory_bytes // MIB
        raise LimitReached("memory", f"ended by the memory limit ({at} MiB)")
    if sum(map(files, pids)) > MAX_FILES:
        raise LimitReached("memory", f"ended by the limit on files ({MAX_FILES})")
    if sum(cpu_s for _, cpu_s, _ in used) > limits.cpu_s:
        raise LimitReached("cpu", f"ended by the CPU time limit ({limits.cpu_s:g} s)")
