"""Tensors to and from other things: NumPy, Python numbers, other dtypes and devices, text, copies.

May import: this folder, errors, arrays, ops.
"""

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from typing import Any, Self

import numpy as np

from ..arrays import library as _arrays
from ..arrays.library import (
    Array,
    Device,
    DeviceLike,
    DTypeLike,
    Scalar,
    as_dtype,
    asarray,
    owner,
    to_numpy,
)
from ..arrays.shapes import INTEGERS, axis
from ..errors import DTypeError, GradientError, ShapeError
from ..ops.elementwise.casting import Cast, Move
from .counting import bincount, unique
from .hooks import Hooks
from .inplace import InPlace
from .printing import add_notes, describe_numbers
from .rebase import can_view


def place_and_dtype(
    targets: Sequence[Any], device: DeviceLike, dtype: DTypeLike
) -> tuple[DeviceLike, DTypeLike]:
    """Return what the arguments of `to` ask for: tensors, devices and dtypes in any order."""
    for target in targets:
        if isinstance(target, Exchange):
            device, dtype = target.device, target.dtype
        elif isinstance(target, Device) or str(target).partition(":")[0] in ("cpu", "cuda"):
            device = target
        elif not isinstance(target, bool):
            dtype = target
    return device, dtype


class Exchange(InPlace):
    """The half of `Tensor` that converts."""

    __slots__ = ()

    dtype: Any
    hooks: "Hooks | None"
    requires_grad_: Any
    _from_filled: Any

    def numpy(self, *, force: bool = False) -> Array:
        """Return the numbers as a NumPy array, which shares memory with a tensor on the CPU.

        Raises:
            GradientError: the tensor requires a gradient, which NumPy would lose without a word.
            DTypeError: the dtype is bfloat16, which NumPy has not.
        """
        if self.dtype is _arrays.bfloat16:
            raise DTypeError("numpy: NumPy has no bfloat16. Use .float().numpy().")
        if self.requires_grad and not force:
            raise GradientError(
                "numpy: this tensor requires a gradient, which NumPy does not follow. "
                "Use .detach().numpy()."
            )
        return to_numpy(self._own_array())

    def _own_array(self) -> Array:
        """Return the array, made a real one first when it is a NumPy scalar."""
        if isinstance(self.array, np.generic):
            self.array = np.asarray(self.array)
        return self.array

    def item(self) -> bool | int | float:
        """Return the one element as a Python number."""
        if self.numel() != 1:
            raise ShapeError(
                f"item: got shape {self.shape}, expected one element. Use tolist() or an index."
            )
        number: bool | int | float = to_numpy(self.array).reshape(()).item()
        return number

    def tolist(self) -> Any:
        """Return the numbers as nested lists; a 0-d tensor as a number."""
        return to_numpy(self.array).tolist()

    def to(
        self,
        *targets: Any,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        copy: bool = False,
        non_blocking: bool = False,
    ) -> Self:
        """Return this tensor on a device, as a dtype, or as another tensor is.

        `non_blocking` changes nothing: the numbers are there when this returns.
        """
        device, dtype = place_and_dtype(targets, device, dtype)
        result = self
        if device is not None and _arrays.device(device) != self.device:
            result = result._apply(Move(_arrays.device(device)), (result,))
        if dtype is not None and as_dtype(dtype) != result.dtype:
            result = result._apply(Cast(as_dtype(dtype)), (result,))
        return result.clone() if copy and result is self else result

    def type(self, dtype: DTypeLike = None, non_blocking: bool = False) -> Any:
        """Return torch's name of the kind of tensor, or this tensor as another kind.

        Args:
            dtype: a dtype, or a kind such as `LongTensor` or "torch.LongTensor".
        """
        if dtype is None:
            return f"torch.{'cuda.' if self.is_cuda else ''}{TYPE_NAMES[self.dtype.name]}"
        return self.to(dtype=_KINDS.get(str(dtype).rpartition(".")[2], dtype))

    unique = unique
    bincount = bincount

    def new_tensor(
        self,
        data: object,
        *,
        dtype: DTypeLike = None,
        device: DeviceLike = None,
        requires_grad: bool = False,
    ) -> Self:
        """Return a tensor with a copy of `data`, of this dtype and device unless given."""
        wanted = self.dtype if dtype is None else as_dtype(dtype)
        place = self.device if device is None else _arrays.device(device)
        tensor: Self = self._new(asarray(data, wanted, place))
        tensor.requires_grad_(requires_grad)
        return tensor

    def new(self, *data: object) -> Self:
        """Return zeros of these sizes, or a tensor with `data`, of this dtype and device."""
        sizes = all(isinstance(size, INTEGERS) for size in data)
        return self.new_zeros(*data) if sizes else self.new_tensor(*data)

    def new_full(self, size: int | Sequence[int], fill_value: Scalar, **options: Any) -> Self:
        """Return a tensor of another shape filled with one number; options as `new_tensor`."""
        like = self.new_tensor(np.full(size, fill_value), **options)
        filled: Self = self._from_filled(like.array)
        filled.requires_grad_(like.requires_grad)
        return filled

    def new_zeros(self, *size: Any, **options: Any) -> Self:
        """Return zeros of another shape; options as `new_tensor`."""
        return self.new_full(size if len(size) != 1 else size[0], 0, **options)

    def new_ones(self, *size: Any, **options: Any) -> Self:
        """Return ones of another shape; options as `new_tensor`."""
        return self.new_full(size if len(size) != 1 else size[0], 1, **options)

    new_empty = new_zeros

    def view(self, *shape: object, **named: object) -> Self:
        """Return the elements in the same order under another shape, in the same memory.

        Raises:
            ShapeError: these elements do not lie in that order: transposed, or a part.
            DTypeError: a dtype, which torch takes: bits are not read otherwise here.
        """
        if shape and isinstance(shape[0], np.dtype):
            raise DTypeError(
                f"view: got {shape[0]}, expected sizes. Bits: from_numpy(x.numpy().view(dtype)); "
                "numbers: x.to(dtype)."
            )
        shown: Self = self.reshape(*shape, **named)
        self._check_shown_by(shown)
        return shown

    def _check_shown_by(self, view: Any) -> None:
        own: Any = self
        if not view.has_numbers:  # while tracing: how a value will lie in memory is not known yet
            view.made_as.certain = True
            return
        if owner(view.array) is not owner(self.array) and not can_view(own, view.shape):
            raise ShapeError(
                f"view: the elements do not lie in order: got a view of shape {self.shape}, cannot "
                f"show it as {view.shape} in the same memory. Use reshape, which copies."
            )

    def is_contiguous(self) -> bool:
        """Tell whether the elements lie in memory in order."""
        array = self._own_array()
        return bool(
            array.flags.c_contiguous if isinstance(array, np.ndarray) else array.is_contiguous()
        )

    def element_size(self) -> int:
        """Return the bytes of one element."""
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return int(self.dtype.itemsize * self.numel())

    @property
    def is_cuda(self) -> bool:
        """Whether the numbers are on a CUDA device."""
        return bool(self.device.type == "cuda")

    def pin_memory(self) -> Self:
        """Return this tensor: copies to a device do not need memory that stays in its place."""
        return self

    def cpu(self) -> Self:
        """Return this tensor on the CPU."""
        return self.to("cpu")

    def cuda(self, index: int = 0) -> Self:
        """Return this tensor on a CUDA device."""
        return self.to(f"cuda:{index}")

    def size(self, dim: int | None = None) -> Any:
        """Return the shape, or the size of one axis."""
        return self.shape if dim is None else self.shape[axis(dim, self.ndim, "size")]

    def stride(self, dim: int | None = None) -> Any:
        """Return how many elements apart the next one along each axis lies, or along one."""
        own: Any = self._own_array()
        if not self.numel():  # NumPy has zeros there
            sizes = [max(size, 1) for size in self.shape]
            steps = tuple(math.prod(sizes[i + 1 :]) for i in range(len(sizes)))
        elif isinstance(own, np.ndarray):
            steps = tuple(step // own.itemsize for step in own.strides)
        else:
            steps = tuple(own.stride())
        return steps if dim is None else steps[axis(dim, self.ndim, "stride")]

    def __len__(self) -> int:
        if not self.ndim:
            raise TypeError("len: a 0-d tensor has no length. Use .item() for its number.")
        return len(self.array)

    def __iter__(self) -> Iterator[Self]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d tensor. Use .item() for its number.")
        return iter([self[i] for i in range(self.shape[0])])

    def __bool__(self) -> bool:
        if self.numel() != 1:
            raise ShapeError(
                f"bool: the truth of {self.numel()} elements is ambiguous. Use .any() or .all()."
            )
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.kind not in "iub":
            raise TypeError(f"index: got {self.dtype}, expected an integer tensor of one element.")
        return int(self.item())

    def __contains__(self, element: object) -> bool:
        return bool((self == element).any())

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, **options: object
    ) -> object:
        """Do what a sign between an array and a tensor says; else what NumPy does, as a tensor."""
        sign = _SIGNS.get(ufunc.__name__)
        if sign and method == "__call__" and not options:
            left, right = inputs
            if isinstance(left, Exchange):
                return getattr(left, f"__{sign[0]}__")(right)
            return getattr(right, f"__{sign[1]}__")(left)
        arrays = [value.numpy() if isinstance(value, Exchange) else value for value in inputs]
        result = getattr(ufunc, method)(*arrays, **options)
        if "out" in options or not isinstance(result, np.ndarray | np.generic):
            return result
        return self._new(np.asarray(result))

    def __array__(self, dtype: DTypeLike = None, copy: bool | None = None) -> Array:
        array = self.numpy()
        return array.astype(dtype) if dtype is not None and array.dtype != dtype else array

    def __dlpack__(self, **options: Any) -> object:
        """Return the memory as other libraries read it: `torch.tensor(x)`, `np.from_dlpack(x)`.

        Raises:
            GradientError, DTypeError: as `numpy`.
        """
        if self.requires_grad:
            raise GradientError(
                "__dlpack__: this tensor requires a gradient, which other libraries do not follow. "
                "Use .detach()."
            )
        array: Any = self._own_array() if self.is_cuda else self.numpy()
        if not self.is_cuda and min(array.strides, default=0) < 0:
            array = array.copy()  # torch ends the process at a stride below 0
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return DLPack's number of the kind of device, and the device's."""
        array: Any = self._own_array() if self.is_cuda else np.empty(0)
        kind, number = array.__dlpack_device__()
        return int(kind), number

    def __deepcopy__(self, memo: dict[int, object]) -> Any:
        if self.op is not None:
            raise GradientError(
                "deepcopy: this tensor is the result of a recorded operator. Copy .detach()."
            )
        copy = _restore(type(self), _arrays.copy_array(self.array), self.requires_grad)
        memo[id(self)] = copy
        copy.grad = deepcopy(self._grad, memo)
        return copy

    def __reduce__(self) -> tuple[object, ...]:
        if self.op is not None:
            raise GradientError("pickle: this tensor is the result of a recorded operator.")
        return _restore, (type(self), _arrays.on_host(self.array), self.requires_grad)

    def __repr__(self) -> str:
        lead = "tensor("
        numbers = describe_numbers(to_numpy(self.array), len(lead))
        notes = []
        if numbers == "[]" and self.ndim != 1:
            notes.append(f"size={tuple(self.shape)}")
        if self.dtype not in (_arrays.get_default_dtype(), _arrays.int64, _arrays.bool_):
            notes.append(f"dtype={self.dtype}")
        if self.device != _arrays.CPU:
            notes.append(f"device='{self.device}'")
        if self.op is not None:
            notes.append(f"grad_fn=<{self.op.name}>")
        elif self.requires_grad:
            notes.append("requires_grad=True")
        return f"{add_notes(lead + numbers, notes, len(lead))})"

    def __format__(self, spec: str) -> str:
        """Return a number's own text; of more axes there is no `spec`, as of objects."""
        if not self.ndim:
            return format(self.item(), spec)
        return object.__format__(self, spec)


