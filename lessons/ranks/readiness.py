"""When gradients are ready in a backward pass, and when buckets of them are launched."""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray


class LastToFirst(torch.nn.Module):
    """Twelve equal layers, registered from the output to the input."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(256, 256) for _ in range(12))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the sum of the last layer's outputs, a loss."""
        for layer in reversed(self.layers):
            x = torch.relu(layer(x))
        return x.sum()


def ready_times(
    params: Sequence[Any],
    loss_of: Callable[[], Any],
    repeats: int,
    before: Callable[[], Any] | None = None,
) -> NDArray[np.float64]:
    """Return the seconds at which each gradient was ready in the fastest backward of `repeats`.

    `before()` comes between each forward and its backward. The last element is the whole pass.
    """
    rows, at = [], [0.0] * len(params)

    def note(index: int) -> Callable[[Any], None]:
        def hook(_: Any) -> None:
            at[index] = perf_counter()

        return hook

    hooks = [p.register_post_accumulate_grad_hook(note(i)) for i, p in enumerate(params)]
    for _ in range(repeats):
        loss = loss_of()
        if before:
            before()
        began = perf_counter()
        loss.backward()
        rows.append(np.array([*at, perf_counter()]) - began)
    for hook in hooks:
        hook.remove()
    return min(rows, key=lambda row: float(row[-1]))


def launches(buckets: Sequence[Sequence[int]], at: Sequence[float]) -> NDArray[np.float64]:
    """Return when each bucket is launched, given when each gradient is ready."""
    return np.maximum.accumulate([max(at[i] for i in bucket) for bucket in buckets])
