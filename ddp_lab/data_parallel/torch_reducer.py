"""The reducer for torch modules: autograd hooks, unused parameters, static graphs, comm hooks.

May import: torch, and the modules of this folder below it.
"""

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ddp_lab.data_parallel.autograd_graph import accumulator, unused_from
from ddp_lab.data_parallel.bucketing import BucketPlan
from ddp_lab.data_parallel.group import Group, Work
from ddp_lab.data_parallel.reducer import Bucket, Reducer
from ddp_lab.data_parallel.torch_slots import TorchSlots
from ddp_lab.data_parallel.usage import StaticGraph, UseMap

Future = torch.futures.Future
CommHook = Callable[[Any, Any], Any]


class GradBucket:
    """What a communication hook sees of a bucket: torch's interface."""

    def __init__(self, bucket: Bucket, params: Sequence[nn.Parameter]) -> None:
        self._bucket = bucket
        self._params = params
        self._buffer: Tensor = bucket.flat

    def index(self) -> int:
        """Return the bucket's number, in launch order."""
        return self._bucket.index

    def buffer(self) -> Tensor:
        """Return the flat gradients, not yet divided by the number of ranks."""
        return self._buffer

    def set_buffer(self, tensor: Tensor) -> None:
        """Replace the flat gradients by a tensor of the same shape."""
        self._buffer = tensor

    def gradients(self) -> list[Tensor]:
        """Return one view of the buffer a parameter."""
        return self._bucket.views

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters whose gradients these are."""
        return [self._params[i] for i in self._bucket.params]

    def is_last(self) -> bool:
        """Return whether this is the last bucket of the iteration."""
        return self._bucket.is_last


class HookWork:
    """A communication hook under way on a bucket."""

    def __init__(self, future: Any, bucket: Bucket) -> None:
        self._future = future
        self._bucket = bucket

    @torch.no_grad()
    def wait(self) -> None:
        """Wait for the hook's future; its tensor becomes the bucket's contents."""
        result = self._future.wait()
        if isinstance(result, list | tuple):
            result = result[0]
        flat = self._bucket.flat
        if result.data_ptr() != flat.data_ptr() or result.dtype != flat.dtype:
            flat.copy_(result.view(flat.shape))


class TorchReducer(Reducer):
    """A `Reducer` driven by autograd.

    Hooks sit on the graph's accumulation nodes, which fire also when a gradient is undefined
    (an output that took no part in the loss). With `find_unused` or a static graph the ranks
    agree on which parameters nobody used; the gradients of those stay as they are.
    """

    slots: TorchSlots

    def __init__(
        self,
        slots: TorchSlots,
        plan: BucketPlan,
        group: Group,
        limits: Sequence[int],
        *,
        find_unused: bool = False,
    ) -> None:
        super().__init__(slots, plan, group, limits)
        self.find_unused = find_unused
        self.static: StaticGraph | None = None
        self.comm_hook: tuple[CommHook, Any] | None = None
        self.divisor: Callable[[], float] = lambda: self.group.size
        self.post_backward: list[Any] = []  # futures that backward has to wait for
        self.iterations = 0
        self.backward_seen = False
        self.graph_is_static = True
        self._use_map = UseMap(len(slots.params), group)
        self._unused: list[int] = []
        self._to_mark: list[int] = []
        self._accumulators = {accumulator(p): i for i, p in enumerate(slots.params)}
        weak = weakref.ref(self)  # a strong reference would keep model and reducer alive for ever
        handles = [n.register_hook(_hook(weak, i)) for n, i in self._accumulators.items()]
        self.remove_hooks = weakref.finalize(self, _remove_all, handles)

    @property
    def unused(self) -> list[int]:
        """Parameters that nothing led to from the last outputs, on this rank."""
        return self.static.unused if self.static else self._unused

    def set_static_graph(self) -> None:
        """Expect the same graph in every iteration; the first one is only observed."""
        self.static = StaticGraph(len(self.slots.params))

    def prepare(self) -> None:
        """Start an iteration; see `Reducer.prepare`."""
        super().prepare()
        self.iterations += 1
        self._to_mark = []
        if self.static:
            self.static.restart()
            self._to_mark = [] if self.static.observing else self.static.unused

    def prepare_backward(self, outputs: Sequence[Tensor]) -> None:
        """Find the parameters that no path leads to from `outputs`, when asked to."""
        if not self.find_unused or self.static:
            return
        found = unused_from(outputs, self._accumulators)
        if self.iterations > 1 and found != self._unused:
            self.graph_is_static = False
        self._unused = found
        self._to_mark = list(found)

    def on_gradient(self, index: int, defined: bool) -> None:
        """Handle the hook of parameter `index`; `defined` says whether a gradient came."""
        self.backward_seen = True
        if defined:
            self._use_map.used[index] = 1
        if not self.expecting:
            return
        if self.static and not self.static.contributed(index, lambda: self.specs[index].name):
            return
        if self._to_mark:
            self._mark_all(self._to_mark)
            self._to_mark = []
        self.mark(index)

    def _mark_all(self, indices: Sequence[int]) -> None:
        for index in indices:
            self.mark(index)

    def reduce_after_backward(self) -> None:
        """Reduce everything at once, at the end of a static graph's first backward."""
        if self.expecting and self.static is not None and self.static.observing:
            self._mark_all(self.static.settle())

    def _complete(self) -> None:
        if self.find_unused or self.static:
            self._use_map.start()
        super()._complete()

    def _launch(self, bucket: Bucket) -> Work:
        if self.comm_hook is None:
            self.slots.gather(bucket, 1.0 / self.divisor())
            return self.group.all_reduce(bucket.flat)
        self.slots.gather(bucket, 1.0)
        return self.run_hook(bucket)

    def run_hook(self, bucket: Bucket) -> Work:
        """Start the communication hook on what the bucket holds."""
        assert self.comm_hook is not None
        hook, state = self.comm_hook
        return HookWork(hook(state, GradBucket(bucket, self.slots.params)), bucket)

    def finish(self) -> None:
        """Wait for all buckets, deliver them, and wait for what else the backward owes."""
        if self.find_unused or self.static:
            self.slots.untouched = self._use_map.finish()
        super().finish()
        for future in self.post_backward:
            future.wait()
        self.post_backward.clear()

    def shadow(self) -> None:
        """Take part in an iteration of the other ranks, with zeros for gradients."""
        works = []
        for bucket in self.buckets:
            bucket.flat.zero_()
            hooked = self.comm_hook is not None
            works.append(self.run_hook(bucket) if hooked else self.group.all_reduce(bucket.flat))
        if self.find_unused or self.static:
            self._use_map.start()
            self._use_map.finish()
        for work in works:
            work.wait()

    def restart(self, group: Group) -> None:
        """Go on over another group: forget the unfinished iteration and the observed order."""
        self.group = group
        self.divisor = lambda: self.group.size
        self._use_map = UseMap(len(self.slots.params), group)
        self.expecting = False
        self.rebuilt = False
        self.order.reset()

    def rebuild(self) -> bool:
        """Lay the buckets out as observed; never when the set of used parameters may change."""
        if self.find_unused and not self.static:
            return False
        return super().rebuild()


def _hook(weak: "weakref.ref[TorchReducer]", index: int) -> Callable[..., None]:
    def on_accumulated(_inputs: Any, grads: Any) -> None:
        reducer = weak()
        if reducer is not None:
            reducer.on_gradient(index, grads[0] is not None)

    return on_accumulated


def _remove_all(handles: Sequence[Any]) -> None:
    for handle in handles:
        handle.remove()
