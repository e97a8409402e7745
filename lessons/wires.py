"""Wires that a machine is lent: communicators whose collectives also sleep as long as on a network.

A sleeping rank needs no core, so a wire carries while the rank computes, as with a network card.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from time import perf_counter, sleep
from typing import Any

import numpy as np


class Narrow:
    """`comm` over a wire that carries `bandwidth` bytes a second."""

    def __init__(self, comm: Any, bandwidth: float) -> None:
        self.comm, self.rank, self.size, self.bandwidth = comm, comm.rank, comm.size, bandwidth

    def all_reduce(self, x: Any, op: str = "sum", algorithm: str = "auto") -> Any:
        """Return the reduction after the seconds of a ring."""
        sleep(2 * (self.size - 1) / self.size * x.nbytes / self.bandwidth)
        return self.comm.all_reduce(x, op, algorithm=algorithm)

    def all_gather(self, x: Any) -> Any:
        """Return the rows of all ranks after the seconds of sending them."""
        sleep((self.size - 1) * x.nbytes / self.bandwidth)
        return self.comm.all_gather(x)


class Alone:
    """A group of one rank, to which nothing need be sent."""

    rank, size = 0, 1

    def all_reduce(self, x: Any, op: str = "sum", algorithm: str = "auto") -> Any:
        """Return `x`."""
        return x

    def all_gather(self, x: Any) -> Any:
        """Return `x` as the only row."""
        return x[None]


class GroupOnLink:
    """A group with a latency `alpha` of its own, on a link that carries one bucket in `beta`."""

    def __init__(self, comm: Any, link: Lock, alpha: float, beta: float) -> None:
        self.comm, self.link, self.alpha, self.beta = comm, link, alpha, beta
        self.rank, self.size = comm.rank, comm.size
        self.thread = ThreadPoolExecutor(1)

    def all_reduce(self, x: Any, op: str = "sum", async_op: bool = False) -> Any:
        """Return the reduction, or a future of it."""
        work = self.thread.submit(self._carry, x, op)
        return work if async_op else work.result()

    def _carry(self, x: Any, op: str) -> Any:
        result = self.comm.all_reduce(x, op)
        sleep(self.alpha)
        with self.link:
            sleep(self.beta)
        return result


def time_groups(
    comm: Any,
    counts: Sequence[int],
    combine: Callable[[list[GroupOnLink]], Any],
    buckets: int = 8,
    alpha: float = 0.008,
    beta: float = 0.002,
) -> list[float]:
    """Return the seconds of `buckets` all-reduces at once, for each number of groups combined."""
    seconds = []
    for count in counts:
        link = Lock()
        groups = combine([GroupOnLink(comm.split(0), link, alpha, beta) for _ in range(count)])
        comm.barrier()
        began = perf_counter()
        for work in [groups.all_reduce(np.ones(1000), async_op=True) for _ in range(buckets)]:
            work.result()
        seconds.append(perf_counter() - began)
    return seconds


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

    def all_reduce(self, x: Any, op: str = "sum", async_op: bool = False) -> Any:
        """Return the reduction, or with `async_op` a handle; `wait()` returns the reduction."""
        work = _UnderWay(self, self.start(x, op))
        return work if async_op else work.wait()

    def start(self, x: Any, op: str) -> Callable[[], Any]:
        """Begin an all-reduce; return what waits for its result."""
        wait: Callable[[], Any] = self.comm.all_reduce(x, op, async_op=True).wait
        return wait


class Noted(Clocked):
    """`comm`, whose all-reduces take turns in a thread that notes when each was under way.

    `busy` is for how long there was one, and `trips` when each began and ended, in nanoseconds.
    """

    def __init__(self, comm: Any) -> None:
        super().__init__(comm)
        self.queue = ThreadPoolExecutor(1)

    def start(self, x: Any, op: str) -> Callable[[], Any]:
        """Put an all-reduce behind those before it."""
        return self.queue.submit(self._carry, x, op).result

    def _carry(self, x: Any, op: str) -> Any:
        began = perf_counter()
        result = self.comm.all_reduce(x, op)
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
