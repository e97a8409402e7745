"""NumPy inside, whatever the caller has outside: arrays in, arrays out; tensors in, tensors out.

torch is never imported here. A caller who holds a tensor has imported it already.
"""

import sys
from typing import Any

import numpy as np

from ddp_lab.errors import InvalidArgument
from ddp_lab.reduction import BFLOAT16
from ddp_lab.transport.base import NDArray

NUMPY, TORCH = "numpy", "torch"
NUMBERS = "biufc"  # bool, integers, floating point, complex: what crosses between ranks


def to_numpy(x: Any, operation: str) -> tuple[NDArray, str]:
    """Return `x` as a C-contiguous NumPy array, sharing memory where possible, and its kind.

    Raises:
        InvalidArgument: `x` is not an array of numbers.
    """
    if type(x) is np.ndarray and x.dtype.kind in NUMBERS and x.flags.c_contiguous:
        return x, NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _from_tensor(torch, x), TORCH
    try:
        array = np.asarray(x, order="C")
    except ValueError as error:
        raise InvalidArgument(
            f"{operation}: not a rectangular array: {error}. Pass one array of numbers."
        ) from error
    if array.dtype.kind not in NUMBERS and array.dtype != BFLOAT16:
        raise InvalidArgument(
            f"{operation}: not an array of numbers: got {type(x).__name__} with dtype "
            f"{array.dtype}, expected a NumPy array or a torch tensor. Convert it first."
        )
    return array, NUMPY


def _from_tensor(torch: Any, tensor: Any) -> NDArray:
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        bits: NDArray = tensor.view(torch.uint16).numpy()
        return bits.view(BFLOAT16)
    array: NDArray = tensor.numpy()
    return array


def outside(array: NDArray, kind: str, device: Any = None) -> Any:
    """Return `array` as the caller's kind of thing, sharing memory."""
    held = getattr(array, "tensor", None)
    if held is not None:
        return held  # it has never left its device
    if kind == NUMPY:
        return array
    import torch

    if array.dtype == BFLOAT16:
        tensor = torch.from_numpy(array.view(np.uint16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    return tensor if device is None else tensor.to(device)


def dtype_of(dtype: Any) -> tuple[np.dtype[Any], str]:
    """Return the NumPy dtype that carries `dtype`, and the kind of array it asks for."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype):
        if dtype == torch.bfloat16:
            return BFLOAT16, TORCH
        return torch.empty(0, dtype=dtype).numpy().dtype, TORCH
    return np.dtype(dtype), NUMPY


def device_of(x: Any) -> Any:
    """Return the device of a tensor that is not in main memory, else None."""
    device = getattr(x, "device", None)
    return device if getattr(device, "type", "cpu") != "cpu" else None
