"""DistributedDataParallel: one name for torch modules and for minitorch modules.

May import: the modules of this folder; torch only through `torch_ddp`, once a torch module comes.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


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

    module: Any
    require_backward_grad_sync: bool

    def __new__(cls, *args: Any, **kwargs: Any) -> "DistributedDataParallel":
        """Make an instance of the subclass that fits the module."""
        if cls is not DistributedDataParallel:
            return super().__new__(cls)
        module = args[0] if args else kwargs.get("module")
        return super().__new__(_class_for(module))

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


def _class_for(module: Any) -> type[DistributedDataParallel]:
    """Return the subclass that can wrap `module`."""
    torch = sys.modules.get("torch")  # who holds a torch module has imported torch
    if torch is not None and isinstance(module, torch.nn.Module):
        from ddp_lab.data_parallel.torch_ddp import TorchDistributedDataParallel

        return TorchDistributedDataParallel
    from ddp_lab.data_parallel.array_ddp import ArrayDistributedDataParallel

    return ArrayDistributedDataParallel
