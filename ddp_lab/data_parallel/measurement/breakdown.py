"""Where a training step's time goes: compute, communication exposed and hidden, optimizer.

    steps = measure(model, loss, optimizer)     # on every rank
    typical(steps).parts_ms()

Works on DistributedDataParallel and on every step of the ladder.

May import: step_times.
Source of the four parts: Li et al., PyTorch Distributed, VLDB 2020, section 5.1.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter_ns
from typing import Any

from ddp_lab.data_parallel.measurement.step_times import Span, StepTimes


def typical(steps: Sequence[StepTimes]) -> StepTimes:
    """Return the step whose length is the (lower) median."""
    return sorted(steps, key=lambda step: step.end_ns - step.start_ns)[(len(steps) - 1) // 2]


def measure(
    model: Any, loss: Callable[[Any], Any], optimizer: Any, iterations: int = 10, warmup: int = 3
) -> list[StepTimes]:
    """Train `iterations` steps and return where their time went on this rank.

    Args:
        model: a DistributedDataParallel, or a step of the ladder.
        loss: `loss(model)` runs forward and returns the loss.
        optimizer: has `zero_grad()` and `step()`.
        warmup: steps before, not counted; buckets are rebuilt in the second one.
    """
    steps = []
    finish = getattr(model, "finish", lambda: None)
    for number in range(warmup + iterations):
        optimizer.zero_grad()
        with _time_messages(model) as clock:
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
            steps.append(StepTimes(start, forward_end, backward_end, end, *spans))
    return steps


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

    def note_end(self, number: int, end_ns: int) -> None:
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
        _when_done(work, lambda _done: clock.note_end(number, perf_counter_ns()))

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
def _time_messages(model: Any) -> Iterator[_Clock]:
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
        return model.reducer, "group"
    if hasattr(model, "comm"):
        return model, "comm"
    raise TypeError(
        f"measure: nothing to measure in a {type(model).__name__}: expected a "
        "DistributedDataParallel or a step of the ladder. Wrap the module first."
    )
