"""What torch's own tools, and programs written for torch's class, call by private names.

May import: torch, module_inspection.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ddp_lab.data_parallel.torch import module_inspection
from ddp_lab.data_parallel.torch.process_groups import broadcast_coalesced, group_for


class TorchTools:
    """A part of DistributedDataParallel; nothing else in this package calls it."""

    module: Any
    device: torch.device
    group: Any
    process_group: Any
    reducer: Any
    parameters_to_ignore: set[str]
    broadcast_bucket_size = 250 * 1024 * 1024  # bytes; torch's
    _clones_outputs = True

    def _remove_autograd_hooks(self) -> None:
        """Detach from autograd: backward is local from now on."""
        self.reducer.remove_hooks()

    def _check_reducer_finalized(self) -> None:
        """Raise UnusedParameters when the last backward left buckets unreduced."""
        self.reducer.check_finished()

    def _update_process_group(self, new_process_group: Any) -> None:
        """Go on over other ranks; buckets are rebuilt from the next iteration's order."""
        if not torch.distributed.distributed_c10d._rank_not_in_group(new_process_group):
            self.process_group = new_process_group
            self.group = group_for(new_process_group, self.device)
        self.reducer.join(self.group)

    def _set_ddp_sink_clone(self, val: bool) -> None:
        """Choose whether outputs are cloned where they pass through DDP's own graph node."""
        self._clones_outputs = val

    def _default_broadcast_coalesced(
        self,
        bufs: Sequence[Tensor] | None = None,
        bucket_size: int | None = None,
        authoritative_rank: int = 0,
    ) -> None:
        """Broadcast buffers, as a buffer hook may wish to do."""
        buffers = module_inspection.buffers(self.module, self.parameters_to_ignore)
        broadcast_coalesced(self.group, bufs or list(buffers.values()), authoritative_rank)

    def _build_params_for_reducer(self) -> tuple[list[nn.Parameter], list[bool]]:
        """Return the parameters whose gradients are averaged, and which are sparse."""
        managed = module_inspection.managed(self.module, self.parameters_to_ignore)
        return managed.params, managed.sparse

    def _build_debug_param_to_name_mapping(
        self, parameters: Sequence[nn.Parameter]
    ) -> dict[int, str]:
        """Return the names of `parameters` by their position.

        Raises:
            ValueError: they are not the parameters of the module as it is now.
        """
        managed = module_inspection.managed(self.module, self.parameters_to_ignore)
        names = {id(p): n for n, p in zip(managed.names, managed.params, strict=True)}
        given = {id(param) for param in parameters}
        missing = [name for key, name in names.items() if key not in given]
        if missing:
            raise ValueError(
                f"names: Param with name {missing[0]} is in the module but not among the "
                f"parameters: got {len(given)}, expected {len(names)}. Wrap the module anew."
            )
        if len(given) != len(names):
            raise ValueError(
                "names: Expected param to name mapping to cover all parameters: got "
                f"{len(given)}, expected {len(names)}. Wrap the module anew."
            )
        return {index: names[id(param)] for index, param in enumerate(parameters)}
