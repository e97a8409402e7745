"""simulate.training: held against closed forms, against itself, and against what cannot be."""

import random

import pytest

from ddp_lab import cost, simulate
from ddp_lab.errors import DoesNotFit, InvalidArgument
from ddp_lab.parallel.pipeline.cuts import balance
from ddp_lab.simulate import LayerCost
from ddp_lab.simulate.pipeline import finish_times
from ddp_lab.simulate.training import TrainingStep

FLOPS, LAYER = 1e12, LayerCost(flops=2e9, param_bytes=4e6, activation_bytes=1e5)
INTRA, INTER = (1e-6, 1e-11), (1e-5, 1e-9)
HOSTS = simulate.cluster(8, 8, FLOPS, INTRA, INTER)
ALONE = 3 * LAYER.flops / FLOPS  # seconds of a layer, forward and backward, of one sample


def step(layers: int = 8, hosts=HOSTS, **how) -> TrainingStep:
    return simulate.training([LAYER] * layers, hosts, **how)


def test_one_device_takes_the_time_of_its_flops_with_backward_twice_forward() -> None:
    one = step(batch=4)
    assert one.step_time == pytest.approx(8 * 4 * ALONE)
    assert one.throughput == pytest.approx(1 / (8 * ALONE))
    assert one.efficiency == pytest.approx(1)
    assert one.memory_bytes == pytest.approx(8 * (4 * 4e6 + 4 * 1e5))


@pytest.mark.parametrize(("dp", "link"), [(2, INTRA), (8, INTRA), (16, INTER), (64, INTER)])
def test_without_overlap_gradients_add_one_ring_over_the_slowest_link(dp: int, link) -> None:
    got = step(dp=dp, batch=dp, overlap=False, bucket_bytes=1e12)
    ring = cost.all_reduce_time("ring", 8 * 4e6, dp, *link)
    assert got.step_time == pytest.approx(8 * ALONE + ring)
    assert got.breakdown["data_parallel"] == pytest.approx(ring)
    assert got.efficiency == pytest.approx(8 * ALONE / got.step_time)


def test_gradients_of_all_devices_of_a_host_share_its_link() -> None:
    """Eight groups of eight hosts each average an eighth of the bytes: as one group with all."""
    got = step(dp=8, tp=8, batch=8, overlap=False, bucket_bytes=1e12)
    ring = cost.all_reduce_time("ring", 8 * 4e6, 8, *INTER)
    assert got.breakdown["data_parallel"] == pytest.approx(ring)


@pytest.mark.parametrize(("tp", "link"), [(2, INTRA), (8, INTRA), (16, INTER)])
def test_a_tensor_parallel_layer_costs_an_all_reduce_of_its_output_each_way(tp: int, link) -> None:
    got = step(tp=tp, batch=4)
    each = cost.all_reduce_time("ring", 4 * 1e5, tp, *link)
    assert got.breakdown["tensor_parallel"] == pytest.approx(2 * 8 * each)
    assert got.step_time == pytest.approx(8 * 4 * ALONE / tp + 2 * 8 * each)


@pytest.mark.parametrize(("pp", "microbatches"), [(2, 1), (4, 8), (8, 32)])
@pytest.mark.parametrize("schedule", ["gpipe", "1f1b"])
def test_the_bubble_is_that_of_the_pipeline(pp: int, microbatches: int, schedule: str) -> None:
    free = simulate.cluster(1, 8, FLOPS, (0.0, 1e-30), (0.0, 0.0))
    got = step(hosts=free, pp=pp, microbatches=microbatches, schedule=schedule, batch=32)
    assert got.efficiency == pytest.approx(microbatches / (microbatches + pp - 1))
    assert got.breakdown["bubble"] == pytest.approx(got.step_time * (1 - got.efficiency))


def test_a_pipeline_pays_for_what_goes_from_host_to_host() -> None:
    got = step(tp=4, pp=4, microbatches=1, batch=1)  # two stages a host: one boundary of three
    within, across = 1e-6 + 1e5 * 1e-11 / 4, 1e-5 + 1e5 * 1e-9 * 8 / 4 / 2
    tensor = got.breakdown["tensor_parallel"] * 4
    assert got.step_time == pytest.approx(8 * ALONE / 4 + tensor + 2 * (2 * within + across))


