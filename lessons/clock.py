"""The time of functions: of several in turns, so that none is slowed down alone, or of one."""

import time
from collections.abc import Callable
from statistics import median

WARM = 2  # turns that are not counted


def milliseconds(*functions: Callable[[], object], repeats: int = 9) -> list[float]:
    """Return the least milliseconds of each function, all taking turns.

    More than the least is interruption, and what slows one turn down slows all functions down.
    """
    times: list[list[float]] = [[] for _ in functions]
    for turn in range(repeats + 1):
        for function, kept in zip(functions, times, strict=True):
            began = time.perf_counter()
            function()
            if turn:  # the first turn warms up
                kept.append((time.perf_counter() - began) * 1e3)
    return [min(kept) for kept in times]


def in_turns(
    functions: dict[str, Callable[..., object]], *args: object, repeats: int = 23
) -> dict[str, float]:
    """Return the median seconds of each function of `args`, all taking turns."""
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(repeats + WARM):
        for name, function in functions.items():
            began = time.perf_counter()
            function(*args)
            times[name].append(time.perf_counter() - began)
    return {name: median(found[WARM:]) for name, found in times.items()}


def seconds(function: Callable[..., object], *args: object, repeats: int = 5) -> float:
    """Return the median time of `repeats` calls of function(*args)."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - began)
    return median(times)
