"""When gradients are ready in a backward pass, and when buckets of them are launched.

May import: NumPy, torch; matplotlib inside functions.
"""

from collections.abc import Callable, Mapping, Sequence
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


def draw_launches(
    rows: Mapping[str, Sequence[Sequence[int]]], at: Sequence[float], title: str
) -> None:
    """Draw when the buckets of each row are launched; a circle where equal layers would be."""
    from matplotlib import pyplot as plt

    seen = np.argsort(at)
    _, ax = plt.subplots()
    for row, buckets in enumerate(rows.values()):
        times = launches(buckets, at)
        ax.barh([row], 1 - times[0], 0.4, times[0], color=f"C{row}", alpha=0.15)
        ax.plot(times, [row] * len(times), "|", color=f"C{row}", markersize=28, markeredgewidth=3)
        places = [max(np.flatnonzero(np.isin(seen, b))) // 2 + 1 for b in buckets]
        circles = np.maximum.accumulate(places) / (len(at) / 2)
        ax.plot(circles, [row] * len(buckets), "ko", fillstyle="none")
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set(xlabel="launch of each bucket, as a fraction of backward", title=title)
    ax.set(xlim=(0, 1.03), ylim=(-0.5, len(rows) - 0.5))
    plt.show()
