"""Workers that are late on purpose: the same delays on a real clock and in the simulator.

May import: errors, NumPy.
"""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ddp_lab.errors import InvalidArgument


class Stragglers:
    """How long each worker takes for each step, drawn once; equal on all ranks.

    Args:
        step_time: `step_time(rng, (workers, steps))` draws seconds, as in `ddp_lab.simulate`.
        workers: how many there are; they count from 0.
        steps: how many are drawn; later ones begin anew.
        seed: equal seeds draw equal times.
    """

    def __init__(
        self,
        step_time: Callable[[np.random.Generator, tuple[int, int]], Any],
        workers: int,
        steps: int,
        seed: int = 0,
    ) -> None:
        shape = (workers, steps)
        self.times = np.asarray(step_time(np.random.default_rng(seed), shape), np.float64)
        if self.times.shape != shape or not np.all(self.times >= 0):
            raise InvalidArgument(
                f"Stragglers: step_time did not draw times: got shape {self.times.shape}, expected "
                f"seconds of 0 or more of shape {shape}. Draw with rng.exponential(size=shape)."
            )

    def time_of(self, worker: int, step: int) -> float:
        """Return the seconds that this worker takes for this step."""
        return float(self.times[worker, step % self.times.shape[1]])

    def sleep(self, worker: int, step: int) -> None:
        """Let them pass."""
        time.sleep(self.time_of(worker, step))


def late(
    base_s: float, share: float, late_s: float
) -> Callable[[np.random.Generator, tuple[int, int]], Any]:
    """Return a draw for `Stragglers`: `base_s`, and now and then, by `share`, `late_s` more."""

    def step_time(rng: np.random.Generator, shape: tuple[int, int]) -> Any:
        return base_s + late_s * (rng.random(shape) < share)

    return step_time
