"""Alpha, beta and gamma of this machine, fitted to measured collectives, and how well they predict.

    python -m ddp_lab calibrate --transport tcp

The closed forms of `ddp_lab.cost` are linear in the three constants, so the fit is a least-squares
problem; errors count as ratios, for a collective of 20 us matters as much as one of 20 ms. Sizes
and world sizes that the fit did not see are predicted and then compared. The forms give each rank
a core of its own: where there are fewer cores than ranks, expect more than they say.

May import: cost, launch, NumPy.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ddp_lab import cost
from ddp_lab.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.launch import launch
from ddp_lab.transport.base import NDArray

PLAN = (
    ("all_reduce", "ring"),
    ("all_reduce", "recursive_doubling"),
    ("broadcast", "tree"),
    ("reduce", "tree"),
)
WORLD_SIZES, HELD_OUT_WORLD_SIZES = (2, 4), (3,)
SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 22)
HELD_OUT_SIZES = (1 << 12, 1 << 20)
ROUNDS = 15
WARM_UP = 2  # rounds not counted
STEPS = 50  # of reweighting; a dozen reach the last digit
TINY = 1e-3  # of what was measured: the least prediction that is weighed as such


@dataclass(frozen=True)
class Sample:
    """One measured collective: `seconds` from its last rank's begin to its last rank's end."""

    collective: str
    algorithm: str
    n_bytes: int
    world_size: int
    seconds: float


@dataclass(frozen=True)
class Constants:
    """Seconds a message (`alpha`), a byte sent (`beta`) and a byte reduced (`gamma`)."""

    alpha: float
    beta: float
    gamma: float

    def predict(self, sample: Sample) -> float:
        """Return the seconds that the closed form gives for what `sample` measured."""
        return cost.collective_time(*_key(sample), self.alpha, self.beta, self.gamma)


@dataclass(frozen=True)
class Calibration:
    """The constants of one transport, what they were fitted to and what was kept from the fit."""

    transport: str
    constants: Constants
    fitted: tuple[Sample, ...]
    held_out: tuple[Sample, ...]

    def table(self) -> str:
        """Return predicted over measured for every held-out sample, and the constants."""
        c = self.constants
        lines = [
            f"{self.transport}: alpha {c.alpha * 1e6:.3g} us, 1/beta {_rate(c.beta)}, "
            f"1/gamma {_rate(c.gamma)} on {os.cpu_count()} cores; held out:",
            f"{'collective':30}{'ranks':>6}{'bytes':>10}{'predicted/measured':>20}",
        ]
        for sample in self.held_out:
            name = f"{sample.collective} {sample.algorithm}"
            ratio = c.predict(sample) / sample.seconds
            lines.append(f"{name:30}{sample.world_size:>6}{sample.n_bytes:>10}{ratio:>20.2f}")
        return "\n".join(lines)


def fit(samples: Sequence[Sample]) -> Constants:
    """Return the constants, none below 0, whose predictions are nearest to the samples as ratios.

    Of predicted p and measured m it brings the sum of (p - m)^2 / pm near its least: a prediction
    of half the time is as wrong as one of twice the time.

    Raises:
        InvalidArgument: the samples cannot tell the three constants apart.
    """
    rows = np.array([_coefficients(sample) for sample in samples], np.float64).reshape(-1, 3)
    seconds = np.array([sample.seconds for sample in samples], np.float64)
    if not np.all(seconds > 0):
        raise InvalidArgument(
            f"fit: a collective takes time: got {seconds.min():.3g} s, expected more than 0. "
            "Leave that sample out."
        )
    _check_rank(rows / seconds[:, np.newaxis], samples)
    weights = 1 / seconds
    for _ in range(STEPS):
        x = _non_negative(rows * weights[:, np.newaxis], seconds * weights)
        weights = 1 / np.sqrt(np.maximum(rows @ x, TINY * seconds) * seconds)
    return Constants(*(float(value) for value in x))


def _check_rank(rows: NDArray, samples: Sequence[Sample]) -> None:
    lengths = np.linalg.norm(rows, axis=0)
    if not np.all(lengths > 0) or np.linalg.matrix_rank(rows / lengths) < 3:
        raise InvalidArgument(
            f"fit: the constants cannot be told apart: got {len(samples)} samples of "
            f"{sorted({(s.collective, s.algorithm) for s in samples})}, expected several sizes, "
            "and collectives with and without a reduction. Measure more."
        )


def _non_negative(a: NDArray, b: NDArray) -> NDArray:
    """Return the x >= 0 that brings `a @ x` nearest to `b`: the best over all sets of zeros."""
    lengths = np.linalg.norm(a, axis=0)  # alpha and beta differ by five orders of magnitude
    best, least = np.zeros(3), np.inf
    for kept in ([0, 1, 2], [0, 1], [0, 2], [1, 2], [0], [1], [2]):
        x = np.zeros(3)
        x[kept] = np.linalg.lstsq(a[:, kept] / lengths[kept], b, rcond=None)[0] / lengths[kept]
        error = float(np.sum((a @ x - b) ** 2))
        if x.min() >= 0 and error < least:
            best, least = x, error
    return best


def _key(sample: Sample) -> tuple[str, str, int, int]:
    return sample.collective, sample.algorithm, sample.n_bytes, sample.world_size


def _coefficients(sample: Sample) -> list[float]:
    """Return what alpha, beta and gamma are multiplied by in the sample's closed form."""
    units = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    return [cost.collective_time(*_key(sample), *unit) for unit in units]


