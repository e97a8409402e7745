"""The reducer: gradients into buckets, buckets to the other ranks, averages back.

One reducer serves torch and minitorch: what it does to arrays it asks of `Slots`, what it sends
it asks of `Group`. A training step goes

    prepare()            before forward: nothing is ready
    mark(i), mark(j) ... from the hooks, as backward finishes each gradient
    finish()             at the end of backward: wait, hand the averages to the parameters

and each bucket travels while backward goes on with the layers below.

May import: bucketing, schedule, group, errors.
Source: Li et al., PyTorch Distributed, VLDB 2020, algorithm 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Protocol

from ddp_lab.data_parallel.bucketing import BucketPlan, ParamSpec, assign, offsets
from ddp_lab.data_parallel.errors import ReadyTwice, UnusedParameters
from ddp_lab.data_parallel.group import Group, Work, reduce_counts
from ddp_lab.data_parallel.schedule import LaunchOrder


@dataclass
class Bucket:
    """A flat buffer and, for each parameter in it, the view that holds its gradient."""

    index: int
    params: tuple[int, ...]
    flat: Any
    views: list[Any]
    is_last: bool = False


class Slots(Protocol):
    """The gradients of a model, as arrays. `models.py` and `torch_slots.py` implement it."""

    specs: list[ParamSpec]

    def views(self, flat: Any, indices: Sequence[int], starts: Sequence[int]) -> list[Any]:
        """Cut `flat` into one view a parameter, each of its parameter's shape."""
        ...

    def dtype(self, index: int) -> Any:
        """Return what `Group.empty` takes to make a buffer for this parameter."""
        ...

    def gather(self, bucket: Bucket, scale: float) -> None:
        """Write gradient x `scale` into each view; zeros where there is no gradient."""
        ...

    def deliver(self, bucket: Bucket) -> None:
        """Make what the views hold the parameters' gradients."""
        ...

    def when_backward_ends(self, finish: Callable[[], None]) -> None:
        """Call `finish` once the backward now running has accumulated every gradient."""
        ...


@dataclass
class Timeline:
    """Nanoseconds (`perf_counter_ns`) of one iteration; a span a bucket, in launch order."""

    forward_start: int = 0
    backward_start: int = 0  # first gradient ready
    compute_end: int = 0  # last gradient ready
    backward_end: int = 0  # all averages delivered
    launches: list[int] = field(default_factory=list)
    arrivals: list[int] = field(default_factory=list)


class Reducer:
    """Averages gradients over a group's ranks, bucket by bucket, in one order on every rank.

    Invariant: between `prepare` and `finish` every rank launches the same buckets in the same
    order, whatever the order in which its own backward finishes gradients.
    """

    def __init__(self, slots: Slots, plan: BucketPlan, group: Group, limits: Sequence[int]) -> None:
        self.slots = slots
        self.group = group
        self.limits = list(limits)
        self.timeline = Timeline()
        self.rebuilt = False
        self.expecting = False  # hooks do nothing outside of a synchronised step (no_sync)
        self._lay_out(plan)

    def _lay_out(self, plan: BucketPlan) -> None:
        """Allocate the buckets of `plan` in the transport's memory."""
        self.plan = plan
        self.specs = specs = self.slots.specs
        self.buckets: list[Bucket] = []
        for number, params in enumerate(plan.buckets):
            starts = offsets(specs, params)
            flat = self.group.empty(starts[-1], self.slots.dtype(params[0]))
            views = self.slots.views(flat, params, starts)
            is_last = number == len(plan.buckets) - 1
            self.buckets.append(Bucket(number, params, flat, views, is_last))
        self.order = LaunchOrder(plan.buckets)
        self._works: list[tuple[Bucket, Work]] = []

    def prepare(self) -> None:
        """Start an iteration.

        Raises:
            UnusedParameters: the last iteration's backward left gradients out.
        """
        self.check_finished()
        self.order.reset()
        self._works.clear()
        self.timeline = Timeline(forward_start=perf_counter_ns())
        self.expecting = True

    def check_finished(self) -> None:
        """Raise UnusedParameters when an iteration was begun and not every bucket was reduced."""
        if self.expecting and self.order.ready:
            raise self.unused_error(self.order.missing)

    def mark(self, index: int) -> None:
        """Note that gradient `index` is ready; launch every bucket that may now go."""
        if not self.expecting:
            return
        order = self.order
        if not order.ready:
            self.timeline.backward_start = perf_counter_ns()
        try:
            may_go = order.mark(index)
        except ValueError as twice:
            raise ReadyTwice(self.specs[index].name) from twice
        if may_go:
            self._launch_ready()

    def _launch_ready(self) -> None:
        while (number := self.order.take()) is not None:
            self.timeline.launches.append(perf_counter_ns())
            bucket = self.buckets[number]
            self._works.append((bucket, self._launch(bucket)))
        if self.order.complete:
            self._complete()

    def _launch(self, bucket: Bucket) -> Work:
        """Start the communication of one bucket."""
        self.slots.gather(bucket, 1.0 / self.group.size)
        return self.group.all_reduce(bucket.flat)

    def _complete(self) -> None:
        """The last bucket is on its way; what is left is to wait."""
        self.timeline.compute_end = perf_counter_ns()
        self.slots.when_backward_ends(self.finish)

    def finish(self) -> None:
        """Wait for every bucket in turn and deliver it; the iteration is over.

        A communication error ends the iteration too: the next `prepare` starts afresh.
        """
        self.expecting = False
        for bucket, work in self._works:
            work.wait()
            self.timeline.arrivals.append(perf_counter_ns())
            self.slots.deliver(bucket)
        self._works.clear()
        self.timeline.backward_end = perf_counter_ns()

    def rebuild(self) -> bool:
        """Lay the buckets out anew in the order in which gradients became ready, once.

        Every rank takes rank 0's order. Call it between iterations; returns whether it was done.
        """
        observed = list(self.order.ready)
        if self.rebuilt or len(observed) != len(self.specs):
            return False
        theirs = observed if self.group.rank == 0 else [0] * len(observed)
        self._lay_out(assign(self.specs, self.limits, reduce_counts(self.group, theirs)))
        self.rebuilt = True
        return True

    def unused_error(self, missing: Sequence[int]) -> UnusedParameters:
        """Return the error that names the parameters whose gradients never came."""
        names = [self.specs[i].name for i in missing]
        return UnusedParameters(
            "backward: Expected to have finished reduction in the prior iteration, but "
            f"parameters which did not receive grad for rank {self.group.rank}: "
            f"{', '.join(names)} (indices {' '.join(map(str, missing))}). Make sure that all "
            "`forward` function outputs participate in calculating loss.",
            names,
        )
