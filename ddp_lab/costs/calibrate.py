"""Alpha, beta and gamma of this machine, fitted to measured collectives, and how well they predict.

    python -m ddp_lab calibrate --transport tcp

Sizes and world sizes that the fit (`fit`) did not see are predicted and then compared with what
was measured (`timing`). The closed forms give each rank a core of its own, so there are no more
ranks than cores, or two. Arrays are of up to 1 MiB, at which two ranks still work within their
caches: beyond, beta is another.

One set of constants serves all collectives as far as a transport keeps to the model: each rank
sends and receives at the same time, and copies nothing besides. Where a rank's one core does both,
collectives differ, and the table shows by how much.

Nothing is claimed where launches of the same collective disagree: then other programs were running
in all of them, and the constants would be those of that crowd. How many blocks they interrupted is
said in any case.

May import: NumPy, fit, timing.
"""

import os
from dataclasses import dataclass

import numpy as np

from ddp_lab.costs.fit import Constants, Sample, fit
from ddp_lab.costs.timing import ROUNDS, cores, measure

WORLD_SIZES, HELD_OUT_WORLD_SIZES = (2, 4), (3,)  # as far as there are cores
SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 20)
HELD_OUT_SIZES = (1 << 12, 1 << 16, 1 << 19)
NOISY = 0.3  # beyond it a launch differs from the next by more than predictions should


@dataclass(frozen=True)
class Calibration:
    """The constants of one transport, what they were fitted to and what was kept from the fit.

    `load` is how many programs wanted to run, on average over a minute, when the measurement began.
    """

    transport: str
    constants: Constants
    fitted: tuple[Sample, ...]
    held_out: tuple[Sample, ...]
    load: float = 0.0

    @property
    def spread(self) -> float:
        """How far launches of one collective lie apart: the median of all samples' spreads."""
        return float(np.median([sample.spread for sample in (*self.fitted, *self.held_out)] or [0]))

    @property
    def interrupted(self) -> float:
        """The share of blocks in which another program took a rank's core."""
        samples = (*self.fitted, *self.held_out)
        return float(np.mean([sample.interrupted for sample in samples] or [0]))

    @property
    def trusted(self) -> bool:
        """Whether launches agree well enough to tell constants by them."""
        return self.spread <= NOISY

    def factors(self) -> list[float]:
        """Return by which factors held-out samples are missed."""
        return [_factor(self.constants.predict(s), s.seconds) for s in self.held_out]

    def table(self) -> str:
        """Return predicted over measured for each held-out sample, the constants, a verdict."""
        c = self.constants
        lines = [
            f"{self.transport}: alpha {c.alpha * 1e6:.3g} µs, 1/beta {_rate(c.beta)}, "
            f"1/gamma {_rate(c.gamma)}, on {cores()} cores; held out, predicted over measured:",
            f"{'collective':30}{'ranks':>6}{'bytes':>10}{'spread':>8}{'ratio':>9}",
        ]
        for sample in self.held_out:
            name = f"{sample.collective} {sample.algorithm}"
            ratio = c.predict(sample) / sample.seconds
            lines.append(
                f"{name:30}{sample.world_size:>6}{sample.n_bytes:>10}"
                f"{sample.spread:>8.0%}{ratio:>9.2f}"
            )
        return "\n".join([*lines, *self._verdict()])

    def _verdict(self) -> list[str]:
        facts = (
            f"launches differ by {self.spread:.0%}, {self.interrupted:.0%} of blocks interrupted, "
            f"load {self.load:.1f} on {cores()} cores"
        )
        if not self.trusted:
            return [
                f"no claim: {facts}: other programs keep this machine too busy to trust these "
                "constants. Measure again when it is idle."
            ]
        if not self.held_out:
            return [facts]
        half, most = np.quantile(self.factors(), [0.5, 0.9])
        return [f"half within a factor {half:.2f}, nine in ten within {most:.2f}", facts]


def _factor(predicted: float, measured: float) -> float:
    ratio = max(predicted, 1e-12) / measured
    return max(ratio, 1 / ratio)


def calibrate(transport: str = "shm", rounds: int = ROUNDS) -> Calibration:
    """Return the constants of `transport` on this machine, with the samples behind them.

    They are fitted on 2 and 4 ranks, and held against other sizes there and against 3 ranks, as
    far as each has a core of its own; on 2 if not.

    Raises:
        InvalidArgument: fewer than one round, or no such transport.
    """
    load = os.getloadavg()[0]
    world_sizes = [p for p in (*WORLD_SIZES, *HELD_OUT_WORLD_SIZES) if p <= max(2, cores())]
    samples = measure(transport, world_sizes, (*SIZES, *HELD_OUT_SIZES), rounds)
    held_out = [
        sample
        for sample in samples
        if sample.n_bytes in HELD_OUT_SIZES or sample.world_size in HELD_OUT_WORLD_SIZES
    ]
    fitted = [sample for sample in samples if sample not in held_out]
    return Calibration(transport, fit(fitted), tuple(fitted), tuple(held_out), load)


def _rate(seconds_a_byte: float) -> str:
    return f"{1e-9 / seconds_a_byte:.3g} GB/s" if seconds_a_byte else "too fast to see"
