"""All-reduce of this package and of torch's gloo, interleaved in one run: ratios, not times.

    python bench/ddp_lab_collectives.py [--ranks 2] [--rounds 15] [--hog]
    python bench/ddp_lab_collectives.py --every [--ranks 4] [--hog]
    python bench/ddp_lab_collectives.py --thresholds [--ranks 4]

With `--hog` a program that never sleeps takes one core meanwhile. The second compares every
collective that gloo has, by the bytes of the whole array. The third prints, for the pairs of
algorithms that `auto` chooses from, how many times faster the one for large arrays is than the one
for small arrays, and from which size on it always is.

Where mpi4py and mpiexec are installed, a column says how many times faster than MPI's Allreduce the
in-place one is; MPI's ranks need a launcher of their own, so these rounds follow the others instead
of being interleaved with them.

The column "backend" is `torch.distributed.all_reduce` over the backend "ddp_lab", of an ordinary
tensor. The bound is the time in which the ranks, all at once, copy as many bytes as the algorithm
has to move; see `bound`.
"""

import argparse
import contextlib
import datetime
import importlib.util
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import ddp_lab
from ddp_lab.collectives.choose import ON_WIRES

SIZES = {
    "1 KiB": 1 << 10,
    "32 KiB": 32 << 10,
    "1 MiB": 1 << 20,
    "4 MiB": 4 << 20,
    "25 MiB": 25 << 20,
}
GOALS = {"1 KiB": 5.0, "32 KiB": 0.0, "1 MiB": 4.0, "4 MiB": 3.0, "25 MiB": 2.5}
COPIED_BYTES = 25 << 20  # more than caches keep
WARM_UP = 2  # rounds not counted
THRESHOLD_SIZES = {f"{kib} KiB": 1024 * kib for kib in (1, 4, 16, 32, 64, 256, 1024, 4096)}
EVERY_SIZES = {"4 B": 4, "1 KiB": 1 << 10, "64 KiB": 64 << 10, "1 MiB": 1 << 20, "25 MiB": 25 << 20}
COLUMNS = (
    *("size", "in place", "new array", "unregistered", "backend", "goal"),
    *("time/bound", "backend/bound", "against MPI"),
)
GLOO, COPY = 4, 5  # places in a row of times; the first four are ours


def seconds_a_call(call: Callable[[], Any], repeat: int, barrier: Callable[[], Any]) -> float:
    barrier()
    began = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - began) / repeat


