"""All-reduce of this package and of torch's gloo, interleaved in one run: ratios, not times.

    python bench/ddp_lab_collectives.py [--ranks 2] [--rounds 15]

Bus bandwidth is 2(n-1)/n of the bytes over the time. Copy bandwidth, the limit of anything on
shared memory, is what the ranks reach when each copies an array of that size, all at once.
"""

import argparse
import datetime
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import ddp_lab

SIZES = {"1 KiB": 1 << 10, "32 KiB": 32 << 10, "1 MiB": 1 << 20, "25 MiB": 25 << 20}
GOALS = {"1 KiB": 5.0, "32 KiB": 0.0, "1 MiB": 4.0, "25 MiB": 2.5}
WARM_UP = 2  # rounds not counted
COLUMNS = ("size", "in place", "new array", "unregistered", "busbw/copybw", "goal")


def seconds_a_call(call: Callable[[], Any], repeat: int) -> float:
    dist.barrier()
    began = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - began) / repeat


def calls(comm: ddp_lab.Communicator, n_bytes: int) -> list[Callable[[], Any]]:
    ours = comm.empty(n_bytes // 4, np.float32)
    private = np.zeros(n_bytes // 4, np.float32)
    theirs = torch.zeros(n_bytes // 4)
    ours[:] = 0
    return [
        lambda: comm.all_reduce(ours, out=ours),
        lambda: comm.all_reduce(ours),
        lambda: comm.all_reduce(private),
        lambda: dist.all_reduce(theirs),
        lambda: np.copyto(ours, private),
    ]


def measure(comm: ddp_lab.Communicator, store: str, rounds: int) -> dict[str, list[list[float]]]:
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=comm.rank,
        world_size=comm.size,
        timeout=datetime.timedelta(seconds=60),
    )
    found = {}
    for name, n_bytes in SIZES.items():
        row = calls(comm, n_bytes)
        repeat = max(2, min(200, (4 << 20) // n_bytes))
        rows = [[seconds_a_call(call, repeat) for call in row] for _ in range(rounds + WARM_UP)]
        found[name] = rows[WARM_UP:]
    dist.destroy_process_group()
    return found


def report(runs: list[dict[str, list[list[float]]]], name: str, ranks: int) -> list[str]:
    """Return the cells of one row; a round takes as long as its slowest rank."""
    rounds = zip(*(run[name] for run in runs), strict=True)
    rows = [[max(times) for times in zip(*ranks_of, strict=True)] for ranks_of in rounds]
    faster = [statistics.median(row[3] / row[i] for row in rows) for i in range(3)]
    share = 2 * (ranks - 1) / ranks
    of_limit = statistics.median(share * row[4] / row[0] for row in rows)
    goal = GOALS[name] if ranks == 2 else 1.0
    return [name, *(f"{x:.2f}" for x in (*faster, of_limit, goal))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        runs = ddp_lab.launch(measure, options.ranks, f"{folder}/store", options.rounds)
    print(f"{options.ranks} ranks, float32: how many times faster than gloo")
    for cells in (COLUMNS, *(report(runs, name, options.ranks) for name in SIZES)):
        print("".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    main()
