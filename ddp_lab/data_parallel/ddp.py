"""DistributedDataParallel: one name for torch modules and for minitorch modules.

May import: grad_bucket, join. The subclasses import this module.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

from ddp_lab.data_parallel.hooks.grad_bucket import (
    CommHook,
    GradBucket,
    already_hooked,
    check_comm_hook,
)
from ddp_lab.data_parallel.join import UnevenInputs


class DistributedDataParallel:
    """Train one module on several ranks: each has a copy, gradients are averaged in backward.

        model = DistributedDataParallel(module)                      # torch.distributed
        model = DistributedDataParallel(module, process_group=comm)  # a ddp_lab.Communicator

    Takes torch's arguments and means by them what torch's class means. Like `pathlib.Path`, this
    name makes an instance of a subclass: `TorchDistributedDataParallel` for a torch module,
    `ArrayDistributedDataParallel` for a module of another library that has torch's interface
    (minitorch), which needs a Communicator.

    Gradients travel in buckets, in reverse order of registration, while backward goes on; after
    the first iteration the buckets follow the order in which gradients became ready. Every rank
    launches them in one fixed order.

    Source: Li et al., PyTorch Distributed, VLDB 2020.
    """

    class_for: ClassVar[Callable[[Any], type["DistributedDataParallel"]]]
    """Which subclass wraps a module; `wrapping` says."""

    hook_buckets: ClassVar[tuple[type, ...]] = (GradBucket,)
    """What a communication hook may say that its bucket is."""

    module: Any
    reducer: Any
    require_backward_grad_sync: bool
    mixed_precision: Any = None
    uneven: UnevenInputs | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> "DistributedDataParallel":
        """Make an instance of the subclass that fits the module."""
        if cls is not DistributedDataParallel:
            return super().__new__(cls)
        module = args[0] if args else kwargs.get("module")
        return super().__new__(cls.class_for(module))

    def __init__(self, module: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Accumulate gradients on this rank alone; the first backward after it averages them.

            with model.no_sync():
                loss(model(x1)).backward()
            loss(model(x2)).backward()

        The forward pass has to be inside too. An exception ends it like any other way out.
        """
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: CommHook) -> None:
        """Have `hook(state, bucket)` communicate each bucket in place of the all-reduce.

        It returns a future of the flat average, an array of the module's library; the bucket comes
        undivided. See `comm_hooks`.

        Raises:
            TypeError, ValueError: not a hook, by its signature.
            RuntimeError: a hook was registered before.
        """
        check_comm_hook(hook, self.hook_buckets)
        reducer = self.reducer
        if reducer.hook is not None and self.mixed_precision is None:
            raise already_hooked(hook, reducer.hook[0].__qualname__)
        reducer.hook = hook, state

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> UnevenInputs:
        """Let ranks run out of inputs at different times; who is done shadows the others.

        With `divide_by_initial_world_size` gradients are divided by the number of ranks, else by
        the number of those that still have inputs.
        """
        return UnevenInputs(self, divide_by_initial_world_size, enable, throw_on_early_termination)

    @staticmethod
    def _get_data_parallel_params(module: Any, named_params: bool = False) -> Iterator[Any]:
        """Yield the parameters that are not ignored."""
        for name, param in module.named_parameters():
            if not hasattr(param, "_ddp_ignored"):
                yield (name, param) if named_params else param

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Any, params_and_buffers_to_ignore: Sequence[str]
    ) -> None:
        """Have a DistributedDataParallel made later leave these alone, by qualified name."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            if name in params_and_buffers_to_ignore:
                tensor._ddp_ignored = True
