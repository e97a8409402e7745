"""Collectives of this machine, timed so that other programs disturb as little as can be.

Other programs only ever make a collective slower, and leave some millisecond alone now and then.
So a collective is timed in blocks of about a millisecond, taken in turns with those of all others,
world sizes too, over several launches; a sample is the low decile of its blocks, and how far the
launches lie apart in it is kept beside it. Rank r runs on core r modulo their number, so that it
is known which ranks share a core.

In a block the same call is made several times in a row, so that it counts for little which rank
begins late. No rank can run ahead of the others meanwhile: each needs something of every other; and
the root of a broadcast moves on from call to call, to one of the ranks that receive last.

May import: cost, fit, launch, NumPy.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ddp_lab import cost
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.costs.fit import Sample
from ddp_lab.errors import InvalidArgument
from ddp_lab.launch.launcher import launch
from ddp_lab.transport.base import NDArray

Job: TypeAlias = tuple[str, str, int]  # collective, algorithm, bytes

ROUNDS = 36  # blocks a sample: with one core in two taken by others, three or four are left alone
PASSES = 3  # launches of each world size, in turns
BLOCK_S = 1e-3  # well below the few milliseconds for which a scheduler lets a program run
CALLS = (2, 40)  # in a block: the fewest and the most
WARM_UP = 1  # rounds not counted
LOW = 10  # per cent

WHOLE = ("all_reduce", "broadcast")  # each rank's array has all the bytes
BY_ROWS = ("all_to_all", "reduce_scatter")  # its first axis is one row a rank
BACK_TO_BACK = (*WHOLE, *BY_ROWS, "all_gather")  # no rank can run ahead of the others


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(available_cores()) or os.cpu_count() or 1


def available_cores() -> list[int]:
    """Return the cores that this thread may run on, none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def measure(
    transport: str,
    world_sizes: Sequence[int],
    sizes: Iterable[int],
    plan: Iterable[tuple[str, str]],
    rounds: int = ROUNDS,
    passes: int = PASSES,
) -> list[Sample]:
    """Return a sample for each collective of the plan, world size and size in bytes.

    Collectives whose algorithm has no closed form for a world size are left out there.

    Raises:
        InvalidArgument: fewer than one round, no such transport or world size, or a collective
            whose ranks could run ahead of each other.
    """
    if rounds < 1:
        raise InvalidArgument(
            f"calibrate: no such number of rounds: got {rounds}, expected 1 or more. "
            "Three dozen find some that nothing disturbed."
        )
    plan, sizes = list(plan), list(sizes)
    jobs = {p: [(*key, n) for key in plan if _has_form(key, p) for n in sizes] for p in world_sizes}
    times: dict[int, list[NDArray]] = {p: [] for p in world_sizes}
    for _ in range(passes):
        for p in world_sizes:
            by_rank = launch(_time_jobs, p, jobs[p], -(-rounds // passes), transport=transport)
            # rounds, jobs, ranks, (begin, end, calls): one clock for all processes of a machine
            blocks = np.stack(by_rank, axis=2)
            spans = blocks[..., 1].max(axis=2) - blocks[..., 0].max(axis=2)
            times[p].append(spans / blocks[:, :, 0, 2])
    return [
        _sample(job, p, np.stack(times[p])[:, :, index])
        for p in world_sizes
        for index, job in enumerate(jobs[p])
    ]


def _sample(job: Job, world_size: int, taken: NDArray) -> Sample:
    """Return the sample of blocks that took so long, shape (launches, rounds)."""
    taken = np.maximum(taken, 1e-9)  # what is over before the last rank began takes no time
    by_launch = np.percentile(taken, LOW, axis=1)
    spread = float(by_launch.max() / by_launch.min()) - 1
    return Sample(*job, world_size, float(np.percentile(taken, LOW)), spread, cores())


def _has_form(key: tuple[str, str], world_size: int) -> bool:
    return key not in cost.POWERS_OF_TWO or not world_size & (world_size - 1)


def _time_jobs(comm: Communicator, jobs: Sequence[Job], rounds: int) -> NDArray:
    """Return when this rank began and ended each block, and its calls: (rounds, jobs, 3)."""
    everywhere = available_cores()
    stay_on(everywhere[comm.rank % len(everywhere) :][:1] if everywhere else [])
    try:
        calls = [call_of(comm, *job) for job in jobs]
        counts = [_calls_a_block(comm, call) for call in calls]
        times = np.empty((rounds + WARM_UP, len(jobs), 3))
        for row in times:
            for cell, call, count in zip(row, calls, counts, strict=True):
                comm.barrier()
                cell[:] = (*_time_block(call, count), count)
        return times[WARM_UP:]
    finally:
        stay_on(everywhere)  # a rank may be a thread of the caller's process


def stay_on(some_cores: list[int]) -> None:
    """Let this thread run on these cores alone, where the system offers that."""
    if some_cores:
        os.sched_setaffinity(0, some_cores)


def _time_block(call: Callable[[int], Any], count: int) -> tuple[float, float]:
    began = time.perf_counter()
    for i in range(count):
        call(i)
    return began, time.perf_counter()


def _calls_a_block(comm: Communicator, call: Callable[[int], Any]) -> int:
    """Return how many calls fill a block, the same on all ranks."""
    _time_block(call, comm.size)
    began, ended = _time_block(call, comm.size)
    fewest, most = CALLS
    count = round(BLOCK_S * comm.size / max(ended - began, 1e-9))
    return int(comm.broadcast(np.array(min(max(count, fewest), most))))


def call_of(
    comm: Communicator, collective: str, algorithm: str, n_bytes: int
) -> Callable[[int], Any]:
    """Return the i-th call of a block: a collective over `n_bytes` in all, as `cost` counts them.

    Raises:
        InvalidArgument: a rank could run ahead of the others in this collective.
    """
    if collective not in BACK_TO_BACK:
        raise InvalidArgument(
            f"calibrate: ranks run ahead of each other in {collective!r}: expected one of "
            f"{', '.join(BACK_TO_BACK)}. Time one of these."
        )
    method = getattr(comm, collective)
    shape = [max(1, n_bytes // 4 // (1 if collective in WHOLE else comm.size))]
    x = comm.empty([comm.size, *shape] if collective in BY_ROWS else shape, np.float32)
    x[...] = 0  # its pages are there before the clock runs
    if collective == "all_reduce":  # in place: the closed forms know of no copy
        return lambda i: method(x, algorithm=algorithm, out=x)
    if collective == "broadcast":
        return lambda i: method(x, root=i % comm.size, algorithm=algorithm)
    return lambda i: method(x, algorithm=algorithm)
