"""Keeping a module's buffers (running means and the like) in step over the ranks.

May import: torch, module_inspection, process_groups, reduction_group.
"""

import warnings

import torch
from torch import Tensor, nn
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from ddp_lab.data_parallel.reduction_group import Group
from ddp_lab.data_parallel.torch import module_inspection
from ddp_lab.data_parallel.torch.process_groups import broadcast_coalesced


class BufferSync:
    """Broadcasts one rank's buffers to all before forward.

    Attributes:
        at_start: whether buffers are broadcast when a module is wrapped.
        in_forward: whether they are in each forward pass.
    """

    def __init__(
        self,
        module: nn.Module,
        ignored: set[str],
        broadcast_buffers: bool | None,
        forward_sync_buffers: bool | None,
    ) -> None:
        self._module, self._ignored = module, ignored
        if broadcast_buffers is not None:
            warnings.warn(
                "DistributedDataParallel: `broadcast_buffers` is deprecated. "
                "Use `forward_sync_buffers`; with it, buffers are always broadcast at the start.",
                FutureWarning,
                stacklevel=3,
            )
        self.at_start = forward_sync_buffers is not None or broadcast_buffers is not False
        self.in_forward = self.at_start and forward_sync_buffers is not False
        self._has_buffers = bool(self.buffers())  # walking a deep module takes long

    def buffers(self) -> list[Tensor]:
        """Return the buffers, looked up anew, for a module may replace them."""
        return module_inspection.buffers(self._module, self._ignored)

    @property
    def is_due(self) -> bool:
        """Whether there are buffers that each forward pass synchronises."""
        return self.in_forward and self._has_buffers

    def run(self, group: Group, root: int) -> None:
        """Overwrite the buffers with those of rank `root`."""
        tensors = tuple(self.buffers())
        with torch.no_grad(), _unsafe_preserve_version_counter(tensors):
            broadcast_coalesced(group, tensors, root)
