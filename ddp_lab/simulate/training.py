"""A step of training on a cluster, predicted: data, tensor and pipeline parallelism together.

    step = training(GPT3, A100S, dp=16, tp=8, pp=8, microbatches=96, batch=1536)
    step.step_time, step.efficiency, step.memory_bytes, step.breakdown

Layers are shared among pp stages so that the slowest is as fast as can be; a stage is dp * tp
devices (`mesh`), and each of its layers costs what `layer_time` says. Micro-batches go through the
stages by a schedule of `pipeline`; a stage is busy while it sends to its neighbour. Gradients are
averaged beside the last backward, in buckets (`ddp`). What is assumed: all devices are alike, a
layer takes its flops' time however small it is, nothing else crosses the links.

May import: cluster, cuts, layers, ddp, pipeline, arguments, errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil

from ddp_lab.arguments import check_counts, check_name
from ddp_lab.errors import DoesNotFit, InvalidArgument
from ddp_lab.parallel.pipeline.cuts import balance
from ddp_lab.simulate.cluster import Cluster, Mesh, mesh
from ddp_lab.simulate.ddp import ddp
from ddp_lab.simulate.layers import BACKWARD, STATES, LayerCost, LayerTime, check_layers, layer_time
from ddp_lab.simulate.pipeline import finish_times

STRATEGIES = ("all_reduce", "parameter_server", "zero3")
MIB = 1 << 20
MOST_PARTS = 64  # of a layer: more take longer to predict and change little


@dataclass(frozen=True)
class TrainingStep:
    """A predicted step.

    Attributes:
        step_time: seconds.
        throughput: samples a second.
        efficiency: throughput over that of as many single devices, without any communication.
        memory_bytes: what a device of the fullest stage needs.
        breakdown: seconds by what they go to; together the step. `compute` is what the step would
            take at an efficiency of 1, `bubble` what devices idle while others work.
        stages: the first layer of each stage and the one after its last.
        stage_memory_bytes: what a device of each stage needs.
    """

    step_time: float
    throughput: float
    efficiency: float
    memory_bytes: float
    breakdown: Mapping[str, float]
    stages: tuple[tuple[int, int], ...]
    stage_memory_bytes: tuple[float, ...]


@dataclass(frozen=True)
class _Stage:
    """One stage: seconds of a micro-batch each way, and what of them is no compute."""

    forward: float
    backward: float
    tensor: float
    transfers: float
    fetching: float
    exposed: float  # communication after the last backward
    kept_bytes: float  # of a micro-batch
    state_bytes: float


@dataclass(frozen=True)
class _How:
    """How data parallelism is done."""

    strategy: str
    servers: int
    bucket_bytes: float
    overlap: bool
    states: float


def training(
    workload: Sequence[LayerCost],
    cluster: Cluster,
    dp: int = 1,
    tp: int = 1,
    pp: int = 1,
    microbatches: int = 1,
    schedule: str = "1f1b",
    batch: int = 1,
    strategy: str = "all_reduce",
    servers: int | None = None,
    *,
    bucket_bytes: float = 25 * MIB,
    overlap: bool = True,
    states: float = STATES,
) -> TrainingStep:
    """Return the predicted step of a workload on dp * tp * pp devices of a cluster.

    Args:
        workload: the layers, in forward order.
        dp: replicas, each of which takes its part of the batch.
        tp: devices that share the work of each layer.
        pp: stages, each of which has some of the layers.
        microbatches: parts into which each replica cuts its samples; without a pipeline they
            are accumulated.
        schedule: one that `pipeline` knows.
        batch: samples of a step, over all replicas.
        strategy: how replicas agree: `"all_reduce"` by a ring, `"parameter_server"` by sending
            gradients out and getting parameters back, `"zero3"` by keeping a part each.
        servers: parameter servers that share the parameters evenly; as many as dp by default.
        bucket_bytes: size at which a bucket of gradients is sent; 0 sends each layer's alone.
        overlap: whether gradients travel beside the rest of backward.
        states: bytes kept for each of parameters. 4 is parameters, gradients and Adam in one
            precision; 8 is 16-bit parameters with Adam in 32 bits.
    Raises:
        DoesNotFit: a stage needs more memory than a device has.
        InvalidArgument: sizes that do not divide, more ranks than devices, more stages than
            layers, or a number or name that makes no sense.
    """
    check_layers("training", workload)
    samples = _samples(len(workload), cluster, dp, tp, pp, microbatches, batch)
    how = _check_strategy(strategy, servers, dp, bucket_bytes, overlap, states)
    place = mesh(cluster, dp, tp)
    _check_stages_fill_hosts(place, pp)
    times = [layer_time(layer, place, samples) for layer in workload]
    bounds = balance([time.forward + time.backward for time in times], pp)
    stages = [
        _stage(times[first:last], place, _sends(times, bounds, place, number), how)
        for number, (first, last) in enumerate(bounds)
    ]
    ends, held = finish_times(
        schedule, microbatches, [s.forward for s in stages], [s.backward for s in stages]
    )
    memory = _memory(stages, held, cluster.memory_bytes)
    step_time = max(end + stage.exposed for end, stage in zip(ends, stages, strict=True))
    whole = (1 + BACKWARD) * sum(layer.flops for layer in workload) * batch / cluster.flops
    ideal = whole / (dp * tp * pp)
    return TrainingStep(
        step_time,
        batch / step_time,
        ideal / step_time,
        max(memory),
        _breakdown(stages, microbatches, ideal, max(ends), step_time),
        tuple(bounds),
        tuple(memory),
    )


def _samples(
    layers: int, cluster: Cluster, dp: int, tp: int, pp: int, microbatches: int, batch: int
) -> int:
    """Return the samples of a replica's micro-batch."""
    check_counts("training", dp=dp, tp=tp, pp=pp, microbatches=microbatches, batch=batch)
    if dp * tp * pp > cluster.devices:
        raise InvalidArgument(
            f"training: more ranks than devices: got dp * tp * pp = {dp} * {tp} * {pp} = "
            f"{dp * tp * pp}, expected at most {cluster.devices}. Use a larger cluster."
        )
    if pp > layers:
        raise InvalidArgument(
            f"training: a stage without a layer: got pp = {pp} for {layers} layers, expected at "
            "most as many stages as layers."
        )
    if batch % (dp * microbatches):
        raise InvalidArgument(
            f"training: the batch does not divide: got {batch} samples for dp * microbatches = "
            f"{dp} * {microbatches}, expected a multiple of {dp * microbatches}. Choose another "
            "batch."
        )
    return batch // (dp * microbatches)


