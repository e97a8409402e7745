"""Outside the wall: a worker's tree of processes kept to one core, and stopped for a while.

For timed questions: an answer and its reference take turns on one core, and what the answer left
running must not slow the reference down.
"""

import contextlib
import os
import signal
import time
from collections.abc import Iterator

from autograder.errors import LimitReached
from autograder.sandbox.watch import Read, descendants, read_all, stat, tasks

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
