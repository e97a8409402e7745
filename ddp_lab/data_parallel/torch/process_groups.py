"""Groups of ranks for torch tensors: any torch.distributed process group, or a Communicator.

May import: torch, errors, reduction_group, transport.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lab.data_parallel.reduction_group import (
    AtWait,
    CommunicatorGroup,
    Group,
    Work,
    as_group,
)
from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.base import NDArray

OPS = {"sum": dist.ReduceOp.SUM, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


class C10dGroup(Group):
    """A torch.distributed process group (gloo, NCCL, ddp_lab's own, ...) as a `Group`."""

    def __init__(self, process_group: dist.ProcessGroup, device: torch.device) -> None:
        self.process_group = process_group
        self.rank, self.size = process_group.rank(), process_group.size()
        self.device = device
        self._is_ours = device.type == "cpu" and hasattr(process_group, "empty")
        comm = getattr(process_group, "comm", None)
        # Over a link, who leaves a collective to its wait leaves the link idle until then.
        self._starts_at_once = not self._is_ours or comm is None or len(comm.hosts) > 1

    def empty(self, numel: int, dtype: tuple[torch.dtype, torch.device]) -> Tensor:
        if self._is_ours:
            process_group: Any = self.process_group
            flat: Tensor = process_group.empty(numel, dtype[0])
            return flat
        return torch.empty(numel, dtype=dtype[0], device=dtype[1])

    def all_reduce(self, flat: Tensor, op: str = "sum", at_wait: bool = False) -> Work:
        call = partial(dist.all_reduce, flat, OPS[op], self.process_group)
        work: Work = AtWait(call) if at_wait and not self._starts_at_once else call(async_op=True)
        return work

    def broadcast(self, flat: Tensor, root: int) -> None:
        dist.broadcast(flat, group=self.process_group, group_src=root)

    def counters(self, values: Sequence[int] | NDArray) -> Tensor:
        return torch.tensor(values, dtype=torch.int64, device=self.device)


class TorchCommunicatorGroup(CommunicatorGroup):
    """A `ddp_lab.Communicator` as a `Group` of torch CPU tensors, without a copy.

    Buffers lie in the transport's own memory, and torch and NumPy look at the same bytes.
    """

    def empty(self, numel: int, dtype: tuple[torch.dtype, torch.device]) -> Tensor:
        """Return a flat tensor over a buffer of the transport.

        Raises:
            ValueError: for a parameter that is on another device than that.
        """
        flat: Tensor = self.communicator.empty((numel,), dtype[0])
        if dtype[1].type != flat.device.type:
            raise ValueError(
                f"DistributedDataParallel: this Communicator moves tensors of {flat.device}: got "
                f'a parameter on {dtype[1]}. Use the transport "cuda", or a torch.distributed '
                "group."
            )
        return flat

    def all_reduce(self, flat: Tensor, op: str = "sum", at_wait: bool = False) -> Work:
        return super().all_reduce(flat.detach(), op, at_wait and flat.is_cpu)

    def broadcast(self, flat: Tensor, root: int) -> None:
        flat.copy_(self.communicator.broadcast(flat.detach(), root))

    def counters(self, values: Sequence[int] | NDArray) -> Tensor:
        return torch.tensor(values, dtype=torch.int64)


def group_for(process_group: Any, device: torch.device) -> Group:
    """Return the `Group` behind what was passed as `process_group`."""
    group = as_group(process_group)
    if group is not None:
        return TorchCommunicatorGroup(group.communicator, group.algorithm)
    if not isinstance(process_group, dist.ProcessGroup):
        raise InvalidArgument(
            f"DistributedDataParallel: this is no group of ranks: got {process_group!r}, expected "
            "what torch.distributed.new_group returned or a Communicator. Name no group for all "
            "ranks."
        )
    return C10dGroup(process_group, device)


def broadcast_coalesced(group: Group, tensors: Sequence[Tensor], root: int) -> None:
    """Overwrite `tensors` on every rank with rank `root`'s, few messages for many tensors."""
    by_kind: dict[tuple[torch.dtype, torch.device], list[Tensor]] = {}
    for tensor in tensors:
        by_kind.setdefault((tensor.dtype, tensor.device), []).append(tensor)
    for same in by_kind.values():
        flat = torch.cat([t.reshape(-1) for t in same])
        group.broadcast(flat, root)
        parts = torch.split(flat, [t.numel() for t in same])
        for tensor, part in zip(same, parts, strict=True):
            tensor.copy_(part.view(tensor.shape))
