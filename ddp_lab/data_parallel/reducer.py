"""The reducer: gradients into buckets, buckets to the other ranks, averages back.

One reducer serves torch and minitorch: what it does to arrays it asks of `Slots`, what it sends
it asks of `Group`. A training step goes

    prepare()              before forward: nothing is ready
    gradient(i), ...       from the hooks, as backward finishes each gradient
    finish()               at the end of backward: wait, hand the averages to the parameters

and each bucket travels while backward goes on with the layers below.

May import: bucketing, buckets, errors, grad_bucket, launch_order, parameter_usage, reduction_group.
Source: Li et al., PyTorch Distributed, VLDB 2020, algorithm 1.
"""

from collections.abc import Sequence
from typing import Any

from ddp_lab.data_parallel.bucketing import BucketPlan, assign, offsets
from ddp_lab.data_parallel.buckets import Bucket, Slots
from ddp_lab.data_parallel.errors import ReadyTwice, UnusedParameters
from ddp_lab.data_parallel.hooks.grad_bucket import CommHook, GradBucket
from ddp_lab.data_parallel.launch_order import LaunchOrder
from ddp_lab.data_parallel.parameter_usage import Usage
from ddp_lab.data_parallel.reduction_group import AtWait, Group, Work


class Reducer:
    """Averages gradients over a group's ranks, bucket by bucket, in one order on every rank.

    Invariant: between `prepare` and `finish` every rank launches the same buckets in the same
    order, whatever the order in which its own backward finishes gradients.

    With `find_unused`, or a static graph, a gradient may be missing: zeros are sent for it, and
    the ranks agree on the parameters that nobody used, whose gradients stay as they are.

    Attributes:
        group: the ranks.
        hook: a communication hook, which averages in place of the all-reduce, and its state.
        divisor: what sums are divided by: the number of ranks, unless some have no inputs left.
        buckets: in the order of their launches, in the memory of the group's transport.
    """

    group: Group
    divisor: float
    plan: BucketPlan
    buckets: list[Bucket]

    def __init__(
        self,
        slots: Slots,
        plan: BucketPlan,
        group: Group,
        limits: Sequence[int],
        find_unused: bool = False,
    ) -> None:
        self.slots = slots
        self.limits = list(limits)
        self.hook: tuple[CommHook, Any] | None = None
        self.usage = Usage([spec.name for spec in slots.specs], find_unused)
        self.order = LaunchOrder()  # one for good: hooks count in it
        self.iterations = 0
        self.join(group)
        self._lay_out(plan)

    def join(self, group: Group) -> None:
        """Go on over this group, from a clean start: nothing begun, no order observed."""
        self.group, self.divisor = group, group.size
        self.usage.join(group)
        self.rebuilt_order: list[int] | None = None  # of gradients, once it was observed
        self.order.reset()
        self.stop_expecting()

    def _lay_out(self, plan: BucketPlan) -> None:
        self.plan, self.buckets = plan, []
        for number, params in enumerate(plan.buckets):
            is_last = number == len(plan.buckets) - 1
            bucket = Bucket(number, params, offsets(self.slots.specs, params), is_last)
            self._allocate(bucket)
            self.buckets.append(bucket)
        self.order.arrange(plan.buckets)
        self.stop_expecting()
        self._works: list[tuple[Bucket, Work]] = []

    def _allocate(self, bucket: Bucket) -> None:
        """Give a bucket memory; what it had stays with the gradients that were lent."""
        bucket.flat, bucket.views = None, []
        bucket.lent.clear()
        bucket.flat = self.group.empty(bucket.starts[-1], self.slots.dtype(bucket.params[0]))
        bucket.views = self.slots.views(bucket.flat, bucket.params, bucket.starts)

    def _make_writable(self, bucket: Bucket) -> None:
        """Give a bucket new memory if somebody keeps a gradient that lies in it."""
        if bucket.lent and not self.slots.take_back(bucket):
            self._allocate(bucket)

    def stop_expecting(self) -> None:
        """Have the hooks do nothing until `prepare`: outside of a synchronised step (no_sync)."""
        self.expecting = False
        self.order.close()

    # Before the forward pass

    def prepare(self) -> None:
        """Start an iteration, in new buckets if the order of gradients is known since the last.

        Raises:
            UnusedParameters: the last iteration's backward left gradients out.
        """
        self._check_finished()
        self.rebuild()
        self.order.reset()
        self._works.clear()
        self.iterations += 1
        self.expecting = True
        self.usage.restart()

    def _check_finished(self) -> None:
        """Raise UnusedParameters when an iteration was begun and not every bucket was reduced."""
        if self.expecting and self.order.ready:
            missing = self.order.missing
            names = [self.usage.names[index] for index in missing]
            raise UnusedParameters.in_iteration(
                names, missing, self.group.rank, self.usage.find_unused
            )

    def rebuild(self) -> None:
        """Lay the buckets out anew in the order in which gradients became ready, once.

        Every rank takes rank 0's order. Nothing is done while the set of used parameters may
        change. Call it between iterations.
        """
        observed = list(self.order.ready)
        complete = len(observed) == len(self.slots.specs)
        if self.rebuilt_order is None and complete and not self.usage.may_change:
            order = self.group.counters(observed)
            self.group.broadcast(order, 0)
            self.restore_order(order.tolist())

    def restore_order(self, order: list[int] | None) -> None:
        """Lay the buckets out in this order of gradients; None leaves them as they are.

        Every rank calls it with the same order, between iterations.
        """
        if order is not None:
            self._lay_out(assign(self.slots.specs, self.limits, order))
            self.rebuilt_order = order

    # During backward

    def gradient(self, index: int, defined: bool = True) -> None:
        """Handle the hook of parameter `index`; `defined` says whether a gradient came."""
        if defined:
            self.usage.note(index)
        if self.expecting and self.usage.is_ready(index):
            self._mark_all(self.usage.take_unmarked())
            self.mark(index)

    def _mark_all(self, indices: Sequence[int]) -> None:
        for index in indices:
            self.mark(index)

    def mark(self, index: int) -> None:
        """Note that gradient `index` is ready; launch every bucket that may now go."""
        try:
            may_go = self.order.mark(index)
        except ValueError as twice:
            raise ReadyTwice.of(self.usage.names[index]) from twice
        for number in may_go:
            self._launch(self.buckets[number])
        if may_go and self.order.complete:
            self.usage.start_to_agree()
            self.slots.when_backward_ends(self.finish)

    def _launch(self, bucket: Bucket) -> None:
        """Fill one bucket and start its communication."""
        self._make_writable(bucket)
        self.slots.gather(bucket, 1.0 if self.hook else 1.0 / self.divisor)  # a hook divides
        self._works.append((bucket, self._start_to_average(bucket)))

    def _start_to_average(self, bucket: Bucket) -> Work:
        if self.hook is None:
            # Backward is over when the last bucket is full: this thread has nothing else to do.
            return self.group.all_reduce(bucket.flat, at_wait=bucket.is_last)
        hook, state = self.hook
        future = hook(state, GradBucket(bucket, self.slots.params))
        return AtWait(lambda: self.slots.put(bucket.flat, future.wait()))

    def reduce_after_backward(self) -> None:
        """Reduce everything at once, at the end of a static graph's first backward."""
        if self.expecting and self.usage.observing:
            self._mark_all(self.usage.stop_observing())

    # At its end

    def finish(self) -> None:
        """Wait for every bucket in turn and deliver it; the iteration is over.

        A communication error ends the iteration too: the next `prepare` starts afresh.
        """
        self.stop_expecting()
        self.slots.untouched = self.usage.find_unused_everywhere(self.slots.untouched)
        for bucket, work in self._works:
            work.wait()
            self.slots.deliver(bucket)
        self._works.clear()
        self.usage.end()

    def shadow(self) -> None:
        """Take part in an iteration of the other ranks, with zeros for gradients.

        Its order counts as observed, so that this rank rebuilds when the others do.
        """
        works = []
        for bucket in self.buckets:
            self._make_writable(bucket)
            bucket.flat[...] = 0
            works.append(self._start_to_average(bucket))
        self.usage.start_to_agree()
        self.usage.find_unused_everywhere(set())
        for work in works:
            work.wait()
        self.order.reset()
        for index in range(len(self.slots.specs)):
            self.order.mark(index)
