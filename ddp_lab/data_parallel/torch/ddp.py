"""DistributedDataParallel for torch modules: torch's arguments and meanings, in Python.

May import: torch, bucketing, data_parallel.ddp, errors, grad_bucket, reduction_group,
torch_backend, this folder.
"""

import warnings
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import BuiltinCommHookType
from torch._C._distributed_c10d import GradBucket as C10dGradBucket
from torch.autograd.grad_mode import _unsafe_preserve_version_counter

from ddp_lab.data_parallel.bucketing import Caps
from ddp_lab.data_parallel.ddp import DistributedDataParallel
from ddp_lab.data_parallel.errors import DataParallelError
from ddp_lab.data_parallel.hooks.grad_bucket import GradBucket
from ddp_lab.data_parallel.reduction_group import (
    as_group,
    last_rank,
    reduce_counts,
    verify_same_model,
)
from ddp_lab.data_parallel.torch import module_inspection
from ddp_lab.data_parallel.torch.autograd_graph import tensors_in, through_entry, when_backward_ends
from ddp_lab.data_parallel.torch.ddp_options import (
    first_plan,
    process_group_of,
    refuse_unsupported,
    take_over_optimizers,
)
from ddp_lab.data_parallel.torch.precision import (
    average_as,
    call_in_precision,
    cast_buffers,
    note_dtypes,
    reduce_dtype_of,
)
from ddp_lab.data_parallel.torch.process_groups import C10dGroup, broadcast_coalesced, group_for
from ddp_lab.data_parallel.torch.reducer import TorchReducer
from ddp_lab.data_parallel.torch.slots import TorchSlots
from ddp_lab.torch_backend.eager import eager


