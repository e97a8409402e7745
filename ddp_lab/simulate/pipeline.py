"""A step of pipeline-parallel training: who does what when, how long stages idle, what they hold.

GPipe and 1F1B both idle for (K-1)/(M+K-1) of the step, with K stages and M micro-batches; they
differ in the activations that a stage has to keep: M with GPipe, at most K with 1F1B. With v
chunks on each rank, interleaved 1F1B idles for (K-1)/(vM+K-1).

May import: errors, pipeline.schedules.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.pipeline.schedules import (
    Action,
    ActionSpan,
    most_activations,
    orders_of,
    parse,
    walk,
)


@dataclass(frozen=True)
class PipelineStep:
    """A step, predicted or measured: the spans of each rank, in order, from 0 s."""

    spans: tuple[tuple[ActionSpan, ...], ...]

    @property
    def actions(self) -> list[list[str]]:
        """The actions of each rank, in order; without the times between them."""
        return [[span.action for span in rank] for rank in self.spans]

    @property
    def makespan(self) -> float:
        """Seconds from the first action's begin to the last one's end."""
        return max(rank[-1].ended_at for rank in self.spans)

    @property
    def bubble_fraction(self) -> float:
        """The share of all ranks' time in which they do nothing."""
        whole = self.makespan * len(self.spans)
        busy = sum(span.ended_at - span.began_at for rank in self.spans for span in rank)
        return max(0.0, 1 - busy / whole) if whole else 0.0

    @property
    def peak_activations(self) -> list[int]:
        """The most micro-batches whose activations each rank keeps at a time, over its stages.

        A weight's half of a backward needs them too: they go with W where there is one.
        """
        return [most_activations([parse(action) for action in rank]) for rank in self.actions]


def pipeline(
    schedule: str | Sequence[Sequence[str]],
    stages: int,
    microbatches: int,
    forward: float | Sequence[float] = 1.0,
    backward: float | Sequence[float] = 2.0,
    overhead: float = 0.0,
    *,
    chunks: int = 1,
) -> PipelineStep:
    """Return the predicted step of a pipeline with a rank a device.

    An action begins once its rank is free and what it needs is there: a forward needs that of the
    stage before, a backward that of the stage after. I and W, the halves of a backward that is
    done in two, take half its time each.

    Args:
        schedule: a name that `ddp_lab.parallel.schedule` knows, or a table as it returns.
        stages: how many ranks there are, 1 or more.
        microbatches: how many the batch is cut into, 1 or more.
        forward: seconds of a micro-batch's forward on a stage, or one number for each stage,
            `stages * chunks` of them.
        backward: seconds of its backward, likewise.
        overhead: seconds that each action takes besides, such as to start kernels and copy.
        chunks: stages on each rank, for the interleaved schedules.
    Raises:
        InvalidArgument: an unknown schedule, a wrong table, or a number that makes no sense.
    """
    orders = orders_of(schedule, stages, microbatches, chunks)
    (extra,) = _times("overhead", overhead, 1)
    seconds = {
        "F": [time + extra for time in _times("forward", forward, stages * chunks)],
        "B": [time + extra for time in _times("backward", backward, stages * chunks)],
    }
    seconds["I"] = seconds["W"] = [(time - extra) / 2 + extra for time in seconds["B"]]
    return PipelineStep(_run(orders, seconds))


def finish_times(
    schedule: str, microbatches: int, forward: Sequence[float], backward: Sequence[float]
) -> tuple[list[float], list[int]]:
    """Return when each stage ends and the most micro-batches that it keeps, as `pipeline` says.

    GPipe and 1F1B are gone through without a list of actions, some fifty times as quickly: what
    searches over plans call.
    """
    stages, ends = len(forward), [0.0] * len(forward)
    if schedule == "gpipe":
        _send_through(microbatches, forward, ends, range(stages))
        _send_through(microbatches, backward, ends, range(stages - 1, -1, -1))
        return ends, [microbatches] * stages
    if schedule not in ("1f1b", "pipedream"):  # which differ in their weights alone
        step = pipeline(schedule, stages, microbatches, forward, backward)
        return [spans[-1].ended_at for spans in step.spans], step.peak_activations
    backward_ended = [0.0] * (stages + 1)  # when each stage last finished a backward
    for turn in range(microbatches + stages - 1):
        arrived = 0.0
        for stage in range(stages):
            if turn < microbatches:
                arrived = ends[stage] = max(arrived, ends[stage]) + forward[stage]
            # what comes back now began so many turns ago
            if 0 <= turn - (stages - 1 - stage) < microbatches:
                ends[stage] = max(ends[stage], backward_ended[stage + 1]) + backward[stage]
                backward_ended[stage] = ends[stage]
    return ends, [min(stages - stage, microbatches) for stage in range(stages)]


def _send_through(
    microbatches: int, seconds: Sequence[float], ends: list[float], order: Sequence[int]
) -> None:
    """Send all micro-batches through the stages, in this order of stages; move `ends` on."""
    for _ in range(microbatches):
        arrived = 0.0
        for stage in order:
            arrived = ends[stage] = max(arrived, ends[stage]) + seconds[stage]


def _run(
    orders: Sequence[Sequence[Action]], seconds: dict[str, list[float]]
) -> tuple[tuple[ActionSpan, ...], ...]:
    """Return when each action happens."""
    last_stage = len(seconds["F"]) - 1
    given_at: dict[Action, float] = {}
    spans: list[list[ActionSpan]] = [[] for _ in orders]
    for rank, action in walk(orders):
        free_at = spans[rank][-1].ended_at if spans[rank] else 0.0
        began_at = max([free_at, *(given_at[needed] for needed in action.needs(last_stage))])
        ended_at = began_at + seconds[action.kind][action.stage]
        given_at[action.gives] = ended_at
        spans[rank].append(ActionSpan(str(action), began_at, ended_at))
    return tuple(map(tuple, spans))


def _times(name: str, value: float | Sequence[float], stages: int) -> list[float]:
    each: Any = value if hasattr(value, "__iter__") else [value] * stages
    times = list(map(float, each))
    if len(times) != stages:
        raise InvalidArgument(
            f"pipeline: one {name} time a stage: got {len(times)}, expected {stages}. "
            "Pass a number for all stages, or one for each."
        )
    bad = next((time for time in times if not 0 <= time < float("inf")), None)
    if bad is not None:
        raise InvalidArgument(
            f"pipeline: no such time: got {name}={bad}, expected seconds, 0 or more. "
            "Pass what was measured."
        )
    return times
