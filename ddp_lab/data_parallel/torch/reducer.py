"""The reducer for torch modules: autograd hooks, unused parameters, static graphs, comm hooks.

May import: torch, autograd_graph, bucketing, buckets, launch_order, reducer, reduction_group,
slots.
"""

import weakref
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from ddp_lab.data_parallel.bucketing import BucketPlan
from ddp_lab.data_parallel.buckets import Bucket
from ddp_lab.data_parallel.launch_order import LaunchOrder
from ddp_lab.data_parallel.reducer import Reducer
from ddp_lab.data_parallel.reduction_group import Group
from ddp_lab.data_parallel.torch.autograd_graph import accumulator, find_unreached
from ddp_lab.data_parallel.torch.slots import TorchSlots


class TorchReducer(Reducer):
    """A `Reducer` driven by autograd.

    Hooks sit on the parameters. When gradients may be missing they sit on the graph's
    accumulation nodes, which cost twice as much and fire also when a gradient is undefined (an
    output that took no part in the loss).
    """

    slots: TorchSlots

    def __init__(
        self,
        slots: TorchSlots,
        plan: BucketPlan,
        group: Group,
        limits: Sequence[int],
        find_unused: bool,
        skip_unused: bool,
    ) -> None:
        super().__init__(slots, plan, group, limits, find_unused)
        self.skip_unused = skip_unused
        self.steps_itself: list[Any] = []  # parameters whose optimizers run in backward
        self._accumulators = {accumulator(p): i for i, p in enumerate(slots.params)}
        self._hooks = ExitStack()
        self._add_hooks(on_nodes=find_unused)
        self.remove_hooks = weakref.finalize(self, self._hooks.close)

    def _add_hooks(self, on_nodes: bool) -> None:
        """Put the hooks in place; they hold the reducer weakly, or it would live for ever."""
        self._hooks.close()
        weak = weakref.ref(self)
        if on_nodes:
            for node, index in self._accumulators.items():
                self._hooks.callback(node.register_hook(_node_hook(weak, index)).remove)
        else:
            for index, param in enumerate(self.slots.params):
                tensor: Any = param
                hook = _plain_hook(weak, index, self.order)
                self._hooks.callback(tensor.register_post_accumulate_grad_hook(hook).remove)

    def set_static_graph(self) -> None:
        """Expect the same graph in every iteration; the first one is only observed."""
        self.usage.set_static_graph()
        self._add_hooks(on_nodes=True)

    def prepare_backward(self, outputs: Sequence[Tensor]) -> None:
        """Find the parameters that no path leads to from `outputs`, when asked to."""
        if self.usage.may_change:
            with torch.autograd.profiler.record_function("search_unused_parameters"):
                self.usage.expect_unused(find_unreached(outputs, self._accumulators))

    def _launch(self, bucket: Bucket) -> None:
        if self.skip_unused and set(bucket.params) <= set(self.usage.unused):
            return
        if self.group.size > 1 or self.slots.as_views or self.hook is not None:
            super()._launch(bucket)  # else the gradient is its own average

    def finish(self) -> None:
        """Wait for all buckets, deliver them, and wait for what else the backward owes."""
        super().finish()
        for param in self.steps_itself:
            for optimizer in param._in_backward_optimizers:
                optimizer.step()
            param.grad = None


def _plain_hook(weak: "weakref.ref[TorchReducer]", index: int, order: LaunchOrder) -> Any:
    """Return a hook for a parameter: it is called once its gradient is in place.

    The argument is the parameter, not its gradient.
    """

    def mark() -> None:
        reducer = weak()
        if reducer is not None and reducer.expecting:
            reducer.mark(index)

    return order.counter(index, mark)


def _node_hook(weak: "weakref.ref[TorchReducer]", index: int) -> Callable[..., None]:
    """Return a hook for an accumulation node: it is called for an undefined gradient too."""

    def on_accumulated(_inputs: Any, grads: Any) -> None:
        reducer = weak()
        if reducer is not None:
            reducer.gradient(index, grads[0] is not None)

    return on_accumulated
