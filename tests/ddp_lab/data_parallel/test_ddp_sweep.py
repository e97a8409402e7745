"""Bucket sizes, profiled, predicted and measured."""

from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import ddp_lab
from ddp_lab.data_parallel import Overlapped
from ddp_lab.data_parallel.bucketing import MIB
from ddp_lab.data_parallel.measurement.link_profile import on_line, profile_link
from ddp_lab.data_parallel.measurement.sweep import (
    BackwardProfile,
    Sweep,
    best,
    measure_sizes,
    predict,
    profile_backward,
    slowest,
    tied_with_best,
)


def test_the_profile_has_every_gradient_in_order_of_readiness() -> None:
    module = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 2))
    profile = profile_backward(module, lambda m: m(torch.ones(3, 4)).sum(), iterations=3)
    assert {name[0] for name in profile.names[:2]} == {"1"}  # the last layer first
    assert sorted(profile.names) == ["0.bias", "0.weight", "1.bias", "1.weight"]
    assert sum(profile.n_bytes) == 4 * (4 * 8 + 8 + 8 * 2 + 2)
    assert profile.forward > 0 and all(seconds >= 0 for seconds in profile.backward)
    assert not any(p._post_accumulate_grad_hooks for p in module.parameters())


def test_the_best_size_lies_between_one_bucket_and_one_a_gradient() -> None:
    profile = BackwardProfile(0.0, [1.0] * 16, [MIB] * 16, ["p"] * 16)
    seconds = predict(profile, [1, 2, 4, 8, 16], lambda n: 0.5 + 0.8 * n / MIB)
    assert best(seconds) in (2, 4)
    assert seconds[16] == pytest.approx(16 + 0.5 + 0.8 * 16)


def test_all_sizes_are_measured() -> None:
    def run(comm: Any) -> dict[float, list[float]]:
        return measure_sizes(
            lambda size: Overlapped(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), comm, size),
            lambda model: model(torch.ones(2, 8)).sum(),
            lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
            [0.0001, 1.0],
            iterations=3,
        )

    ranks = ddp_lab.launch(run, 2, transport="threads", timeout_s=60)
    for seconds in ranks:
        assert list(seconds) == [0.0001, 1.0]
        assert [len(taken) for taken in seconds.values()] == [3, 3]
        assert min(map(min, seconds.values())) > 0
    assert slowest(ranks)[1.0] == [max(pair) for pair in zip(ranks[0][1.0], ranks[1][1.0])]  # noqa: B905


def test_a_sweep_says_what_following_the_prediction_costs() -> None:
    sweep = Sweep({1: 0.030, 4: 0.020, 16: 0.025}, {1: 0.040, 4: 0.022, 16: 0.020})
    assert sweep.regret == pytest.approx(0.1)
    lines = sweep.table().splitlines()
    assert lines[2].split() == ["4", "20.000*", "22.000"]
    assert lines[3].split() == ["16", "25.000", "20.000*"]
    assert lines[4] == "at the predicted optimum: +10.0%"


def test_the_picture_of_a_sweep_rings_both_optima() -> None:
    sweep = Sweep({1: 0.03, 4: 0.02}, {1: 0.01, 4: 0.04})
    svg = sweep._repr_mimebundle_()["image/svg+xml"]
    root = ElementTree.fromstring(svg)
    rings = [c for c in root.iter("{http://www.w3.org/2000/svg}circle") if c.get("r") == "8"]
    assert len({ring.get("cx") for ring in rings}) == 2
    assert "Best bucket size: measured 1 MiB, predicted 4 MiB." in svg


def test_a_size_that_is_worse_in_nearly_every_round_is_not_tied() -> None:
    drift = [float(k % 7) for k in range(20)]  # a busy machine: larger than any difference
    samples = {
        1.0: [10 + d for d in drift],
        4.0: [10.1 + d for d in drift],
        8.0: [10 + d + (0.1 if k % 2 else -0.1) for k, d in enumerate(drift)],
    }
    assert tied_with_best(samples) == [1.0, 8.0]
    sweep = Sweep.of({1.0: 3.0, 4.0: 2.0, 8.0: 1.0}, samples)
    assert sweep.table().splitlines()[1].endswith("*")
    assert sweep.table().endswith("which these rounds cannot tell from the best")
    assert "cannot tell" not in Sweep.of({1.0: 2.0, 4.0: 1.0, 8.0: 3.0}, samples).table()


def test_where_overlap_saves_nothing_fewer_buckets_are_better() -> None:
    profile = BackwardProfile(0.0, [1.0] * 16, [MIB] * 16, ["p"] * 16)
    cost = lambda n: 0.5 + 0.3 * n / MIB  # noqa: E731
    assert best(predict(profile, [1, 4, 16], cost)) == 1
    seconds = predict(profile, [1, 4, 16], cost, contention=1.0)
    assert best(seconds) == 16
    more = predict(profile, [1, 4, 16], cost, contention=1.0, launch=lambda n: 0.1)
    assert [more[s] - seconds[s] for s in (1, 4, 16)] == pytest.approx([1.6, 0.4, 0.1])


def test_the_link_is_profiled_alike_on_all_ranks() -> None:
    def run(comm: Any) -> Any:
        return profile_link(comm, [64, 4096], rounds=3)

    first, second = ddp_lab.launch(run, 2, timeout_s=60)
    assert first == second
    assert 0 <= first.contention <= 1
    assert list(first.reduce_seconds) == list(first.launch_seconds) == [64, 4096]
    assert min(*first.reduce_seconds.values(), *first.launch_seconds.values()) > 0


def test_between_and_beyond_what_was_measured_costs_lie_on_a_line() -> None:
    points = {10: 1.0, 20: 2.0, 40: 3.0}
    assert [on_line(points, x) for x in (0, 10, 15, 30, 60)] == [0.0, 1.0, 1.5, 2.5, 4.0]
    assert on_line({10: 1.0}, 99) == 1.0
