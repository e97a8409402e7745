"""DistributedDataParallel for modules that are not torch's: minitorch, over a Communicator.

May import: this folder.
"""

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self

from ddp_lab.data_parallel.bucketing import Caps, reverse_plan
from ddp_lab.data_parallel.ddp import DistributedDataParallel
from ddp_lab.data_parallel.module_protocol import (
    ArraySlots,
    Module,
    fill,
    find_unused,
    trainable,
    values,
)
from ddp_lab.data_parallel.reducer import Reducer
from ddp_lab.data_parallel.reduction_group import (
    Group,
    as_group,
    last_rank,
    reduce_counts,
    verify_same_model,
)

PREFIX = "module."


class Wrapper:
    """What a wrapped module still offers of its own, for programs that take it for a module."""

    module: Any

    @property
    def training(self) -> bool:
        """Whether the module is in training mode."""
        training: bool = self.module.training
        return training

    def parameters(self) -> Iterator[Any]:
        """Yield the module's parameters."""
        yield from self.module.parameters()

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, parameter), names prefixed with `module.` as torch does."""
        for name, param in self.module.named_parameters():
            yield PREFIX + name, param

    def buffers(self) -> Iterator[Any]:
        """Yield the module's buffers."""
        yield from self.module.buffers()

    def named_buffers(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, buffer), names prefixed with `module.` as torch does."""
        for name, buffer in self.module.named_buffers():
            yield PREFIX + name, buffer

    def state_dict(self) -> dict[str, Any]:
        """Return the module's state, names prefixed with `module.` as torch does."""
        return {PREFIX + name: value for name, value in self.module.state_dict().items()}

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> Any:
        """Load what `state_dict` returned; every rank loads the same.

        Raises:
            KeyError: a name does not begin with `module.`; load it into `.module`.
        """
        foreign = next((name for name in state if not name.startswith(PREFIX)), None)
        if foreign is not None:
            raise KeyError(
                f"load_state_dict: got {foreign!r}, expected names that begin with {PREFIX!r}. "
                "Load the state of a bare module with model.module.load_state_dict(state)."
            )
        bare = {name.removeprefix(PREFIX): value for name, value in state.items()}
        return self.module.load_state_dict(bare, strict)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget every gradient, or fill it with zeros."""
        self.module.zero_grad(set_to_none)

    def train(self, mode: bool = True) -> Self:
        """Put the module in training mode."""
        self.module.train(mode)
        return self

    def eval(self) -> Self:
        """Put the module in evaluation mode."""
        self.module.eval()
        return self


class ArrayDistributedDataParallel(DistributedDataParallel, Wrapper):
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
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = True,
        static_graph: bool = False,
        *,
        bucket_cap_mb_list: Sequence[float] | None = None,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__(module)
        if as_group(device_ids) is not None:  # DistributedDataParallel(module, comm)
            device_ids, process_group = None, device_ids
        _check_devices(device_ids, output_device)
        self.module = module
        self.group = _group(process_group, module)
        self.forward_sync_buffers = (
            broadcast_buffers is not False and forward_sync_buffers is not False
        )
        self.require_backward_grad_sync = True
        self.find_unused_parameters = find_unused_parameters
        self.static_graph = static_graph
        params = trainable(module)
        self._params = [param for _, param in params]
        slots = ArraySlots(params)
        caps = Caps.from_mb(bucket_cap_mb, bucket_cap_mb_list)
        if init_sync:
            verify_same_model(self.group, slots.specs)
            self.broadcast_state(0)
        plan = reverse_plan(slots.specs, caps.limits)
        may_miss = find_unused_parameters or static_graph
        self.reducer = Reducer(slots, plan, self.group, caps.limits, may_miss)
        self._add_hooks()

    def _add_hooks(self) -> None:
        """Have backward tell the reducer of each gradient, for as long as this wrapper lives."""
        weak, hooks = weakref.ref(self.reducer), ExitStack()
        for index, param in enumerate(self._params):
            hooks.callback(param.register_post_accumulate_grad_hook(_hook(weak, index)).remove)
        weakref.finalize(self, hooks.close)

    def broadcast_state(self, root: int, with_buffers: bool = True) -> None:
        """Overwrite parameters, and buffers if asked, with rank `root`'s."""
        for tensor in [*self.module.parameters(), *(self._buffers() if with_buffers else [])]:
            self._broadcast(tensor, root)

    def _buffers(self) -> list[Any]:
        named: Any = getattr(self.module, "named_buffers", tuple)
        return [buffer for _, buffer in named()]

    def _broadcast(self, tensor: Any, root: int) -> None:
        flat = values(tensor).reshape(-1).copy()
        self.group.broadcast(flat, root)
        fill(tensor, flat)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Return the module's output; gradients of it will be averaged unless in `no_sync`."""
        syncs = self.require_backward_grad_sync
        if self.uneven is not None:
            self.uneven.begin_iteration()
            reduce_counts(self.group, [int(syncs)])
        if syncs:
            self.reducer.prepare()
            self._sync_buffers(joined=False)
        else:
            self.reducer.stop_expecting()
        output = self.module(*args, **kwargs)
        if syncs:
            self._expect_unused(output)
        return output

    def _sync_buffers(self, joined: bool) -> None:
        """Overwrite buffers with rank 0's, or with those of a rank that still has inputs."""
        buffers = self._buffers() if self.forward_sync_buffers else []
        if buffers:
            root = 0 if self.uneven is None else last_rank(self.group, not joined)
            for buffer in buffers:
                self._broadcast(buffer, root)

    def shadow_step(self) -> None:
        """Do without inputs what the others do in an iteration, collective by collective."""
        (syncing,) = reduce_counts(self.group, [0])
        if syncing:
            self.reducer.rebuild()
            self._sync_buffers(joined=True)
            self.reducer.shadow()

    def _expect_unused(self, output: Any) -> None:
        """Find what this output does not depend on; for a static graph, once."""
        usage = self.reducer.usage
        if not usage.find_unused:
            return
        if self.static_graph and self.reducer.iterations > 1:
            usage.expect_unused(usage.unused)
        else:
            usage.expect_unused(find_unused(output, self._params))


def _hook(weak: "weakref.ref[Reducer]", index: int) -> Callable[[Any], None]:
    """Return a hook that tells the reducer, if it still lives, of gradient `index`."""

    def on_accumulated(_param: Any) -> None:
        reducer = weak()
        if reducer is not None:
            reducer.gradient(index)

    return on_accumulated


def _check_devices(device_ids: Any, output_device: Any) -> None:
    if device_ids or output_device:
        raise ValueError(
            "DistributedDataParallel: device_ids and output_device are for torch modules on a "
            f"GPU: got {device_ids} and {output_device}. Leave both out."
        )


def _group(process_group: Any, module: Any) -> Group:
    group = as_group(process_group)
    if group is None:
        raise TypeError(
            f"DistributedDataParallel: a {type(module).__name__} is trained over a Communicator: "
            f"got process_group {type(process_group).__name__}. Pass process_group=comm, with comm "
            "from ddp_lab.launch."
        )
    return group
