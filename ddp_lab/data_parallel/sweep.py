"""How large should a bucket be? Measured on this machine, and predicted from a profile.

    profile = profile_backward(module, loss)
    predicted = predict(profile, sizes_mb, all_reduce)               # {size: seconds}
    measured = measure_sizes(wrap, loss, make_optimizer, sizes_mb)   # the same, on every rank
    Sweep(predicted, measured)                                       # a table, and a picture

Works with torch and minitorch modules. One bucket overlaps with nothing; a bucket a gradient pays
for as many messages: in between lies the best size.

May import: the standard library, models, simulate, sweep_picture.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

from ddp_lab.data_parallel.bucketing import MIB
from ddp_lab.data_parallel.models import Module, array_specs, trainable
from ddp_lab.data_parallel.sweep_picture import sweep_picture
from ddp_lab.simulate import ddp


@dataclass(frozen=True)
class BackwardProfile:
    """Seconds of forward, and for each gradient in order of readiness its seconds and bytes."""

    forward: float
    backward: list[float]
    n_bytes: list[int]
    names: list[str]


def profile_backward(
    module: Module, loss: Callable[[Any], Any], iterations: int = 10
) -> BackwardProfile:
    """Return how long backward works on each gradient, medians over `iterations`.

    `loss(module)` runs forward and returns the loss. Gradients are cleared between iterations,
    and left as the last one made them.
    """
    params = trainable(module)
    sizes = {spec.name: spec.nbytes for spec in array_specs(params)}
    ready: list[tuple[str, float]] = []
    handles = [
        param.register_post_accumulate_grad_hook(_note(ready, name)) for name, param in params
    ]
    forwards, runs = [], []
    try:
        for _ in range(iterations + 1):  # the first one warms up
            for _, param in params:
                param.grad = None
            ready.clear()
            began = perf_counter()
            value = loss(module)
            backward_began = perf_counter()
            value.backward()
            forwards.append(backward_began - began)
            runs.append([("", backward_began), *ready])
    finally:
        for handle in handles:
            handle.remove()
    names = [name for name, _ in runs[-1][1:]]
    steps = [_differences(run) for run in runs[1:] if len(run) == len(names) + 1]
    backward = [median(step[k] for step in steps) for k in range(len(names))]
    return BackwardProfile(median(forwards[1:]), backward, [sizes[n] for n in names], names)


def _note(ready: list[tuple[str, float]], name: str) -> Callable[[Any], None]:
    return lambda _param: ready.append((name, perf_counter()))


def _differences(run: Sequence[tuple[str, float]]) -> list[float]:
    return [after - before for (_, before), (_, after) in pairwise(run)]


def predict(
    profile: BackwardProfile, sizes_mb: Sequence[float], all_reduce: Callable[[float], float]
) -> dict[float, float]:
    """Return the predicted seconds of a step for each bucket size in MiB."""
    return {
        size: ddp(
            profile.forward, profile.backward, profile.n_bytes, size * MIB, all_reduce
        ).step_time
        for size in sizes_mb
    }


def measure_sizes(
    wrap: Callable[[float], Any],
    loss: Callable[[Any], Any],
    make_optimizer: Callable[[Any], Any],
    sizes_mb: Sequence[float],
    iterations: int = 20,
    warmup: int = 3,
) -> dict[float, float]:
    """Return the median seconds of forward and backward for each bucket size in MiB.

    `wrap(size)` returns a new model. The sizes take turns, so that a busy machine hurts all
    alike. Call it on every rank at the same time.
    """
    models = {size: wrap(size) for size in sizes_mb}
    optimizers = {size: make_optimizer(model) for size, model in models.items()}
    times: dict[float, list[float]] = {size: [] for size in sizes_mb}
    for number in range(warmup + iterations):
        for size, model in models.items():
            optimizers[size].zero_grad()
            began = perf_counter()
            loss(model).backward()
            getattr(model, "finish", lambda: None)()
            if number >= warmup:
                times[size].append(perf_counter() - began)
            optimizers[size].step()
    return {size: median(taken) for size, taken in times.items()}


def best(seconds: dict[float, float]) -> float:
    """Return the bucket size with the shortest step."""
    return min(seconds, key=lambda size: seconds[size])


@dataclass(frozen=True)
class Sweep:
    """Seconds of a step by bucket size in MiB, as the cost model has them and as they were."""

    predicted: dict[float, float]
    measured: dict[float, float]

    @property
    def regret(self) -> float:
        """How much longer than the shortest the measured step is at the predicted optimum.

        0.03 is 3 %. Near its optimum the curve is flat: two sizes may differ and be as good.
        """
        return self.measured[best(self.predicted)] / min(self.measured.values()) - 1

    def table(self) -> str:
        """Return a line a size, the best of each column starred, and the regret."""
        stars = best(self.predicted), best(self.measured)
        lines = [f"{'bucket, MiB':>12} {'predicted, ms':>15} {'measured, ms':>15}"]
        for size, seconds in self.measured.items():
            cells = zip((self.predicted[size], seconds), stars, strict=True)
            columns = (f"{s * 1e3:>14.3f}{'*' if size == star else ' '}" for s, star in cells)
            lines.append(f"{size:>12g} {' '.join(columns)}")
        return "\n".join([*lines, f"at the predicted optimum: {self.regret:+.1%}"])

    def svg(self) -> str:
        """Return both curves as a picture."""
        return sweep_picture({"measured": self.measured, "predicted": self.predicted})

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        return {"text/plain": self.table(), "image/svg+xml": self.svg()}
