"""Training steps of two ranks taken apart: what the computing thread did, and the wire beside it.

A runner is (wire, model, finish): a wire of `wires`, and what is to be called after each backward.

May import: NumPy, torch, data_parallel.step_times; matplotlib inside functions.
"""

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter, perf_counter_ns
from typing import Any, TypeAlias

import numpy as np
import torch

from ddp_lab.data_parallel.step_times import Span, StepTimes

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
HATCHES = ("", "//", "xx", "..", "--")


@torch.no_grad()
def descend(params: Any, lr: float) -> None:
    """Take one step of gradient descent; the gradients are used up."""
    for param in params:
        param -= lr * param.grad
        param.grad = None


def one_step(
    runner: Runner, x: Any, y: Any, now: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """Train one step; return the seconds of each of PARTS."""
    wire, model, finish = runner
    place = next(model.parameters()).device
    x, y = x.to(place), y.to(place)
    wire.forget()
    at = [now()]
    loss = torch.nn.functional.cross_entropy(model(x), y)
    at.append(now())
    loss.backward()  # type: ignore[no-untyped-call]
    finish()
    at.append(now())
    descend(model.parameters(), lr=0.01)
    forward, backward, optimize = np.diff([*at, now()]).tolist()
    exposed = wire.blocked
    hidden = max(0.0, wire.busy - exposed)
    return dict(zip(PARTS, (forward, backward - exposed, exposed, optimize, hidden), strict=True))


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
) -> list[dict[str, float]]:
    """Return the parts of the fastest step of each `set_up(comm, *plan)`; all take turns."""
    torch.set_num_threads(1)
    runners = [set_up(comm, *plan) for plan in plans]
    steps: list[list[dict[str, float]]] = [[] for _ in plans]
    for turn in range(turns):
        for runner, kept in zip(runners, steps, strict=True):
            x, y = batch(turn)
            comm.barrier()
            kept.append(one_step(runner, x, y, now))
    return [min(kept, key=length) for kept in steps]


def slower_of(ranks: Sequence[Sequence[Step]], unit_s: float = 1.0) -> list[dict[str, float]]:
    """Return each plan's step on the rank that took longer, in units of `unit_s` seconds."""
    slow = [max(both, key=length) for both in zip(*ranks, strict=True)]
    return [{part: seconds / unit_s for part, seconds in step.items()} for step in slow]


def recorded_step(
    comm: Any, set_up: Callable[..., Runner], plan: Sequence[Any], batch: Batch, turns: int = 7
) -> StepTimes:
    """Return the moments of this rank's fastest step."""
    torch.set_num_threads(1)
    (wire, model, finish), steps = set_up(comm, *plan), []
    for turn in range(turns):
        x, y = batch(turn)
        wire.forget()
        comm.barrier()
        began = perf_counter_ns()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        forward = perf_counter_ns()
        loss.backward()  # type: ignore[no-untyped-call]
        returned = perf_counter_ns()
        finish()
        finished = perf_counter_ns()
        descend(model.parameters(), lr=0.01)
        trips = tuple(Span("bucket", "communication", *trip) for trip in wire.trips)
        waited = Span("finish", "compute", returned, finished)
        steps.append(StepTimes(began, forward, finished, perf_counter_ns(), trips, (waited,)))
    return min(steps, key=lambda step: step.end_ns - step.start_ns)


def ends(steps: Sequence[Step], waits: Sequence[float]) -> list[float]:
    """Return when each step would have ended with the predicted wait in place of its own."""
    pairs = zip(steps, waits, strict=True)
    return [length(step) - step["exposed communication"] + wait for step, wait in pairs]


def draw_steps(
    steps: Mapping[str, Step], title: str, unit: str, waits: Sequence[float] = ()
) -> None:
    """Draw {kind: its step}, and marks where they would end with the predicted `waits`."""
    from matplotlib import pyplot as plt

    _, ax = plt.subplots()
    left, rows = np.zeros(len(steps)), np.arange(len(steps))
    for name, hatch in zip(PARTS, HATCHES, strict=True):
        width = np.array([step[name] for step in steps.values()])
        if name != "hidden communication":
            ax.barh(rows, width, 0.5, left, label=name, hatch=hatch)
            left = left + width
        elif width.any():  # runs beside compute: a bar of its own
            beside = [step["forward"] for step in steps.values()]
            ax.barh(rows + 0.35, width, 0.15, beside, label=name, hatch=hatch)
    if len(waits):
        marks = ends(list(steps.values()), waits)
        ax.plot(marks, rows, "wD", markeredgecolor="k", label="end, by the predicted wait")
    ax.set_yticks(rows, list(steps))
    ax.invert_yaxis()
    ax.set(xlabel=f"time, {unit}", title=title)
    ax.legend(loc="upper center", bbox_to_anchor=(0.45, -0.2), ncols=3, fontsize="small")
    plt.show()
