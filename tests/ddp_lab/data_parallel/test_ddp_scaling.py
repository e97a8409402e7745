"""Scaling predicted from models and links, held against published figures and closed forms."""

from typing import Any

import pytest

from ddp_lab import simulate
from ddp_lab.errors import InvalidArgument
from ddp_lab.simulate.scaling import CASES, ROCE_25, Link, comparison, scaling, table
from ddp_lab.simulate.workloads import (
    BERT_LARGE,
    INCEPTION_V3,
    RESNET_50,
    RESNET_101,
    VGG_16,
    Workload,
)

HOROVOD, LI = CASES[:3], CASES[3:]
POINTS_OFF = {"ResNet-50": -24.0, "BERT-Large": -2.6}  # predicted minus published


# parameters as torchvision counts them; BERT as its paper does
@pytest.mark.parametrize(
    ("workload", "millions"),
    [(RESNET_50, 25.557), (RESNET_101, 44.549), (VGG_16, 138.358), (BERT_LARGE, 340)],
    ids=lambda value: getattr(value, "name", ""),
)
def test_the_models_have_their_sizes(workload: Workload, millions: float) -> None:
    assert sum(workload.n_bytes) / 4e6 == pytest.approx(millions, rel=0.02)
    assert sum(workload.shares()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("workload", "giga"), [(RESNET_50, 4.09), (RESNET_101, 7.80), (VGG_16, 15.47)]
)
def test_the_models_have_their_work(workload: Workload, giga: float) -> None:
    assert sum(layer.work for layer in workload.layers) / 1e9 == pytest.approx(giga, rel=0.07)


@pytest.mark.parametrize("case", HOROVOD, ids=lambda case: case.workload.name)
def test_horovods_efficiencies_lie_between_no_overlap_and_overlap(case: Any) -> None:
    point = case.predict()
    assert point.efficiency_without_overlap < case.published < point.efficiency
    assert point.efficiency - case.published < 0.12


def test_of_horovods_models_vgg_scales_worst_as_published() -> None:
    by_name = {case.workload.name: case.predict().efficiency for case in HOROVOD}
    assert min(by_name, key=lambda name: by_name[name]) == "VGG-16"


@pytest.mark.parametrize("case", LI, ids=lambda case: case.workload.name)
def test_what_overlap_saves_is_off_by_what_the_docstring_says(case: Any) -> None:
    off = 100 * (case.predict().saved_by_overlap - case.published)
    assert off == pytest.approx(POINTS_OFF[case.workload.name], abs=0.2)


@pytest.mark.parametrize("case", LI, ids=lambda case: case.workload.name)
def test_overlap_never_saves_more_than_two_fifths_and_the_published_figures_keep_to_it(
    case: Any,
) -> None:
    saved = [
        scaling(case.workload, 0.001 * 1.1**k, case.link, [32])[0].saved_by_overlap
        for k in range(90)
    ]
    assert case.published < 0.4
    assert max(saved) <= 0.4
    assert max(saved) == pytest.approx(case.published, abs=0.04)


@pytest.mark.parametrize("world_size", [2, 5, 8])
def test_the_all_reduce_behind_it_is_the_packages_own_on_the_virtual_clock(
    world_size: int,
) -> None:
    n_bytes, link = sum(VGG_16.n_bytes), Link("any", 1e-5, 1e9)
    (point,) = scaling(VGG_16, 1.0, link, [world_size], bucket_bytes=1e12)
    took = simulate.collective("all_reduce", "ring", n_bytes, world_size, 1e-5, 1e-9)
    assert point.step_without_overlap_s == pytest.approx(1.0 + took, rel=1e-6)


def test_efficiency_falls_with_the_number_of_ranks_up_to_1024() -> None:
    points = scaling(INCEPTION_V3, 0.45, ROCE_25, [1, 2, 256, 1024])
    assert points[0].efficiency == pytest.approx(1.0)
    fallen = [point.efficiency for point in points]
    assert fallen == sorted(fallen, reverse=True)
    assert [line.split()[0] for line in table(points).splitlines()[1:]] == ["1", "2", "256", "1024"]


def test_a_fast_link_scales_perfectly() -> None:
    (point,) = scaling(VGG_16, 1.0, Link("free", 0.0, 1e30), [1024])
    assert point.efficiency == pytest.approx(1.0)


def test_the_comparison_has_every_published_figure() -> None:
    lines = comparison().splitlines()
    assert len(lines) == 1 + len(CASES)
    assert "90.0%" in lines[1] and "without overlap" in lines[1]


@pytest.mark.parametrize(
    ("compute_s", "link"), [(0, ROCE_25), (1.0, Link("none", 0.0, 0.0)), (float("nan"), ROCE_25)]
)
def test_what_cannot_be_is_refused(compute_s: float, link: Link) -> None:
    with pytest.raises(InvalidArgument, match="compute and link take time"):
        scaling(VGG_16, compute_s, link, [2])