def _check_strategy(
    strategy: str, servers: int | None, dp: int, bucket_bytes: float, overlap: bool, states: float
) -> _How:
    check_name("training", "strategy", strategy, STRATEGIES)
    if servers is not None and strategy != "parameter_server":
        raise InvalidArgument(
            f"training: {strategy} has no servers: got servers={servers!r}, expected None. "
            'Pass strategy="parameter_server" too.'
        )
    count = dp if servers is None else servers
    check_counts("training", servers=count)
    if not states >= 1:
        raise InvalidArgument(
            f"training: states counts the parameters themselves: got {states!r}, expected 1 or "
            "more."
        )
    return _How(strategy, count, bucket_bytes, overlap, states)


def _check_stages_fill_hosts(place: Mesh, pp: int) -> None:
    size, full = place.hosts * place.devices, place.cluster.devices_per_host
    if place.hosts == 1 and full % size and pp * size > full:
        raise InvalidArgument(
            f"training: stages do not divide a host: got dp * tp = {size} devices a stage on hosts "
            f"of {full}, expected a divisor or a multiple. Choose another dp or tp."
        )


def _sends(
    times: Sequence[LayerTime], bounds: Sequence[tuple[int, int]], place: Mesh, stage: int
) -> tuple[float, float]:
    """Return the seconds in which a stage sends a micro-batch on, and its gradients back."""
    per_host = max(1, place.cluster.devices_per_host // (place.hosts * place.devices))

    def over(boundary: int) -> float:
        """Return the seconds from the stage before that boundary to the one after, or back."""
        if not 0 < boundary < len(bounds):
            return 0.0
        inside = place.hosts == 1 and boundary % per_host > 0
        return place.to_next_stage(times[bounds[boundary][0] - 1].kept_bytes, inside)

    return over(stage + 1), over(stage)


def _stage(
    times: Sequence[LayerTime], place: Mesh, sends: tuple[float, float], how: _How
) -> _Stage:
    forward, backward = [t.forward for t in times], [t.backward for t in times[::-1]]
    ways = [sum(forward), sum(backward)]
    n_bytes = [t.param_bytes for t in times[::-1]]
    exposed = fetching = 0.0
    if how.strategy == "zero3":
        gather = [place.data("all_gather", n) for n in n_bytes]
        scatter = [place.data("reduce_scatter", n) for n in n_bytes]
        fetched_ways = [
            fetch_seconds(forward, gather[::-1], None, how.overlap),
            fetch_seconds(backward, gather, scatter, how.overlap),
        ]
        fetching, ways = sum(fetched_ways) - sum(ways), fetched_ways
    elif place.dp > 1:
        exposed = _exposed_seconds(backward, n_bytes, place, how)
    return _Stage(
        ways[0] + sends[0],
        ways[1] + sends[1],
        2 * sum(t.tensor for t in times),
        sum(sends),
        fetching,
        exposed,
        sum(t.kept_bytes for t in times),
        _state_bytes(n_bytes, place.dp, how),
    )


def fetch_seconds(
    compute: Sequence[float],
    gather: Sequence[float],
    scatter: Sequence[float] | None = None,
    overlap: bool = True,
) -> float:
    """Return the seconds of one pass over the layers, whose parameters lie with other ranks.

        link      g0 g1 g2 ...                   gather: one layer ahead of compute
        compute      f0 f1 f2 ...  b2 b1 b0      forward, backward
        link                    g1 s2 g0 s1 s0   backward gathers again, and scatters the gradients

    Args:
        compute: seconds of each layer, in the order of the pass.
        gather: seconds until a layer's parameters are there.
        scatter: seconds to sum its gradients where they belong; None in forward.
        overlap: whether a layer's messages travel beside the compute of others.
    Source: Rajbhandari et al., ZeRO, SC 2020, section 7: half as many bytes again as an all-reduce.
    """
    if not overlap:
        return sum(compute) + sum(gather) + sum(scatter or ())
    link = now = 0.0
    began = 0.0  # of the layer before: from then on this one's parameters are fetched
    for layer, seconds in enumerate(compute):
        link = there = max(link, began) + gather[layer]
        began = max(now, there)
        if scatter and layer:  # what the layer before left, once its gradients are ready
            link = max(link, now) + scatter[layer - 1]
        now = began + seconds
    if scatter:
        link = max(link, now) + scatter[-1]
    return max(link, now)


def _exposed_seconds(
    backward: Sequence[float], n_bytes: Sequence[float], place: Mesh, how: _How
) -> float:
    """Return what averaging gradients adds to the last backward."""
    if how.strategy == "parameter_server":
        send = partial(place.to_servers, servers=how.servers)
        backward, n_bytes = _in_parts(backward, n_bytes, how.bucket_bytes)
        return ddp(
            0.0, backward, n_bytes, how.bucket_bytes, send, how.overlap, reply=send
        ).exposed_communication
    ring = partial(place.data, "all_reduce")
    step = ddp(0.0, backward, n_bytes, how.bucket_bytes, ring, how.overlap)
    return step.exposed_communication


def _in_parts(
    backward: Sequence[float], n_bytes: Sequence[float], most: float
) -> tuple[list[float], list[float]]:
    """Return the layers with gradients of more than `most` bytes, unless that is 0, in parts.

    A part comes back from the servers while the next is on its way to them.
    """
    seconds, sizes = [], []
    for took, size in zip(backward, n_bytes, strict=True):
        parts = min(MOST_PARTS, max(1, ceil(size / most))) if most > 0 else 1
        seconds += [took, *[0.0] * (parts - 1)]
        sizes += [size / parts] * parts
    return seconds, sizes


def _state_bytes(n_bytes: Sequence[float], dp: int, how: _How) -> float:
    """Return the bytes of parameters, gradients and optimizer on a device."""
    if how.strategy == "parameter_server":
        return min(2.0, how.states) * sum(n_bytes)  # the servers keep the optimizer's
    if how.strategy == "zero3" and dp > 1:
        # a part, and whole: this layer's parameters and gradients and the next one's parameters
        return how.states * sum(n_bytes) / dp + 3 * max(n_bytes)
    return how.states * sum(n_bytes)


def _memory(stages: Sequence[_Stage], held: Sequence[int], memory_bytes: float) -> list[float]:
    """Return the bytes that a device of each stage needs."""
    needs = []
    for number, (stage, count) in enumerate(zip(stages, held, strict=True)):
        need = stage.state_bytes + count * stage.kept_bytes
        over = need - memory_bytes
        if over > 0:
            raise DoesNotFit(
                f"training: stage {number} does not fit: {over:.0f} bytes over, for it needs "
                f"{need:.4g} bytes on each device ({stage.state_bytes:.4g} of parameters, "
                f"gradients and optimizer, {count * stage.kept_bytes:.4g} of activations), "
                f"expected at most {memory_bytes:.4g}. Use more stages, a larger tp, "
                "smaller micro-batches or zero3.",
                number,
                over,
            )
        needs.append(need)
    return needs


def _breakdown(
    stages: Sequence[_Stage], microbatches: int, ideal: float, makespan: float, step_time: float
) -> dict[str, float]:
    """Return what the mean device spends its step on, in seconds; what is left is the bubble."""

    def mean(seconds: list[float]) -> float:
        return microbatches * sum(seconds) / len(stages)

    parts = {
        "compute": ideal,
        "data_parallel": step_time - makespan + mean([s.fetching for s in stages]),
        "tensor_parallel": mean([s.tensor for s in stages]),
        "pipeline_transfers": mean([s.transfers for s in stages]),
    }
    return {**parts, "bubble": max(0.0, step_time - sum(parts.values()))}
