"""Workers that are late on purpose: the same delays on a real clock and in the simulator.

May import: NumPy, simulate.stragglers.
"""

import time
from typing import Any

import numpy as np

from ddp_lab.simulate.stragglers import Draw, draw_of


class Stragglers:
    """How long each worker takes for each step, drawn once; equal on all ranks.

    Args:
        step_time: `step_time(rng, (workers, steps))` draws seconds, as for `ddp_lab.simulate`.
        workers: how many there are; they count from 0.
        steps: how many are drawn; later ones begin anew.
        seed: equal seeds draw equal times.
    """

    def __init__(self, step_time: str | Draw, workers: int, steps: int, seed: int = 0) -> None:
        self.times = draw_of(step_time, (workers, steps), seed, "Stragglers")

    def time_of(self, worker: int, step: int) -> float:
        """Return the seconds that this worker takes for this step."""
        return float(self.times[worker, step % self.times.shape[1]])

    def sleep(self, worker: int, step: int) -> None:
        """Sleep for as long as this worker takes for this step."""
        time.sleep(self.time_of(worker, step))


def late(base_s: float, share: float, late_s: float) -> Draw:
    """Return a draw for `Stragglers`: `base_s`, and now and then, by `share`, `late_s` more."""

    def step_time(rng: np.random.Generator, shape: tuple[int, int]) -> Any:
        return base_s + late_s * (rng.random(shape) < share)

    return step_time