def test_1f1b_keeps_fewer_activations_than_gpipe() -> None:
    by_name = {
        name: step(pp=4, microbatches=16, batch=16, schedule=name).stage_memory_bytes
        for name in ("gpipe", "1f1b")
    }
    states, kept = 2 * 4 * 4e6, 2 * 1e5
    assert by_name["gpipe"] == pytest.approx([states + 16 * kept] * 4)
    assert by_name["1f1b"] == pytest.approx([states + count * kept for count in (4, 3, 2, 1)])


def test_zero3_sends_half_as_much_again_and_keeps_a_part() -> None:
    how = {"dp": 64, "batch": 64, "overlap": False}
    free_of_latency = simulate.cluster(64, 1, FLOPS, (0.0, 0.0), (0.0, 1e-9))
    ring = step(hosts=free_of_latency, **how)
    zero = step(hosts=free_of_latency, strategy="zero3", **how)
    assert zero.breakdown["data_parallel"] == pytest.approx(1.5 * ring.breakdown["data_parallel"])
    assert zero.memory_bytes == pytest.approx(8 * (4 * 4e6 / 64 + 1e5) + 3 * 4e6)
    assert step(strategy="zero3", **how | {"overlap": True}).step_time < zero.step_time


@pytest.mark.parametrize(("servers", "times"), [(None, 1), (16, 1), (8, 1), (4, 2), (1, 8)])
def test_parameter_servers_that_are_too_few_are_the_bottleneck(servers, times: int) -> None:
    """A replica sends n bytes and gets n; a server takes dp / servers times n each way."""
    hosts = simulate.cluster(8, 1, FLOPS, (0.0, 0.0), INTER)
    how = {"dp": 8, "batch": 8, "overlap": False, "bucket_bytes": 1e12}
    got = step(hosts=hosts, strategy="parameter_server", servers=servers, **how)
    way = INTER[0] + 8 * 4e6 * INTER[1] * times
    assert got.breakdown["data_parallel"] == pytest.approx(2 * way)


def test_many_buckets_travel_to_the_servers_while_others_come_back() -> None:
    hosts = simulate.cluster(8, 1, FLOPS, (0.0, 0.0), (0.0, 1e-9))
    got = step(
        100, hosts, dp=8, batch=8, overlap=False, bucket_bytes=0, strategy="parameter_server"
    )
    assert got.breakdown["data_parallel"] == pytest.approx(101 * 4e6 * 1e-9)


@pytest.mark.parametrize("strategy", ["all_reduce", "parameter_server", "zero3"])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1), (8, 1, 1), (2, 4, 1), (2, 4, 8), (1, 8, 8), (16, 2, 2)]
)
def test_the_breakdown_is_the_step_and_overlap_never_hurts(sizes, strategy: str) -> None:
    how = {**dict(zip(("dp", "tp", "pp"), sizes, strict=True)), "microbatches": 4, "batch": 64}
    got = step(strategy=strategy, **how)
    assert sum(got.breakdown.values()) == pytest.approx(got.step_time)
    assert min(got.breakdown.values()) >= 0
    assert 0 < got.efficiency <= 1 + 1e-9
    assert got.throughput == pytest.approx(64 / got.step_time)
    assert got.step_time <= step(strategy=strategy, overlap=False, **how).step_time * (1 + 1e-9)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "pipedream", "zero_bubble"])
