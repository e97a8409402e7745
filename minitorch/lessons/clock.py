"""The time of some functions, measured in turns."""

import time
from collections.abc import Callable
from typing import Any


def milliseconds(*functions: Callable[[], Any], repeats: int = 9) -> list[float]:
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
