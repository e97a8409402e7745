"""The constants of the cost model are found again in times made from it."""

import dataclasses

import numpy as np
import pytest

from ddp_lab import cli, cost
from ddp_lab.costs.calibrate import Calibration
from ddp_lab.costs.fit import Constants, Sample, fit
from ddp_lab.costs.timing import (
    PLAN,
    _blocks,
    _sample,
    available_cores,
    measure,
)

TRUE = Constants(3e-5, 8e-10, 2e-10)


def samples(constants: Constants, plan=PLAN, sizes=(1 << 10, 1 << 16, 1 << 22)) -> list[Sample]:
    return [
        Sample(*key, n, p, constants.predict(Sample(*key, n, p, 0.0)))
        for key in plan
        for n in sizes
        for p in (2, 4)
    ]


@pytest.mark.parametrize("gamma", [0.0, 2e-10, 5e-9])
def test_constants_are_found_again_in_times_that_follow_them(gamma: float) -> None:
    true = dataclasses.replace(TRUE, gamma=gamma)
    found = fit(samples(true))
    assert dataclasses.astuple(found) == pytest.approx(
        dataclasses.astuple(true), rel=1e-6, abs=1e-18
    )


def test_every_closed_form_can_be_fitted_to() -> None:
    found = fit(samples(TRUE, plan=sorted(cost.FORMS.keys() - {("barrier", "dissemination")})))
    assert dataclasses.astuple(found) == pytest.approx(dataclasses.astuple(TRUE), rel=1e-6, abs=0)


def test_times_that_follow_other_constants_are_told_from_these() -> None:
    found = fit(samples(dataclasses.replace(TRUE, beta=TRUE.beta * 1.0005)))
    assert found.beta != pytest.approx(TRUE.beta, rel=1e-6, abs=0)


def test_noise_of_a_few_percent_moves_predictions_by_no_more() -> None:
    rng = np.random.default_rng(0)
    noisy = [
        dataclasses.replace(s, seconds=s.seconds * rng.uniform(0.95, 1.05)) for s in samples(TRUE)
    ]
    found = fit(noisy)
    for sample in samples(TRUE, sizes=(1 << 13, 1 << 20)):
        assert found.predict(sample) == pytest.approx(sample.seconds, rel=0.05, abs=0)


def test_no_constant_is_negative_even_where_that_would_fit_better() -> None:
    faster = [
        dataclasses.replace(s, seconds=s.seconds * (0.5 if s.collective == "reduce" else 1.0))
        for s in samples(TRUE, plan=[("broadcast", "tree"), ("reduce", "tree")])
    ]
    found = fit(faster)
    assert found.gamma == 0
    assert min(found.alpha, found.beta) > 0


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([], "cannot be told apart: got 0 samples"),
        (samples(TRUE, plan=[("broadcast", "tree")]), "with and without a reduction"),
        (samples(TRUE, PLAN[:2], sizes=(1 << 10,))[:2], "cannot be told apart: got 2 samples"),
        ([Sample("broadcast", "tree", 8, 2, 0.0)], "a collective takes time: got 0 s"),
    ],
)
def test_samples_that_say_too_little_are_refused(given: list[Sample], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fit(given)


def test_measuring_gives_a_sample_for_each_collective_world_size_and_size() -> None:
    before = available_cores()
    found = measure("threads", [2, 3], (64, 1024), rounds=2)
    # recursive doubling has no closed form for three ranks
    assert [(s.world_size, s.collective, s.algorithm, s.n_bytes) for s in found] == [
        (p, *key, n)
        for p in (2, 3)
        for key in PLAN
        if p == 2 or key[1] != "recursive_doubling"
        for n in (64, 1024)
    ]
    assert all(s.seconds > 0 and s.spread >= 0 and 0 <= s.interrupted <= 1 for s in found)
    assert available_cores() == before


def blocks(*rounds: tuple[float, int]) -> np.ndarray:
    """Return the blocks of a launch with one job: seconds and interruptions of each round."""
    return np.array(rounds, np.float64)


def test_a_sample_is_the_quickest_block_that_nothing_interrupted() -> None:
    launches = [blocks((3.0, 0), (1.0, 2), (2.0, 0)), blocks((2.5, 0), (9.0, 1))]
    sample = _sample(("all_reduce", "ring", 8), 2, launches)
    assert (sample.seconds, sample.spread, sample.interrupted) == (2.0, 0.25, 0.4)


def test_where_every_block_was_interrupted_the_quickest_counts() -> None:
    sample = _sample(("all_reduce", "ring", 8), 2, [blocks((3.0, 1), (2.0, 4))])
    assert (sample.seconds, sample.interrupted) == (2.0, 1.0)


def test_blocks_of_one_rank_that_was_interrupted_count_as_such() -> None:
    # one round, one job: begin, end, calls, interruptions of two ranks
    ranks = [np.array([[[0.0, 4.0, 2, 0]]]), np.array([[[1.0, 5.0, 2, 3]]])]
    assert _blocks(ranks).tolist() == [[[2.0, 3]]]


def test_the_table_holds_predictions_against_what_was_kept_from_the_fit() -> None:
    twice = [dataclasses.replace(s, seconds=s.seconds / 2) for s in samples(TRUE, sizes=(4096,))]
    calibration = Calibration("tcp", TRUE, (), tuple(twice))
    table = calibration.table().splitlines()
    rows = len(twice)
    assert table[0].startswith("tcp: alpha 30 µs, 1/beta 1.25 GB/s, 1/gamma 5 GB/s")
    assert [line.split()[-1] for line in table[2 : 2 + rows]] == ["2.00"] * rows
    assert table[2 + rows] == "half within a factor 2.00, nine in ten within 2.00"
    assert table[3 + rows].startswith("launches differ by 0%, 0% of blocks interrupted, load ")


def test_one_disturbed_measurement_in_ten_moves_predictions_little() -> None:
    disturbed = [
        dataclasses.replace(s, seconds=s.seconds * (20 if k % 10 == 3 else 1))
        for k, s in enumerate(samples(TRUE))
    ]
    found = fit(disturbed)
    for sample in samples(TRUE, sizes=(1 << 13, 1 << 20)):
        assert found.predict(sample) == pytest.approx(sample.seconds, rel=0.15, abs=0)


@pytest.mark.parametrize(("spread", "trusted"), [(0.2, True), (3.0, False)])
def test_launches_that_disagree_are_no_ground_for_a_claim(spread: float, trusted: bool) -> None:
    kept = tuple(dataclasses.replace(s, spread=spread) for s in samples(TRUE))
    calibration = Calibration("shm", TRUE, (), kept, load=7.5)
    assert calibration.trusted is trusted
    table = calibration.table()
    assert "0% of blocks interrupted, load 7.5 on" in table
    assert ("no claim: launches differ by 300%" in table) is not trusted
    assert ("half within a factor" in table) is trusted


def test_an_option_that_calibrate_does_not_know_is_refused(capsys) -> None:
    with pytest.raises(SystemExit):
        cli.main(["calibrate", "--transprot", "tcp"])
    assert "unrecognized arguments: --transprot tcp" in capsys.readouterr().err


def test_no_rounds_are_refused(capsys) -> None:
    assert cli.main(["calibrate", "--rounds", "0"]) == 1
    assert "no such number of rounds: got 0" in capsys.readouterr().err
