"""The gradients of torch parameters, as the reducer sees them.

May import: torch, reducer, torch_module.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ddp_lab.data_parallel.autograd_graph import when_backward_ends
from ddp_lab.data_parallel.reducer import Bucket
from ddp_lab.data_parallel.torch_module import Managed

# Below this many elements a gradient is copied with others in one fused call; above it, a
# copy that scales in the same pass saves more than the call costs.
FUSED_COPY_MAX_NUMEL = 16_384


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
        views, grads = [], []
        for index, view in zip(bucket.params, bucket.views, strict=True):
            grad = self.params[index].grad
            if grad is None:
                view.zero_()
            elif grad is not view:
                views.append(view)
                grads.append(grad)
        if scale != 1.0 and len(views) == len(bucket.views) and _are_large(bucket):
            for view, grad in zip(views, grads, strict=True):
                torch.mul(grad, scale, out=view)
            return
        if views:
            torch._foreach_copy_(views, grads)
        if scale != 1.0:
            bucket.flat.mul_(scale)

    @torch.no_grad()
    def deliver(self, bucket: Bucket) -> None:
        """Make what the views hold the parameters' gradients."""
        grads, views = [], []
        for index, view in zip(bucket.params, bucket.views, strict=True):
            param = self.params[index]
            grad = param.grad
            if grad is view or index in self.untouched:
                continue
            if self.as_views:
                param.grad = view
            elif grad is None:
                param.grad = view.clone()
            else:
                grads.append(grad)
                views.append(view)
        if grads:
            torch._foreach_copy_(grads, views)

    def when_backward_ends(self, finish: Callable[[], None]) -> None:
        """Have autograd call `finish` at the end of the backward now running."""
        when_backward_ends(finish)


def _is_dense(param: Tensor) -> bool:
    """Whether a parameter's elements fill their memory with no gap or overlap, in any order."""
    return bool(torch.ops.aten.is_non_overlapping_and_dense.default(param))


def _are_large(bucket: Bucket) -> bool:
    return bool(bucket.flat.numel() > FUSED_COPY_MAX_NUMEL * len(bucket.views))
