"""Groups of ranks for torch tensors: any torch.distributed process group, or a Communicator.

May import: torch, NumPy, group, communicator_group.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ddp_lab.data_parallel.communicator_group import CommunicatorGroup, is_communicator
from ddp_lab.data_parallel.group import Group, Work

OPS = {"sum": dist.ReduceOp.SUM, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}


class C10dGroup:
    """A torch.distributed process group (gloo, NCCL, ddp_lab's own, ...) as a `Group`."""

    def __init__(self, process_group: dist.ProcessGroup, device: torch.device) -> None:
        self.process_group = process_group
        self.device = device

    @property
    def rank(self) -> int:
        """This process's rank in the group."""
        return self.process_group.rank()

    @property
    def size(self) -> int:
        """Number of processes in the group."""
        return self.process_group.size()

    def empty(self, numel: int, dtype: tuple[torch.dtype, torch.device]) -> Tensor:
        """Return a flat tensor on the device of the parameters."""
        return torch.empty(numel, dtype=dtype[0], device=dtype[1])

    def all_reduce(self, flat: Tensor, op: str = "sum") -> Work:
        """Start an all-reduce in place; the process group runs it in the background."""
        work: Work = dist.all_reduce(flat, OPS[op], group=self.process_group, async_op=True)
        return work

    def broadcast(self, flat: Tensor, root: int) -> None:
        """Overwrite `flat` with that of the group's rank `root`."""
        dist.broadcast(flat, group=self.process_group, group_src=root)

    def counters(self, values: Sequence[int]) -> Tensor:
        """Return integers as a tensor on the device of the parameters."""
        return torch.tensor(values, dtype=torch.int64, device=self.device)


class TorchCommunicatorGroup:
    """A `ddp_lab.Communicator` as a `Group` of torch CPU tensors, without a copy.

    Buffers lie in the transport's own memory, and torch and NumPy look at the same bytes.
    bfloat16, which NumPy lacks, travels as float32.
    """

    def __init__(self, arrays: CommunicatorGroup) -> None:
        self.arrays = arrays

    @property
    def rank(self) -> int:
        """This rank."""
        return self.arrays.rank

    @property
    def size(self) -> int:
        """Number of ranks."""
        return self.arrays.size

    def empty(self, numel: int, dtype: tuple[torch.dtype, torch.device]) -> Tensor:
        """Return a flat tensor over a buffer of the transport."""
        kind, device = dtype
        if device.type != "cpu":
            raise ValueError(
                f"DistributedDataParallel: a Communicator moves arrays of the CPU: got a "
                f"parameter on {device}, expected cpu. Use a torch.distributed group there."
            )
        if kind == torch.bfloat16:
            return torch.empty(numel, dtype=kind)
        numpy_dtype = torch.empty(0, dtype=kind).numpy().dtype
        return torch.from_numpy(self.arrays.empty(numel, numpy_dtype))

    def all_reduce(self, flat: Tensor, op: str = "sum") -> Work:
        """Start an all-reduce in place on the communication thread."""
        if flat.dtype != torch.bfloat16:
            return self.arrays.all_reduce(flat.detach().numpy(), op)
        wide = flat.float()
        work = self.arrays.all_reduce(wide.numpy(), op)
        return _Then(work, lambda: flat.copy_(wide))

    def broadcast(self, flat: Tensor, root: int) -> None:
        """Overwrite `flat` with rank `root`'s."""
        if flat.dtype == torch.bfloat16:
            wide = flat.float()
            self.arrays.broadcast(wide.numpy(), root)
            flat.copy_(wide)
        else:
            self.arrays.broadcast(flat.detach().numpy(), root)

    def counters(self, values: Sequence[int]) -> Tensor:
        """Return integers as a tensor."""
        return torch.tensor(values, dtype=torch.int64)


class _Then:
    """A work that is done once what follows it is done too."""

    def __init__(self, work: Work, action: Callable[[], object]) -> None:
        self._work = work
        self._action = action

    def wait(self) -> None:
        self._work.wait()
        self._action()


def group_for(process_group: Any, device: torch.device) -> Group:
    """Return the `Group` behind what was passed as `process_group`."""
    if isinstance(process_group, CommunicatorGroup):
        return TorchCommunicatorGroup(process_group)
    if is_communicator(process_group):
        return TorchCommunicatorGroup(CommunicatorGroup(process_group))
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
