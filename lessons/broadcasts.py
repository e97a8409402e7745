"""Broadcasts timed on a device, from the root's first send to the last rank's end.

May import: NumPy, launch; torch, device_array and timing inside functions.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any, TypeAlias

import numpy as np

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.launch.launcher import launch
from lessons.timing import Times, device_ranks

Way: TypeAlias = Callable[[Any, Any], Any]  # of a communicator and the root's array, or None
Span: TypeAlias = tuple[float, float]  # when it began and ended: one clock for all ranks


class OnDevice:
    """A rank whose arrays lie on the device; NumPy's functions work on them there."""

    def __init__(self, comm: Communicator) -> None:
        self.comm, self.rank, self.size = comm, comm.rank, comm.size

    def send(self, x: Any, dst: int) -> None:
        """Send the tensor under `x`."""
        self.comm.send(x.tensor, dst)

    def recv(self, src: int) -> Any:
        """Return what rank `src` sent, as an array for NumPy's functions."""
        from ddp_lab.device_array import DeviceArray

        return DeviceArray(self.comm.recv(src))


def there_and_back(comm: Any, x: Any) -> None:
    """Send from rank 0 to rank 1 and back; the others have nothing to do."""
    if comm.rank == 0:
        comm.send(x, 1)
        comm.recv(1)
    elif comm.rank == 1:
        comm.send(comm.recv(0), 0)


def broadcast_times(
    ways: Mapping[str, Way], ranks: int, sizes: Sequence[int], device: str
) -> tuple[Times, float, float]:
    """Return the best seconds of each way by size in bytes; and alpha and beta of one message."""
    runs = {"two messages": there_and_back, **ways}
    found = launch(_contest, ranks, runs, sizes, device, transport=device_ranks(ranks, device))
    spans = {name: np.array([rank[name] for rank in found]) for name in runs}
    best = {name: (t[..., 1].max(axis=0) - t[0, ..., 0]).min(axis=1) for name, t in spans.items()}
    message = best.pop("two messages") / 2
    return best, message[0], (message[-1] - message[0]) / sizes[-1]


def _contest(
    comm: Communicator, runs: Mapping[str, Way], sizes: Sequence[int], device: str
) -> dict[str, list[list[Span]]]:
    import torch

    from ddp_lab.device_array import DeviceArray

    found: dict[str, list[list[Span]]] = {name: [] for name in runs}
    for n_bytes in sizes:
        ones = DeviceArray(torch.ones(n_bytes // 4, device=device))
        x = ones if comm.rank == 0 else None
        for name, run in runs.items():
            found[name].append(_spans(comm, partial(run, OnDevice(comm), x), device))
    return found


def _spans(
    comm: Communicator, run: Callable[[], Any], device: str, repeats: int = 25
) -> list[Span]:
    import torch

    from ddp_lab.device_array import synchronize

    spans = []
    for _ in range(repeats):
        synchronize(torch.device(device))  # a GPU works on while Python goes ahead
        comm.barrier()
        began = perf_counter()
        run()
        synchronize(torch.device(device))
        spans.append((began, perf_counter()))
    return spans
