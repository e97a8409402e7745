"""Functions of ranks, timed in turns, so that a busy machine is unfair to all of them alike.

May import: NumPy; torch inside functions, launch, device_array, transport.device.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.launch.launcher import launch

Run: TypeAlias = Callable[[Any, Any], Any]  # of a communicator and an array
Times: TypeAlias = dict[str, NDArray[np.float64]]  # seconds by name and size


def in_turns(
    ranks: int,
    runs: Mapping[str, Run],
    sizes: Sequence[int],
    *,
    repeats: int = 7,
    device: str = "",
    gloo: bool = False,
) -> Times:
    """Return the seconds of each `run(comm, x)` for arrays of each size in bytes, float32.

    Of each the best of `repeats` counts, on the rank that takes longest. In every round all take
    their turn at all sizes, and all ranks begin together.

    Args:
        device: where the arrays lie, on ranks that NCCL or one device's memory connects; they are
            then `DeviceArray`s, and a clock is read when the device has done all that it was given.
        gloo: whether torch's all-reduce over gloo takes part, as "gloo".
    """
    where: dict[str, Any] = {"transport": device_ranks(ranks, device)} if device else {}
    with tempfile.TemporaryDirectory() as folder:  # until all ranks have ended
        meeting = f"{folder}/meeting" if gloo else ""
        found = launch(_contest, ranks, dict(runs), list(sizes), repeats, device, meeting, **where)
    return {name: np.max([times[name] for times in found], axis=0) for name in found[0]}


def device_ranks(ranks: int, device: str) -> Any:
    """Return the transport of ranks on a device: NCCL with a GPU each, else virtual ranks."""
    from ddp_lab.transport.device import DeviceWorld

    return "cuda" if device.startswith("cuda") else DeviceWorld(ranks, device)


def best_seconds(
    run: Callable[[], Any],
    repeats: int,
    *,
    before: Callable[[], Any] | None = None,
    device: str = "",
) -> float:
    """Return the best seconds of `run()`, after `before()` each time; a device has then ended."""
    best = np.inf
    for _ in range(repeats):
        if before:
            before()
        began = _now(device)
        run()
        best = min(best, _now(device) - began)
    return best


def _contest(
    comm: Communicator,
    runs: Mapping[str, Run],
    sizes: Sequence[int],
    repeats: int,
    device: str,
    meeting: str,
) -> Times:
    with _over_gloo(comm, meeting) if meeting else _nothing() as more:
        runs = {**runs, **more}
        best: Times = {name: np.full(len(sizes), np.inf) for name in runs}
        arrays = [_ones(n_bytes // 4, device) for n_bytes in sizes]
        for _ in range(repeats):
            for at, x in enumerate(arrays):
                for name, run in runs.items():
                    turn = partial(run, comm, x)
                    seconds = best_seconds(turn, 1, before=comm.barrier, device=device)
                    best[name][at] = min(best[name][at], seconds)
    return best


def _ones(elements: int, device: str) -> Any:
    if not device:
        return np.ones(elements, np.float32)
    import torch

    from ddp_lab.device_array import DeviceArray

    return DeviceArray(torch.ones(elements, device=device))


def _now(device: str) -> float:
    if device:
        import torch

        from ddp_lab.device_array import synchronize

        synchronize(torch.device(device))
    return perf_counter()


@contextmanager
def _nothing() -> Iterator[dict[str, Run]]:
    yield {}


@contextmanager
def _over_gloo(comm: Communicator, meeting: str) -> Iterator[dict[str, Run]]:
    """Connect these ranks by torch's gloo too, through a file that all of them can reach."""
    import torch
    import torch.distributed as dist

    where = f"file://{meeting}"
    dist.init_process_group("gloo", init_method=where, rank=comm.rank, world_size=comm.size)
    try:
        yield {"gloo": lambda _, x: dist.all_reduce(torch.from_numpy(x.copy()))}
        comm.barrier()  # no rank leaves while another is still in a collective
    finally:
        dist.destroy_process_group()
