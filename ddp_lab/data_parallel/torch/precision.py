"""Mixed precision: parameters and inputs cast for forward and backward, averages cast for travel.

The parameters stay in full precision; each forward runs on casts of them, and autograd casts the
gradients back. Takes torch's `_MixedPrecision(param_dtype, reduce_dtype, buffer_dtype)`.

May import: torch, comm_hooks, grad_bucket.
"""

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor, nn

from ddp_lab.data_parallel.hooks.comm_hooks import Later
from ddp_lab.data_parallel.hooks.grad_bucket import GradBucket


def call_in_precision(
    module: nn.Module, precision: Any, ignored: Collection[str], inputs: Any, kwargs: Any
) -> Any:
    """Return the module's output, computed with parameters and inputs of `param_dtype`."""
    dtype = precision.param_dtype
    if dtype is None:
        return module(*inputs, **kwargs)
    casts = {
        name: param.to(dtype)
        for name, param in module.named_parameters()
        if param.is_floating_point() and name not in ignored
    }
    inputs, kwargs = torch.utils._pytree.tree_map(lambda x: _cast(x, dtype), (inputs, kwargs))
    return torch.func.functional_call(module, casts, tuple(inputs), kwargs)


def note_dtypes(module: nn.Module, precision: Any, ignored: Collection[str]) -> None:
    """Let each parameter say by torch's private names what it is cast to, and what it is kept as.

    What is cast holds no memory but in the forward pass: neither `_mp_param` nor torch's does.
    """
    for name, param in module.named_parameters():
        if name not in ignored and param.is_floating_point():
            param._fp_param = param.data  # type: ignore[attr-defined]
            param._mp_param = param.new_empty(0, dtype=precision.param_dtype or param.dtype)  # type: ignore[attr-defined]


def cast_buffers(module: nn.Module, precision: Any, ignored: Collection[str]) -> None:
    """Cast the module's floating buffers to `buffer_dtype`, for good."""
    if precision.buffer_dtype is None:
        return
    for name, buffer in module.named_buffers():
        if name not in ignored:
            buffer.data = _cast(buffer, precision.buffer_dtype)


def reduce_dtype_of(precision: Any) -> torch.dtype | None:
    """Return the dtype in which gradients travel: `reduce_dtype`, else `param_dtype`."""
    dtype: torch.dtype | None = precision.reduce_dtype or precision.param_dtype
    return dtype


def average_as(dtype: torch.dtype | None) -> Callable[[Any, GradBucket], Later]:
    """Return a hook of a reducer that averages buckets as `dtype`; None leaves them as they are."""

    def average(reducer: Any, bucket: GradBucket) -> Later:
        flat = bucket.buffer()
        flat = flat.to(dtype or flat.dtype).div_(reducer.divisor)
        return Later(reducer.group.all_reduce(flat), lambda: flat)

    return average


def _cast(value: Any, dtype: torch.dtype) -> Any:
    floating = isinstance(value, Tensor) and value.is_floating_point()
    return value.to(dtype) if floating else value
