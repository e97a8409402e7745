"""A barrier that says which ranks have not come: they tell rank 0, and rank 0 tells them.

May import: NumPy, communicator, errors.
"""

import time

import numpy as np

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.errors import RankLost, RankTimeout


class RanksMissing(RankTimeout, RuntimeError):
    """Ranks did not come to a monitored barrier in time; also torch's kind of error."""


def monitored_barrier(comm: Communicator, timeout_s: float, wait_all_ranks: bool) -> None:
    """Return once every rank has called it.

    Args:
        comm: a communicator for this call alone.
        timeout_s: how long each rank waits.
        wait_all_ranks: whether rank 0 names all that are missing, or the first.

    Raises:
        RanksMissing: in time some have not come, or rank 0 has not; in torch's words.
    """
    if comm.rank:
        _arrive(comm, timeout_s)
        return
    within = f"monitoredBarrier in {timeout_s * 1e3:.0f} ms"
    if timeout_s <= 0:
        raise RanksMissing(f"Rank 0 timed out in {within}. Give a longer timeout.", 0)
    missing = _find_missing(comm, time.monotonic() + timeout_s, wait_all_ranks)
    verdict = np.isin(np.arange(comm.size), missing)
    for rank in range(1, comm.size):
        comm.isend(verdict, rank)
    if missing:
        names = ", ".join(map(str, missing))
        raise RanksMissing(
            f"Rank{'s' if len(missing) > 1 else ''} {names} failed to pass {within}. "
            "See what they do instead.",
            missing[0],
        )


def _find_missing(comm: Communicator, end: float, all_of_them: bool) -> list[int]:
    """Return the ranks that have not come by `end`: the first of them, or all."""
    missing: list[int] = []
    for rank in range(1, comm.size):
        try:
            comm.irecv(rank).wait(max(end - time.monotonic(), 1e-3))
        except (RankTimeout, RankLost):
            missing.append(rank)
            if not all_of_them:
                break
    return missing


def _arrive(comm: Communicator, timeout_s: float) -> None:
    reached = (
        f"Rank {comm.rank} successfully reached monitoredBarrier, but received errors while "
        "waiting for send/recv from rank 0"
    )
    try:
        comm.isend(np.zeros(1), 0)
        verdict = comm.irecv(0).wait(max(timeout_s, 1e-3))
    except (RankTimeout, RankLost) as error:
        raise RanksMissing(f"{reached}: {error}", 0) from error
    if verdict.any():
        names = ", ".join(map(str, np.flatnonzero(verdict)))
        raise RanksMissing(f"{reached}: it did not hear of rank {names} in time.", 0)