TYPE_NAMES = {
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
    "uint8": "ByteTensor",
    "int8": "CharTensor",
    "int16": "ShortTensor",
    "int32": "IntTensor",
    "int64": "LongTensor",
    "bool": "BoolTensor",
}
"""Torch's name of the kind of tensor that has a dtype."""
_KINDS = {name: dtype for dtype, name in TYPE_NAMES.items()}


_SIGNS = {
    "add": ("add", "radd"),
    "subtract": ("sub", "rsub"),
    "multiply": ("mul", "rmul"),
    "divide": ("truediv", "rtruediv"),
    "floor_divide": ("floordiv", "rfloordiv"),
    "remainder": ("mod", "rmod"),
    "power": ("pow", "rpow"),
    "matmul": ("matmul", "rmatmul"),
    "equal": ("eq", "eq"),
    "not_equal": ("ne", "ne"),
    "less": ("lt", "gt"),
    "less_equal": ("le", "ge"),
    "greater": ("gt", "lt"),
    "greater_equal": ("ge", "le"),
    "bitwise_and": ("and", "rand"),
    "bitwise_or": ("or", "ror"),
    "bitwise_xor": ("xor", "rxor"),
}
"""NumPy's functions behind a sign: the method of a tensor on the left, and of one on the right."""


def _restore(kind: Any, array: object, requires_grad: bool) -> Any:
    tensor: Any = kind._new(array)
    tensor.requires_grad = requires_grad
    return tensor
