"""Alpha, beta and gamma of this machine, fitted to measured collectives, and how well they predict.

    python -m ddp_lab calibrate --transport tcp

Sizes and world sizes that the fit (`ddp_lab.fit`) did not see are predicted and then compared. The
closed forms give each rank a core of its own; a fourth constant says how much longer it takes where
ranks share cores.

Other programs only ever make a collective slower: so a sample is the lower quartile of its rounds,
which are taken in turns, world sizes too, over several launches. How far the rounds lie apart is
printed, and where that is too far the table says not to trust it.

One set of constants serves all collectives as far as a transport keeps to the model: each rank
sends and receives at the same time, and copies nothing besides. Where a rank's one core does both,
collectives differ; so each algorithm also gets a set of its own, and both are held against what
was kept from them.

May import: cost, fit, launch, NumPy.
"""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ddp_lab import cost
from ddp_lab.communicator import Communicator
from ddp_lab.errors import InvalidArgument
from ddp_lab.fit import Constants, Sample, fit
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
PASSES = 3  # launches of each world size, in turns
QUARTILE = 25  # per cent
WARM_UP = 2  # rounds not counted
NOISY = 1.0  # upper over lower quartile, less one: beyond it rounds say more of other programs


@dataclass(frozen=True)
class Calibration:
    """The constants of one transport, what they were fitted to and what was kept from the fit.

    `own` are the constants of each (collective, algorithm) alone; an algorithm with a reduction
    cannot tell gamma from beta, so only their sum counts there.
    """

    transport: str
    constants: Constants
    fitted: tuple[Sample, ...]
    held_out: tuple[Sample, ...]
    own: Mapping[tuple[str, str], Constants] = field(default_factory=dict)

    def predict(self, sample: Sample) -> float:
        """Return the seconds of what `sample` measured, by its algorithm's own constants."""
        key = sample.collective, sample.algorithm
        return self.own.get(key, self.constants).predict(sample)

    @property
    def spread(self) -> float:
        """How far rounds of one collective lie apart: the median of all samples' spreads."""
        return float(np.median([sample.spread for sample in (*self.fitted, *self.held_out)] or [0]))

    @property
    def trusted(self) -> bool:
        """Whether the rounds lie close enough together to tell constants by them."""
        return self.spread <= NOISY

    def factors(self) -> tuple[list[float], list[float]]:
        """Return by which factors held-out samples are missed: by one set, and by sets of own."""
        ways = (self.constants.predict, self.predict)
        one, own = ([_factor(predict(s), s.seconds) for s in self.held_out] for predict in ways)
        return one, own

    def table(self) -> str:
        """Return predicted over measured for each held-out sample, the constants, a verdict."""
        c = self.constants
        lines = [
            f"{self.transport}: alpha {c.alpha * 1e6:.3g} us, 1/beta {_rate(c.beta)}, "
            f"1/gamma {_rate(c.gamma)}, {c.contention:.2g} longer where two ranks share a core, "
            f"on {cores()} cores; held out, predicted over measured:",
            f"{'collective':30}{'ranks':>6}{'bytes':>10}{'spread':>8}{'own set':>9}{'one set':>9}",
        ]
        for sample in self.held_out:
            name = f"{sample.collective} {sample.algorithm}"
            ratios = (self.predict(sample), c.predict(sample))
            columns = "".join(f"{seconds / sample.seconds:>9.2f}" for seconds in ratios)
            lines.append(
                f"{name:30}{sample.world_size:>6}{sample.n_bytes:>10}{sample.spread:>8.0%}{columns}"
            )
        return "\n".join([*lines, *self._verdict()])

    def _verdict(self) -> list[str]:
        lines = []
        for name, factors in zip(("one set", "own set"), self.factors(), strict=True):
            if factors:
                half, most = np.quantile(factors, [0.5, 0.9])
                lines.append(
                    f"{name}: half within a factor {half:.2f}, nine in ten within {most:.2f}"
                )
        words = f"rounds spread by {self.spread:.0%}"
        if not self.trusted:
            words += (
                ": other programs keep this machine too busy to trust these constants. "
                "Measure again when it is idle."
            )
        return [*lines, words]


