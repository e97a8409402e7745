"""What torch gives to gloo groups, or to groups in C++, alone: given to ours too.

`monitored_barrier` and `_set_pg_timeout` ask for the backend, DDP's built-in hooks want works of
C++ groups. Importing the backend puts a function in front of each, which does the same for a group
of ours and leaves all other groups to torch's.

May import: torch, process_group.
"""

import functools
from datetime import timedelta
from typing import Any

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d
from torch._C._distributed_c10d import BuiltinCommHookType
from torch.nn.parallel import DistributedDataParallel

from ddp_lab.torch_backend.process_group import ProcessGroup

TORCHS_BARRIER = dist.monitored_barrier
TORCHS_TIMEOUT = c10d._set_pg_timeout
TORCHS_HOOK: Any = DistributedDataParallel._register_builtin_comm_hook


@functools.wraps(TORCHS_BARRIER)
def monitored_barrier(
    group: Any = dist.group.WORLD,
    timeout: timedelta | float | None = None,
    wait_all_ranks: bool = False,
) -> None:
    """Return once every rank has called it; name those that have not within the timeout."""
    own = c10d._get_default_group() if group is None else group
    if not isinstance(own, ProcessGroup):
        return TORCHS_BARRIER(group, timeout, wait_all_ranks)  # type: ignore[no-any-return]
    return own.monitored_barrier(timeout, wait_all_ranks)


@functools.wraps(TORCHS_TIMEOUT)
def set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
    """Let what is called on a group from now on end after this time."""
    own = c10d._get_default_group() if group is None else group
    if isinstance(own, ProcessGroup):
        own.set_timeout(timeout)
    else:
        TORCHS_TIMEOUT(timeout, group)


@functools.wraps(TORCHS_HOOK)
def register_builtin_comm_hook(self: Any, comm_hook_type: Any) -> None:
    """Register a built-in hook; over a group of ours the same one in Python."""
    if not isinstance(self.process_group, ProcessGroup):
        TORCHS_HOOK(self, comm_hook_type)
        return
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    is_half = comm_hook_type == BuiltinCommHookType.FP16_COMPRESS
    hook = default_hooks.fp16_compress_hook if is_half else default_hooks.allreduce_hook
    self.register_comm_hook(self.process_group, hook)


def share() -> None:
    """Put the functions of this module in the places of torch's."""
    vars(c10d)["monitored_barrier"] = vars(dist)["monitored_barrier"] = monitored_barrier
    vars(c10d)["_set_pg_timeout"] = set_pg_timeout
    torchs: Any = DistributedDataParallel
    torchs._register_builtin_comm_hook = register_builtin_comm_hook
