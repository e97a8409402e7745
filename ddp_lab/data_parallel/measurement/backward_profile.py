"""How long backward works on each gradient: what a prediction of the step begins with.

Works with torch and minitorch modules.

May import: module_protocol.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import Any

from ddp_lab.data_parallel.module_protocol import Module, array_specs, trainable


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
