"""The gradients of torch parameters, as the reducer sees them.

May import: torch, reducer, torch_module.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ddp_lab.data_parallel.autograd_graph import when_backward_ends
from ddp_lab.data_parallel.reducer import Bucket
from ddp_lab.data_parallel.torch_module import Managed

# Below this many elements a gradient is copied with others in one fused call; above it, a
# copy that scales in the same pass saves more than the call costs.
FUSED_COPY_MAX_NUMEL = 16_384


NONE = id(None)  # compared by identity: `None in grads` would compare tensors


class TorchSlots:
    """Copies gradients into buckets and averages back, for a list of torch parameters.

    With `as_views` each `param.grad` becomes a view of its bucket; without, averages are copied
    into the gradient that autograd made.
    """

    def __init__(self, managed: Managed, as_views: bool) -> None:
        self.params = managed.params
        self.specs = managed.specs
        self.as_views = as_views
        self.untouched: set[int] = set()  # parameters that no rank used in this iteration

    def dtype(self, index: int) -> tuple[torch.dtype, torch.device]:
        """Return dtype and device of a parameter."""
        return self.params[index].dtype, self.params[index].device

    def views(self, flat: Tensor, indices: Sequence[int], starts: Sequence[int]) -> list[Tensor]:
        """Cut `flat` into views with their parameters' shapes, and strides where these are dense.

        A channels-last parameter has a channels-last gradient; a view laid out otherwise would
        make autograd and the optimizer reorder it in every step.
        """
        views = []
        for index, start in zip(indices, starts, strict=False):
            param = self.params[index]
            if _is_dense(param):
                views.append(flat.as_strided(param.shape, param.stride(), start))
            else:
                views.append(flat[start : start + param.numel()].view(param.shape))
        return views

    @torch.no_grad()
    def gather(self, bucket: Bucket, scale: float) -> None:
        """Write gradient x `scale` into each view; zeros where there is no gradient."""
        grads: list[Any] = [self.params[index].grad for index in bucket.params]
        views = bucket.views
        if self.specs[bucket.params[0]].sparse and grads[0] is not None:
            grads = [grads[0].to_dense()]  # alone in its bucket; rows travel as zeros
        if NONE in map(id, grads) or grads[0] is views[0]:
            grads, views = _to_copy(grads, views)
        elif scale != 1.0 and _are_large(bucket):
            for view, grad in zip(views, grads, strict=True):
                torch.mul(grad, scale, out=view)
            return
        if grads:
            torch._foreach_copy_(views, grads)
        if scale != 1.0:
            bucket.flat.mul_(scale)

    @torch.no_grad()
    def put(self, flat: Tensor, result: Any) -> None:
        """Write what a communication hook gave into a bucket's buffer, unless it is that."""
        values: Tensor = result[0] if isinstance(result, list | tuple) else result
        if values.data_ptr() != flat.data_ptr() or values.dtype != flat.dtype:
            flat.copy_(values.view(flat.shape))

    @torch.no_grad()
    def deliver(self, bucket: Bucket) -> None:
        """Make what the views hold the parameters' gradients."""
        params = [self.params[index] for index in bucket.params]
        views = bucket.views
        if self.specs[bucket.params[0]].sparse:
            params[0].grad = views[0].to_sparse(1)
            return
        if self.untouched:
            used = [k for k, index in enumerate(bucket.params) if index not in self.untouched]
            params, views = [params[k] for k in used], [views[k] for k in used]
        if not self.as_views:
            for param in params:
                if param.grad is None:
                    param.grad = torch.empty_like(param)
            grads: list[Any] = [param.grad for param in params]
            if grads:
                torch._foreach_copy_(grads, views)
            return
        for param, view in zip(params, views, strict=True):
            param.grad = view

    def when_backward_ends(self, finish: Callable[[], None]) -> None:
        """Have autograd call `finish` at the end of the backward now running."""
        when_backward_ends(finish)


def _to_copy(grads: list[Any], views: list[Tensor]) -> tuple[list[Any], list[Tensor]]:
    """Return the gradients that are not in their views already; zero the views without one."""
    pairs = []
    for grad, view in zip(grads, views, strict=True):
        if grad is None:
            view.zero_()
        elif grad is not view:
            pairs.append((grad, view))
    return [grad for grad, _ in pairs], [view for _, view in pairs]


def _is_dense(param: Tensor) -> bool:
    """Whether a parameter's elements fill their memory with no gap or overlap, in any order."""
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(param))


def _are_large(bucket: Bucket) -> bool:
    return bool(bucket.flat.numel() > FUSED_COPY_MAX_NUMEL * len(bucket.views))