def _factor(predicted: float, measured: float) -> float:
    ratio = max(predicted, 1e-12) / measured
    return max(ratio, 1 / ratio)


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0))


def measure(
    transport: str,
    world_size: int,
    sizes: Iterable[int],
    plan: Iterable[tuple[str, str]] = PLAN,
    rounds: int = ROUNDS,
) -> list[Sample]:
    """Return a sample for each collective of the plan at each size, on new ranks of this machine.

    A sample is the lower quartile over rounds of the time from when the last rank began until the
    last was done.

    Raises:
        InvalidArgument: fewer than one round, or no such transport or world size.
    """
    return measure_in_turns(transport, [world_size], sizes, plan, rounds, passes=1)


def measure_in_turns(
    transport: str,
    world_sizes: Sequence[int],
    sizes: Iterable[int],
    plan: Iterable[tuple[str, str]] = PLAN,
    rounds: int = ROUNDS,
    passes: int = PASSES,
) -> list[Sample]:
    """Return what `measure` returns for each of several world sizes, launched in turns.

    Raises:
        InvalidArgument: as `measure`.
    """
    if rounds < 1:
        raise InvalidArgument(
            f"calibrate: no such number of rounds: got {rounds}, expected 1 or more. "
            "A dozen give a steady median."
        )
    plan, sizes = list(plan), list(sizes)
    jobs = {
        p: [(*key, max(4, n - n % 4)) for key in plan if _has_form(key, p) for n in sizes]
        for p in world_sizes
    }
    times: dict[int, list[NDArray]] = {p: [] for p in world_sizes}
    for _ in range(passes):
        for p in world_sizes:
            by_rank = launch(_time_jobs, p, jobs[p], -(-rounds // passes), transport=transport)
            # rounds, jobs, ranks, begin or end: one clock for all processes of a machine
            spans = np.stack(by_rank, axis=2)
            times[p].append(spans[..., 1].max(axis=2) - spans[..., 0].max(axis=2))
    return [
        _sample(job, p, taken)
        for p in world_sizes
        for job, taken in zip(jobs[p], np.concatenate(times[p]).T, strict=True)
    ]


def _sample(job: tuple[str, str, int], world_size: int, taken: NDArray) -> Sample:
    low, high = np.percentile(taken, [QUARTILE, 100 - QUARTILE])
    low = max(float(low), 1e-9)  # what is over before the last rank began takes no time
    return Sample(*job, world_size, low, float(high) / low - 1, cores())


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
    method, x = getattr(comm, collective), comm.empty((n_bytes // 4,), np.float32)
    x[...] = 0  # its pages are there before the clock runs
    if collective == "all_reduce":  # in place: the closed forms know of no copy
        return lambda: method(x, algorithm=algorithm, out=x)
    return lambda: method(x, algorithm=algorithm)


def calibrate(transport: str = "shm", rounds: int = ROUNDS) -> Calibration:
    """Return the constants of `transport` on this machine, with the samples behind them.

    They are fitted on 2 and 4 ranks, and held against other sizes there and against 3 ranks.
    """
    world_sizes = (*WORLD_SIZES, *HELD_OUT_WORLD_SIZES)
    samples = measure_in_turns(transport, world_sizes, (*SIZES, *HELD_OUT_SIZES), PLAN, rounds)
    held_out = [
        sample
        for sample in samples
        if sample.n_bytes in HELD_OUT_SIZES or sample.world_size in HELD_OUT_WORLD_SIZES
    ]
    fitted = [sample for sample in samples if sample not in held_out]
    own = {
        key: fit([s for s in fitted if (s.collective, s.algorithm) == key], told_apart=2)
        for key in PLAN
    }
    return Calibration(transport, fit(fitted), tuple(fitted), tuple(held_out), own)


def _rate(seconds_a_byte: float) -> str:
    return f"{1e-9 / seconds_a_byte:.3g} GB/s" if seconds_a_byte else "too fast to see"