def repeats(n_bytes: int) -> int:
    """Return how many calls in a row hide how late a rank leaves gloo's barrier before them."""
    return max(4, min(200, (16 << 20) // n_bytes))


def calls(comm: ddp_lab.Communicator, group: Any, n_bytes: int) -> list[Callable[[], Any]]:
    ours = comm.empty(n_bytes // 4, np.float32)
    private = np.zeros(n_bytes // 4, np.float32)
    tensor, theirs = torch.zeros(n_bytes // 4), torch.zeros(n_bytes // 4)
    ours[:] = 0
    return [
        lambda: comm.all_reduce(ours, out=ours),
        lambda: comm.all_reduce(ours),
        lambda: comm.all_reduce(private),
        lambda: dist.all_reduce(tensor, group=group),
        lambda: dist.all_reduce(theirs),
    ]


def bound(n_bytes: int, ranks: int, copy_s: float) -> float:
    """Return the seconds that the memory needs for an all-reduce in place.

    Each rank reads its slice of all arrays, N bytes together, and writes it to all arrays, again
    N; where it has not read before it writes, in the arrays of the others, the cache reads first.

    Args:
        n_bytes: of an array.
        ranks: their number.
        copy_s: in which every rank copies `COPIED_BYTES`: reads them and writes them.
    """
    moved = (2 + (ranks - 1) / ranks) * n_bytes
    return copy_s * moved / (2 * COPIED_BYTES)


def measure(comm: ddp_lab.Communicator, store: str, rounds: int) -> dict[str, list[list[float]]]:
    import ddp_lab.torch_backend  # noqa: F401 - registers the backend, in each rank

    join_gloo(comm, store)
    group = dist.new_group(backend="ddp_lab")
    copy = partial(np.copyto, np.zeros(COPIED_BYTES, np.uint8), np.ones(COPIED_BYTES, np.uint8))
    found = {}
    for name, n_bytes in SIZES.items():
        row = [(call, repeats(n_bytes)) for call in calls(comm, group, n_bytes)] + [(copy, 4)]
        rows = [
            [seconds_a_call(call, repeat, dist.barrier) for call, repeat in row]
            for _ in range(rounds + WARM_UP)
        ]
        found[name] = rows[WARM_UP:]
    dist.destroy_process_group()
    return found


def join_gloo(comm: ddp_lab.Communicator, store: str) -> None:
    """Make the default group of torch.distributed from the same ranks."""
    dist.init_process_group(
        "gloo",
        init_method=f"file://{store}",
        rank=comm.rank,
        world_size=comm.size,
        timeout=datetime.timedelta(seconds=60),
    )


def both_ways(comm: ddp_lab.Communicator, n_bytes: int) -> dict[str, list[Callable[[], Any]]]:
    """Return each collective by this package and by gloo, on arrays of `n_bytes` in all."""
    n, p = max(1, n_bytes // 4), comm.size
    part = max(1, n // p)
    ours, theirs = comm.empty(n, np.float32), torch.zeros(n)
    rows, piece = comm.empty((p, part), np.float32), torch.zeros(part)
    for array in (ours, rows):
        array[...] = 0
    pieces, others = list(torch.zeros(p, part)), list(torch.zeros(p, part))
    return {
        "all_reduce": [lambda: comm.all_reduce(ours, out=ours), lambda: dist.all_reduce(theirs)],
        "broadcast": [lambda: comm.broadcast(ours), lambda: dist.broadcast(theirs, 0)],
        "all_gather": [lambda: comm.all_gather(rows[0]), lambda: dist.all_gather(pieces, piece)],
        "reduce_scatter": [
            lambda: comm.reduce_scatter(rows),
            lambda: dist.reduce_scatter(piece, pieces),
        ],
        "all_to_all": [lambda: comm.all_to_all(rows), lambda: dist.all_to_all(others, pieces)],
    }


def measure_every(
    comm: ddp_lab.Communicator, store: str, rounds: int
) -> dict[tuple[str, str], list[list[float]]]:
    """Return this rank's seconds a call, ours and gloo's, by collective and size."""
    join_gloo(comm, store)
    found = {}
    for size, n_bytes in EVERY_SIZES.items():
        for name, pair in both_ways(comm, n_bytes).items():
            rows = [
                [seconds_a_call(call, repeats(n_bytes), dist.barrier) for call in pair]
                for _ in range(rounds + WARM_UP)
            ]
            found[name, size] = rows[WARM_UP:]
    dist.destroy_process_group()
    return found


def print_every(ranks: int, rounds: int, folder: str) -> None:
    """Print how many times faster than gloo each collective is, with the quartiles of rounds."""
    runs = ddp_lab.launch(measure_every, ranks, f"{folder}/store", rounds)
    print(f"{ranks} ranks, float32: times faster than gloo, median (quartiles) of {rounds} rounds")
    print("".join(f"{cell:>22}" for cell in ("", *EVERY_SIZES)))
    for name in sorted({name for name, _ in runs[0]}):
        cells = []
        for size in EVERY_SIZES:
            slowest = np.max(np.array([run[name, size] for run in runs]), axis=0)
            low, middle, high = np.percentile(slowest[:, 1] / slowest[:, 0], [25, 50, 75])
            cells.append(f"{middle:.2f} ({low:.2f}-{high:.2f})")
        print("".join(f"{cell:>22}" for cell in (name, *cells)))


@contextlib.contextmanager
def hog(wanted: bool) -> Iterator[None]:
    """Have a program take one core for as long as this lasts."""
    if not wanted:
        yield
        return
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as process:
        try:
            yield
        finally:
            process.kill()


def measure_mpi(rounds: int) -> None:
    """Print the median seconds of an Allreduce by size; run by each rank under mpiexec."""
    from mpi4py import MPI

    world, found = MPI.COMM_WORLD, {}
    for name, n_bytes in SIZES.items():
        x = np.zeros(n_bytes // 4, np.float32)
        call = partial(world.Allreduce, MPI.IN_PLACE, x)
        times = [
            world.allreduce(seconds_a_call(call, repeats(n_bytes), world.Barrier), MPI.MAX)
            for _ in range(rounds + WARM_UP)
        ]
        found[name] = statistics.median(times[WARM_UP:])
    if world.rank == 0:
        print(json.dumps(found))


def mpi_seconds(ranks: int, rounds: int) -> dict[str, float]:
    """Return MPI's median seconds by size, nothing where MPI is not installed or will not run."""
    beside = str(Path(sys.executable).parent)
    mpiexec = shutil.which("mpiexec", path=f"{beside}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None or importlib.util.find_spec("mpi4py") is None:
        return {}
    command = [mpiexec, "-n", str(ranks), sys.executable, __file__, "--mpi", "--rounds"]
    more_ranks_than_cores = {"PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"}  # Open MPI
    environment = {**more_ranks_than_cores, **os.environ}
    found = subprocess.run(
        [*command, str(rounds)], stdout=subprocess.PIPE, text=True, env=environment
    )
    if found.returncode:
        print(f"MPI left with {found.returncode}: see above. Its column stays empty.")
        return {}
    seconds: dict[str, float] = json.loads(found.stdout)
    return seconds


def report(
    runs: list[dict[str, list[list[float]]]], name: str, ranks: int, mpi: dict[str, float]
) -> list[str]:
    """Return the cells of one row; a round takes as long as its slowest rank."""
    rounds = zip(*(run[name] for run in runs), strict=True)
    rows = [[max(times) for times in zip(*ranks_of, strict=True)] for ranks_of in rounds]
    faster = [statistics.median(row[GLOO] / row[i] for row in rows) for i in range(GLOO)]
    of_bound = [
        statistics.median(row[i] / bound(SIZES[name], ranks, row[COPY]) for row in rows)
        for i in (0, GLOO - 1)
    ]
    goal = GOALS[name] if ranks == 2 else 1.0
    than_mpi = f"{mpi[name] / statistics.median(row[0] for row in rows):.2f}" if mpi else "no MPI"
    return [name, *(f"{x:.2f}" for x in (*faster, goal, *of_bound)), than_mpi]


def pairs() -> list[tuple[str, str, str, str]]:
    """Return transport, collective, and the algorithms for small and for large arrays."""
    on_wires = [("tcp", name, *pair) for name, (*pair, _) in ON_WIRES.items() if pair[0] != pair[1]]
    return [("shm", "all_reduce", "one_shot", "two_shot"), *on_wires]


def measure_pair(
    comm: ddp_lab.Communicator, name: str, small: str, large: str, rounds: int
) -> list[list[list[float]]]:
    """Return this rank's seconds a call, by size, round and algorithm."""
    found = []
    for n_bytes in THRESHOLD_SIZES.values():
        x = np.zeros((comm.size, n_bytes // 4 // comm.size), np.float32)
        call = partial(getattr(comm, name), x)
        row = [partial(call, algorithm=algorithm) for algorithm in (small, large)]
        repeat = max(1, min(20, (256 << 10) // n_bytes))
        rows = [
            [seconds_a_call(call, repeat, comm.barrier) for call in row]
            for _ in range(rounds + WARM_UP)
        ]
        found.append(rows[WARM_UP:])
    return found


def ratios(runs: list[list[list[list[float]]]]) -> list[float]:
    """Return by size how many times faster the second algorithm is."""
    slowest = np.max(np.array(runs), axis=0)  # sizes, rounds, algorithms
    return list(np.median(slowest[:, :, 0] / slowest[:, :, 1], axis=1))


def threshold(faster: list[float]) -> str:
    """Return the least size from which on the algorithm for large arrays is never slower."""
    names, found = list(THRESHOLD_SIZES), "none"
    for name, ratio in zip(reversed(names), reversed(faster), strict=True):
        if ratio < 1:
            break
        found = name
    return found


def print_thresholds(ranks: int, rounds: int) -> None:
    print(f"{ranks} ranks, float32: how many times faster the second is, and from where on")
    columns = (*THRESHOLD_SIZES, "threshold")
    print(f"{'':52}", *(f"{cell:>9}" for cell in columns))
    for transport, name, small, large in pairs():
        runs = ddp_lab.launch(measure_pair, ranks, name, small, large, rounds, transport=transport)
        faster = ratios(list(runs))
        cells = (*(f"{ratio:.2f}" for ratio in faster), threshold(faster))
        label = f"{transport} {name}: {small}, {large}"
        print(f"{label:52}", *(f"{cell:>9}" for cell in cells))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--thresholds", action="store_true")
    parser.add_argument("--every", action="store_true", help="every collective that gloo has")
    parser.add_argument("--hog", action="store_true", help="take one core meanwhile")
    parser.add_argument("--mpi", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.mpi:
        measure_mpi(options.rounds)
        return
    if options.thresholds:
        print_thresholds(options.ranks, options.rounds)
        return
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder, hog(options.hog):
        if options.every:
            print_every(options.ranks, options.rounds, folder)
            return
        runs = ddp_lab.launch(measure, options.ranks, f"{folder}/store", options.rounds)
    mpi = mpi_seconds(options.ranks, options.rounds)
    print(f"{options.ranks} ranks, float32: how many times faster than gloo")
    for cells in (COLUMNS, *(report(runs, name, options.ranks, mpi) for name in SIZES)):
        print("".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    main()
