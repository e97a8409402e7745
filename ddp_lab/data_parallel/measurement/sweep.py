"""How large should a bucket be? Measured on this machine, and predicted from a profile.

    link = profile_link(comm, sizes_in_bytes)                        # on every rank
    profile = profile_backward(module, loss)
    predicted = predict(profile, sizes_mb, link.all_reduce, link.contention, link.launch)
    samples = measure_sizes(wrap, loss, make_optimizer, sizes_mb)    # the same, on every rank
    Sweep.of(predicted, samples)                                     # a table, and a picture

Works with torch and minitorch modules. One bucket overlaps with nothing; a bucket a gradient pays
for as many messages: in between lies the best size. Where a rank's own core moves the bytes, little
is hidden and the curve is nearly flat; then no one size is best, and the table says which cannot
be told apart.

May import: bucketing, module_protocol, simulate; show inside functions.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import comb
from random import Random
from statistics import median
from time import perf_counter
from typing import Any

from ddp_lab.data_parallel.bucketing import MIB
from ddp_lab.data_parallel.module_protocol import Module, array_specs, trainable
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
    profile: BackwardProfile,
    sizes_mb: Sequence[float],
    all_reduce: Callable[[float], float],
    contention: float = 0.0,
    launch: Callable[[float], float] | None = None,
) -> dict[float, float]:
    """Return the predicted seconds of a step for each bucket size in MiB; see `simulate.ddp`."""
    return {
        size: ddp(
            profile.forward,
            profile.backward,
            profile.n_bytes,
            size * MIB,
            all_reduce,
            contention=contention,
            launch=launch,
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
) -> dict[float, list[float]]:
    """Return the seconds of forward and backward for each bucket size in MiB, a number a round.

    `wrap(size)` returns a new model. The sizes take turns, in another order each round, so that a
    busy machine hurts all alike. Call it on every rank at the same time.
    """
    models = {size: wrap(size) for size in sizes_mb}
    optimizers = {size: make_optimizer(model) for size, model in models.items()}
    times: dict[float, list[float]] = {size: [] for size in sizes_mb}
    for number in range(warmup + iterations):
        for size in Random(number).sample(list(models), len(models)):  # alike on every rank
            model = models[size]
            optimizers[size].zero_grad()
            began = perf_counter()
            loss(model).backward()
            getattr(model, "finish", lambda: None)()
            if number >= warmup:
                times[size].append(perf_counter() - began)
            optimizers[size].step()
    return times


def slowest(by_rank: Sequence[dict[float, list[float]]]) -> dict[float, list[float]]:
    """Return what `measure_sizes` took on the slowest rank, round by round."""
    return {
        size: [max(times) for times in zip(*(taken[size] for taken in by_rank), strict=True)]
        for size in by_rank[0]
    }


def best(seconds: dict[float, float]) -> float:
    """Return the bucket size with the shortest step."""
    return min(seconds, key=lambda size: seconds[size])


def tied_with_best(samples: dict[float, list[float]]) -> list[float]:
    """Return the sizes that these rounds cannot tell from the best one, that one included.

    Rounds are compared in pairs, so that what slows a whole round counts for nothing: a size is
    worse when it took longer in more rounds than a fair coin would give once in twenty times.
    """
    medians = {size: median(taken) for size, taken in samples.items()}
    first = samples[best(medians)]
    tied = []
    for size, taken in samples.items():
        longer = sum(a > b for a, b in zip(taken, first, strict=True))
        if _coin(longer, len(taken)) > 0.05:
            tied.append(size)
    return tied


def _coin(heads: int, tosses: int) -> float:
    """Return how likely a fair coin shows so many heads or more."""
    return float(sum(comb(tosses, k) for k in range(heads, tosses + 1)) / 2**tosses)


@dataclass(frozen=True)
class Sweep:
    """Seconds of a step by bucket size in MiB, as the cost model has them and as they were.

    `tied` are the sizes that the measurement cannot tell from its best.
    """

    predicted: dict[float, float]
    measured: dict[float, float]
    tied: tuple[float, ...] = ()

    @classmethod
    def of(cls, predicted: dict[float, float], samples: dict[float, list[float]]) -> "Sweep":
        """Return the sweep of these rounds: medians, and what cannot be told apart."""
        medians = {size: median(taken) for size, taken in samples.items()}
        return cls(predicted, medians, tuple(tied_with_best(samples)))

    @property
    def regret(self) -> float:
        """How much longer than the shortest the measured step is at the predicted optimum.

        0.03 is 3 %. Near its optimum the curve is flat: two sizes may differ and be as good.
        """
        return self.measured[best(self.predicted)] / min(self.measured.values()) - 1

    def table(self) -> str:
        """Return a line a size, the best of each column starred, and the regret.

        A measured time with a tilde cannot be told from the best.
        """
        stars = best(self.predicted), best(self.measured)
        lines = [f"{'bucket, MiB':>12} {'predicted, ms':>15} {'measured, ms':>15}"]
        for size, seconds in self.measured.items():
            marks = ["*" if size == star else " " for star in stars]
            if size in self.tied and size != stars[1]:
                marks[1] = "~"
            cells = zip((self.predicted[size], seconds), marks, strict=True)
            columns = (f"{s * 1e3:>14.3f}{mark}" for s, mark in cells)
            lines.append(f"{size:>12g} {' '.join(columns)}".rstrip())
        verdict = f"at the predicted optimum: {self.regret:+.1%}"
        if best(self.predicted) in self.tied:
            verdict += ", which these rounds cannot tell from the best"
        return "\n".join([*lines, verdict])

    def svg(self) -> str:
        """Return both curves as a picture."""
        from ddp_lab.show.sweep_picture import sweep_picture

        return sweep_picture({"measured": self.measured, "predicted": self.predicted})

    def _repr_mimebundle_(self, **_options: Any) -> dict[str, str]:
        return {"text/plain": self.table(), "image/svg+xml": self.svg()}
