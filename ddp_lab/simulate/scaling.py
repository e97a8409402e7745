"""Data-parallel training on as many ranks as one likes, predicted from a model and a link.

    for point in scaling(VGG_16, compute_s=64 / 154, link=ROCE_25, world_sizes=[8, 256, 1024]):
        print(point)

What is assumed, always: every rank computes alike and at once, at the speed of one; backward takes
twice as long as forward, and sending does not slow it; buckets are averaged one after another by a
ring that crosses each server's link once in each direction at its line rate, and costs alpha a
round. Nothing is fitted. So the prediction with overlap is the best that this link allows, and the
one without is what a program pays that hides nothing: a measured run should lie between the two.

Held against what was published (`CASES`, `print(comparison())`):

- Horovod, 512 ranks, efficiency without and with overlap: Inception V3 84.7 to 94.2 %, published
  90 %; ResNet-101 77.5 to 93.1 %, published 90 %; VGG-16 52.0 to 79.5 %, published 68 %. All three
  lie between; the prediction with overlap alone is 4, 3 and 12 points too good.
- Li 2020, 32 ranks over 100 Gb/s at line rate: overlap gains 16.3 % for ResNet-50 where 38.0 %
  was measured, and 48.3 % for BERT where 35.2 % was. What the figures are shares of decides how far
  off that is. As shares of the step without overlap they cannot be had: whatever the link, overlap
  saves ResNet-50 at most 35.4 % of that, for its last bucket has nothing left to hide behind. As
  gains in speed both are those of one link (`explaining_links`): 4.7 GB/s by ResNet-50, 4.6 GB/s by
  BERT, a third of the line rate. So the line rate was the wrong assumption, not the model: with the
  link that ResNet-50's figure implies, BERT's is predicted within a point. Their compute times
  are not published; those here are assumed, and so is BERT-Large: with 0.3 or 0.5 s for its compute
  instead of 0.4 the prediction is off by 7 and 8 points.

May import: the standard library, cost, ddp, workloads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from ddp_lab.costs.model import all_reduce_time
from ddp_lab.errors import InvalidArgument
from ddp_lab.simulate.ddp import ddp
from ddp_lab.simulate.workloads import (
    BERT_LARGE,
    INCEPTION_V3,
    RESNET_50,
    RESNET_101,
    VGG_16,
    Workload,
)

BACKWARD_SHARE = 2 / 3  # of compute: each layer's two products in backward to one in forward
MIB = 1 << 20


@dataclass(frozen=True)
class Link:
    """What joins the servers: seconds a message, and bytes a second in each direction."""

    name: str
    alpha: float
    bytes_per_s: float


# alpha: a kernel, a copy and a switch; the order of magnitude that such links are known for
ROCE_25 = Link("25 Gb/s RoCE", 10e-6, 25e9 / 8)
ETHERNET_100 = Link("100 Gb/s", 10e-6, 100e9 / 8)


@dataclass(frozen=True)
class ScalingPoint:
    """A predicted step on `world_size` ranks, with and without overlap; seconds."""

    world_size: int
    compute_s: float
    step_s: float
    step_without_overlap_s: float

    @property
    def efficiency(self) -> float:
        """Throughput over `world_size` times that of one rank."""
        return self.compute_s / self.step_s

    @property
    def efficiency_without_overlap(self) -> float:
        """The same when communication waits for the end of backward."""
        return self.compute_s / self.step_without_overlap_s

    @property
    def gained_by_overlap(self) -> float:
        """How much faster than without overlap: 0.25 is five steps in the time of four."""
        return self.step_without_overlap_s / self.step_s - 1

    @property
    def saved_by_overlap(self) -> float:
        """What overlap takes off a step, as a share of the step without."""
        return 1 - self.step_s / self.step_without_overlap_s


@dataclass(frozen=True)
class Case:
    """A published figure, and the run that it is of, as far as it is known."""

    what: str  # a property of ScalingPoint
    published: float
    workload: Workload
    compute_s: float
    link: Link
    world_size: int
    bucket_bytes: float

    def predict(self) -> ScalingPoint:
        """Return the predicted step of that run."""
        (point,) = scaling(
            self.workload, self.compute_s, self.link, [self.world_size], self.bucket_bytes
        )
        return point


# Horovod: Sergeev & Del Balso, arXiv:1802.05799, 2018; 512 Pascal GPUs, 25 Gb/s RoCE. Fusion up to
# 64 MiB is assumed. Compute of 64 pictures from the images a second of one P100 in TensorFlow's
# benchmarks of May 2017: 142, 154 (VGG-16); ResNet-101 interpolated between ResNet-50 (219) and
# ResNet-152 (91.8) by their multiplications.
# Li et al., PyTorch Distributed, VLDB 2020: 32 GPUs, NCCL. Assumed: 100 Gb/s between servers, and
# compute, 32 pictures at 360 a second, and 0.4 s for BERT.
CASES = (
    Case("efficiency", 0.90, INCEPTION_V3, 64 / 142, ROCE_25, 512, 64 * MIB),
    Case("efficiency", 0.90, RESNET_101, 64 / 129, ROCE_25, 512, 64 * MIB),
    Case("efficiency", 0.68, VGG_16, 64 / 154, ROCE_25, 512, 64 * MIB),
    Case("gained_by_overlap", 0.380, RESNET_50, 32 / 360, ETHERNET_100, 32, 25 * MIB),
    Case("gained_by_overlap", 0.352, BERT_LARGE, 0.4, ETHERNET_100, 32, 25 * MIB),
)


def scaling(
    workload: Workload,
    compute_s: float,
    link: Link,
    world_sizes: Sequence[int],
    bucket_bytes: float = 25 * MIB,
    algorithm: str = "ring",
) -> list[ScalingPoint]:
    """Return the predicted step for each number of ranks.

    Args:
        workload: the model, from `simulate.workloads`.
        compute_s: seconds of forward and backward on one rank.
        link: what joins the ranks.
        world_sizes: numbers of ranks; 1 sends nothing.
        bucket_bytes: size at which a bucket is closed.
        algorithm: a name that `cost.all_reduce_time` knows.

    Raises:
        InvalidArgument: a time, size or link that makes no sense.
    """
    if not (compute_s > 0 and link.alpha >= 0 and link.bytes_per_s > 0):
        raise InvalidArgument(
            f"scaling: compute and link take time: got compute_s {compute_s}, alpha {link.alpha} "
            f"and {link.bytes_per_s} bytes a second. Pass numbers above 0 (alpha may be 0)."
        )
    return [
        ScalingPoint(p, compute_s, *_steps(workload, compute_s, link, p, bucket_bytes, algorithm))
        for p in world_sizes
    ]


def _steps(
    workload: Workload,
    compute_s: float,
    link: Link,
    world_size: int,
    bucket_bytes: float,
    algorithm: str,
) -> tuple[float, float]:
    """Return the seconds of a step with overlap and without."""

    def all_reduce(n_bytes: float) -> float:
        return all_reduce_time(algorithm, n_bytes, world_size, link.alpha, 1 / link.bytes_per_s)

    backward = [compute_s * BACKWARD_SHARE * share for share in workload.shares()]
    forward = compute_s * (1 - BACKWARD_SHARE)
    with_overlap, without = (
        ddp(forward, backward, workload.n_bytes, bucket_bytes, all_reduce, overlap).step_time
        for overlap in (True, False)
    )
    return with_overlap, without


def explaining_links(case: Case, what: str = "") -> list[float]:
    """Return the bytes a second of a link that give a published figure exactly, fastest first.

    There may be none, or two: overlap gains most where communication takes as long as backward,
    and less on faster and on slower links. `what` is another property than the case's own.
    """
    name = what or case.what

    def excess(bytes_per_s: float) -> float:
        link = replace(case.link, bytes_per_s=bytes_per_s)
        figure: float = getattr(replace(case, link=link).predict(), name)
        return figure - case.published

    grid = [10 ** (11.5 - k / 100) for k in range(450)]  # 300 GB/s down to 11 MB/s
    above = [excess(rate) >= 0 for rate in grid]
    pairs = zip(pairwise(grid), pairwise(above), strict=True)
    return [_root(excess, *rates) for rates, (before, after) in pairs if before != after]


def _root(excess: Callable[[float], float], high: float, low: float) -> float:
    """Return where `excess` changes its sign, by bisection."""
    high_is_above = excess(high) >= 0
    for _ in range(40):
        middle = (high + low) / 2
        if (excess(middle) >= 0) == high_is_above:
            high = middle
        else:
            low = middle
    return (high + low) / 2


def table(points: Sequence[ScalingPoint]) -> str:
    """Return a line a number of ranks."""
    lines = [f"{'ranks':>6} {'efficiency':>11} {'no overlap':>11} {'overlap saves':>14}"]
    for point in points:
        lines.append(
            f"{point.world_size:>6} {point.efficiency:>11.1%} "
            f"{point.efficiency_without_overlap:>11.1%} {point.saved_by_overlap:>14.1%}"
        )
    return "\n".join(lines)


def comparison() -> str:
    """Return a line a published figure: what was measured, and what is predicted."""
    lines = [f"{'model':<13} {'ranks':>5} {'figure':<17} {'published':>9} {'predicted':>10}"]
    for case in CASES:
        point = case.predict()
        lines.append(
            f"{case.workload.name:<13} {case.world_size:>5} {case.what:<17} "
            f"{case.published:>9.1%} {getattr(point, case.what):>10.1%}"
        )
        if case.what == "efficiency":
            lines[-1] += f" (without overlap {point.efficiency_without_overlap:.1%})"
        else:
            rates = " or ".join(f"{rate / 1e9:.1f}" for rate in explaining_links(case))
            lines[-1] += f" (as published over {rates} GB/s)"
    return "\n".join(lines)