class TorchDistributedDataParallel(DistributedDataParallel, nn.Module):
    """`DistributedDataParallel` for a torch module, over torch.distributed or a Communicator.

    Over a Communicator gradients are always views of buckets, and these lie in the transport's
    memory, whatever `gradient_as_bucket_view` says: that is what makes it fast. Over a torch group
    a rank that raised and lives on is noticed only when the group's timeout is over.
    """

    hook_buckets = (C10dGradBucket, GradBucket)

    def __init__(
        self,
        module: nn.Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[float] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        nn.Module.__init__(self)
        refuse_unsupported(
            check_reduction,
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
        )
        if as_group(device_ids) is not None:  # DistributedDataParallel(module, comm)
            device_ids, process_group = None, device_ids
        self.device_mesh = device_mesh
        self.process_group = process_group_of(process_group, device_mesh)
        self._take_module(module, device_ids, output_device)
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.mixed_precision = mixed_precision
        self.caps = Caps.from_mb(bucket_cap_mb, bucket_cap_mb_list)
        at_start = self._plan_buffers(broadcast_buffers, forward_sync_buffers)
        managed = module_inspection.managed_params(module, self.parameters_to_ignore)
        if init_sync:
            verify_same_model(self.group, managed.specs)
            self.broadcast_state(0, at_start)
        self._skip_unused = skip_all_reduce_unused_params
        self._build_reducer(managed, static_graph)
        if mixed_precision is not None:
            self._compute_in(mixed_precision)

    def _take_module(self, module: nn.Module, device_ids: Any, output_device: Any) -> None:
        """Note what is wrapped, where it lies and which ranks have it."""
        self.parameters_to_ignore = module_inspection.names_to_ignore(module)
        module_inspection.check_module(module, self.parameters_to_ignore)
        ids = module_inspection.device_ids_of(module, device_ids, output_device)
        self.device_ids, self.output_device = ids
        self.module = module
        self.device = next(iter(module.parameters())).device
        self.group = group_for(self.process_group, self.device)
        self.static_graph = False
        self.require_backward_grad_sync = self.require_forward_param_sync = True

    def _compute_in(self, mixed_precision: Any) -> None:
        """Have forward, buffers and averages use the dtypes that were asked for."""
        cast_buffers(self.module, mixed_precision, self.parameters_to_ignore)
        note_dtypes(self.module, mixed_precision, self.parameters_to_ignore)
        self._average_as(reduce_dtype_of(mixed_precision))

    def _average_as(self, dtype: torch.dtype | None) -> None:
        """Have gradients averaged in a dtype of their own, by a hook of ours."""
        self.reducer.hook = average_as(dtype), weakref.proxy(self.reducer)

    def _build_reducer(self, managed: module_inspection.ManagedParams, static_graph: bool) -> None:
        """Lay out the buckets and put the hooks on the parameters."""
        over_c10d = isinstance(self.group, C10dGroup)
        slots = TorchSlots(managed, as_views=self.gradient_as_bucket_view or not over_c10d)
        plan = first_plan(self.caps, slots.specs, over_c10d, self.find_unused_parameters)
        missing = self.find_unused_parameters, self._skip_unused
        self.reducer = TorchReducer(slots, plan, self.group, self.caps.limits, *missing)
        if static_graph:
            self._set_static_graph()

    @property
    def bucket_bytes_cap(self) -> int:
        """The most bytes of a bucket, as `torch.compile` asks for it."""
        return self.caps.cap

    @property
    def bucket_bytes_cap_list(self) -> list[int]:
        """The same by bucket."""
        return list(self.caps.per_bucket)

    def broadcast_state(self, root: int, with_buffers: bool) -> None:
        """Overwrite parameters, and buffers if asked, with rank `root`'s."""
        tensors = module_inspection.state(self.module, self.parameters_to_ignore, with_buffers)
        with torch.no_grad():
            broadcast_coalesced(self.group, tensors, root)

    # The forward pass

    @partial(eager, also_callees=False)
    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the module's output; gradients of it will be averaged unless in `no_sync`.

        Compiled from outside, the user's modules are compiled, and nothing of this: as torch's.
        """
        with torch.autograd.profiler.record_function("DistributedDataParallel.forward"):
            inputs, kwargs = self._pre_forward(inputs, kwargs)
            if self.mixed_precision is None:
                return self._post_forward(self.module(*inputs, **kwargs))
            how = self.mixed_precision, self.parameters_to_ignore
            return self._post_forward(call_in_precision(self.module, *how, inputs, kwargs))

    @eager
    def _pre_forward(self, inputs: Any, kwargs: Any) -> tuple[Any, Any]:
        syncs = torch.is_grad_enabled() and self.require_backward_grad_sync
        if self.uneven is not None:
            self.uneven.begin_iteration()
        if torch.is_grad_enabled():
            self._start_iteration(syncs)
        self._sync_buffers(joined=False)
        if self.uneven is not None:
            reduce_counts(self.group, [int(self.require_backward_grad_sync)])
        if self.device_ids:
            device = torch.device(self.device.type, self.device_ids[0])
            moved = torch.distributed.utils._to_kwargs(inputs, kwargs, device, False)
            return moved[0][0], moved[1][0]
        return inputs, kwargs

    def _start_iteration(self, syncs: bool) -> None:
        if not syncs:
            self.reducer.stop_expecting()
            return
        if not self.reducer.iterations:
            self.reducer.steps_itself = take_over_optimizers(self.reducer.slots.params)
        self.reducer.prepare()

    @eager
    def _post_forward(self, output: Any) -> Any:
        self.require_forward_param_sync = (
            torch.is_grad_enabled() and self.require_backward_grad_sync
        )
        if not self.require_forward_param_sync:
            return output
        static = self.reducer.usage.static
        if static is None and self.find_unused_parameters:
            self.reducer.prepare_backward(list(tensors_in(output)))
            return through_entry(output, _nothing)
        if static is not None and static.observing:
            at_end = self.reducer.reduce_after_backward
            return through_entry(output, partial(when_backward_ends, at_end))
        return output

    # Buffers

    def _plan_buffers(self, broadcast: bool | None, in_forward: bool | None) -> bool:
        """Note whether forward passes synchronise buffers; return whether the wrapping does."""
        if broadcast is not None:
            warnings.warn(
                "DistributedDataParallel: `broadcast_buffers` is deprecated. "
                "Use `forward_sync_buffers`; with it, buffers are always broadcast at the start.",
                FutureWarning,
                stacklevel=3,
            )
        at_start = in_forward is not None or broadcast is not False
        self.forward_sync_buffers = at_start and in_forward is not False
        # walking a deep module takes long
        self._has_buffers = bool(module_inspection.buffers(self.module, self.parameters_to_ignore))
        return at_start

    def _sync_buffers(self, joined: bool) -> None:
        """Take rank 0's buffers, or those of a rank that has not joined, where it is time to."""
        asked = self.require_forward_param_sync and self.forward_sync_buffers
        if not asked or not self._has_buffers:
            return
        root = 0 if self.uneven is None else last_rank(self.group, not joined)
        tensors = tuple(module_inspection.buffers(self.module, self.parameters_to_ignore))
        with torch.no_grad(), _unsafe_preserve_version_counter(tensors):
            broadcast_coalesced(self.group, tensors, root)

    @property
    def broadcast_buffers(self) -> bool:
        """The old name of `forward_sync_buffers`."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool) -> None:
        self.forward_sync_buffers = value

    # Communication hooks

    def _register_builtin_comm_hook(self, kind: BuiltinCommHookType) -> None:
        """Register torch's built-in hook of that name."""
        is_half = kind == BuiltinCommHookType.FP16_COMPRESS
        self._average_as(torch.float16 if is_half else None)

    # Uneven inputs

    def shadow_step(self) -> None:
        """Do without inputs what the others do in an iteration, collective by collective."""
        self.reducer.rebuild()
        self._sync_buffers(joined=True)
        (syncing,) = reduce_counts(self.group, [0])
        self.require_forward_param_sync = syncing > 0
        if syncing:
            self.reducer.shadow()

    # Static graphs

    def _set_static_graph(self) -> None:
        """Declare that the graph is the same in every iteration; before the first one."""
        if self.static_graph:
            warnings.warn(
                "You've set static_graph to be True, no need to set it again.", stacklevel=2
            )
            return
        if self.reducer.iterations:
            raise DataParallelError(
                "_set_static_graph() should be called before training loop starts: "
                f"{self.reducer.iterations} iterations have been run. Pass static_graph=True."
            )
        self.static_graph = True
        self.reducer.set_static_graph()
        if self.find_unused_parameters:
            warnings.warn(
                "You passed find_unused_parameters=true to DistributedDataParallel with "
                "static_graph=True, which finds unused parameters by itself. Leave it out.",
                stacklevel=2,
            )

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not dist.group.WORLD:
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default "
                "process group. Save model.module.state_dict() instead."
            )
        left_out = ("process_group", "group", "reducer")
        return {name: value for name, value in self.__dict__.items() if name not in left_out}

    def __setstate__(self, state: dict[str, Any]) -> None:
        nn.Module.__setstate__(self, state)  # type: ignore[no-untyped-call]
        self.process_group = dist.group.WORLD
        self.group = group_for(self.process_group, self.device)
        static_graph, self.static_graph = self.static_graph, False
        managed = module_inspection.managed_params(self.module, self.parameters_to_ignore)
        self._build_reducer(managed, static_graph)

    # What programs written for torch's class call

    def _remove_autograd_hooks(self) -> None:
        """Detach from autograd: backward is local from now on."""
        self.reducer.remove_hooks()

    def _update_process_group(self, new_process_group: Any) -> None:
        """Go on over other ranks; buckets are rebuilt from the next iteration's order."""
        if not torch.distributed.distributed_c10d._rank_not_in_group(new_process_group):
            self.process_group = new_process_group
            self.group = group_for(new_process_group, self.device)
        self.reducer.join(self.group)


def _nothing() -> None:
    """Do nothing: the node is there for the gradients that pass through it."""
