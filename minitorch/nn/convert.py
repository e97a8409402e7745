"""Moving a module to another device or dtype, its parameters staying the same objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minitorch.arrays import Device, DeviceLike, DTypeLike, as_dtype
from minitorch.errors import DTypeError
from minitorch.tensor import Tensor

if TYPE_CHECKING:
    from minitorch.nn.module import Module


def convert(
    module: Module,
    *targets: Any,
    device: DeviceLike = None,
    dtype: DTypeLike = None,
    non_blocking: bool = False,
) -> None:
    """Change every parameter and buffer below `module` in place.

    Raises:
        DTypeError: the dtype is not a floating one.
    """
    for target in targets:
        if isinstance(target, Tensor):
            device, dtype = target.device, target.dtype
        elif isinstance(target, Device) or str(target).partition(":")[0] in ("cpu", "cuda"):
            device = target
        elif not isinstance(target, bool):
            dtype = target
    if dtype is not None and as_dtype(dtype).kind != "f":
        raise DTypeError(
            f"Module.to: got {dtype}, expected a floating dtype: only those can be trained."
        )
    for part in module.modules():
        for param in part._parameters.values():
            if param is not None:
                _change(param, device, dtype)
        for buffer in part._buffers.values():
            if buffer is not None:
                _change(buffer, device, dtype)


def _change(tensor: Tensor, device: DeviceLike, dtype: DTypeLike) -> None:
    wanted = dtype if tensor.dtype.kind == "f" else None
    tensor.data = tensor.detach().to(device=device, dtype=wanted)
    if tensor.grad is not None:
        tensor.grad = tensor.grad.detach().to(device=device, dtype=wanted)
