"""What an all-reduce costs here: its own time, and what it costs compute beside it.

    link = profile_link(comm, [MIB // 4, MIB, 8 * MIB])          # on every rank
    predict(profile, sizes_mb, link.all_reduce, link.contention, link.launch)

Buckets are measured as DistributedDataParallel sends them: in the transport's memory, in place,
on the communicator's thread. Nothing is fitted to a training step.

May import: NumPy.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SIDE = 256  # of the matrices whose product stands for backward
BESIDE = 4  # all-reduces that run beside compute
LONGER = 2.0  # times that compute takes as long as these


@dataclass(frozen=True)
class LinkProfile:
    """Median seconds by bytes, of an all-reduce and of filling and starting one.

    `contention` is the share of its speed that compute loses beside an all-reduce.
    """

    reduce_seconds: Mapping[int, float]
    launch_seconds: Mapping[int, float]
    contention: float

    def all_reduce(self, n_bytes: float) -> float:
        """Return the seconds of an all-reduce, between and beyond what was measured on a line."""
        return on_line(self.reduce_seconds, n_bytes)

    def launch(self, n_bytes: float) -> float:
        """Return the seconds that compute spends on filling and starting a bucket."""
        return on_line(self.launch_seconds, n_bytes)


def on_line(points: Mapping[int, float], x: float) -> float:
    """Return the value at `x` on the polyline through `points`, its last piece prolonged."""
    xs = sorted(points)
    if len(xs) == 1:
        return points[xs[0]]
    right = next((k for k in range(1, len(xs)) if xs[k] >= x), len(xs) - 1)
    a, b = xs[right - 1], xs[right]
    slope = (points[b] - points[a]) / (b - a)
    return max(0.0, points[a] + slope * (x - a))


def profile_link(comm: Any, n_bytes: Sequence[int], rounds: int = 15) -> LinkProfile:
    """Return the profile of this communicator, the same on all ranks; every rank calls it.

    Args:
        comm: the communicator.
        n_bytes: sizes to measure; the smallest and largest bucket, and some between.
        rounds: times that each is measured, in turns; medians count.
    """
    flats = {n: _zeros(comm, n) for n in n_bytes}
    reduces: dict[int, list[float]] = {n: [] for n in n_bytes}
    launches: dict[int, list[float]] = {n: [] for n in n_bytes}
    for _ in range(rounds):
        for n, flat in flats.items():
            comm.barrier()
            reduces[n].append(_slowest(comm, _reduce_time(comm, flat)))
            launches[n].append(_slowest(comm, _launch_time(comm, flat)))
    return LinkProfile(
        {n: median(taken) for n, taken in reduces.items()},
        {n: median(taken) for n, taken in launches.items()},
        _contention(comm, flats[max(n_bytes)], rounds),
    )


def _zeros(comm: Any, n_bytes: int) -> Array:
    flat: Array = comm.empty((max(n_bytes // 4, 1),), np.float32)
    flat[...] = 0
    return flat


def _start(comm: Any, flat: Array) -> Any:
    return comm.all_reduce(flat, op="avg", async_op=True, out=flat)


def _reduce_time(comm: Any, flat: Array) -> float:
    began = perf_counter()
    _start(comm, flat).wait()
    return perf_counter() - began


def _launch_time(comm: Any, flat: Array) -> float:
    """Return the time to copy a bucket's gradients in and to hand it over, not to average it."""
    grads = np.ones_like(flat)
    began = perf_counter()
    flat[...] = grads
    work = _start(comm, flat)
    took = perf_counter() - began
    work.wait()
    return took


def _slowest(comm: Any, seconds: float) -> float:
    return float(comm.all_reduce(np.array([seconds]), op="max")[0])


def _contention(comm: Any, flat: Array, rounds: int) -> float:
    """Return what compute loses beside an all-reduce, as a share of the all-reduce's time.

    With `alone` seconds of compute alone and `sent` seconds of all-reduces alone, both together
    take alone + contention * sent, as long as compute lasts longer.
    """
    left, right = np.ones((SIDE, SIDE), np.float32), np.ones((SIDE, SIDE), np.float32)

    def compute(times: int) -> Callable[[], None]:
        return lambda: [left @ right for _ in range(times)].clear()

    def send() -> list[Any]:
        return [_start(comm, flat) for _ in range(BESIDE)]

    one = min(_clocked(compute(1)) for _ in range(5))
    # the quickest: a stall would have all that follows last a hundred times as long
    sent = min(_clocked(lambda: [work.wait() for work in send()].clear()) for _ in range(5))
    times = int(_slowest(comm, max(1.0, LONGER * sent / one)))
    shares = []
    for _ in range(rounds):
        comm.barrier()
        alone = _clocked(compute(times))
        comm.barrier()
        sent = _clocked(lambda: [work.wait() for work in send()].clear())
        comm.barrier()
        works = send()
        together = _clocked(compute(times))
        for work in works:
            work.wait()
        shares.append((together - alone) / sent)
    lost = min(max(median(shares), 0.0), 1.0)
    return float(comm.all_reduce(np.array([lost]), op="avg")[0])


def _clocked(run: Callable[[], None]) -> float:
    began = perf_counter()
    run()
    return perf_counter() - began
