"""Functions of ranks, timed in turns, so that a busy machine is unfair to all of them alike.

torch is imported inside functions: lab 08 does without it.
"""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ddp_lab.communicator.communicator import Communicator
from ddp_lab.launch.launcher import launch
from ddp_lab.transport.links.link import Link
from lessons.timing import best_seconds, now

Run: TypeAlias = Callable[[Any, Any], Any]  # of a communicator and an array
Way: TypeAlias = Callable[[Any, Any], Any]  # of a communicator and the root's array, or None
Span: TypeAlias = tuple[float, float]  # when it began and ended: one clock for all ranks
Times: TypeAlias = dict[str, NDArray[np.float64]]  # seconds by name and size


def ranks_in_turns(
    ranks: int,
    runs: Mapping[str, Run],
    sizes: Sequence[int],
    *,
    repeats: int = 7,
    device: str = "",
    gloo: bool = False,
    hosts: int = 1,
    link: Link | None = None,
) -> Times:
    """Return the seconds of each `run(comm, x)` for arrays of each size in bytes, float32.

    Of each the best of `repeats` counts, on the rank that takes longest. In every round all take
    their turn at all sizes, and all ranks begin together.

    Args:
        device: where the arrays lie, on ranks that NCCL or one device's memory connects; they are
            then `DeviceArray`s, and a clock is read when the device has done all that it was given.
        gloo: whether torch's all-reduce over gloo takes part, as "gloo".
        hosts, link: where the ranks lie, as `launch` takes them.
    """
    where: dict[str, Any] = {"hosts": hosts, "link": link}
    if device:
        where["transport"] = device_ranks(ranks, device)
    with tempfile.TemporaryDirectory() as folder:  # until all ranks have ended
        rendezvous = f"{folder}/rendezvous" if gloo else ""
        by_rank = launch(
            _all_runs, ranks, dict(runs), list(sizes), repeats, device, rendezvous, **where
        )
    return {name: np.max([times[name] for times in by_rank], axis=0) for name in by_rank[0]}


def device_ranks(ranks: int, device: str) -> Any:
    """Return the transport of ranks on a device: NCCL with a GPU each, else virtual ranks."""
    from ddp_lab.transport.device import DeviceWorld

    return "cuda" if device.startswith("cuda") else DeviceWorld(ranks, device)


def _all_runs(
    comm: Communicator,
    runs: Mapping[str, Run],
    sizes: Sequence[int],
    repeats: int,
    device: str,
    rendezvous: str,
) -> Times:
    with _over_gloo(comm, rendezvous) if rendezvous else _nothing() as more:
        runs = {**runs, **more}
        best: Times = {name: np.full(len(sizes), np.inf) for name in runs}
        arrays = [_ones(n_bytes // 4, device) for n_bytes in sizes]
        for _ in range(repeats):
            for at in (0, *range(len(arrays))):  # after the largest the first finds cold caches
                for name, run in runs.items():
                    turn = partial(run, comm, arrays[at])
                    seconds = best_seconds(turn, 1, before=comm.barrier, device=device)
                    best[name][at] = min(best[name][at], seconds)
    return best


def _ones(elements: int, device: str) -> Any:
    if not device:
        return np.ones(elements, np.float32)
    import torch

    from ddp_lab.device_array import DeviceArray

    return DeviceArray(torch.ones(elements, device=device))


@contextmanager
def _nothing() -> Iterator[dict[str, Run]]:
    yield {}


@contextmanager
def _over_gloo(comm: Communicator, rendezvous: str) -> Iterator[dict[str, Run]]:
    """Connect these ranks by torch's gloo too, through a file that all of them can reach."""
    import torch
    import torch.distributed as dist

    where = f"file://{rendezvous}"
    dist.init_process_group("gloo", init_method=where, rank=comm.rank, world_size=comm.size)
    try:
        yield {"gloo": lambda _, x: dist.all_reduce(torch.from_numpy(x.copy()))}
        comm.barrier()  # no rank leaves while another is still in a collective
    finally:
        dist.destroy_process_group()


# broadcasts on a device, from the root's first send to the last rank's end


class OnDevice:
    """A rank whose arrays lie on the device; NumPy's functions work on them there."""

    def __init__(self, comm: Communicator) -> None:
        self.comm, self.rank, self.size = comm, comm.rank, comm.size

    def send(self, x: Any, dst: int) -> None:
        """Send the tensor under `x`."""
        self.comm.send(x.tensor, dst)

    def isend(self, x: Any, dst: int) -> Any:
        """Begin to send the tensor under `x`; return a handle with `wait`."""
        return self.comm.isend(x.tensor, dst)

    def recv(self, src: int) -> Any:
        """Return what rank `src` sent, as an array for NumPy's functions."""
        return _as_array(self.comm.recv(src))

    def irecv(self, src: int) -> "_Coming":
        """Begin to receive; `wait` of what this returns gives the array."""
        return _Coming(self.comm.irecv(src))

    def sendrecv(self, x: Any, dst: int, src: int) -> Any:
        """Send to `dst` and receive from `src` at once."""
        return _as_array(self.comm.sendrecv(x.tensor, dst, src))


class _Coming:
    """A tensor on its way to this rank."""

    def __init__(self, work: Any) -> None:
        self.work = work

    def wait(self) -> Any:
        """Return it as an array, once it is there."""
        return _as_array(self.work.wait())


def _as_array(tensor: Any) -> Any:
    from ddp_lab.device_array import DeviceArray

    return DeviceArray(tensor)


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
    by_rank = launch(_all_ways, ranks, runs, sizes, device, transport=device_ranks(ranks, device))
    spans = {name: np.array([rank[name] for rank in by_rank]) for name in runs}
    best = {name: (t[..., 1].max(axis=0) - t[0, ..., 0]).min(axis=1) for name, t in spans.items()}
    message = best.pop("two messages") / 2
    return best, message[0], (message[-1] - message[0]) / sizes[-1]


def _all_ways(
    comm: Communicator, runs: Mapping[str, Way], sizes: Sequence[int], device: str
) -> dict[str, list[list[Span]]]:
    spans: dict[str, list[list[Span]]] = {name: [] for name in runs}
    for n_bytes in sizes:
        x = _ones(n_bytes // 4, device) if comm.rank == 0 else None
        for name, run in runs.items():
            spans[name].append(_spans(comm, partial(run, OnDevice(comm), x), device))
    return spans


def _spans(
    comm: Communicator, run: Callable[[], Any], device: str, repeats: int = 25
) -> list[Span]:
    spans = []
    for _ in range(repeats):
        now(device)  # a GPU works on while Python goes ahead
        comm.barrier()
        began = now()
        run()
        spans.append((began, now(device)))
    return spans
