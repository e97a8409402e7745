"""Serving on a virtual clock: the same queue and the same controllers, no process, no waiting.

May import: batching, clock, dispatch, errors.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from minitorch.errors import ArgumentError
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
    """What happened."""

    latency_ms: list[float]  # of each arrival; infinite where it was dropped
    runs: list[Batch] = field(default_factory=list)  # in the order in which they began

    @property
    def batches(self) -> list[int]:
        """The sizes of the batches in order."""
        return [len(run.queries) for run in self.runs]


def simulate(
    containers: Sequence[Cost], arrivals: Sequence[float], batching: Batching, slo_ms: float,
    delay_ms: float = 0.0, *, deadlines: bool = False,
) -> Simulation:  # fmt: skip
    """Return what would happen to queries that arrive at these times.

    Args:
        containers: replicas of one model, each as (fixed_ms, per_item_ms), or a function from the
            size of a batch to its ms.
        arrivals: when each query comes, in ms.
        batching, slo_ms, delay_ms: as for `Server`; every container has a controller of its own.
        deadlines: whether queries that cannot be answered in time are dropped, as a server does;
            else all are computed, however late.
    """
    make = controllers("simulate", batching)
    costs = [_cost(container) for container in containers]
    times = [float(time) for time in arrivals]
    _check(costs, times, slo_ms)
    clock = VirtualClock()
    dispatcher = Dispatcher(
        clock, lambda call: clock.call_at(clock.now_ms(), call), delay_ms, drops=deadlines
    )
    simulation = Simulation([float("inf")] * len(times))

    def run(number: int, batch: list[Query]) -> None:
        began_ms, took_ms = clock.now_ms(), costs[number](len(batch))
        ended_ms = began_ms + took_ms
        simulation.runs.append(Batch(number, began_ms, ended_ms, tuple(query.x for query in batch)))
        clock.call_at(ended_ms, lambda: done(lanes[number], took_ms))

    def done(lane: Lane, took_ms: float) -> None:
        for query in dispatcher.finish(lane, took_ms):
            simulation.latency_ms[query.x] = clock.now_ms() - query.asked_ms

    lanes = [Lane(make(slo_ms), partial(run, number)) for number in range(len(costs))]
    for lane in lanes:
        dispatcher.add(lane)
    for number, at_ms in enumerate(times):
        query = Query(number, ANY, at_ms, at_ms + slo_ms, lambda *_: None)
        clock.call_at(at_ms, partial(dispatcher.submit, query))
    clock.run()
    return simulation


def _check(costs: Sequence[object], times: Sequence[float], slo_ms: float) -> None:
    if not costs or not all(0 <= time < float("inf") for time in times) or not slo_ms > 0:
        raise ArgumentError(
            f"simulate: got {len(costs)} containers, a goal of {slo_ms} ms, arrivals from "
            f"{min(times, default=0)} ms: expected at least one, positive, not negative."
        )


def _cost(container: Cost) -> Callable[[int], float]:
    if callable(container):
        return container
    fixed_ms, per_item_ms = container
    if not (fixed_ms >= 0 and per_item_ms >= 0):
        raise ArgumentError(f"simulate: a container of {container}: expected times in ms.")
    return lambda size: fixed_ms + per_item_ms * size
