"""The gradients of torch parameters, as the reducer sees them.

May import: torch, autograd_graph, buckets, module_inspection.
"""

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ddp_lab.data_parallel.buckets import Bucket, Slots
from ddp_lab.data_parallel.torch.autograd_graph import when_backward_ends
from ddp_lab.data_parallel.torch.module_inspection import ManagedParams

# Below this many elements a gradient is copied with others in one fused call; above it, a
# copy that scales in the same pass saves more than the call costs.
FUSED_COPY_MAX_NUMEL = 16_384


NONE = id(None)  # compared by identity: `None in grads` would compare tensors

# Not every torch says how many hold a tensor and its memory; without it nothing is lent.
COUNTS_HOLDERS = hasattr(torch.Tensor, "_use_count") and hasattr(torch._C, "_storage_Use_Count")


class TorchSlots(Slots):
    """Copies gradients into buckets and averages back, for a list of torch parameters.

    With `as_views` each `param.grad` becomes a view of its bucket; without, averages are copied
    into the gradient that autograd made. Where nobody can tell the difference, a large gradient
    is not copied back: the view becomes the gradient (`_may_lend`).
    """

    def __init__(self, managed: ManagedParams, as_views: bool) -> None:
        self.params = managed.params
        self.specs = managed.specs
        self.as_views = as_views
        self.untouched: set[int] = set()  # parameters that no rank used in this iteration
        self._lendable = {index for index, p in enumerate(self.params) if _is_lendable(p)}

    def dtype(self, index: int) -> tuple[torch.dtype, torch.device]:
        return self.params[index].dtype, self.params[index].device

    def views(self, flat: Tensor, indices: Sequence[int], starts: Sequence[int]) -> list[Tensor]:
        """Cut `flat` into views with their parameters' shapes, and strides where these are dense.

        A channels-last parameter has a channels-last gradient; a view laid out otherwise would
        make autograd and the optimizer reorder it in every step.
        """
        views = []
        for index, start in zip(indices, starts, strict=False):
            param = self.params[index]
            if not self.as_views and index in self._lendable:
                views.append(_alone(flat, param, start))
            elif _is_dense(param):
                views.append(flat.as_strided(param.shape, param.stride(), start))
            else:
                views.append(flat[start : start + param.numel()].view(param.shape))
        return views

    @torch.no_grad()
    def gather(self, bucket: Bucket, scale: float) -> None:
        grads: list[Any] = [self.params[index].grad for index in bucket.params]
        views = bucket.views
        if self.specs[bucket.params[0]].sparse and grads[0] is not None:
            grads = [grads[0].to_dense()]  # alone in its bucket; rows travel as zeros
        if NONE in map(id, grads) or grads[0] is views[0]:
            grads, views = _to_copy(grads, views)
        elif scale != 1.0 and bucket.flat.numel() > FUSED_COPY_MAX_NUMEL * len(bucket.views):
            for view, grad in zip(views, grads, strict=True):
                torch.mul(grad, scale, out=view)
            return
        if grads:
            torch._foreach_copy_(views, grads)
        if scale != 1.0:
            bucket.flat.mul_(scale)

    @torch.no_grad()
    def put(self, flat: Tensor, result: Any) -> None:
        values: Tensor = result[0] if isinstance(result, list | tuple) else result
        if values.data_ptr() != flat.data_ptr() or values.dtype != flat.dtype:
            flat.copy_(values.view(flat.shape))

    @torch.no_grad()
    def deliver(self, bucket: Bucket) -> None:
        if self.specs[bucket.params[0]].sparse:
            self.params[bucket.params[0]].grad = bucket.views[0].to_sparse(1)
            return
        used = [
            (place, self.params[index], view)
            for place, (index, view) in enumerate(zip(bucket.params, bucket.views, strict=True))
            if index not in self.untouched
        ]
        if self.as_views:
            for _, param, view in used:
                param.grad = view
        else:
            self._hand_on(bucket, used)

    def _hand_on(self, bucket: Bucket, used: list[tuple[int, Any, Tensor]]) -> None:
        """Lend each view to its parameter where nobody can tell; copy it elsewhere."""
        sources, targets = [], []
        for place, param, view in used:
            if bucket.params[place] in self._lendable and _may_lend(param):
                param.grad = view
                bucket.lent.add(place)
                continue
            grad = param.grad  # once: a tensor without a Python object gets one at each look
            if grad is None:
                grad = param.grad = torch.empty_like(param)
            if grad is not view:
                sources.append(view)
                targets.append(grad)
        if sources:
            torch._foreach_copy_(targets, sources)

    def take_back(self, bucket: Bucket) -> bool:
        """Return whether nobody holds a view that was lent, and each is what it was.

        A parameter whose gradient is kept, or given other memory, is lent none any more: each
        would keep a whole bucket alive.
        """
        held = [place for place in bucket.lent if not self._is_back(bucket, place)]
        self._lendable.difference_update(bucket.params[place] for place in held)
        return not held

    def _is_back(self, bucket: Bucket, place: int) -> bool:
        if _counts(bucket.views[place]) != _counts_of_specimens()[1]:  # not through a name here
            return False
        view, param = bucket.views[place], self.params[bucket.params[place]]
        start = bucket.flat.data_ptr() + bucket.starts[place] * bucket.flat.element_size()
        return (
            view.data_ptr() == start  # `grad.data = ...` gives it other memory
            and view.dtype == bucket.flat.dtype
            and view.shape == param.shape
            and view.stride() == param.stride()
            and not view.requires_grad
        )

    def when_backward_ends(self, finish: Callable[[], None]) -> None:
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


