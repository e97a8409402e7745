"""The time of functions: the least of several turns, for more than the least is interruption."""

from collections.abc import Callable, Mapping
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np


def milliseconds(*functions: Callable[[], object], repeats: int = 9) -> list[float]:
    """Return the least milliseconds of each function, all taking turns.

    What slows one turn down slows all functions down.
    """
    named = {str(at): function for at, function in enumerate(functions)}
    return [1e3 * seconds for seconds in in_turns(named, repeats=repeats).values()]


def in_turns(
    functions: Mapping[str, Callable[..., object]], *args: object, repeats: int = 23
) -> dict[str, float]:
    """Return the least seconds of each function of `args`, all taking turns."""
    best = dict.fromkeys(functions, np.inf)
    for _ in range(1 + repeats):  # the first turn warms up
        for name, function in functions.items():
            best[name] = min(best[name], best_seconds(partial(function, *args), 1))
    return best


def best_seconds(
    run: Callable[[], Any],
    repeats: int,
    *,
    before: Callable[[], Any] | None = None,
    device: str = "",
) -> float:
    """Return the least seconds of `run()`, after `before()` each time; a device has then ended."""
    best = np.inf
    for _ in range(repeats):
        if before:
            before()
        began = now(device)
        run()
        best = min(best, now(device) - began)
    return best


def now(device: str = "") -> float:
    """Return the time, in seconds, at which all is done that a device was given to do."""
    if device:
        import torch

        from ddp_lab.device_array import synchronize

        synchronize(torch.device(device))
    return perf_counter()
