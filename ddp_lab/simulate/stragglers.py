"""Synchronous steps with backup workers: take the first n gradients of n + b workers.

May import: NumPy, arguments, errors, transport.
Source: Abadi et al., TensorFlow, OSDI 2016, section 6.3 and Figure 8.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ddp_lab.arguments import check_counts
from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.base import NDArray

Draw: TypeAlias = Callable[[np.random.Generator, tuple[int, int]], Any]

# Figure 8: 50 workers and b backups. What the paper says of it fixes three numbers: the shortest
# step is 1.93 s, at b = 4; the best speed-up normalised by the workers used, t(0)/t(b) * 50/(50+b),
# is 9.5 %, at b = 3; and from these two, 2.24 s < t(0) < 2.283 s, here the middle of it.
# The model: a step takes longer the more workers load the parameter servers, and now and then a
# worker is late by a fixed time. The share of late workers is the one choice that is left: from
# 3.3 to 3.8 % a fifth backup costs more than it saves and the load stays below the whole step.
LATE_SHARE = 0.037
LATE_S = 0.5563
LOAD_S = 0.02839  # each worker's load
COMPUTE_S = 0.3698


def osdi16(rng: np.random.Generator, shape: tuple[int, int]) -> NDArray:
    """Draw step times, seconds, as in the paper's Figure 8; `shape` is (all workers, steps)."""
    late = rng.random(shape) < LATE_SHARE
    return COMPUTE_S + LOAD_S * shape[0] + LATE_S * late


DISTRIBUTIONS: dict[str, Draw] = {"osdi16": osdi16}


def backup_workers(
    workers: int, backups: int, step_time: str | Draw, steps: int = 2000, seed: int = 0
) -> float:
    """Return the mean seconds of a step that ends with the first `workers` of all gradients.

    Args:
        workers: gradients that a step needs, 1 or more.
        backups: workers besides; what the last of all compute is thrown away.
        step_time: draws each worker's time in each step: a function of a
            `numpy.random.Generator` and a shape, (workers + backups, steps), such as
            `lambda rng, shape: rng.exponential(size=shape)`. Or `"osdi16"`: a fit to Figure 8 of
            the TensorFlow paper.
        steps: how many are drawn.
        seed: equal seeds draw equal times for the workers that two calls have in common, if
            `step_time` fills its shape in order; so differences between calls are not noise.
    Raises:
        InvalidArgument: a count that makes no sense, an unknown name, or times that are negative,
            not numbers or of another shape.
    """
    check_counts("backup_workers", workers=workers, steps=steps)
    check_counts("backup_workers", 0, backups=backups)
    shape = (workers + backups, steps)
    times = draw_of(step_time, shape, seed, "backup_workers")
    return float(np.partition(times, workers - 1, axis=0)[workers - 1].mean())


def draw_of(step_time: str | Draw, shape: tuple[int, int], seed: int, operation: str) -> NDArray:
    """Return the seconds that `step_time` draws.

    Raises:
        InvalidArgument: an unknown name, or times that are negative, or of another shape.
    """
    if not callable(step_time) and step_time not in DISTRIBUTIONS:
        raise InvalidArgument(
            f"{operation}: unknown step_time: got {step_time!r}, expected one of "
            f"{', '.join(sorted(DISTRIBUTIONS))}, or a function of a generator and a shape."
        )
    draw = step_time if callable(step_time) else DISTRIBUTIONS[step_time]
    times = np.asarray(draw(np.random.default_rng(seed), shape), np.float64)
    if times.shape != shape or not np.all(times >= 0):
        drawn = f"shape {times.shape}" if times.shape != shape else "negative times, or NaN"
        raise InvalidArgument(
            f"{operation}: step_time did not draw times: got {drawn}, expected seconds of shape "
            f"{shape}. Draw with rng.exponential(size=shape) or the like."
        )
    return times
