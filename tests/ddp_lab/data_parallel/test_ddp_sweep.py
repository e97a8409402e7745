"""Bucket sizes, profiled, predicted and measured."""

from typing import Any
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

import ddp_lab
from ddp_lab.data_parallel import Overlapped
from ddp_lab.data_parallel.bucketing import MIB
from ddp_lab.data_parallel.sweep import (
    BackwardProfile,
    Sweep,
    best,
    measure_sizes,
    predict,
    profile_backward,
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
    def run(comm: Any) -> dict[float, float]:
        return measure_sizes(
            lambda size: Overlapped(nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), comm, size),
            lambda model: model(torch.ones(2, 8)).sum(),
            lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
            [0.0001, 1.0],
            iterations=3,
        )

    for seconds in ddp_lab.launch(run, 2, transport="threads", timeout_s=60):
        assert list(seconds) == [0.0001, 1.0]
        assert min(seconds.values()) > 0


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
