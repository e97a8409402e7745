"""Alpha, beta and gamma fitted to measured collectives.

The closed forms of `ddp_lab.cost` are linear in the three constants, so the fit is a least-squares
problem; errors count as ratios, for a collective of 20 µs matters as much as one of 20 ms, and
large ones count for less, so that a disturbed measurement does not decide.

May import: NumPy, cost, errors, transport.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ddp_lab import cost
from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.base import NDArray

STEPS = 50  # of reweighting; a dozen reach the last digit
TINY = 1e-3  # of what was measured: the least prediction that is weighed as such
LARGE_ERROR = 0.3  # of prediction and measurement, as a logarithm: beyond it errors count for less


@dataclass(frozen=True)
class Sample:
    """One measured collective: `seconds` from its last rank's begin to its last rank's end.

    `spread` is how much longer it took in the slowest launch than in the fastest, as a share;
    `interrupted` is the share of blocks in which a rank was taken off its core.
    """

    collective: str
    algorithm: str
    n_bytes: int
    world_size: int
    seconds: float
    spread: float = 0.0
    interrupted: float = 0.0


@dataclass(frozen=True)
class Constants:
    """Seconds a message (`alpha`), a byte sent (`beta`) and a byte reduced (`gamma`)."""

    alpha: float
    beta: float
    gamma: float

    def predict(self, sample: Sample) -> float:
        """Return the seconds that the closed form gives for what `sample` measured."""
        return cost.collective_time(*_key(sample), self.alpha, self.beta, self.gamma)


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
    alpha, beta, gamma = (float(value) for value in _fit_linear(rows, seconds))
    return Constants(alpha, beta, gamma)


def _fit_linear(rows: NDArray, seconds: NDArray) -> NDArray:
    """Return the three constants, by reweighted least squares."""
    weights = 1 / seconds
    for _ in range(STEPS):
        x = _non_negative(rows * weights[:, np.newaxis], seconds * weights)
        predicted = np.maximum(rows @ x, TINY * seconds)
        error = np.abs(np.log(predicted / seconds))
        weights = np.sqrt(np.minimum(1, LARGE_ERROR / np.maximum(error, 1e-12)))
        weights /= np.sqrt(predicted * seconds)
    return x


def _check_rank(rows: NDArray, samples: Sequence[Sample]) -> None:
    lengths = np.linalg.norm(rows, axis=0)
    scaled = rows / np.where(lengths > 0, lengths, 1)
    if not len(rows) or np.linalg.matrix_rank(scaled) < 3:
        raise InvalidArgument(
            f"fit: the constants cannot be told apart: got {len(samples)} samples of "
            f"{sorted({(s.collective, s.algorithm) for s in samples})}, expected several sizes, "
            "and collectives with and without a reduction. Measure more."
        )


def _non_negative(a: NDArray, b: NDArray) -> NDArray:
    """Return the x >= 0 that brings `a @ x` nearest to `b`: the best over all sets of zeros."""
    lengths = np.linalg.norm(a, axis=0)  # alpha and beta differ by five orders of magnitude
    lengths = np.where(lengths > 0, lengths, 1)
    best, least = np.zeros(3), np.inf
    for columns in ([0, 1, 2], [0, 1], [0, 2], [1, 2], [0], [1], [2]):
        x = np.zeros(3)
        x[columns] = (
            np.linalg.lstsq(a[:, columns] / lengths[columns], b, rcond=None)[0] / lengths[columns]
        )
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
