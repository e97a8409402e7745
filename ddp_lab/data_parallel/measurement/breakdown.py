"""Where a training step's time goes: compute, communication exposed and hidden, optimizer.

    run = measure(model, step)          # on every rank
    print(run.table())
    run                                 # in a notebook: a picture of a typical step
    run.save("steps.json")              # opens in Perfetto or chrome://tracing

Works on DistributedDataParallel and on every step of the ladder.

May import: step_times, show.breakdown_picture.
Source of the four parts: Li et al., PyTorch Distributed, VLDB 2020, section 5.1.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from time import perf_counter_ns
from typing import Any

from ddp_lab.data_parallel.measurement.step_times import Span, StepTimes


@dataclass
class Breakdown:
    """The measured iterations of one rank."""

    rank: int
    steps: list[StepTimes] = field(default_factory=list)

    def medians_ms(self) -> dict[str, float]:
        """Return the median over the iterations of each part, in milliseconds."""
        parts = [step.parts_ms() for step in self.steps]
        return {name: median(p[name] for p in parts) for name in parts[0]}

    def table(self) -> str:
        """Return the medians as text: a line a part, with its share of the step."""
        ms = self.medians_ms()
        lines = [f"{'part':<22} {'ms':>9} {'share':>7}"]
        for name, value in ms.items():
            lines.append(f"{name:<22} {value:9.3f} {value / ms['step']:7.1%}")
        return "\n".join(lines)

    def typical(self) -> StepTimes:
        """Return the iteration whose length is the (lower) median."""
        return sorted(self.steps, key=lambda step: step.parts_ms()["step"])[
            (len(self.steps) - 1) // 2
        ]

    def svg(self) -> str:
        """Return a picture of the typical iteration, the medians of all beside it."""
        from ddp_lab.show.breakdown_picture import breakdown_picture

        return breakdown_picture(self.typical(), self.medians_ms(), self.rank, len(self.steps))

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        return {"text/plain": self.table(), "image/svg+xml": self.svg()}

    def chrome_trace(self) -> dict[str, Any]:
        """Return the iterations as Chrome trace events; process = rank, thread = lane."""
        events = []
        for number, step in enumerate(self.steps):
            for span in step.spans():
                events.append(
                    {
                        "name": span.name,
                        "ph": "X",
                        "pid": self.rank,
                        "tid": span.lane,
                        "ts": span.start_ns / 1e3,
                        "dur": (span.end_ns - span.start_ns) / 1e3,
                        "args": {"iteration": number},
                    }
                )
        return {"traceEvents": events, "displayTimeUnit": "ms"}

    def save(self, path: str | Path) -> None:
        """Write the Chrome trace as JSON."""
        Path(path).write_text(json.dumps(self.chrome_trace()))


def merge(runs: Sequence[Breakdown]) -> dict[str, Any]:
    """Return one Chrome trace of several ranks; they share a clock when on one machine."""
    events = [event for run in runs for event in run.chrome_trace()["traceEvents"]]
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def measure(
    model: Any,
    loss: Callable[[Any], Any],
    optimizer: Any,
    iterations: int = 10,
    warmup: int = 3,
) -> Breakdown:
    """Train `iterations` steps and return where their time went on this rank.

    Args:
        model: a DistributedDataParallel, or a step of the ladder.
        loss: `loss(model)` runs forward and returns the loss.
        optimizer: has `zero_grad()` and `step()`.
        warmup: steps before, not counted; buckets are rebuilt in the second one.
    """
    owner, name = _place(model)
    run = Breakdown(getattr(owner, name).rank)
    finish = getattr(model, "finish", lambda: None)
    for number in range(warmup + iterations):
        optimizer.zero_grad()
        with _timed(model) as clock:
            start = perf_counter_ns()
            value = loss(model)
            forward_end = perf_counter_ns()
            value.backward()
            finish()
            backward_end = perf_counter_ns()
            optimizer.step()
            end = perf_counter_ns()
        if number >= warmup:
            spans = clock.within(forward_end, backward_end)
            run.steps.append(StepTimes(start, forward_end, backward_end, end, *spans))
    return run


class _Clock:
    """A group or communicator that notes when its all-reduces ran and who waited for them."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.running: list[Span] = []
        self.blocked: list[Span] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def all_reduce(self, *args: Any, **kwargs: Any) -> Any:
        start = perf_counter_ns()
        name = f"all-reduce {len(self.running)}"
        result = self._inner.all_reduce(*args, **kwargs)
        end = perf_counter_ns()
        if hasattr(result, "wait"):
            self.running.append(Span(name, "communication", start, end))
            return _TimedWork(self, result, len(self.running) - 1)
        self.running.append(Span(name, "communication", start, end))
        self.blocked.append(Span(f"wait: {name}", "compute", start, end))
        return result

    def ended(self, number: int, end_ns: int) -> None:
        """Note when an all-reduce that was started earlier came to its end."""
        self.running[number] = replace(self.running[number], end_ns=end_ns)

    def within(self, start_ns: int, end_ns: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """Return the spans that began in this stretch of time."""
        running, blocked = (
            tuple(span for span in spans if start_ns <= span.start_ns <= end_ns)
            for spans in (self.running, self.blocked)
        )
        return running, blocked


class _TimedWork:
    """A collective under way whose end is noted, whether or not anybody waits for it yet."""

    def __init__(self, clock: _Clock, work: Any, number: int) -> None:
        self._clock = clock
        self._work = work
        self._number = number
        _when_done(work, lambda _done: clock.ended(number, perf_counter_ns()))

    def wait(self) -> Any:
        start = perf_counter_ns()
        result = self._work.wait()
        name = f"wait: {self._clock.running[self._number].name}"
        self._clock.blocked.append(Span(name, "compute", start, perf_counter_ns()))
        return result


def _when_done(work: Any, callback: Callable[[Any], None]) -> None:
    """Call `callback` at the end of a ddp_lab handle or of a torch.distributed work."""
    if hasattr(work, "when_done"):
        work.when_done(callback)
    else:
        work.get_future().add_done_callback(callback)


@contextmanager
def _timed(model: Any) -> Iterator[_Clock]:
    """Put a `_Clock` between the model and what carries its messages, for the time being."""
    owner, name = _place(model)
    inner = getattr(owner, name)
    clock = _Clock(inner)
    setattr(owner, name, clock)
    try:
        yield clock
    finally:
        setattr(owner, name, inner)


def _place(model: Any) -> tuple[Any, str]:
    """Return the object and the attribute through which a model communicates."""
    if hasattr(model, "reducer"):
        return model.reducer.averaging, "group"
    if hasattr(model, "comm"):
        return model, "comm"
    raise TypeError(
        f"measure: nothing to measure in a {type(model).__name__}: expected a "
        "DistributedDataParallel or a step of the ladder. Wrap the module first."
    )