def _is_lendable(param: Any) -> bool:
    """Whether a view for this parameter can be lent, and saves more than asking who holds it."""
    if not COUNTS_HOLDERS:
        return False
    return bool(param.numel() > FUSED_COPY_MAX_NUMEL and param.is_cpu and _is_dense(param))


def _alone(flat: Tensor, param: Any, start: int) -> Tensor:
    """Return the view of `flat` for a parameter, as a tensor with a storage of its own.

    It looks like one that autograd has made: saved alone it takes its own bytes, not the bucket's.
    """
    whole = flat.view(torch.uint8).numpy()
    at, dtype = start * flat.element_size(), flat.dtype
    part = torch.frombuffer(whole, dtype=dtype, count=param.numel(), offset=at)
    view = torch.empty(0, dtype=dtype)
    return view.set_(part.untyped_storage(), 0, param.shape, param.stride())


def _may_lend(param: Any) -> bool:
    """Whether a view can become the gradient, and nobody but its parameter would know.

    So it is where there is none, or one that torch allocated and that nobody else holds or looks
    into.
    """
    if param.grad is None:
        return True
    plain = type(param.grad) is Tensor and not param.grad.requires_grad
    if not plain or param.grad.dtype != param.dtype or not param.grad.untyped_storage().resizable():
        return False  # NumPy's memory, for one, cannot be resized
    return _counts(param.grad) == _counts_of_specimens()[0]


def _counts(tensor: Any) -> tuple[int, int, int]:
    """Return how many hold a tensor in Python and in C++, and how many its memory."""
    of_storage: Any = torch._C._storage_Use_Count
    storage = tensor.untyped_storage()
    return sys.getrefcount(tensor), tensor._use_count(), of_storage(storage._cdata)


@functools.cache
def _counts_of_specimens() -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Return the counts of a tensor that is only a gradient, and of one that is only in a list.

    They are counted and not written down, for they differ between versions of Python and torch.
    """
    param = torch.nn.Parameter(torch.ones(2))
    param.grad = torch.ones(2)
    listed = [torch.ones(2)]
    return _counts(param.grad), _counts(listed[0])
