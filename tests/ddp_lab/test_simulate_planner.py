"""The best plan against all plans, against pipelines that run, and as links change."""

import math
import random
from contextlib import suppress

import pytest

from ddp_lab.errors import DoesNotFit, InvalidArgument
from ddp_lab.simulate import LayerCost, best_plan, cluster, pipeline, plan_cost, plans
from ddp_lab.simulate.cluster import Cluster
from ddp_lab.simulate.planner import TERMS

FAST, SLOW = (1e-6, 1 / 3e11), (1e-5, 1 / 1e9)


def drawn(seed: int) -> tuple[list[LayerCost], Cluster, int]:
    """Return a small case: layers, a cluster whose memory often is tight, micro-batches."""
    draw = random.Random(seed)
    layers = [
        LayerCost(
            draw.uniform(1, 10) * 1e9,
            draw.choice([0, 1e6, 1e8, 4e8]) * draw.uniform(0.5, 1),
            draw.choice([1e4, 1e6, 1e7]) * draw.uniform(0.5, 1),
        )
        for _ in range(draw.randint(1, 4))
    ]
    hosts, devices = draw.choice([(1, 1), (1, 4), (2, 1), (2, 2), (3, 2), (2, 3)])
    intra = (1e-6, 1 / draw.choice([1e9, 1e10, 1e11]))
    inter = (1e-5, 1 / draw.choice([1e8, 1e9, 1e10]))
    memory = draw.choice([math.inf, 2e8, 3e8, 1e9, 1.5e9])
    found = cluster(hosts, devices, 1e12, intra, inter, memory)
    return layers, found, draw.choice([1, 2, 3, 8, 32])


@pytest.mark.parametrize("seed", range(40))
def test_the_best_plan_costs_what_the_best_of_all_plans_costs(seed: int) -> None:
    layers, where, microbatches = drawn(seed)
    costs = []
    for plan in plans(layers, where):
        with suppress(DoesNotFit):
            costs.append(plan_cost(plan, layers, where, microbatches))
    if not costs:
        with pytest.raises(DoesNotFit, match="no plan fits"):
            best_plan(layers, where, microbatches)
        return
    best = best_plan(layers, where, microbatches)
    assert best.cost == pytest.approx(min(costs), rel=1e-12)
    assert plan_cost(best, layers, where, microbatches) == best.cost
    assert sum(best.breakdown.values()) == pytest.approx(best.cost)


def test_plans_of_a_small_case_are_all_there_and_once() -> None:
    found = list(plans([LayerCost(1, 1, 1)] * 2, cluster(1, 2, 1.0, FAST, SLOW)))
    one = {((0, 2, 1, 1, 1, 1),), ((0, 2, 1, 2, 2, 1),), ((0, 2, 1, 2, 1, 2),)}
    assert {tuple(plan) for plan in found} == one | {((0, 1, 1, 1, 1, 1), (1, 2, 1, 1, 1, 1))}
    assert len(found) == 4


@pytest.mark.parametrize("microbatches", [1, 4, 16])
def test_without_transfers_a_plan_costs_what_a_pipeline_of_equal_stages_takes(
    microbatches: int,
) -> None:
    layers = [LayerCost(1e12, 0, 0)] * 4
    where = cluster(1, 4, 1e12, (0.0, 1e-30), SLOW)
    plan = [(n, n + 1, 1, 1, 1, 1) for n in range(4)]
    took = pipeline("1f1b", 4, microbatches, forward=1.0, backward=2.0).makespan
    assert plan_cost(plan, layers, where, microbatches) == pytest.approx(took)


def test_slow_links_between_hosts_are_crossed_by_activations_and_not_by_gradients() -> None:
    layers = [LayerCost(2e12, 4e8, 1e6)] * 8  # large weights, small activations
    apart = best_plan(layers, cluster(2, 4, 1e14, FAST, SLOW), 16)
    assert all(hosts == 1 for _, _, hosts, *_ in apart)
    assert len(apart) > 1
    near = best_plan(layers, cluster(2, 4, 1e14, (0.0, 1e-15), (0.0, 1e-15)), 16)
    assert len(near) == 1 and near[0][2] == 2


