"""Ranks as threads of this process."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddp_lab.communicator import Communicator
from ddp_lab.failures import Failure, call, failure_of, frames_of, rank_failed, timed_out
from ddp_lab.results import Results
from ddp_lab.transport.base import Transport
from ddp_lab.transport.board import FAILED, RETURNED, entries
from ddp_lab.transport.record import Recorder
from ddp_lab.transport.sim import SimTransport, SimWorld
from ddp_lab.transport.threads import ThreadTransport, ThreadWorld

GRACE_S = 1.0  # for ranks that noticed a failure to say so themselves


def launch_threads(
    fn: Callable[..., Any], world_size: int, args: tuple[Any, ...], timeout_s: float, record: bool
) -> Results:
    """Call `fn(comm, *args)` in one thread a rank; see `ddp_lab.launch`."""
    return run_threads(fn, ThreadWorld(world_size), args, timeout_s, record)


def run_threads(
    fn: Callable[..., Any],
    world: ThreadWorld,
    args: tuple[Any, ...] = (),
    timeout_s: float = 300.0,
    record: bool = False,
) -> Results:
    """Call `fn(comm, *args)` on each rank of a world, in a thread; see `ddp_lab.launch`.

    A thread cannot be ended from outside: one that never returns is left behind as a daemon.
    """
    deadline = world.board.deadline = time.monotonic() + timeout_s
    transports = [world.transport(rank) for rank in range(world.size)]
    zero = time.perf_counter()
    recorders = [recorder_of(transport, zero) for transport in transports] if record else []
    run = ThreadRun(fn, args, world, recorders or transports)
    threads = [
        threading.Thread(target=run.rank, args=(rank,), name=f"rank {rank}", daemon=True)
        for rank in range(world.size)
    ]
    for thread in threads:
        thread.start()
    _join(threads, deadline, run.failures)
    if run.failures:
        raise rank_failed(list(run.failures), world.size)
    if any(thread.is_alive() for thread in threads):
        frames = sys._current_frames()
        stacks = {
            rank: frames_of(frames[thread.ident])
            for rank, thread in enumerate(threads)
            if thread.ident in frames
        }
        raise timed_out(entries(world.board), stacks, timeout_s)
    clock = "virtual" if isinstance(world, SimWorld) else "wall"
    return Results(run.results, [r.log for r in recorders] if record else None, clock)


def recorder_of(transport: ThreadTransport, zero: float) -> Recorder:
    """Return a recorder that reads the transport's own clock, or counts from `zero`, the run's."""
    if isinstance(transport, SimTransport):
        return Recorder(transport, lambda: transport.clock)
    return Recorder(transport, zero=zero)


@dataclass
class ThreadRun:
    """The state of one run: what each rank returned, and who failed."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    world: ThreadWorld
    transports: Sequence[Transport]
    results: list[Any] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.results = [None] * self.world.size

    def rank(self, rank: int) -> None:
        """Run one rank from beginning to end."""
        board = self.world.board
        self.world.enter(rank)
        try:
            with self.world.running(rank):
                comm = Communicator(self.transports[rank])
                self.results[rank] = call(self.fn, comm, self.args)
        except BaseException as error:
            self.failures.append(failure_of(rank, error, time.monotonic()))
            board.end(rank, FAILED, type(error).__name__)
        else:
            board.end(rank, RETURNED)
        finally:
            self.world.leave(rank)


def _join(threads: list[threading.Thread], deadline: float, failures: list[Failure]) -> None:
    """Wait for all threads, until the deadline or, after a failure, for a short while more."""
    end = deadline + GRACE_S
    for thread in threads:
        while thread.is_alive() and time.monotonic() < end:
            thread.join(0.05)
            if failures:
                end = min(end, time.monotonic() + GRACE_S)
