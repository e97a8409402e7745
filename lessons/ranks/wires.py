"""Communicators over links: a link for a group alone, groups in turns, notes of what was awaited.

A link between hosts is `launch`'s own; a rank that waits for it sleeps, so that a core is free.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np

from ddp_lab import Link
from ddp_lab.launch.threads import LinkedThreadWorld


class Alone:
    """A group of one rank, to which nothing need be sent."""

    rank, size = 0, 1

    def all_reduce(
        self, x: Any, op: str = "sum", algorithm: str = "auto", async_op: bool = False
    ) -> Any:
        """Return `x`, or a handle that does."""
        return _Done(x) if async_op else x

    def all_gather(self, x: Any, algorithm: str = "auto", async_op: bool = False) -> Any:
        """Return `x` as the only row, or a handle that does."""
        return _Done(x[None]) if async_op else x[None]


class _Done:
    """What was there at once."""

    def __init__(self, result: Any) -> None:
        self.result = result

    def wait(self) -> Any:
        """Return it."""
        return self.result


def time_groups(
    comm: Any,
    n_bytes: int,
    counts: Sequence[int],
    combine: Callable[[list[Any]], Any],
    groups: Sequence[Any] = (),
    buckets: int = 8,
) -> list[float]:
    """Return the seconds of `buckets` all-reduces at once, for each number of groups combined."""
    seconds, x = [], np.ones(n_bytes // 4, np.float32)
    every = list(groups) or [comm.split(0) for _ in range(max(counts))]
    for count in counts:
        combined = combine(every[:count])
        comm.barrier()
        began = perf_counter()
        for work in [combined.all_reduce(x, async_op=True) for _ in range(buckets)]:
            work.wait()
        seconds.append(perf_counter() - began)
    return seconds


def own_link(ms: float, n_bytes: int) -> LinkedThreadWorld:
    """Return a link between two ranks, for nothing else, that carries so many bytes in `ms`.

    `Communicator(link.transport(rank))` is a rank's end of it, where ranks are threads.
    """
    return LinkedThreadWorld(2, ((0,), (1,)), Link(0.0, ms / 1e3 / n_bytes))


class Clocked:
    """`comm`, and for how long its all-reduces were waited for: `blocked`.

    `now` reads the clock once this rank has done all that it was given to compute: what it still
    computes itself is not waiting. Only `Noted` is `busy`, and has `trips`.
    """

    def __init__(self, comm: Any, now: Callable[[], float] = perf_counter) -> None:
        self.comm, self.rank, self.size, self.now = comm, comm.rank, comm.size, now
        self.forget()

    def forget(self) -> None:
        """Begin to note anew."""
        self.busy = self.blocked = 0.0
        self.trips: list[tuple[int, int]] = []

    def all_reduce(
        self, x: Any, op: str = "sum", algorithm: str = "auto", async_op: bool = False
    ) -> Any:
        """Return the reduction, or with `async_op` a handle; `wait()` returns the reduction."""
        work = _UnderWay(self, self.start(x, op, algorithm))
        return work if async_op else work.wait()

    def start(self, x: Any, op: str, algorithm: str) -> Callable[[], Any]:
        """Begin an all-reduce; return what waits for its result."""
        wait: Callable[[], Any] = self.comm.all_reduce(x, op, algorithm, async_op=True).wait
        return wait


class Noted(Clocked):
    """`comm`, whose all-reduces take turns in a thread that notes when each was under way.

    `busy` is for how long there was one, and `trips` when each began and ended, in nanoseconds.
    """

    def __init__(self, comm: Any) -> None:
        super().__init__(comm)
        self.queue = ThreadPoolExecutor(1)

    def start(self, x: Any, op: str, algorithm: str) -> Callable[[], Any]:
        """Put an all-reduce behind those before it."""
        return self.queue.submit(self._carry, x, op, algorithm).result

    def _carry(self, x: Any, op: str, algorithm: str) -> Any:
        began = perf_counter()
        result = self.comm.all_reduce(x, op, algorithm)
        ended = perf_counter()
        self.busy += ended - began
        self.trips.append((round(began * 1e9), round(ended * 1e9)))
        return result


class _UnderWay:
    """An all-reduce that has begun."""

    def __init__(self, clocked: Clocked, result: Callable[[], Any]) -> None:
        self.clocked, self.result = clocked, result

    def wait(self) -> Any:
        """Return the result, and note for how long it was waited for."""
        began = self.clocked.now()
        result = self.result()
        self.clocked.blocked += self.clocked.now() - began
        return result
