"""Cut what costs these seconds into stages, so that the slowest has the least to do.

May import: the standard library.
Source: Huang et al., torchgpipe's `balance`, and Narayanan et al., PipeDream, SOSP 2019, section
3.1: of all cuts the one whose slowest stage is fastest.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate


def balance(seconds: Sequence[float], stages: int) -> list[tuple[int, int]]:
    """Return first and last + 1 of each stage's items, so that the slowest has the least to do.

    Each stage has an item at least. By bisection for the least limit that no stage exceeds.
    """
    low, high = max(seconds), sum(seconds)
    until = [0.0, *accumulate(seconds)]
    for _ in range(40 if stages > 1 else 0):
        middle = (low + high) / 2
        if _fill(until, stages, middle)[-1][1] == len(seconds):
            high = middle
        else:
            low = middle
    bounds = _fill(until, stages, high * (1 + 1e-9))
    return [*bounds[:-1], (bounds[-1][0], len(seconds))]


def _fill(until: Sequence[float], stages: int, limit: float) -> list[tuple[int, int]]:
    """Return stages filled in order up to a limit; the last may end early."""
    items, bounds, first = len(until) - 1, [], 0
    for stage in range(stages):
        most = items - (stages - 1 - stage)  # leaves one for each stage to come
        last = min(most, max(first + 1, bisect_right(until, until[first] + limit) - 1))
        bounds.append((first, last))
        first = last
    return bounds
