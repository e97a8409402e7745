"""How large may the next batch be? Controllers learn it from how long batches took.

All have `limit` and `observe(size, took_ms)`, and know neither queue nor clock: the same object
runs before real containers and under `simulate`. They seek the largest batch whose own evaluation
meets the goal; waiting before it is no business of theirs.

May import: NumPy, errors. Source: Crankshaw et al., "Clipper", NSDI 2017, section 4.3.
"""

from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np

from minitorch.errors import ArgumentError


class Controller(Protocol):
    """Decides the largest batch of one container."""

    @property
    def limit(self) -> int:
        """The most queries that the next batch may have, at least 1."""

    def observe(self, size: int, took_ms: float) -> None:
        """Learn that a batch of `size` took `took_ms`."""


class AIMD:
    """Additive increase while a full batch meets the goal, multiplicative decrease when one fails.

    A batch that was not full says nothing about larger ones. The step down is gentle, since the
    best size hardly moves; after Chiu & Jain, Computer Networks 17, 1989.
    """

    STEP, FACTOR = 1.0, 0.9

    def __init__(self, goal_ms: float) -> None:
        self.goal_ms = goal_ms
        self._limit = 1.0

    @property
    def limit(self) -> int:
        """The whole part of what has been reached."""
        return int(self._limit)

    def observe(self, size: int, took_ms: float) -> None:
        """Go up by the step, or down by the factor."""
        if took_ms > self.goal_ms:
            self._limit = max(1.0, min(self._limit, size) * self.FACTOR)
        elif size >= self.limit:
            self._limit += self.STEP


class NoBatching(AIMD):
    """One query at a time: no step up."""

    STEP = 0.0


class Quantile:
    """The size at which a high quantile of the latency, linear in the size, meets the goal.

    Fits fixed + per_item * size to a window of batches by quantile regression (Koenker & Bassett,
    Econometrica 46, 1978). Never more than twice the largest batch seen: beyond, a line is a guess.
    While all batches of the window have one size there is no line; where that size meets the goal,
    the next batch may have one query more, so that there will be.
    """

    QUANTILE, WINDOW = 0.99, 256
    EVERY = 8  # batches between two fits, once there are twice as many

    def __init__(self, goal_ms: float) -> None:
        self.goal_ms = goal_ms
        self._seen: deque[tuple[int, float]] = deque(maxlen=self.WINDOW)
        self._count = 0
        self.limit = 1

    def observe(self, size: int, took_ms: float) -> None:
        """Add a batch to the window and fit anew now and then, at once where it was too slow."""
        self._seen.append((size, took_ms))
        self._count += 1
        is_early = self._count < 2 * self.EVERY
        if not is_early and self._count % self.EVERY and took_ms <= self.goal_ms:
            return
        sizes, times_ms = np.array(self._seen).T
        fixed_ms, per_item_ms = quantile_line(sizes, times_ms, self.QUANTILE)
        if fixed_ms + per_item_ms > self.goal_ms:  # slow at every size: size is not the reason
            fixed_ms, per_item_ms = quantile_line(sizes, times_ms, 0.5)
        largest = int(sizes.max())
        left_ms, most = self.goal_ms - fixed_ms, 2 * largest
        if most * per_item_ms > left_ms:
            most = int(left_ms / per_item_ms) if per_item_ms > 0 else 1
        if not np.ptp(sizes) and largest * per_item_ms <= left_ms:
            most = max(most, largest + 1)
        self.limit = max(1, most)


def quantile_line(x: np.ndarray, y: np.ndarray, quantile: float) -> tuple[float, float]:
    """Return the intercept and the slope, not negative, below which `quantile` of the points lie.

    For a slope the best intercept is the quantile of what is left. The loss that remains, the sum
    of r * (quantile - (r < 0)), is convex in the slope: halve by the sign of its derivative.
    """
    rank = min(int(quantile * len(x)), len(x) - 1)
    if not np.ptp(x):  # of one size nothing is known but itself: through the origin
        return 0.0, float(np.partition(y, rank)[rank] / x[0])
    centred = x - x.mean()
    low, high = 0.0, float(np.ptp(y))  # sizes differ by at least 1
    for _ in range(24):
        slope = (low + high) / 2
        left = y - slope * x
        intercept = np.partition(left, rank)[rank]
        if ((quantile - (left < intercept)) * centred).sum() > 0:
            low = slope
        else:
            high = slope
    return float(intercept), slope


Make = Callable[[float], Controller]
Batching = str | Make
CONTROLLERS: dict[str, Make] = {"none": NoBatching, "aimd": AIMD, "quantile": Quantile}


def controllers(operation: str, batching: Batching) -> Make:
    """Return what makes a controller of its goal in ms: by name, or any callable."""
    if callable(batching):
        return batching
    if batching not in CONTROLLERS:
        raise ArgumentError(
            f"{operation}: batching: got {batching!r}, expected one of {[*CONTROLLERS]}, "
            "or what makes a controller of its goal in ms."
        )
    return CONTROLLERS[batching]


class LatencyLine:
    """What a batch of some size will take: a line through the batches of late, by decayed means."""

    DECAY = 0.95

    def __init__(self) -> None:
        self._sums = np.zeros(5)  # of 1, x, y, x * x, x * y, for x queries in y ms
        self._line = 0.0, 0.0
        self._deviation_ms = 0.0
        self._recent_ms: deque[float] = deque(maxlen=5)

    def observe(self, size: int, took_ms: float) -> None:
        """Learn that a batch of `size` took `took_ms`."""
        fixed_ms, per_item_ms = self._line
        off_ms = abs(took_ms - fixed_ms - per_item_ms * size) if self._recent_ms else 0.0
        self._deviation_ms += (1 - self.DECAY) * (off_ms - self._deviation_ms)
        self._recent_ms.append(took_ms)
        self._sums *= self.DECAY
        self._sums += (1, size, took_ms, size * size, size * took_ms)
        _, x, y, xx, xy = (self._sums / self._sums[0]).tolist()
        spread = xx - x * x
        slope = max(0.0, (xy - x * y) / spread) if spread > 1e-6 * x * x else 0.0
        slope = min(slope, y / x)  # the fixed part is not negative
        self._line = y - slope * x, slope

    def fits(self, within_ms: float) -> float:
        """Return the largest batch that should end in time, at least 1.

        Infinity where that is unknown, and where one query would be late as well: what is slow then
        is not the size, and a smaller batch would only serve fewer.
        """
        fixed_ms, per_item_ms = self._line
        left_ms = within_ms - fixed_ms - 2 * self._deviation_ms
        if left_ms < 0 or per_item_ms <= 0:
            return float("inf")
        return max(1.0, left_ms // per_item_ms)

    def hopeless(self, within_ms: float) -> bool:
        """Tell whether none of the last batches, three at least, was as fast as that."""
        return len(self._recent_ms) > 2 and min(self._recent_ms) > within_ms
