"""Each collective of torch.distributed over the backend "ddp_lab" and over gloo, in turn: ratios.

    python bench/ddp_lab_backend.py [--ranks 2] [--rounds 7]

A cell is this backend's time by gloo's: the median of the rounds, and its quartiles.
"""

import argparse
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

import ddp_lab

SIZES = {"1 KiB": (1 << 10, 30), "64 KiB": (64 << 10, 20), "1 MiB": (1 << 20, 6)}  # and calls
Calls = dict[str, Callable[[], Any]]


def calls(n: int, rank: int, size: int, group: Any) -> Calls:
    """Return a call of each collective on tensors of `n` elements."""
    x, y, long = torch.zeros(n), torch.zeros(n), torch.zeros(size * n)
    parts, outputs = list(torch.zeros(size, n)), list(torch.zeros(size, n))
    thing, things = {"a": list(range(n // 2))}, [None] * size
    neighbours = [(dist.isend, x, (rank + 1) % size), (dist.irecv, y, (rank - 1) % size)]

    def at_root(value: Any) -> Any:
        return None if rank else value

    def exchange() -> None:
        for work in dist.batch_isend_irecv([dist.P2POp(*p, group) for p in neighbours]):
            work.wait()

    return {
        "all_reduce": lambda: dist.all_reduce(x, group=group),
        "broadcast": lambda: dist.broadcast(x, 0, group),
        "reduce": lambda: dist.reduce(x, 0, group=group),
        "all_gather": lambda: dist.all_gather(outputs, x, group),
        "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(long, x, group),
        "reduce_scatter": lambda: dist.reduce_scatter(y, parts, group=group),
        "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(y, long, group=group),
        "all_to_all": lambda: dist.all_to_all(outputs, parts, group),
        "all_to_all_single": lambda: dist.all_to_all_single(y, x, group=group),
        "gather": lambda: dist.gather(x, at_root(outputs), 0, group),
        "scatter": lambda: dist.scatter(y, at_root(parts), 0, group),
        "barrier": lambda: dist.barrier(group),
        "batch_isend_irecv": exchange,
        "all_gather_object": lambda: dist.all_gather_object(things, thing, group),
        "broadcast_object_list": lambda: dist.broadcast_object_list([thing], 0, group),
    }


def measure(comm: ddp_lab.Communicator, store: str, rounds: int) -> dict[tuple[str, str], Any]:
    """Return this rank's seconds a call, ours and gloo's, by collective, size and round."""
    import ddp_lab.torch_backend  # noqa: F401 - registers the backend, in each rank

    warnings.simplefilter("ignore", FutureWarning)  # torch 2.13 renames collectives
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{store}", rank=comm.rank, world_size=comm.size)
    groups = dist.new_group(backend="ddp_lab"), dist.new_group(backend="gloo")
    table = {}
    for label, (n_bytes, repeat) in SIZES.items():
        ours, theirs = (calls(n_bytes // 4, comm.rank, comm.size, group) for group in groups)
        for name in ours:
            rows = np.zeros((rounds + 1, 2))
            for row in rows:
                row[:] = [seconds(call, repeat) for call in (ours[name], theirs[name])]
            table[name, label] = rows[1:]
    dist.destroy_process_group()
    return table


def seconds(call: Callable[[], Any], repeat: int) -> float:
    call()
    dist.barrier()
    began_at = time.perf_counter()
    for _ in range(repeat):
        call()
    return (time.perf_counter() - began_at) / repeat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    with tempfile.TemporaryDirectory() as folder:
        ranks = ddp_lab.launch(measure, options.ranks, f"{folder}/s", options.rounds, timeout_s=600)
    print(f"{options.ranks} ranks, float32: time by gloo's")
    print(f"{'':24}", *(f"{label:>20}" for label in SIZES))
    for name in dict.fromkeys(name for name, _ in ranks[0]):
        cells = []
        for label in SIZES:
            slowest = np.max([rank[name, label] for rank in ranks], axis=0)
            low, middle, high = np.percentile(slowest[:, 0] / slowest[:, 1], [25, 50, 75])
            cells.append(f"{middle:.2f} ({low:.2f}-{high:.2f})")
        print(f"{name:24}", *(f"{cell:>20}" for cell in cells))


if __name__ == "__main__":
    main()
