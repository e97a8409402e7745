"""A step of pipeline-parallel training: who does what when, how long stages idle, what they hold.

    stage 0   F0 F1 F2 F3          B0 B1 B2 B3      gpipe: all forwards, then all backwards
    stage 0   F0 F1    B0 F2 B1 F3 B2    B3         1f1b: one backward for each forward

Both idle for (K-1)/(M+K-1) of the step, with K stages and M micro-batches; they differ in the
activations that a stage has to keep: M with gpipe, at most K with 1f1b.

May import: the package's errors.
Source: Huang et al., GPipe, NeurIPS 2019; Narayanan et al., PipeDream, SOSP 2019, for 1F1B.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ddp_lab.errors import InvalidArgument


@dataclass(frozen=True)
class ActionSpan:
    """An action in torch's notation, `"0F3"` for stage 0, forward, micro-batch 3; seconds."""

    action: str
    began_at: float
    ended_at: float


@dataclass(frozen=True)
class PipelineStep:
    """A predicted step: the spans of each stage, in order."""

    spans: tuple[tuple[ActionSpan, ...], ...]

    @property
    def actions(self) -> list[list[str]]:
        """The actions of each stage, in order; without the times between them."""
        return [[span.action for span in stage] for stage in self.spans]

    @property
    def makespan(self) -> float:
        """Seconds from the first action's begin to the last one's end."""
        return max(stage[-1].ended_at for stage in self.spans)

    @property
    def bubble_fraction(self) -> float:
        """The share of all stages' time in which they do nothing."""
        whole = self.makespan * len(self.spans)
        busy = sum(span.ended_at - span.began_at for stage in self.spans for span in stage)
        return max(0.0, 1 - busy / whole) if whole else 0.0

    @property
    def peak_activations(self) -> list[int]:
        """The most micro-batches whose activations each stage keeps at a time."""
        return [_peak(stage) for stage in self.actions]


def _peak(actions: Sequence[str]) -> int:
    held = most = 0
    for action in actions:
        held += 1 if "F" in action else -1
        most = max(most, held)
    return most


def gpipe(stage: int, stages: int, microbatches: int) -> list[tuple[str, int]]:
    """Return one stage's order: all forwards, then all backwards."""
    order = range(microbatches)
    return [("F", m) for m in order] + [("B", m) for m in order]


def one_forward_one_backward(stage: int, stages: int, microbatches: int) -> list[tuple[str, int]]:
    """Return one stage's order: as many forwards as stages are left, then in turns."""
    ahead = min(stages - stage, microbatches)
    order = [("F", m) for m in range(ahead)]
    for m in range(microbatches):
        order.append(("B", m))
        if m + ahead < microbatches:
            order.append(("F", m + ahead))
    return order


SCHEDULES: dict[str, Callable[[int, int, int], list[tuple[str, int]]]] = {
    "1f1b": one_forward_one_backward,
    "gpipe": gpipe,
}


def pipeline(
    schedule: str,
    stages: int,
    microbatches: int,
    forward: float | Sequence[float] = 1.0,
    backward: float | Sequence[float] = 2.0,
    overhead: float = 0.0,
) -> PipelineStep:
    """Return the predicted step of a pipeline with one stage a device.

    An action begins once its stage is free and what it needs is there: a forward needs that of the
    stage before, a backward that of the stage after.

    Args:
        schedule: `"gpipe"` or `"1f1b"`.
        stages: how many there are, 1 or more.
        microbatches: how many the batch is cut into, 1 or more.
        forward: seconds of a micro-batch's forward on a stage, or one number for each stage.
        backward: seconds of its backward, likewise.
        overhead: seconds that each action takes besides, such as to start kernels and copy.

    Raises:
        InvalidArgument: an unknown schedule, or a number that makes no sense.
    """
    if schedule not in SCHEDULES:
        raise InvalidArgument(
            f"pipeline: unknown schedule: got {schedule!r}, expected one of "
            f"{', '.join(sorted(SCHEDULES))}. Choose one of these names."
        )
    _check_count("stages", stages)
    _check_count("microbatches", microbatches)
    (extra,) = _times("overhead", overhead, 1)
    seconds = {
        "F": [time + extra for time in _times("forward", forward, stages)],
        "B": [time + extra for time in _times("backward", backward, stages)],
    }
    orders = [SCHEDULES[schedule](stage, stages, microbatches) for stage in range(stages)]
    return PipelineStep(_run(orders, seconds))


def _run(
    orders: Sequence[Sequence[tuple[str, int]]], seconds: dict[str, list[float]]
) -> tuple[tuple[ActionSpan, ...], ...]:
    """Return when each action happens, by going through the stages until all are done."""
    last = len(orders) - 1
    ended: dict[tuple[str, int, int], float] = {}  # by kind, stage, micro-batch
    spans: list[list[ActionSpan]] = [[] for _ in orders]
    left = sum(len(order) for order in orders)
    while left:
        before = left
        for stage, order in enumerate(orders):
            while len(spans[stage]) < len(order):
                kind, m = order[len(spans[stage])]
                needed = (kind, stage - 1 if kind == "F" else stage + 1, m)
                if 0 <= needed[1] <= last and needed not in ended:
                    break
                free_at = spans[stage][-1].ended_at if spans[stage] else 0.0
                began = max(free_at, ended.get(needed, 0.0))
                ended[kind, stage, m] = began + seconds[kind][stage]
                action = f"{stage}{kind}{m}"
                spans[stage].append(ActionSpan(action, began, ended[kind, stage, m]))
                left -= 1
        assert left < before, "a schedule in which stages wait for each other"
    return tuple(map(tuple, spans))


def _times(name: str, value: float | Sequence[float], stages: int) -> list[float]:
    times = [float(value)] * stages if isinstance(value, int | float) else list(map(float, value))
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


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgument(
            f"pipeline: no such number of {name}: got {value!r}, expected 1 or more. "
            "Pass a whole number."
        )
