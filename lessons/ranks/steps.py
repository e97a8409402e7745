"""Training steps of two ranks taken apart: what the computing thread did, and the link beside it.

A runner is (wire, model, finish): a `Clocked` of `wires`, and what is to be called after backward.
"""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, TypeAlias

import torch

from ddp_lab.data_parallel.measurement.step_times import Span, StepTimes

Runner: TypeAlias = tuple[Any, torch.nn.Module, Callable[[], Any]]
Batch: TypeAlias = Callable[[int], tuple[torch.Tensor, torch.Tensor]]
Step: TypeAlias = Mapping[str, float]  # seconds, or another unit, by part

PARTS = (
    "forward",
    "backward compute",
    "exposed communication",
    "optimizer",
    "hidden communication",
)


@torch.no_grad()
def descend(params: Any, lr: float) -> None:
    """Take one step of gradient descent; the gradients are used up."""
    for param in params:
        param -= lr * param.grad
        param.grad = None


def train_step(
    runner: Runner, x: Any, y: Any, now: Callable[[], float] = perf_counter
) -> list[float]:
    """Train one step; return when it began, and when each of its four parts had ended."""
    wire, model, finish = runner
    place = next(model.parameters()).device
    x, y = x.to(place), y.to(place)
    wire.forget()
    at = [now()]
    loss = torch.nn.functional.cross_entropy(model(x), y)
    at.append(now())
    loss.backward()  # type: ignore[no-untyped-call]
    at.append(now())
    finish()
    at.append(now())
    descend(model.parameters(), lr=0.01)
    return [*at, now()]


def parts(wire: Any, moments: Sequence[float]) -> dict[str, float]:
    """Return the seconds of each of PARTS of the step that `wire` has just carried."""
    began, forward, _, finished, ended = moments
    exposed = wire.blocked
    compute, hidden = finished - forward - exposed, max(0.0, wire.busy - exposed)
    spent = (forward - began, compute, exposed, ended - finished, hidden)
    return dict(zip(PARTS, spent, strict=True))


def length(step: Step) -> float:
    """Return how long a step took: what is hidden runs beside the rest."""
    return sum(step.values()) - step["hidden communication"]


def step_contest(
    comm: Any,
    set_up: Callable[..., Runner],
    plans: Sequence[Sequence[Any]],
    batch: Batch,
    turns: int = 7,
    now: Callable[[], float] = perf_counter,
) -> list[list[dict[str, float]]]:
    """Return the parts of each step of each `set_up(comm, *plan)`, by turn; all take turns."""
    torch.set_num_threads(1)
    runners = [set_up(comm, *plan) for plan in plans]
    steps: list[list[dict[str, float]]] = [[] for _ in plans]
    for turn in range(turns):
        for runner, own_steps in zip(runners, steps, strict=True):
            x, y = batch(turn)
            comm.barrier()
            own_steps.append(parts(runner[0], train_step(runner, x, y, now)))
    return steps


def slower_of(
    ranks: Sequence[Sequence[Sequence[Step]]], unit_s: float = 1.0
) -> list[dict[str, float]]:
    """Return each plan's fastest step, on the rank that took longer, in units of `unit_s` seconds.

    It is one step of both ranks: who comes late to a message waits less, and its peer more.
    """
    fastest = []
    for turns_by_rank in zip(*ranks, strict=True):
        slower = [max(both, key=length) for both in zip(*turns_by_rank, strict=True)]
        fastest.append(min(slower, key=length))
    return [{part: seconds / unit_s for part, seconds in step.items()} for step in fastest]


def recorded_step(
    comm: Any, set_up: Callable[..., Runner], plan: Sequence[Any], batch: Batch, turns: int = 7
) -> StepTimes:
    """Return the moments of this rank's fastest step."""
    torch.set_num_threads(1)
    runner, steps = set_up(comm, *plan), []
    for turn in range(turns):
        x, y = batch(turn)
        comm.barrier()
        moments = train_step(runner, x, y)
        began, forward, returned, finished, ended = (round(1e9 * moment) for moment in moments)
        trips = tuple(Span("bucket", "communication", *trip) for trip in runner[0].trips)
        waited = Span("finish", "compute", returned, finished)
        steps.append(StepTimes(began, forward, finished, ended, trips, (waited,)))
    return min(steps, key=lambda step: step.end_ns - step.start_ns)


def ends(steps: Sequence[Step], waits: Sequence[float]) -> list[float]:
    """Return when each step would have ended with the predicted wait in place of its own."""
    pairs = zip(steps, waits, strict=True)
    return [length(step) - step["exposed communication"] + wait for step, wait in pairs]
