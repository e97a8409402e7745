"""Ranks as threads of this process."""

import threading
import time
from collections.abc import Callable
from typing import Any

from ddp_lab.communicator import Communicator
from ddp_lab.errors import RankTimeout
from ddp_lab.failures import Failure, failure_of, rank_failed
from ddp_lab.results import Results
from ddp_lab.transport.board import FAILED, RETURNED, MemoryBoard, entries, report
from ddp_lab.transport.record import Recorder
from ddp_lab.transport.threads import ThreadWorld

GRACE_S = 1.0  # for ranks that noticed a failure to say so themselves


def launch_threads(
    fn: Callable[..., Any], world_size: int, args: tuple[Any, ...], timeout_s: float, record: bool
) -> Results:
    """Call `fn(comm, *args)` in one thread a rank; see `ddp_lab.launch`.

    A thread cannot be ended from outside: one that never returns is left behind as a daemon.
    """
    deadline = time.monotonic() + timeout_s
    world = ThreadWorld(world_size, MemoryBoard(world_size, deadline))
    zero = time.perf_counter()
    transports = [world.transport(rank) for rank in range(world_size)]
    recorders = [Recorder(transport, zero=zero) for transport in transports] if record else []
    results: list[Any] = [None] * world_size
    failures: list[Failure] = []

    def run(rank: int) -> None:
        try:
            comm = Communicator(recorders[rank] if record else transports[rank])
            results[rank] = fn(comm, *args)
        except BaseException as error:
            failures.append(failure_of(rank, error, time.monotonic()))
            world.board.end(rank, FAILED, type(error).__name__)
        else:
            world.board.end(rank, RETURNED)

    threads = [
        threading.Thread(target=run, args=(rank,), name=f"rank {rank}", daemon=True)
        for rank in range(world_size)
    ]
    for thread in threads:
        thread.start()
    _join(threads, deadline, failures)
    if failures:
        raise rank_failed(list(failures), world_size)
    if any(thread.is_alive() for thread in threads):
        raise RankTimeout(
            f"launch: not finished after {timeout_s} s: {report(entries(world.board))} "
            "Raise timeout_s if the ranks are only slow."
        )
    return Results(results, [recorder.log for recorder in recorders] if record else None)


def _join(threads: list[threading.Thread], deadline: float, failures: list[Failure]) -> None:
    """Wait for all threads, until the deadline or, after a failure, for a short while more."""
    end = deadline + GRACE_S
    for thread in threads:
        while thread.is_alive() and time.monotonic() < end:
            thread.join(0.05)
            if failures:
                end = min(end, time.monotonic() + GRACE_S)
