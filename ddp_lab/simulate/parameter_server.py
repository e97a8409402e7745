"""Workers and a parameter server on a virtual clock, by the rules that the real server goes by.

Computing takes the time that is drawn for it; messages take none.
May import: arguments, errors, parallel, stragglers, transport.
"""

import heapq
import math
from collections.abc import Callable
from dataclasses import dataclass

from ddp_lab.arguments import check_counts, check_name
from ddp_lab.errors import InvalidArgument
from ddp_lab.parallel.parameter_server.consistency import APPLY, CONSISTENCIES, Progress
from ddp_lab.simulate.stragglers import Draw, draw_of
from ddp_lab.transport.base import NDArray


@dataclass(frozen=True)
class Span:
    """One gradient: its worker waited from `asked_at`, computed from `began_at` to `ended_at`."""

    worker: int
    step: int
    asked_at: float
    began_at: float
    ended_at: float
    dropped: bool


@dataclass(frozen=True)
class ServerRun:
    """What a simulated run took; `steps` is how many each worker makes, or all make together."""

    makespan: float
    steps: int
    spans: list[Span]
    max_staleness: int
    applied_at: list[float]  # when the parameters changed

    @property
    def step_time(self) -> float:
        """The makespan over the steps."""
        return self.makespan / self.steps

    @property
    def waited(self) -> float:
        """Seconds that all workers together stood at a pull."""
        return sum(span.began_at - span.asked_at for span in self.spans)

    @property
    def dropped(self) -> int:
        """Gradients that came too late."""
        return sum(span.dropped for span in self.spans)


def parameter_server(
    consistency: str,
    workers: int,
    staleness: int = 0,
    step_time: str | Draw = "osdi16",
    steps: int = 1000,
    seed: int = 0,
    backups: int = 0,
) -> ServerRun:
    """Return what `steps` steps of each of `workers` workers take.

    Args:
        consistency: "sync", "async" or "ssp", as for `ddp_lab.parallel.ParameterServer`.
        workers: how many gradients a synchronous step needs; `backups` workers come on top.
        staleness: for "ssp".
        step_time: draws each worker's time in each step; see `backup_workers`.
        steps: how many.
        seed: equal seeds draw equal times.
        backups: for "sync": a worker that is late finishes its gradient, which is dropped, and
            goes on with the step that the others are in.
    Raises:
        InvalidArgument: a name or a number that makes no sense.
    """
    check_name("parameter_server", "consistency", consistency, CONSISTENCIES)
    check_counts("parameter_server", workers=workers, steps=steps)
    check_counts("parameter_server", 0, staleness=staleness, backups=backups)
    if backups and consistency != "sync":
        raise InvalidArgument(
            f"parameter_server: backups make sense for 'sync' alone: got {backups} for "
            f"{consistency!r}. Leave them out."
        )
    times = draw_of(step_time, (workers + backups, steps), seed, "parameter_server")
    progress = Progress(consistency, range(workers + backups), staleness, backups)
    return run_on_clock(times, progress)


def run_on_clock(
    times: NDArray,
    progress: Progress,
    on_pull: Callable[[int], object] | None = None,
    on_apply: Callable[[list[int], float], object] | None = None,
) -> ServerRun:
    """Return what workers took whose times for each step are given, shape (workers, steps).

    Args:
        times: seconds.
        progress: the rules.
        on_pull: called with a worker that gets the parameters.
        on_apply: called with the workers whose gradients are applied together, and the time.
    """
    clock = _Clock(times, progress, on_pull or _ignore, on_apply or _ignore)
    for worker in range(len(times)):
        clock.ask(worker, 0.0)
    while clock.computing:
        clock.finish_next()
    makespan = clock.applied_at[-1] if progress.consistency == "sync" else clock.now
    return ServerRun(makespan, times.shape[1], clock.spans, clock.max_staleness, clock.applied_at)


def _ignore(*_: object) -> None:
    """Do nothing."""


class _Clock:
    """Workers that compute, workers that wait, and the time."""

    def __init__(
        self,
        times: NDArray,
        progress: Progress,
        on_pull: Callable[[int], object],
        on_apply: Callable[[list[int], float], object],
    ) -> None:
        self.now = 0.0
        self.applied_at: list[float] = []
        self.computing: list[tuple[float, int, int, float, float]] = []  # heap, by their end
        self.spans: list[Span] = []
        self.max_staleness = 0
        self._times = times
        self._progress = progress
        self._on_pull, self._on_apply = on_pull, on_apply
        self._waiting: list[tuple[int, float]] = []  # worker, since when
        self._steps = dict.fromkeys(range(len(times)), 0)

    def ask(self, worker: int, since: float) -> None:
        """Let the worker pull and begin to compute, or wait, or end."""
        progress, step = self._progress, self._steps[worker]
        if progress.consistency == "sync":
            step = self._steps[worker] = max(step, progress.version)
        if step >= self._times.shape[1]:
            progress.done(worker)
        elif progress.may_pull(step):
            self.max_staleness = max(self.max_staleness, progress.lead(step))
            self._on_pull(worker)
            end = self.now + float(self._times[worker, step])
            heapq.heappush(self.computing, (end, worker, step, since, self.now))
        else:
            self._waiting.append((worker, since))

    def finish_next(self) -> None:
        """Let the time pass until the next gradient is pushed."""
        self.now, worker, step, asked_at, began_at = heapq.heappop(self.computing)
        was_slowest = step == min(self._progress.steps.values(), default=math.inf)
        fate = self._progress.push(worker, step)
        self._steps[worker] = step + 1
        dropped = fate == "drop"
        self.spans.append(Span(worker, step, asked_at, began_at, self.now, dropped))
        version = self._progress.version
        if fate == APPLY:
            self._apply([worker])
        self._waiting.append((worker, self.now))
        while (complete := self._progress.take_step()) is not None:
            self._apply(complete[1])
        moved = was_slowest or self._progress.version != version
        asking, self._waiting = (
            (self._waiting, []) if moved else ([self._waiting.pop()], self._waiting)
        )
        for other, since in asking:
            self.ask(other, since)

    def _apply(self, workers: list[int]) -> None:
        self.applied_at.append(self.now)
        self._on_apply(workers, self.now)
