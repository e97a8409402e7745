"""The parameter server on a virtual clock holds against recurrences and bounds."""

import numpy as np
import pytest

from ddp_lab import simulate


def exponential(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.exponential(size=shape)


def drawn(workers: int, steps: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).exponential(size=(workers, steps))


def exact_times(times: np.ndarray, staleness: float) -> np.ndarray:
    """Return when each worker ends each step under "ssp", by its recurrence.

    end[w, k] = times[w, k] + max(end[w, k-1], max over v of end[v, k-1-staleness]). Staleness 0
    is a synchronous run, an infinite one an asynchronous one.
    """
    ends = np.zeros_like(times)
    for k in range(times.shape[1]):
        before = ends[:, k - 1] if k else np.zeros(len(times))
        limit = ends[:, k - 1 - int(staleness)].max() if k > staleness else 0.0
        ends[:, k] = times[:, k] + np.maximum(before, limit)
    return ends


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("workers", [1, 2, 7])
def test_makespans_are_sums_of_maxima_and_maxima_of_sums(workers: int, seed: int) -> None:
    times = drawn(workers, 60, seed)
    run = simulate.parameter_server
    sync = run("sync", workers, step_time=exponential, steps=60, seed=seed)
    asynchronous = run("async", workers, step_time=exponential, steps=60, seed=seed)
    assert sync.step_time == pytest.approx(times.max(axis=0).sum() / 60)
    assert asynchronous.step_time == pytest.approx(times.sum(axis=1).max() / 60)
    assert (sync.max_staleness, asynchronous.waited) == (0, 0)
    for staleness in (0, 1, 4, 60):
        got = run("ssp", workers, staleness, exponential, 60, seed)
        ends = {(span.worker, span.step): span.ended_at for span in got.spans}
        want = exact_times(times, staleness)
        assert got.makespan == pytest.approx(want.max())
        assert all(ends[w, k] == pytest.approx(want[w, k]) for w, k in np.ndindex(*want.shape))
        assert got.max_staleness <= staleness
    assert exact_times(times, 0).max() == pytest.approx(sync.makespan)
    assert exact_times(times, 60).max() == pytest.approx(asynchronous.makespan)


def test_the_more_staleness_the_sooner() -> None:
    run = [simulate.parameter_server("ssp", 8, s, exponential, 300, 1) for s in range(6)]
    makespans = [r.makespan for r in run]
    assert makespans == sorted(makespans, reverse=True)
    assert makespans[0] > 1.5 * makespans[5]


def test_a_late_worker_is_dropped_and_catches_up() -> None:
    """Workers of 1, 1 and 2.5 s, one of them a backup: the third is late in every step."""
    run = simulate.parameter_server(
        "sync",
        2,
        step_time=lambda rng, shape: np.repeat([[1.0], [1.0], [2.5]], 6, axis=1),
        steps=6,
        backups=1,
    )
    assert run.makespan == 6
    late = [(s.step, s.began_at, s.ended_at, s.dropped) for s in run.spans if s.worker == 2]
    assert late == [(0, 0, 2.5, True), (2, 2.5, 5, True), (5, 5, 7.5, True)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("eventual", 3), "unknown consistency: got 'eventual', expected one of sync, async, ssp"),
        (("ssp", 3, -1), "no such number of staleness: got -1, expected 0 or more"),
        (("sync", 0), "no such number of workers: got 0"),
        (("sync", 3, 0, "osdi17"), "unknown step_time: got 'osdi17'"),
        (("async", 3, 0, exponential, 5, 0, 1), "backups make sense for 'sync' alone: got 1"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        simulate.parameter_server(*arguments)
