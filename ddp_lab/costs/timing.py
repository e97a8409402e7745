"""Collectives of this machine, timed so that other programs disturb as little as can be.

Other programs only ever make a collective slower, and leave some millisecond alone now and then.
So a collective is timed in blocks of about a millisecond, taken in turns with those of all others,
world sizes too, over several launches. Each rank has a core of its own, as far as there are enough,
and asks the system whether it was taken off that core during a block. A sample is the quickest of
the blocks that no rank was interrupted in; kept beside it is how far launches lie apart in it, and
the share of blocks that were interrupted. Where too few are left there are more launches.

In a block the same call is made several times in a row, so that it counts for little which rank
begins late. No rank can run ahead of the others meanwhile: each needs something of every other; and
the root of a broadcast moves on from call to call, to one of the ranks that receive last.

May import: NumPy, communicator, cost, errors, fit, launch, transport.
"""

import os
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from ddp_lab import cost
from ddp_lab.communicator.communicator import Communicator
from ddp_lab.costs.fit import Sample
from ddp_lab.errors import InvalidArgument
from ddp_lab.launch.launcher import launch
from ddp_lab.transport.base import NDArray

Job: TypeAlias = tuple[str, str, int]  # collective, algorithm, bytes

ROUNDS = 36  # blocks a sample, over PASSES launches
PASSES = 3  # launches of each world size, in turns
MOST_PASSES = 9  # where blocks were interrupted
ENOUGH = 3  # blocks a sample in which no rank was
BLOCK_S = 1e-3  # well below the few milliseconds for which a scheduler lets a program run
CALLS = (2, 40)  # in a block: the fewest and the most
WARM_UP = 1  # rounds not counted

PLAN = (  # in none of them can a rank run ahead of the others
    ("all_reduce", "ring"),
    ("all_reduce", "recursive_doubling"),
    ("all_gather", "ring"),
    ("broadcast", "tree"),
    ("reduce_scatter", "ring"),
)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(available_cores()) or os.cpu_count() or 1


def available_cores() -> list[int]:
    """Return the cores that this thread may run on, none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def measure(
    transport: str, world_sizes: Sequence[int], sizes: Sequence[int], rounds: int = ROUNDS
) -> list[Sample]:
    """Return a sample for each collective of the plan, world size and size in bytes.

    Collectives whose algorithm has no closed form for a world size are left out there.

    Raises:
        InvalidArgument: fewer than one round, no such transport or world size.
    """
    if rounds < 1:
        raise InvalidArgument(
            f"calibrate: no such number of rounds: got {rounds}, expected 1 or more. "
            "Three dozen find some that nothing disturbed."
        )
    jobs = {p: [(*key, n) for key in PLAN if _has_form(key, p) for n in sizes] for p in world_sizes}
    blocks_of: dict[int, list[NDArray]] = {p: [] for p in world_sizes}
    for number in range(MOST_PASSES):
        for p in world_sizes:
            if number < PASSES or _too_few(blocks_of[p]):
                arguments = jobs[p], -(-rounds // PASSES)
                blocks_of[p].append(_blocks(launch(_time_jobs, p, *arguments, transport=transport)))
    return [
        _sample(job, p, [blocks[:, index] for blocks in blocks_of[p]])
        for p in world_sizes
        for index, job in enumerate(jobs[p])
    ]


def _blocks(by_rank: Sequence[NDArray]) -> NDArray:
    """Return seconds a call and interruptions of each block: (rounds, jobs, 2)."""
    # rounds, jobs, ranks, (begin, end, calls, interruptions): one clock for all processes
    blocks = np.stack(by_rank, axis=2)
    spans = blocks[..., 1].max(axis=2) - blocks[..., 0].max(axis=2)
    # what is over before the last rank began takes no time
    return np.stack(
        [np.maximum(spans / blocks[:, :, 0, 2], 1e-9), blocks[..., 3].sum(axis=2)], axis=2
    )


def _too_few(launches: Sequence[NDArray]) -> bool:
    """Return whether a job has not had `ENOUGH` blocks without an interruption."""
    alone = sum((blocks[..., 1] == 0).sum(axis=0) for blocks in launches)
    return bool(np.any(np.asarray(alone) < ENOUGH))


def _sample(job: Job, world_size: int, launches: Sequence[NDArray]) -> Sample:
    """Return the sample of some launches' blocks: seconds and interruptions, (rounds, 2) each."""
    every = np.concatenate(launches)
    interrupted = float(np.mean(every[:, 1] > 0))
    alone = [blocks[blocks[:, 1] == 0, 0] for blocks in launches]
    quickest = [seconds.min() for seconds in alone if len(seconds)]
    if not quickest:
        quickest = [blocks[:, 0].min() for blocks in launches]
    spread = float(max(quickest) / min(quickest)) - 1
    return Sample(*job, world_size, float(min(quickest)), spread, interrupted)


def _has_form(key: tuple[str, str], world_size: int) -> bool:
    return key not in cost.POWERS_OF_TWO or not world_size & (world_size - 1)


def _time_jobs(comm: Communicator, jobs: Sequence[Job], rounds: int) -> NDArray:
    """Return of each block when this rank began and ended, its calls and its interruptions."""
    everywhere = available_cores()
    stay_on(everywhere[comm.rank % len(everywhere) :][:1] if everywhere else [])
    try:
        calls = [call_of(comm, *job) for job in jobs]
        counts = [_calls_a_block(comm, call) for call in calls]
        times = np.empty((rounds + WARM_UP, len(jobs), 4))
        for row in times:
            for cell, call, count in zip(row, calls, counts, strict=True):
                comm.barrier()
                before = interruptions()
                began, ended = _time_block(call, count)
                cell[:] = began, ended, count, interruptions() - before
        return times[WARM_UP:]
    finally:
        stay_on(everywhere)  # a rank may be a thread of the caller's process


def interruptions() -> int:
    """Return how often the system took this thread off its core for another; 0 if it won't say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    if not hasattr(resource, "RUSAGE_THREAD"):
        return 0
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


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
    """Return the i-th call of a block, over `n_bytes` in all as `cost` counts them."""
    method = getattr(comm, collective)
    is_whole = collective in ("all_reduce", "broadcast")  # each rank's array has all the bytes
    shape = [max(1, n_bytes // 4 // (1 if is_whole else comm.size))]
    x = comm.empty([comm.size, *shape] if collective == "reduce_scatter" else shape, np.float32)
    x[...] = 0  # its pages are there before the clock runs
    if collective == "all_reduce":  # in place: the closed forms know of no copy
        return lambda i: method(x, algorithm=algorithm, out=x)
    if collective == "broadcast":
        return lambda i: method(x, root=i % comm.size, algorithm=algorithm)
    return lambda i: method(x, algorithm=algorithm)