def test_devices_that_only_cost_time_are_left_over() -> None:
    tiny = [LayerCost(1e3, 1e9, 1e6)]
    assert best_plan(tiny, cluster(2, 2, 1e14, SLOW, SLOW), 1) == [(0, 1, 1, 1, 1, 1)]


@pytest.mark.parametrize("seed", [8, 11, 17, 30])
def test_the_runner_up_is_the_best_that_differs_in_stages_or_in_a_split(seed: int) -> None:
    layers, where, microbatches = drawn(seed)
    best = best_plan(layers, where, microbatches)
    other = best.runner_up
    assert other is not None and best.cost <= other.cost
    shapes = [stage[:4] for stage in best]
    with_other = []
    for plan in plans(layers, where):
        changed = sum(a != b for a, b in zip(plan, best, strict=False))
        same = len(plan) == len(best) and [stage[:4] for stage in plan] == shapes
        if len(plan) != len(best) or (same and changed == 1):
            with suppress(DoesNotFit):
                with_other.append(plan_cost(plan, layers, where, microbatches))
    assert other.cost == pytest.approx(min(with_other))
    said = best.why()
    assert f"{1e3 * other.cost:.4g} ms, layers" in said
    assert any(term.replace("_", " ") in said for term in TERMS)


def test_many_layers_and_devices_are_planned_under_a_memory_limit() -> None:
    layers = [LayerCost(1e12 * (1 + 0.1 * (n % 7)), 2e8, 3e7) for n in range(24)]
    where = cluster(4, 4, 1e14, FAST, (1e-5, 1 / 2.5e10), 4e9)
    plan = best_plan(layers, where, 32)
    free = best_plan(layers, cluster(4, 4, 1e14, FAST, (1e-5, 1 / 2.5e10)), 32)
    assert free.cost <= plan.cost < 2 * free.cost
    assert sum(hosts * devices for _, _, hosts, devices, *_ in plan) == 16


@pytest.mark.parametrize(
    ("plan", "says"),
    [
        ([(0, 1, 1, 1, 1, 1)], "ends early: got 1 layers, expected 2"),
        ([(0, 2, 1, 2, 1, 1)], "expected dp \\* tp = 2"),
        ([(0, 2, 1, 3, 3, 1)], "devices of one host"),
        ([(0, 1, 1, 1, 1, 1), (0, 2, 1, 1, 1, 1)], "stage 1 cannot be: .* layers from 1 on"),
    ],
)
def test_a_plan_that_cannot_be_is_told_why(plan: list[tuple[int, ...]], says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        plan_cost(plan, [LayerCost(1, 1, 1)] * 2, cluster(1, 2, 1.0, FAST, SLOW), 1)  # type: ignore[arg-type]


def test_what_does_not_fit_names_the_stage_and_the_bytes() -> None:
    layers = [LayerCost(1, 10, 5)] * 2
    where = cluster(1, 2, 1.0, FAST, SLOW, memory_bytes=48)
    plan = [(0, 1, 1, 1, 1, 1), (1, 2, 1, 1, 1, 1)]  # stage 0 holds two micro-batches
    with pytest.raises(DoesNotFit, match="stage 0 does not fit: 2 bytes over") as error:
        plan_cost(plan, layers, where, 4)
    assert (error.value.stage, error.value.over_bytes) == (0, 2.0)
    with pytest.raises(DoesNotFit, match="layer 0 alone is 15 bytes over"):
        best_plan(layers, cluster(1, 2, 1.0, FAST, SLOW, memory_bytes=10), 4)


@pytest.mark.parametrize("microbatches", [0, -1, 1.5, True])
def test_a_number_of_microbatches_that_cannot_be_is_an_error(microbatches: int) -> None:
    with pytest.raises(InvalidArgument, match="microbatches"):
        best_plan([LayerCost(1, 1, 1)], cluster(1, 1, 1.0, FAST, SLOW), microbatches)
