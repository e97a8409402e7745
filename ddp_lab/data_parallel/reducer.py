"""The reducer: gradients into buckets, buckets to the other ranks, averages back.

One reducer serves torch and minitorch: what it does to arrays it asks of `Slots`, what it sends
it asks of `Group`. A training step goes

    prepare()              before forward: nothing is ready
    gradient(i), ...       from the hooks, as backward finishes each gradient
    finish()               at the end of backward: wait, hand the averages to the parameters

and each bucket travels while backward goes on with the layers below.

May import: bucketing, errors, grad_bucket, parameter_usage, reduction_group, schedule.
Source: Li et al., PyTorch Distributed, VLDB 2020, algorithm 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any, Protocol

from ddp_lab.data_parallel.bucketing import BucketPlan, ParamSpec, assign, offsets
from ddp_lab.data_parallel.errors import ReadyTwice, UnusedParameters
from ddp_lab.data_parallel.hooks.grad_bucket import CommHook, GradBucket, HookWork
from ddp_lab.data_parallel.parameter_usage import StaticGraph, UseMap
from ddp_lab.data_parallel.reduction_group import Group, Work
from ddp_lab.data_parallel.schedule import LaunchOrder


@dataclass
class Bucket:
    """A flat buffer and, for each parameter in it, the view that holds its gradient.

    `lent` has the places of the views that `deliver` has handed on as gradients: their memory
    belongs to whoever holds these.
    """

    index: int
    params: tuple[int, ...]
    starts: list[int]
    is_last: bool = False
    flat: Any = None
    views: list[Any] = field(default_factory=list)
    lent: set[int] = field(default_factory=set)


class Slots(Protocol):
    """The gradients of a model, as arrays. `models.py` and `torch_slots.py` implement it."""

    specs: list[ParamSpec]
    params: Any  # a sequence of the parameters themselves
    untouched: set[int]  # parameters that no rank used: `deliver` leaves them as they are

    def views(self, flat: Any, indices: Sequence[int], starts: Sequence[int]) -> list[Any]:
        """Cut `flat` into one view a parameter, each of its parameter's shape."""
        ...

    def dtype(self, index: int) -> Any:
        """Return what `Group.empty` takes to make a buffer for this parameter."""
        ...

    def gather(self, bucket: Bucket, scale: float) -> None:
        """Write gradient x `scale` into each view; zeros where there is no gradient."""
        ...

    def put(self, flat: Any, result: Any) -> None:
        """Write what a communication hook gave into a bucket's buffer, unless it is that."""
        ...

    def deliver(self, bucket: Bucket) -> None:
        """Make what the views hold the parameters' gradients; note those handed on in `lent`."""
        ...

    def take_back(self, bucket: Bucket) -> bool:
        """Return whether no view that was lent is held, but as the gradient that it was."""
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


class _NothingToDo:
    """The work of a bucket that nobody sends."""

    def wait(self) -> None:
        """Return at once."""


NOTHING_TO_DO = _NothingToDo()


