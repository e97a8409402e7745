"""Which subclass of DistributedDataParallel wraps a module.

May import: array_ddp, ddp, errors; torch.ddp inside functions.
"""

import sys
from typing import Any

from ddp_lab.data_parallel.ddp import DistributedDataParallel as DistributedDataParallel
from ddp_lab.errors import InvalidArgument


def class_for(module: Any) -> type[DistributedDataParallel]:
    """Return the subclass that can wrap `module`.

    Raises:
        InvalidArgument: it is no module.
    """
    if not hasattr(module, "named_parameters"):
        raise InvalidArgument(
            f"DistributedDataParallel: not a module: got {module!r}, expected one with parameters. "
            "Pass the module first: DistributedDataParallel(module, comm)."
        )
    torch = sys.modules.get("torch")  # who holds a torch module has imported torch
    if torch is not None and isinstance(module, torch.nn.Module):
        from ddp_lab.data_parallel.torch.ddp import TorchDistributedDataParallel

        return TorchDistributedDataParallel
    from ddp_lab.data_parallel.array_ddp import ArrayDistributedDataParallel

    return ArrayDistributedDataParallel


DistributedDataParallel.class_for = staticmethod(class_for)
