"""NumPy inside, whatever the caller has outside: arrays in, arrays out; tensors in, tensors out.

A caller who holds a tensor has imported torch already; nobody else waits for that here.
"""

import functools
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
        if x.dtype.isnative:
            return x, NUMPY
        return x.astype(x.dtype.newbyteorder("=")), NUMPY
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _from_tensor(torch, x, operation), TORCH
    if isinstance(x, np.ma.MaskedArray):
        raise InvalidArgument(
            f"{operation}: a masked array would lose its mask: got shape {x.shape}, expected a "
            "plain array. Send x.filled(value), or x.data and x.mask."
        )
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
    if not array.dtype.isnative:  # ranks compare dtypes by name, which is the same for both orders
        array = array.astype(array.dtype.newbyteorder("="))
    return array, NUMPY


def _from_tensor(torch: Any, tensor: Any, operation: str) -> NDArray:
    if tensor.layout != torch.strided or tensor.is_meta or tensor.is_quantized:
        raise InvalidArgument(
            f"{operation}: not a dense tensor with values: got layout {tensor.layout}, dtype "
            f"{tensor.dtype} on {tensor.device}. Convert it first, for example by to_dense()."
        )
    try:
        if lies_in_main_memory(tensor):
            return lend(tensor.detach() if tensor.requires_grad else tensor)
        return lend(tensor.detach().cpu().resolve_conj().resolve_neg().contiguous())
    except TypeError as error:
        raise InvalidArgument(
            f"{operation}: ranks cannot send this dtype: got {tensor.dtype}, expected floats of 16 "
            "bits or more, complex, integers or bool. Convert it, or send its view(torch.uint8)."
        ) from error


def lies_in_main_memory(tensor: Any) -> bool:
    """Return whether a dense tensor's elements lie there one after the other, as they are."""
    return bool(
        tensor.is_cpu and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())
    )


def lend(tensor: Any) -> NDArray:
    """Return the memory of such a tensor. After `numpy()`, torch would not resize it any more."""
    typestr, dtype = _dtypes(tensor.dtype)
    lent = np.asarray(Lent(tensor, typestr))
    return lent if dtype is None else lent.view(dtype)


class Lent:
    """A tensor as NumPy asks for it."""

    __slots__ = ("__array_interface__", "_tensor")

    def __init__(self, tensor: Any, typestr: str) -> None:
        self._tensor = tensor  # keeps the memory
        place = tensor.data_ptr(), False
        shape = tuple(tensor.shape)
        self.__array_interface__ = {"version": 3, "typestr": typestr, "shape": shape, "data": place}


@functools.cache
def _dtypes(dtype: Any) -> tuple[str, Any]:
    """Return NumPy's word for a torch dtype, and the dtype to view it by, None if it is that."""
    carrier = _carrier(dtype)
    return carrier.str, BFLOAT16 if dtype_of(dtype)[0] == BFLOAT16 else None


@functools.cache
def _carrier(dtype: Any) -> np.dtype[Any]:
    """Return the dtype of NumPy that has the bits of a dtype of torch."""
    import torch

    carrier = torch.uint16 if dtype == torch.bfloat16 else dtype
    numpy_dtype: np.dtype[Any] = torch.empty(0, dtype=carrier).numpy().dtype
    return numpy_dtype


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
    """Return the NumPy dtype that carries `dtype`, and the kind of array it asks for.

    Raises:
        InvalidArgument: it is no dtype of numbers.
    """
    torch = sys.modules.get("torch")
    try:
        if torch is not None and isinstance(dtype, torch.dtype):
            return BFLOAT16 if dtype == torch.bfloat16 else _carrier(dtype), TORCH
        numpy_dtype = np.dtype(dtype)
    except TypeError:
        numpy_dtype = np.dtype(object)
    if numpy_dtype.kind not in NUMBERS and numpy_dtype != BFLOAT16:
        raise InvalidArgument(
            f"empty: not a dtype of numbers: got {dtype!r}, expected for example np.float32 or "
            "torch.float32. Choose a dtype that ranks can send."
        )
    return numpy_dtype, NUMPY


def device_of(x: Any) -> Any:
    """Return the device of a tensor that is not in main memory, else None."""
    device = getattr(x, "device", None)
    return device if getattr(device, "type", "cpu") != "cpu" else None
