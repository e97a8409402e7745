"""Keeping a module's buffers (running means and the like) in step over the ranks.

May import: torch, module_inspection, process_groups, reduction_group.
"""

import warnings
from collections.abc import Callable
from enum import Enum
from typing import Any

import torch
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from ddp_lab.data_parallel.reduction_group import Group, last_rank
from ddp_lab.data_parallel.torch import module_inspection
from ddp_lab.data_parallel.torch.process_groups import broadcast_coalesced


class BufferSync:
    """The part of DistributedDataParallel that broadcasts rank 0's buffers before forward.

    A buffer hook, `hook(state, {name: buffer})`, takes the place of the broadcast, before or
    after forward; the futures that it returns are waited for at the end of backward.
    """

    module: Any
    group: Group
    reducer: Any
    parameters_to_ignore: set[str]
    _join_config: Any
    uneven: Any

    def configure_buffers(
        self, broadcast_buffers: bool | None, forward_sync_buffers: bool | None
    ) -> bool:
        """Take torch's two arguments; return whether buffers are broadcast at the start."""
        self.require_forward_param_sync = True
        self._buffer_hook: tuple[Callable[..., Any], Any, bool] | None = None
        self._has_buffers = bool(self.modules_buffers)  # walking a deep module takes long
        if broadcast_buffers is not None:
            warnings.warn(
                "DistributedDataParallel: `broadcast_buffers` is deprecated. "
                "Use `forward_sync_buffers`; with it, buffers are always broadcast at the start.",
                FutureWarning,
                stacklevel=3,
            )
        if forward_sync_buffers is not None:
            self.forward_sync_buffers = forward_sync_buffers
            return True
        self.forward_sync_buffers = broadcast_buffers is not False
        return self.forward_sync_buffers

    @property
    def broadcast_buffers(self) -> bool:
        """The old name of `forward_sync_buffers`."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool) -> None:
        self.forward_sync_buffers = value

    @property
    def modules_buffers(self) -> list[torch.Tensor]:
        """The buffers that are kept in step; looked up anew, for a module may replace them."""
        return list(module_inspection.buffers(self.module, self.parameters_to_ignore).values())

    def will_sync_buffers(self, before_forward: bool) -> bool:
        """Return whether buffers are to be synchronised at this point."""
        hook_is_before = self._buffer_hook is None or self._buffer_hook[2]
        return (
            self.require_forward_param_sync
            and self.forward_sync_buffers
            and hook_is_before == before_forward
            and self._has_buffers
        )

    def sync_buffers(self, joined: bool = False) -> None:
        """Overwrite the buffers with rank 0's, or with those of a rank that has not joined."""
        root = 0
        if self._join_config.enable or self.uneven is not None:
            root = last_rank(self.group, not joined)
        buffers = module_inspection.buffers(self.module, self.parameters_to_ignore)
        tensors = tuple(buffers.values())
        with torch.no_grad(), _unsafe_preserve_version_counter(tensors):
            if self._buffer_hook is None:
                broadcast_coalesced(self.group, tensors, root)
                return
            hook, state, _ = self._buffer_hook
            self.reducer.post_backward.extend(hook(state, buffers) or ())

    def _register_buffer_comm_hook(
        self, state: Any, hook: Callable[..., Any], comm_hook_location: Enum | None = None
    ) -> None:
        """Register a buffer hook; torch's enum says whether it runs before or after forward."""
        before = comm_hook_location is not None and comm_hook_location.name == "PRE_FORWARD"
        self._buffer_hook = hook, state, before
