"""Ranks as threads of this process."""

import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.launch.deadlines import Deadline
from ddp_lab.launch.failures import (
    Failure,
    Frame,
    call,
    failure_of,
    frames_of,
    rank_failed,
    timeout_error,
)
from ddp_lab.launch.results import Results
from ddp_lab.transport.base import Transport
from ddp_lab.transport.board import FAILED, RETURNED, Entry, entries
from ddp_lab.transport.hosts import HostsTransport
from ddp_lab.transport.links.emulated_link import EmulatedLink, of_threads
from ddp_lab.transport.links.link import Hosts, Link
from ddp_lab.transport.record import Recorder
from ddp_lab.transport.sim import SimTransport
from ddp_lab.transport.threads import ThreadWorld

LOOK_S = 0.05  # between two looks at how the ranks do


class LinkedThreadWorld(ThreadWorld):
    """A world of threads on hosts that a link joins, in real seconds."""

    def __init__(self, size: int, hosts: Hosts, link: Link) -> None:
        super().__init__(size)
        self._hosts, self._link = hosts, link
        self._interfaces = of_threads(hosts)

    def transport(self, rank: int) -> Transport:  # type: ignore[override]
        near = super().transport(rank)
        far = EmulatedLink(near, self._hosts, self._link, self._interfaces)
        return HostsTransport(near, far, self._hosts, self._link)


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
    transports = [world.transport(rank) for rank in range(world.size)]
    zero = time.perf_counter()
    recorders = [recorder_of(transport, zero) for transport in transports] if record else []
    run = ThreadRun(fn, args, world, recorders or transports)
    threads = [
        threading.Thread(target=run.rank, args=(rank,), name=f"rank {rank}", daemon=True)
        for rank in range(world.size)
    ]
    others = [threading.current_thread(), *bystanders()]
    world.threads = dict.fromkeys(others, -1) | {t: rank for rank, t in enumerate(threads)}
    deadline = Deadline(world.board, timeout_s)
    for thread in threads:
        thread.start()
    late = run.join(threads, deadline)
    alive = any(thread.is_alive() for thread in threads)
    if late and (alive or run.failures) and all(f.timeout or f.secondary for f in run.failures):
        raise timeout_error(late, stacks_of(threads), timeout_s)
    if run.failures:
        raise rank_failed(list(run.failures), world.size)
    return Results(run.results, [r.log for r in recorders] if record else None)


def bystanders() -> list[threading.Thread]:
    """Return threads that will not send for ranks to come: of earlier runs, of a kernel."""
    owners = ("ddp_lab.", "ipykernel.", "IPython.")
    return [
        thread
        for thread in threading.enumerate()
        if str((getattr(thread, "_target", None) or type(thread)).__module__).startswith(owners)
    ]


def recorder_of(transport: Transport, zero: float) -> Recorder:
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

    def join(self, threads: list[threading.Thread], deadline: Deadline) -> dict[int, Entry]:
        """Wait for the ranks; return who waited for whom when the time was over, if it was.

        After a failure, or at that time, the others are given a while to say how they ended.
        """
        late: dict[int, Entry] = {}
        while alive := [rank for rank, thread in enumerate(threads) if thread.is_alive()]:
            if self.failures:
                deadline.run_out()
            left_s = deadline.remaining_s(alive)
            if left_s > 0:
                threads[alive[0]].join(min(left_s, LOOK_S))
            elif self.failures or late:
                break
            else:
                late = entries(self.world.board)
                self.world.board.deadline = time.monotonic()  # now who waits gives up
                deadline.run_out()
        return late


def stacks_of(threads: list[threading.Thread]) -> dict[int, list[Frame]]:
    """Return where each rank is that still runs."""
    frames = sys._current_frames()
    return {
        rank: frames_of(frames[thread.ident])
        for rank, thread in enumerate(threads)
        if thread.ident in frames
    }
