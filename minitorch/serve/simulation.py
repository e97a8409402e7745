"""Serving on a virtual clock: the same queue and the same controllers, no process, no waiting.

May import: batching, clock, dispatch.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from minitorch.errors import ArgumentError, ServeError
from minitorch.serve.batching import Batching, controllers
from minitorch.serve.clock import VirtualClock
from minitorch.serve.dispatch import Dispatcher, Lane, Query

ANY = ("", ())  # all queries can be in one batch
Cost = tuple[float, float] | Callable[[int], float]


@dataclass(frozen=True)
class Batch:
    """One batch: which container ran it from when to when, and the numbers of its queries."""

    container: int
    began_ms: float
    ended_ms: float
    queries: tuple[int, ...]


@dataclass(frozen=True)
class Simulation:
    """What happened.

    Attributes:
        latency_ms: of each arrival; infinite where it was dropped.
        runs: the batches in the order in which they began.
    """

    latency_ms: list[float]
    runs: list[Batch] = field(default_factory=list)

    @property
    def batches(self) -> list[int]:
        """The sizes of the batches in order."""
        return [len(run.queries) for run in self.runs]


def simulate(
    containers: Sequence[Cost],
    arrivals: Sequence[float],
    batching: Batching,
    slo_ms: float,
    delay_ms: float = 0.0,
    *,
    deadlines: bool = False,
) -> Simulation:
    """Return what would happen to queries that arrive at these times.

    Args:
        containers: replicas of one model, each as (fixed_ms, per_item_ms), or a function from the
            size of a batch to its ms.
        arrivals: when each query comes, in ms.
        batching: as for `Server`; every container has a controller of its own.
        slo_ms: the goal for a batch, and the deadline of a query.
        delay_ms: how long a batch that is not full waits for more.
        deadlines: whether queries that cannot be answered in time are dropped, as a server does;
            else all are computed, however late.

    Raises:
        ArgumentError: no container, a negative time, or an unknown batching.
    """
    make = controllers("simulate", batching)
    costs = [_cost(container) for container in containers]
    times = [float(time) for time in arrivals]
    if not costs or not all(0 <= time < float("inf") for time in times) or not slo_ms > 0:
        raise ArgumentError(
            f"simulate: got {len(costs)} containers, a goal of {slo_ms} ms, arrivals from "
            f"{min(times, default=0)} ms: expected at least one, positive, not negative."
        )
    clock = VirtualClock()
    dispatcher = Dispatcher(
        clock, lambda call: clock.call_at(clock.now_ms(), call), delay_ms, drops=deadlines
    )
    found = Simulation([float("inf")] * len(times))
    for number, cost in enumerate(costs):
        dispatcher.add(_lane(number, cost, make(slo_ms), clock, dispatcher, found))
    order = sorted(range(len(times)), key=lambda number: (times[number], number), reverse=True)

    def told(number: int, _: Any, error: ServeError | None) -> None:
        if error is None:
            found.latency_ms[number] = clock.now_ms() - times[number]

    def arrive() -> None:
        now_ms = clock.now_ms()
        while order and times[order[-1]] <= now_ms:
            number = order.pop()
            dispatcher.submit(Query(number, ANY, now_ms, now_ms + slo_ms, partial(told, number)))
        if order:
            clock.call_at(times[order[-1]], arrive)

    arrive()
    clock.run()
    return found


def _cost(container: Cost) -> Callable[[int], float]:
    if callable(container):
        return container
    fixed_ms, per_item_ms = container
    if not (fixed_ms >= 0 and per_item_ms >= 0):
        raise ArgumentError(f"simulate: a container of {container}: expected times in ms.")
    return lambda size: fixed_ms + per_item_ms * size


def _lane(
    number: int, cost: Callable[[int], float], controller: Any, clock: VirtualClock,
    dispatcher: Dispatcher, found: Simulation,
) -> Lane:  # fmt: skip
    def run(batch: list[Query]) -> None:
        began_ms = clock.now_ms()
        took_ms = cost(len(batch))
        ended_ms = began_ms + took_ms
        found.runs.append(Batch(number, began_ms, ended_ms, tuple(query.x for query in batch)))
        clock.call_at(ended_ms, lambda: done(took_ms))

    def done(took_ms: float) -> None:
        for query in dispatcher.finished(lane, took_ms):
            query.answer(None, None)

    lane = Lane(controller, run)
    return lane
