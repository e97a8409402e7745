"""A torch tensor, on whatever device, that the collectives take for a NumPy array.

The algorithms of `collectives` slice, copy, reshape and combine; NumPy's own functions reach a
`DeviceArray` through its array protocols (NEP 13, NEP 18), and nothing leaves the device.

May import: NumPy, torch, arrays, reduction, transport.
"""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin
from torch import Tensor
from torch.utils._pytree import tree_leaves

from ddp_lab.arrays import dtype_of
from ddp_lab.reduction import BFLOAT16
from ddp_lab.reduction import UFUNCS as REDUCTIONS
from ddp_lab.transport.base import Shape

UFUNCS: dict[str, Callable[..., Any]] = {
    "add": torch.add,
    "bitwise_and": torch.bitwise_and,
    "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor,
    "divide": torch.div,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "multiply": torch.mul,
    "subtract": torch.sub,
}


def torch_dtype(dtype: Any) -> torch.dtype:
    """Return the torch dtype of the same numbers."""
    if dtype == BFLOAT16:
        return torch.bfloat16
    return torch.from_numpy(np.empty(0, dtype)).dtype


class DeviceArray(NDArrayOperatorsMixin):
    """A view of a tensor; what is made from it stays on the tensor's device."""

    __slots__ = ("tensor",)
    functions: ClassVar[dict[Callable[..., Any], Callable[..., Any]]] = {}

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    @property
    def dtype(self) -> np.dtype[Any]:
        """NumPy's dtype of the numbers."""
        return dtype_of(self.tensor.dtype)[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return self.tensor.dim()

    @property
    def size(self) -> int:
        """Number of elements."""
        return self.tensor.numel()

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.tensor.numel() * self.tensor.element_size()

    def __len__(self) -> int:
        return len(self.tensor)

    def __getitem__(self, index: Any) -> "DeviceArray":
        return DeviceArray(self.tensor[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        self.tensor[index] = bare(value)

    def copy(self) -> "DeviceArray":
        """Return a copy on the same device."""
        return DeviceArray(self.tensor.clone())

    def reshape(self, *shape: Any) -> "DeviceArray":
        """Return the same elements in another shape, a view where that is possible."""
        return DeviceArray(self.tensor.reshape(*shape))

    def __array__(self, *args: Any, **options: Any) -> Any:
        raise TypeError("DeviceArray: stays on its device. Take `.tensor`.")

    def combine(self, other: Any, op: str) -> None:
        """Combine `other` into this array, in place."""
        UFUNCS[REDUCTIONS[op].__name__](self.tensor, bare(other), out=self.tensor)

    def divide(self, by: int) -> None:
        """Divide in place; integers round toward zero, as in NCCL."""
        whole = not (self.tensor.is_floating_point() or self.tensor.is_complex())
        self.tensor.div_(by, rounding_mode="trunc" if whole else None)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        fn = UFUNCS.get(ufunc.__name__)
        if fn is None or method != "__call__":
            return NotImplemented
        (out,) = options.pop("out", (None,))
        result = fn(*map(bare, inputs), **options)
        if out is None:
            return DeviceArray(result)
        out.tensor.copy_(result)
        return out

    def __array_function__(
        self, function: Any, types: Any, args: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        function_here = DeviceArray.functions.get(function)
        return NotImplemented if function_here is None else function_here(*args, **options)


def synchronize(device: torch.device) -> None:
    """Wait for what this thread's stream holds; the CPU has nothing to wait for."""
    if device.type != "cpu":
        torch.get_device_module(device).current_stream(device).synchronize()


def keep_for(stream: Any, value: Any) -> None:
    """Let memory of the tensors in `value` be taken again only after what `stream` does by then."""
    for x in tree_leaves(value):
        if isinstance(x, Tensor) and not x.is_cpu:
            x.record_stream(stream)


def beside(device: torch.device, job: Callable[[], Any]) -> Callable[[], Any]:
    """Return `job` for another thread, to begin after what this thread has queued on the device.

    When it returns, its work there is done; its results are for this thread's stream.
    """
    synchronize(device)
    on_cpu = device.type == "cpu"
    stream = None if on_cpu else torch.get_device_module(device).current_stream(device)

    def run() -> Any:
        result = job()
        keep_for(stream, result)
        synchronize(device)
        return result

    return run


class HoldsTensors:
    """What transports that move tensors of their `device` have in common."""

    device: torch.device

    def adopt(self, x: Any) -> DeviceArray | None:
        """Return `x` as an array, if it is one or a tensor on this kind of device; else None."""
        if isinstance(x, DeviceArray):
            return x
        if isinstance(x, Tensor) and x.device.type == self.device.type:
            return DeviceArray(x.detach().contiguous())
        return None

    def beside(self, job: Callable[[], Any]) -> Callable[[], Any]:
        """Return a job that begins after what this thread has queued on the device until now."""
        return beside(self.device, job)

    def empty(self, shape: Shape, dtype: npt.DTypeLike) -> Any:
        """Return an array of the device."""
        return DeviceArray(torch.empty(shape, dtype=torch_dtype(dtype), device=self.device))


def bare(value: Any) -> Any:
    """Return the tensor of a DeviceArray, and NumPy arrays as tensors; all else as it is."""
    if isinstance(value, DeviceArray):
        return value.tensor
    return torch.from_numpy(value) if isinstance(value, np.ndarray) else value


def _wrap_join(join: Callable[..., Tensor]) -> Callable[..., DeviceArray]:
    return lambda parts, axis=0: DeviceArray(join([bare(part) for part in parts], axis))


DeviceArray.functions.update(
    {
        np.concatenate: _wrap_join(torch.cat),
        np.copyto: lambda target, source: target.tensor.copy_(bare(source)),
        np.empty_like: lambda x, shape=None: DeviceArray(
            x.tensor.new_empty(x.shape if shape is None else shape)
        ),
        np.roll: lambda x, shift, axis: DeviceArray(torch.roll(x.tensor, shift, axis)),
        np.stack: _wrap_join(torch.stack),
    }
)
