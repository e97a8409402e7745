"""What the arguments of DistributedDataParallel come to, before anything is built.

May import: torch, bucketing, errors.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import torch.distributed as dist
from torch import nn

from ddp_lab.data_parallel.bucketing import (
    NO_LIMIT,
    BucketPlan,
    Caps,
    ParamSpec,
    reverse_plan,
    torch_first_plan,
)
from ddp_lab.errors import InvalidArgument


def process_group_of(process_group: Any, device_mesh: Any) -> Any:
    """Return what the caller chose: a group, the one of a 1-D mesh, or all ranks."""
    if process_group is not None and device_mesh is not None:
        raise RuntimeError(
            "Cannot specify both process_group and device_mesh arguments. Pass one of them."
        )
    if device_mesh is None and process_group is None and not dist.is_initialized():
        raise InvalidArgument(
            "DistributedDataParallel: no ranks to train with: got process_group=None, and "
            "torch.distributed is not initialized. Pass the communicator that launch gave, "
            "DistributedDataParallel(module, comm), or call init_process_group first."
        )
    if device_mesh is None:
        return dist.group.WORLD if process_group is None else process_group
    if device_mesh.ndim != 1:
        raise RuntimeError(
            f"Only 1D device mesh is supported, but got {device_mesh}. Pass one of its axes."
        )
    return device_mesh.get_group(mesh_dim=0)


def first_plan(
    caps: Caps, specs: Sequence[ParamSpec], over_c10d: bool, find_unused: bool
) -> BucketPlan:
    """Return the buckets of the first iteration.

    Over a Communicator: last layer first, as in the paper. Over torch.distributed: torch's, which
    is one bucket for all until the order is known, lest a model with collectives of its own in
    backward meets ours in an order that differs between ranks.
    """
    if not over_c10d:
        return reverse_plan(specs, caps.limits)
    if caps.per_bucket or find_unused:
        return torch_first_plan(specs, caps.limits)
    return torch_first_plan(specs, [NO_LIMIT])


def refuse_unsupported(check_reduction: bool, **arguments: Any) -> None:
    """Raise NotImplementedError when one of these arguments was given; warn of the first."""
    if check_reduction:
        warnings.warn(
            "DistributedDataParallel: check_reduction does nothing any more. Leave it out.",
            FutureWarning,
            stacklevel=3,
        )
    for name, value in arguments.items():
        if value:
            raise NotImplementedError(
                f"DistributedDataParallel: {name} is not supported. Leave it out."
            )


def take_over_optimizers(params: Sequence[nn.Parameter]) -> list[nn.Parameter]:
    """Return the parameters with optimizers of their own that are to run in backward.

    torch has put hooks on them that would step before gradients are averaged: these are removed,
    and the reducer steps instead (`torch.distributed.optim._apply_optimizer_in_backward`).
    """
    with_optimizers = [param for param in params if hasattr(param, "_in_backward_optimizers")]
    if with_optimizers:
        from torch.distributed.optim.apply_optimizer_in_backward import (
            param_to_optim_hook_handle_map,
        )

        handles: Any = param_to_optim_hook_handle_map
        for param in with_optimizers:
            for handle in handles.get(param, []):
                handle.remove()
    return with_optimizers
