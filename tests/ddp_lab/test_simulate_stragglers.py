"""Steps with backup workers hold against order statistics and the TensorFlow paper's Figure 8."""

import math

import numpy as np
import pytest

from ddp_lab import simulate
from ddp_lab.simulate import stragglers


def late_probability(workers: int, backups: int) -> float:
    """Return how probable it is that more workers are late than there are backups."""
    total, p = workers + backups, stragglers.LATE_SHARE
    return 1 - sum(math.comb(total, k) * p**k * (1 - p) ** (total - k) for k in range(backups + 1))


def exact(backups: int, workers: int = 50) -> float:
    """Return the mean step of the fit, by its closed form."""
    load = stragglers.LOAD_S * (workers + backups)
    late = stragglers.LATE_S * late_probability(workers, backups)
    return stragglers.COMPUTE_S + load + late


def drawn(seed: int) -> list[float]:
    return [simulate.backup_workers(50, b, "osdi16", seed=seed) for b in range(7)]


@pytest.mark.parametrize("times", [[exact(b) for b in range(7)], *(drawn(s) for s in range(4))])
def test_the_fit_has_what_the_paper_says_of_figure_8(times: list[float]) -> None:
    normalised = [times[0] / t * 50 / (50 + b) for b, t in enumerate(times)]
    assert 2.24 < times[0] < 2.283
    assert min(times) == times[4] == pytest.approx(1.93, abs=0.012)
    assert max(normalised) == normalised[3] == pytest.approx(1.095, abs=0.008)


def test_draws_agree_with_the_closed_form() -> None:
    for backups in (0, 2, 5):
        got = simulate.backup_workers(50, backups, "osdi16", steps=40_000, seed=3)
        p = late_probability(50, backups)
        error = stragglers.LATE_S * math.sqrt(p * (1 - p) / 40_000)
        assert abs(got - exact(backups)) < 5 * error


def test_the_mean_step_is_an_order_statistic() -> None:
    """Of N exponential times the n-th least takes 1/N + 1/(N-1) + ... (n terms) on average."""
    for workers, backups in ((1, 0), (10, 0), (10, 3), (1, 9)):
        total = workers + backups
        want = sum(1 / (total - k) for k in range(workers))
        got = simulate.backup_workers(
            workers, backups, lambda rng, shape: rng.exponential(size=shape), steps=20_000
        )
        assert got == pytest.approx(want, rel=0.04)


def test_equal_seeds_draw_equal_times_so_that_backups_never_hurt_by_chance() -> None:
    def uniform(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
        return rng.random(shape)

    times = [simulate.backup_workers(8, b, uniform, steps=50, seed=1) for b in range(8)]
    assert times == sorted(times, reverse=True)
    assert times[0] != simulate.backup_workers(8, 0, uniform, steps=50, seed=2)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((0, 1, "osdi16"), "no such number of workers: got 0, expected 1 or more"),
        ((5, -1, "osdi16"), "no such number of backups: got -1, expected 0 or more"),
        ((5, 1.0, "osdi16"), "no such number of backups: got 1.0"),
        ((5, 1, "osdi17"), "unknown step_time: got 'osdi17', expected one of osdi16"),
        ((5, 1, "osdi16", 0), "no such number of steps: got 0"),
        ((5, 1, lambda rng, shape: rng.random(3)), r"got shape \(3,\), expected .* \(6, 2000\)"),
        ((5, 1, lambda rng, shape: -rng.random(shape)), "negative times, or NaN"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        simulate.backup_workers(*arguments)