def measure(
    transport: str,
    world_size: int,
    sizes: Iterable[int],
    plan: Iterable[tuple[str, str]] = PLAN,
    rounds: int = ROUNDS,
) -> list[Sample]:
    """Return a sample for each collective of the plan at each size, on new ranks of this machine.

    A sample is the median over rounds of the time from when the last rank began until the last
    was done.

    Raises:
        InvalidArgument: fewer than one round, or no such transport or world size.
    """
    if rounds < 1:
        raise InvalidArgument(
            f"calibrate: no such number of rounds: got {rounds}, expected 1 or more. "
            "A dozen give a steady median."
        )
    known = [key for key in plan if _has_form(key, world_size)]
    jobs = [(*key, max(4, n - n % 4)) for key in known for n in sizes]
    by_rank = launch(_time_jobs, world_size, jobs, rounds, transport=transport)
    # rounds, jobs, ranks, begin or end: one clock for all processes of a machine
    times = np.stack(by_rank, axis=2)
    began, ended = times[..., 0].max(axis=2), times[..., 1].max(axis=2)
    seconds = np.median(ended - began, axis=0)
    return [
        Sample(collective, algorithm, n_bytes, world_size, float(seconds[i]))
        for i, (collective, algorithm, n_bytes) in enumerate(jobs)
    ]


def _has_form(key: tuple[str, str], world_size: int) -> bool:
    return key not in cost.POWERS_OF_TWO or not world_size & (world_size - 1)


def _time_jobs(comm: Communicator, jobs: Sequence[tuple[str, str, int]], rounds: int) -> NDArray:
    """Return when this rank began and ended each job, shape (rounds, jobs, 2); jobs take turns."""
    calls = [_call(comm, *job) for job in jobs]
    times = np.empty((rounds + WARM_UP, len(jobs), 2))
    for row in times:
        for cell, call in zip(row, calls, strict=True):
            comm.barrier()
            cell[0] = time.perf_counter()
            call()
            cell[1] = time.perf_counter()
    return times[WARM_UP:]


def _call(comm: Communicator, collective: str, algorithm: str, n_bytes: int) -> Callable[[], Any]:
    method, x = getattr(comm, collective), np.zeros(n_bytes // 4, np.float32)
    return lambda: method(x, algorithm=algorithm)


def calibrate(transport: str = "shm", rounds: int = ROUNDS) -> Calibration:
    """Return the constants of `transport` on this machine, with the samples behind them.

    They are fitted on 2 and 4 ranks, and held against other sizes there and against 3 ranks.
    """
    fitted: list[Sample] = []
    held_out: list[Sample] = []
    for world_size in WORLD_SIZES:
        for sample in measure(transport, world_size, (*SIZES, *HELD_OUT_SIZES), PLAN, rounds):
            (held_out if sample.n_bytes in HELD_OUT_SIZES else fitted).append(sample)
    for world_size in HELD_OUT_WORLD_SIZES:
        held_out += measure(transport, world_size, (*SIZES, *HELD_OUT_SIZES), PLAN, rounds)
    return Calibration(transport, fit(fitted), tuple(fitted), tuple(held_out))


def _rate(seconds_a_byte: float) -> str:
    return f"{1e-9 / seconds_a_byte:.3g} GB/s" if seconds_a_byte else "too fast to see"
