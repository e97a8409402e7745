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
from ddp_lab.data_parallel.errors import DataParallelError
from ddp_lab.data_parallel.group import Group, Work
from ddp_lab.data_parallel.reducer import NOTHING_TO_DO, Bucket, Reducer
from ddp_lab.data_parallel.torch_slots import TorchSlots

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
        find_unused: bool = False,
    ) -> None:
        super().__init__(slots, plan, group, limits, find_unused)
        self.comm_hook: tuple[CommHook, Any] | None = None
        self.on_error: Callable[[Exception], None] = lambda error: None
        self.skip_unused = False
        self.steps_itself: list[Any] = []  # parameters whose optimizers run in backward
        self.post_backward: list[Any] = []  # futures that backward has to wait for
        self._accumulators = {accumulator(p): i for i, p in enumerate(slots.params)}
        self._handles: list[Any] = []
        self._add_hooks(on_nodes=find_unused)
        self.remove_hooks = weakref.finalize(self, _remove_all, self._handles)

    def _add_hooks(self, on_nodes: bool) -> None:
        """Put the hooks in place; they hold the reducer weakly, or it would live for ever."""
        _remove_all(self._handles)
        weak = weakref.ref(self)
        if on_nodes:
            nodes = self._accumulators.items()
            self._handles += [n.register_hook(_node_hook(weak, i)) for n, i in nodes]
        else:
            for index, param in enumerate(self.slots.params):
                tensor: Any = param
                handle = tensor.register_post_accumulate_grad_hook(_plain_hook(weak, index))
                self._handles.append(handle)

    def set_static_graph(self) -> None:
        """Expect the same graph in every iteration; see `Reducer.set_static_graph`."""
        super().set_static_graph()
        self._add_hooks(on_nodes=True)

    def prepare_backward(self, outputs: Sequence[Tensor]) -> None:
        """Find the parameters that no path leads to from `outputs`, when asked to."""
        if self.find_unused and not self.static:
            with torch.autograd.profiler.record_function("search_unused_parameters"):
                self.expect_unused(unused_from(outputs, self._accumulators))

    def _launch(self, bucket: Bucket) -> Work:
        if self.skip_unused and set(bucket.params) <= set(self.unused):
            return NOTHING_TO_DO
        if self.comm_hook is not None:
            self.slots.gather(bucket, 1.0)
            return self._send(bucket)
        if self.group.size == 1 and not self.slots.as_views:
            return NOTHING_TO_DO  # and nothing to deliver: the gradient is its own average
        return super()._launch(bucket)

    def _send(self, bucket: Bucket) -> Work:
        if self.comm_hook is None:
            return super()._send(bucket)
        hook, state = self.comm_hook
        return HookWork(hook(state, GradBucket(bucket, self.slots.params)), bucket)

    def finish(self) -> None:
        """Wait for all buckets, deliver them, and wait for what else the backward owes."""
        super().finish()
        for future in self.post_backward:
            future.wait()
        self.post_backward.clear()
        for param in self.steps_itself:
            for optimizer in param._in_backward_optimizers:
                optimizer.step()
            param.grad = None

    # Names that torch's own tools call

    def _get_local_used_map(self) -> Tensor:
        """Return 1 for each parameter used since the last reduction."""
        return torch.tensor(self.use_map.last or self.use_map.used, dtype=torch.int32)

    def _ddp_graph_static(self) -> bool:
        """Return whether the same parameters were unused in every iteration."""
        return self.graph_is_static


def _plain_hook(weak: "weakref.ref[TorchReducer]", index: int) -> Callable[..., None]:
    """Return a hook for a parameter: it is called once its gradient is in place.

    The argument is the parameter, not its gradient.
    """

    def on_accumulated(_param: Any) -> None:
        reducer = weak()
        if reducer is None or not reducer.expecting:
            return
        try:
            reducer.mark(index)
        except DataParallelError as error:
            reducer.on_error(error)
            raise

    return on_accumulated


def _node_hook(weak: "weakref.ref[TorchReducer]", index: int) -> Callable[..., None]:
    """Return a hook for an accumulation node: it is called for an undefined gradient too."""

    def on_accumulated(_inputs: Any, grads: Any) -> None:
        reducer = weak()
        if reducer is None:
            return
        try:
            reducer.gradient(index, grads[0] is not None)
        except DataParallelError as error:
            reducer.on_error(error)
            raise

    return on_accumulated


def _remove_all(handles: list[Any]) -> None:
    while handles:
        handles.pop().remove()