@pytest.mark.parametrize(
    ("stages", "microbatches"), [(1, 1), (1, 4), (3, 1), (3, 9), (5, 15), (6, 4)]
)
def test_stages_end_when_the_pipeline_says(schedule: str, stages: int, microbatches: int) -> None:
    rng = random.Random(stages * 100 + microbatches)
    forward, backward = ([rng.uniform(0.5, 3) for _ in range(stages)] for _ in range(2))
    if schedule == "zero_bubble" and microbatches % max(1, microbatches // stages):
        microbatches = stages
    ends, held = finish_times(schedule, microbatches, forward, backward)
    want = simulate.pipeline(schedule, stages, microbatches, forward, backward)
    assert ends == pytest.approx([spans[-1].ended_at for spans in want.spans], rel=1e-12)
    assert held == want.peak_activations


@pytest.mark.parametrize("stages", range(1, 7))
def test_stages_are_as_even_as_can_be(stages: int) -> None:
    seconds = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]

    def least(first: int, left: int) -> float:
        """Return the slowest stage of the best split, by trying all."""
        if left == 1:
            return sum(seconds[first:])
        lasts = range(first + 1, len(seconds) - left + 2)
        return min(max(sum(seconds[first:last]), least(last, left - 1)) for last in lasts)

    bounds = balance(seconds, stages)
    assert [first for first, _ in bounds] == [0, *(last for _, last in bounds[:-1])]
    assert bounds[-1][1] == len(seconds) and all(first < last for first, last in bounds)
    assert max(sum(seconds[a:b]) for a, b in bounds) == least(0, stages)


def test_what_does_not_fit_names_the_stage_and_the_bytes_over() -> None:
    layers = [LAYER, LayerCost(2e9, 6e6, 1e5), LAYER]
    small = simulate.cluster(1, 4, FLOPS, INTRA, (0, 0), memory_bytes=20e6)
    with pytest.raises(DoesNotFit, match="stage 1 does not fit: 4200000 bytes over") as caught:
        simulate.training(layers, small, pp=3, microbatches=2, batch=2)
    assert (caught.value.stage, caught.value.over_bytes) == (1, 24e6 + 2e5 - 20e6)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"dp": 3}, r"the batch does not divide: got 8 samples for dp \* microbatches = 3 \* 1"),
        ({"dp": 8, "tp": 8, "pp": 2}, r"more ranks than devices: .* = 128, expected at most 64"),
        ({"pp": 9}, "a stage without a layer: got pp = 9 for 8 layers"),
        ({"dp": 1, "tp": 12}, "does not divide into hosts: got 1 . 12 devices on hosts of 8"),
        ({"tp": 3, "pp": 4}, "stages do not divide a host: got dp . tp = 3"),
        ({"batch": 0}, "no such number of batch: got 0"),
        ({"dp": 1.0}, "no such number of dp: got 1.0"),
        ({"strategy": "ring"}, "unknown strategy: got 'ring'"),
        ({"servers": 2}, "all_reduce has no servers"),
        ({"strategy": "parameter_server", "servers": 0}, "no such number of servers: got 0"),
        ({"schedule": "2f2b"}, "unknown schedule: got '2f2b'"),
    ],
)
def test_what_cannot_be_is_refused(how: dict, says: str) -> None:
    with pytest.raises(InvalidArgument, match=says):
        step(**{"batch": 8, **how})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hosts": 0}, "no such number of hosts: got 0"),
        ({"flops": -1e12}, "flops must be above 0"),
        ({"flops": float("nan")}, "flops must be above 0"),
        ({"memory_bytes": 0}, "memory_bytes must be above 0"),
        ({"intra": (0, 0)}, r"no such link: got intra=\(0, 0\)"),
        ({"inter": (-1e-6, 1e-9)}, "no such link: got inter"),
        ({"inter": 25e9}, "no such link: got inter=25000000000.0"),
    ],
)
def test_a_cluster_that_cannot_be_is_refused(change: dict, says: str) -> None:
    given = {"hosts": 2, "devices_per_host": 2, "flops": 1.0, "intra": INTRA, "inter": INTER}
    with pytest.raises(InvalidArgument, match=says):
        simulate.cluster(**given | change)


@pytest.mark.parametrize("numbers", [(-1, 0, 0), (0, float("nan"), 0), (0, 0, float("inf"))])
def test_a_layer_that_cannot_be_is_refused(numbers) -> None:
    with pytest.raises(InvalidArgument, match="no layer has such"):
        LayerCost(*numbers)


@pytest.mark.parametrize("workload", [[], [3.0], [LayerCost(0, 1, 1)]])
def test_a_workload_is_a_list_of_layers(workload) -> None:
    with pytest.raises(InvalidArgument, match=r"a workload (is a list of layers|has work)"):
        simulate.training(workload, HOSTS)