class Reducer:
    """Averages gradients over a group's ranks, bucket by bucket, in one order on every rank.

    Invariant: between `prepare` and `finish` every rank launches the same buckets in the same
    order, whatever the order in which its own backward finishes gradients.

    With `find_unused`, or a static graph, a gradient may be missing: zeros are sent for it, and
    the ranks agree on the parameters that nobody used, whose gradients stay as they are.
    """

    def __init__(
        self,
        slots: Slots,
        plan: BucketPlan,
        group: Group,
        limits: Sequence[int],
        find_unused: bool = False,
    ) -> None:
        self.slots = slots
        self.specs = slots.specs
        self.limits = list(limits)
        self.find_unused = find_unused
        self.static: StaticGraph | None = None
        self.comm_hook: tuple[CommHook, Any] | None = None  # and its state
        self.timeline = Timeline()
        self.iterations = 0
        self.buckets_reduced = 0  # in the last iteration
        self.graph_is_static = True  # the same parameters were unused in every iteration
        self._unused: list[int] = []
        self._to_mark: list[int] = []
        self.order = LaunchOrder()  # one for good: hooks count in it
        self.join(group)
        self._lay_out(plan)

    def join(self, group: Group) -> None:
        """Go on over this group, from a clean start: nothing begun, no order observed."""
        self.group = group
        self.divisor: Callable[[], float] = lambda: group.size
        self.rebuilt_order: list[int] | None = None  # of gradients, once it was observed
        self.order.reset()
        self.stop_expecting()
        self.use_map = UseMap(len(self.specs), group)

    def _lay_out(self, plan: BucketPlan) -> None:
        """Allocate the buckets of `plan` in the transport's memory."""
        self.plan = plan
        self.buckets: list[Bucket] = []
        for number, params in enumerate(plan.buckets):
            is_last = number == len(plan.buckets) - 1
            bucket = Bucket(number, params, offsets(self.specs, params), is_last)
            self._allocate(bucket)
            self.buckets.append(bucket)
        self.order.arrange(plan.buckets)
        self.stop_expecting()
        self._works: list[tuple[Bucket, Work]] = []

    def stop_expecting(self) -> None:
        """Have the hooks do nothing until `prepare`: outside of a synchronised step (no_sync)."""
        self.expecting = False
        self.order.close()

    def _allocate(self, bucket: Bucket) -> None:
        """Give a bucket memory; what it had stays with the gradients that were lent."""
        bucket.flat, bucket.views = None, []
        bucket.lent.clear()
        bucket.flat = self.group.empty(bucket.starts[-1], self.slots.dtype(bucket.params[0]))
        bucket.views = self.slots.views(bucket.flat, bucket.params, bucket.starts)

    def _own(self, bucket: Bucket) -> None:
        """Make sure that writing to a bucket changes nothing that somebody keeps."""
        if bucket.lent and not self.slots.take_back(bucket):
            self._allocate(bucket)

    @property
    def rebuilt(self) -> bool:
        """Whether the buckets follow an observed order."""
        return self.rebuilt_order is not None

    # Before the forward pass

    def prepare(self) -> None:
        """Start an iteration.

        Raises:
            UnusedParameters: the last iteration's backward left gradients out.
        """
        self.check_finished()
        self.order.reset()
        self._works.clear()
        self.timeline = Timeline(forward_start=perf_counter_ns())
        self.iterations += 1
        self.expecting = True
        self._to_mark = []
        if self.static:
            self.static.restart()
            self._to_mark = [] if self.static.observing else self.static.unused

    def check_finished(self) -> None:
        """Raise UnusedParameters when an iteration was begun and not every bucket was reduced."""
        if self.expecting and self.order.ready:
            raise self.unused_error(self.order.missing)

    def rebuild(self) -> bool:
        """Lay the buckets out anew in the order in which gradients became ready, once.

        Every rank takes rank 0's order. Nothing is done while the set of used parameters may
        change. Call it between iterations; returns whether it was done.
        """
        observed = list(self.order.ready)
        may_change = self.find_unused and not self.static
        if self.rebuilt or may_change or len(observed) != len(self.specs):
            return False
        order = self.group.counters(observed)
        self.group.broadcast(order, 0)
        self.restore_order(order.tolist())
        return True

    def restore_order(self, order: list[int] | None) -> None:
        """Lay the buckets out in this order of gradients; None leaves them as they are.

        Every rank calls it with the same order, between iterations.
        """
        if order is not None:
            self._lay_out(assign(self.specs, self.limits, order))
            self.rebuilt_order = order

    # After the forward pass

    def expect_unused(self, indices: Sequence[int]) -> None:
        """Say which parameters this iteration's backward will not reach."""
        if self.iterations > 1 and list(indices) != self._unused:
            self.graph_is_static = False
        self._unused = list(indices)
        self._to_mark = list(indices)

    def set_static_graph(self) -> None:
        """Expect the same graph in every iteration; the first one is only observed."""
        self.static = StaticGraph(len(self.specs))

    @property
    def unused(self) -> list[int]:
        """Parameters that this rank did not use in the last iteration."""
        return self.static.unused if self.static else self._unused

    # During backward

    def gradient(self, index: int, defined: bool = True) -> None:
        """Handle the hook of parameter `index`; `defined` says whether a gradient came."""
        if defined:
            self.use_map.used[index] = 1
        if not self.expecting:
            return
        if self.static and not self.static.contributed(index, lambda: self.specs[index].name):
            return
        if self._to_mark:
            waiting, self._to_mark = self._to_mark, []
            self._mark_all(waiting)
        self.mark(index)

    def _mark_all(self, indices: Sequence[int]) -> None:
        for index in indices:
            self.mark(index)

    def mark(self, index: int) -> None:
        """Note that gradient `index` is ready; launch every bucket that may now go."""
        order = self.order
        if not order.ready:
            self.timeline.backward_start = perf_counter_ns()
        try:
            may_go = order.mark(index)
        except ValueError as twice:
            raise ReadyTwice(self.specs[index].name) from twice
        for number in may_go:
            self.timeline.launches.append(perf_counter_ns())
            bucket = self.buckets[number]
            self._works.append((bucket, self._launch(bucket)))
        if may_go and order.complete:
            self._complete()

    def _launch(self, bucket: Bucket) -> Work:
        """Fill one bucket and start its communication."""
        self._own(bucket)
        self.slots.gather(bucket, 1.0 if self.comm_hook else 1.0 / self.divisor())
        return self._send(bucket)

    def _send(self, bucket: Bucket) -> Work:
        if self.comm_hook is None:
            # Backward is over when the last bucket is full: this thread has nothing else to do.
            return self.group.all_reduce(bucket.flat, at_wait=bucket.is_last)
        hook, state = self.comm_hook
        future = hook(state, GradBucket(bucket, self.slots.params))
        return HookWork(future, bucket.flat, self.slots.put)

    @property
    def _agrees_on_use(self) -> bool:
        """Whether this iteration adds up who used what: always, or once for a static graph."""
        return self.static.fresh if self.static else self.find_unused

    def _complete(self) -> None:
        """The last bucket is on its way; what is left is to wait."""
        self.timeline.compute_end = perf_counter_ns()
        if self._agrees_on_use:
            self.use_map.start()
        self.slots.when_backward_ends(self.finish)

    def reduce_after_backward(self) -> None:
        """Reduce everything at once, at the end of a static graph's first backward."""
        if self.expecting and self.static is not None and self.static.observing:
            self._mark_all(self.static.settle())

    # At its end

    def finish(self) -> None:
        """Wait for every bucket in turn and deliver it; the iteration is over.

        A communication error ends the iteration too: the next `prepare` starts afresh.
        """
        self.stop_expecting()
        if self._agrees_on_use:
            self.slots.untouched = self.use_map.finish()
        self.buckets_reduced = sum(work is not NOTHING_TO_DO for _, work in self._works)
        for bucket, work in self._works:
            work.wait()
            self.timeline.arrivals.append(perf_counter_ns())
            if work is not NOTHING_TO_DO:
                self.slots.deliver(bucket)
        self._works.clear()
        if self.static:
            self.static.fresh = False
        self.timeline.backward_end = perf_counter_ns()

    def shadow(self) -> None:
        """Take part in an iteration of the other ranks, with zeros for gradients.

        Its order counts as observed, so that this rank rebuilds when the others do.
        """
        works = []
        for bucket in self.buckets:
            self._own(bucket)
            bucket.flat[...] = 0
            works.append(self._send(bucket))
        if self._agrees_on_use:
            self.use_map.start()
            self.use_map.finish()
        for work in works:
            work.wait()
        self.order.reset()
        for index in range(len(self.specs)):
            self.order.mark(index)

    def unused_error(self, missing: Sequence[int]) -> UnusedParameters:
        """Return the error that names the parameters whose gradients never came."""
        names = [self.specs[i].name for i in missing]
        advice = (
            "Since `find_unused_parameters=True` is enabled, an output that takes no part in the "
            "loss is the likely cause."
            if self.find_unused
            else "You can enable unused parameter detection by passing the keyword argument "
            "`find_unused_parameters=True` to DistributedDataParallel."
        )
        mine = f"which did not receive grad for rank {self.group.rank}:"
        return UnusedParameters(
            "forward: Expected to have finished reduction in the prior iteration before starting "
            f"a new one. {advice} Make sure all `forward` function outputs participate in "
            f"calculating loss. Parameters {mine} {', '.join(names)}. Parameter indices {mine} "
            f"{' '.join(map(str, missing))} (for torch's own checks of collectives, set the "
            "environment variable TORCH_DISTRIBUTED_DEBUG to either INFO or DETAIL).",
            names,
        )
