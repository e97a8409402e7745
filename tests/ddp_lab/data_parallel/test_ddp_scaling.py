"""Scaling predicted from models and links, held against published figures and closed forms."""

from dataclasses import replace
from typing import Any

import pytest

from ddp_lab import simulate
from ddp_lab.errors import InvalidArgument
from ddp_lab.simulate.scaling import (
    CASES,
    ROCE_25,
    Link,
    comparison,
    explaining_links,
    scaling,
    table,
)
from ddp_lab.simulate.workloads import (
    BERT_LARGE,
    INCEPTION_V3,
    RESNET_50,
    RESNET_101,
    VGG_16,
    Workload,
)

HOROVOD, LI = CASES[:3], CASES[3:]
POINTS_OFF = {"ResNet-50": -21.7, "BERT-Large": 13.1}  # predicted at line rate minus published


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
def test_what_overlap_gains_at_line_rate_is_off_by_what_the_docstring_says(case: Any) -> None:
    off = 100 * (case.predict().gained_by_overlap - case.published)
    assert off == pytest.approx(POINTS_OFF[case.workload.name], abs=0.1)


def test_as_a_share_of_the_step_no_link_saves_resnet_50_what_was_published() -> None:
    assert explaining_links(LI[0], "saved_by_overlap") == []
    case = replace(LI[0], published=0.35)
    assert len(explaining_links(case, "saved_by_overlap")) == 2
    assert explaining_links(replace(case, published=0.356), "saved_by_overlap") == []


def test_as_a_gain_one_link_explains_both_models() -> None:
    resnet, bert = (explaining_links(case) for case in LI)
    assert [rate / 1e9 for rate in resnet] == pytest.approx([4.71, 1.82], abs=0.01)
    assert [rate / 1e9 for rate in bert] == pytest.approx([18.38, 4.56], abs=0.01)
    assert resnet[0] == pytest.approx(bert[1], rel=0.04)
    for case, rates in zip(LI, (resnet, bert), strict=True):
        for rate in rates:
            again = replace(case, link=Link("implied", case.link.alpha, rate)).predict()
            assert again.gained_by_overlap == pytest.approx(case.published, abs=1e-6)


@pytest.mark.parametrize(("compute_s", "points"), [(0.3, 6.7), (0.4, 0.9), (0.5, 7.8)])
def test_the_link_that_resnet_50_implies_predicts_bert(compute_s: float, points: float) -> None:
    link = Link("implied", LI[1].link.alpha, explaining_links(LI[0])[0])
    point = replace(LI[1], link=link, compute_s=compute_s).predict()
    off = 100 * abs(point.gained_by_overlap - LI[1].published)
    assert off == pytest.approx(points, abs=0.1)


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
    assert lines[4].endswith("(as published over 4.7 or 1.8 GB/s)")


@pytest.mark.parametrize(
    ("compute_s", "link"), [(0, ROCE_25), (1.0, Link("none", 0.0, 0.0)), (float("nan"), ROCE_25)]
)
def test_what_cannot_be_is_refused(compute_s: float, link: Link) -> None:
    with pytest.raises(InvalidArgument, match="compute and link take time"):
        scaling(VGG_16, compute_s, link, [2])
