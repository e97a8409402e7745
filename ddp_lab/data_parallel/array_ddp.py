"""DistributedDataParallel for modules that are not torch's: minitorch, over a Communicator.

May import: NumPy, and the modules of this folder that do without torch.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ddp_lab.data_parallel.bucketing import Caps, reverse_plan
from ddp_lab.data_parallel.communicator_group import CommunicatorGroup, is_communicator
from ddp_lab.data_parallel.ddp import DistributedDataParallel
from ddp_lab.data_parallel.group import Group, verify_same_model
from ddp_lab.data_parallel.models import ArraySlots, Module, trainable, values
from ddp_lab.data_parallel.reducer import Reducer


class ArrayDistributedDataParallel(DistributedDataParallel):
    """`DistributedDataParallel` for any module with torch's interface and NumPy arrays behind.

        model = DistributedDataParallel(minitorch_module, process_group=comm)

    Parameters without a gradient at the end of backward are an error that names them.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        *,
        bucket_cap_mb_list: Sequence[float] | None = None,
    ) -> None:
        super().__init__(module)
        if is_communicator(device_ids):  # DistributedDataParallel(module, comm)
            device_ids, process_group = None, device_ids
        self.module = module
        self.group = _group(process_group, module)
        self.broadcast_buffers = broadcast_buffers is not False
        self.require_backward_grad_sync = True
        params = trainable(module)
        slots = ArraySlots(params)
        caps = Caps.from_mb(bucket_cap_mb, bucket_cap_mb_list)
        if init_sync:
            verify_same_model(self.group, slots.specs)
            self._broadcast_state()
        plan = reverse_plan(slots.specs, caps.limits)
        self.reducer = Reducer(slots, plan, self.group, caps.limits)
        for index, (_, param) in enumerate(params):
            self._hook(param, index)

    def _hook(self, param: Any, index: int) -> None:
        reducer = self.reducer
        param.register_post_accumulate_grad_hook(lambda _param: reducer.mark(index))

    def _broadcast_state(self) -> None:
        """Start every rank from rank 0's parameters and buffers."""
        for param in self.module.parameters():
            self._broadcast(param)
        self._sync_buffers()

    def _sync_buffers(self) -> None:
        for _, buffer in getattr(self.module, "named_buffers", tuple)():
            self._broadcast(buffer)

    def _broadcast(self, tensor: Any) -> None:
        array = values(tensor)
        flat = np.ascontiguousarray(array).reshape(-1)
        self.group.broadcast(flat, 0)
        np.copyto(array, flat.reshape(array.shape))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the module's output; gradients of it will be averaged unless in `no_sync`."""
        if self.require_backward_grad_sync:
            self.reducer.rebuild()
            self.reducer.prepare()
            if self.broadcast_buffers:
                self._sync_buffers()
        else:
            self.reducer.expecting = False
        return self.module(*args, **kwargs)

    def parameters(self) -> Iterator[Any]:
        """Yield the module's parameters."""
        yield from self.module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, parameter), names prefixed with `module.` as torch does."""
        for name, param in self.module.named_parameters():
            yield f"module.{name}", param

    def train(self, mode: bool = True) -> "ArrayDistributedDataParallel":
        """Put the module in training mode."""
        self.module.train(mode)
        return self

    def eval(self) -> "ArrayDistributedDataParallel":
        """Put the module in evaluation mode."""
        self.module.eval()
        return self


def _group(process_group: Any, module: Any) -> Group:
    if is_communicator(process_group):
        return CommunicatorGroup(process_group)
    if isinstance(process_group, CommunicatorGroup):
        return process_group
    raise TypeError(
        f"DistributedDataParallel: a {type(module).__name__} is trained over a Communicator: got "
        f"process_group {type(process_group).__name__}. Pass process_group=comm, with comm from "
        "ddp_lab.launch."
    )
