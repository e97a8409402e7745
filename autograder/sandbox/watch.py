"""Outside the wall: a tree of processes, what it uses in all and its limits, by /proc; its core.

A limit of the kernel's is per process; a submission may be many. Where no memory cgroup can be
written this is the memory limit; it looks every `TICK_S` while the judge waits.

For timed questions a tree is kept to one core (`pinned`), where an answer and its reference take
turns, and `stopped` for a while: what the answer left running must not slow the reference down.
"""

import contextlib
import functools
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from autograder.errors import LimitReached
from autograder.records import MIB, Limits

TICK_S = 0.02  # at 5 GB/s of page faults, 100 MB past the limit; a look costs about 0.1 ms
MAX_FILES = 20_000
READ_BYTES = 1 << 16
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _CUTIME, _CSTIME, _RSS = 11, 12, 13, 14, 21  # fields of stat after the name


Read = Callable[[str], bytes]  # a seam: a process may end between the opening and the read


def read_all(path: str) -> bytes:
    """Return what a file of /proc says now, at a third of what `Path` would take."""
    content = b""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        while piece := os.read(descriptor, READ_BYTES):
            content += piece
    finally:
        os.close(descriptor)
    return content


def descendants(pid: int, read: Read = read_all) -> Iterator[int]:
    """Yield `pid` and every process below it that is there now."""
    waiting = [pid]
    while waiting:
        at = waiting.pop()
        yield at
        for task in tasks(at):
            with contextlib.suppress(OSError):
                waiting += map(int, read(f"/proc/{at}/task/{task}/children").split())


def tasks(pid: int) -> list[str]:
    """Return the number of each thread of a process, none if it is gone."""
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/task") as threads:
        return [thread.name for thread in threads]
    return []


def stat(process: int, thread: str = "", read: Read = read_all) -> list[str]:
    """Return the state of a process or its thread and what follows; `X` alone if it is gone.

    A name, which the process chooses, may be any bytes.
    """
    path = f"/proc/{process}/task/{thread}/stat" if thread else f"/proc/{process}/stat"
    with contextlib.suppress(OSError):
        return read(path).rpartition(b")")[2].decode().split() or ["X"]
    return ["X"]


def running(pid: int, read: Read = read_all) -> bool:
    """Return whether `pid` is there and is more than an entry that waits to be collected."""
    return stat(pid, read=read)[0] not in "ZX"


def usage(pid: int, read: Read = read_all) -> tuple[int, float, int]:
    """Return resident bytes, CPU seconds and number of processes of the tree under `pid`."""
    resident, cpu, count = 0, 0.0, 0
    for process in descendants(pid, read):
        fields = stat(process, read=read)
        if len(fields) > _RSS:
            resident += int(fields[_RSS]) * PAGE_BYTES
            ticks = sum(int(fields[n]) for n in (_UTIME, _STIME, _CUTIME, _CSTIME))
            cpu += ticks / TICKS_PER_S
            count += 1
    return resident, cpu, count


def proportional(pid: int, read: Read = read_all) -> int | None:
    """Return the tree's bytes with each shared page counted once, or None where unreadable."""
    total = 0
    for process in descendants(pid, read):
        try:
            lines = read(f"/proc/{process}/smaps_rollup").splitlines()
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
            inside = os.open(f"/proc/{pid}/root/{place}", os.O_PATH)
            try:
                if os.fstat(inside).st_dev != _device(place):  # its own, not ours
                    room = os.fstatvfs(inside)
                    count += room.f_files - room.f_ffree
            finally:
                os.close(inside)
    return count


@functools.cache
def _device(place: str) -> int:
    return Path(f"/{place}").stat().st_dev


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


SWEEPS = 20  # a process that forks while it is being stopped leaves one more for the next sweep
STOP_S = 1.0  # for all to stand still, each of which has to be given a core once more
LOOK_S = 0.001


@contextlib.contextmanager
def pinned(pid: int, core: int) -> Iterator[bool]:
    """Keep `pid` and all below it, their threads and what they start, on `core`.

    Yields False where this user may not say so (root without CAP_SYS_NICE): then they go where the
    system puts them.
    """
    free = os.sched_getaffinity(0)
    with stopped(pid):  # one that forks meanwhile would leave a child where it was
        held = _move(pid, {core})
    try:
        yield held
    finally:
        _move(pid, free)


@contextlib.contextmanager
def stopped(pid: int, read: Read = read_all) -> Iterator[None]:
    """Let nothing of `pid` and all below it run.

    Raises:
        LimitReached: it starts processes faster than they can be stopped.
    """
    held: list[int] = []
    try:
        for _ in range(SWEEPS):
            new = [p for p in descendants(pid, read) if p not in held]
            if not new:
                break
            _signal(new, signal.SIGSTOP)
            held += new
        else:
            raise LimitReached("processes", "it went on starting processes while it was timed")
        _wait_until_still(held)
        yield
    finally:
        _signal(held, signal.SIGCONT)


def _move(pid: int, cores: set[int]) -> bool:
    """Return whether every thread that is still there could be moved."""
    moved = True
    for process in descendants(pid):
        for thread in tasks(process):
            moved = _set(int(thread), cores) and moved
    return moved


def _set(thread: int, cores: set[int]) -> bool:
    try:
        os.sched_setaffinity(thread, cores)
    except ProcessLookupError:
        return True  # it is gone
    except OSError:
        return False
    return True


def _signal(pids: list[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _wait_until_still(pids: list[int]) -> None:
    """Return when every thread of `pids` has stopped; one that does not in time is not waited for.

    A signal is on its way while its thread waits for a core.
    """
    give_up = time.monotonic() + STOP_S
    while any(map(moves, pids)) and time.monotonic() < give_up:
        time.sleep(LOOK_S)


def moves(process: int, read: Read = read_all) -> bool:
    """Return whether a thread of this process has not stopped; one that is gone has."""
    return any(stat(process, thread, read)[0] not in "TtZX" for thread in tasks(process))
