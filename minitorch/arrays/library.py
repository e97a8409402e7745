"""Devices, dtypes, and the array library behind each device.

Operators are written once against the array API: `namespace(array)` is NumPy itself on the CPU and
array-api-compat's view of torch or CuPy on CUDA. What the standard leaves out is here, one
function each with a branch a library.

`use_library("cpu", "torch")` puts torch arrays behind the CPU: the code that runs on CUDA, without
a GPU. torch and CuPy are imported only when a device asks for them.
"""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import EllipsisType, SimpleNamespace
from typing import Any, Protocol, TypeAlias

import numpy as np

from ..errors import ArgumentError, DeviceError, DTypeError
from .bfloat16 import Halves as Halves
from .bfloat16 import bfloat16 as bfloat16
from .bfloat16 import to_bfloat16, to_float32

Array: TypeAlias = np.ndarray[tuple[int, ...]]
"""An array of some library, described to the checker as what it is unless on a device: NumPy's.

NumPy's scalars, which are 0-d arrays, pass for it too; torch's and CuPy's arrays enter through
`Namespace`, whose functions give `Array`s."""
Index: TypeAlias = int | slice | EllipsisType | Array | None
"""What may stand between the brackets of an array, alone or in a tuple."""
DType: TypeAlias = np.dtype
Scalar: TypeAlias = bool | int | float
DTypeLike: TypeAlias = DType | type | str | None
"""What `as_dtype` makes a dtype of; None where a function has a dtype of its own."""
DeviceLike: TypeAlias = "Device | str | None"
"""What `device` makes a device of; None where a function has a device of its own."""


class Functions(Protocol):
    """Functions of arrays, by name."""

    def __getattr__(self, name: str, /) -> Callable[..., Array]: ...


class Namespace(Functions, Protocol):
    """The array API of an array's library: NumPy itself, or array-api-compat's view of another."""

    linalg: Functions


bool_ = np.dtype(np.bool_)
uint8 = np.dtype(np.uint8)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)

DTYPES = {d.name: d for d in (bool_, uint8, int8, int16, int32, int64, float16, float32, float64)}
DTYPES["bfloat16"] = bfloat16
_SAME = {id(dtype): dtype for dtype in DTYPES.values()}  # found at once
HOST_TYPES = frozenset(
    [np.ndarray, *(dtype.type for dtype in DTYPES.values() if dtype is not bfloat16)]
)
"""Types of NumPy's arrays, for which the namespace is NumPy itself. A scalar is a 0-d array."""
_HOST = (np.ndarray, np.generic)
_HOST_OR_NUMBER = (*_HOST, bool, int, float)
NO_COMPLEX = (
    "complex numbers and Fourier transforms are not here: keep real and imaginary parts as two "
    "tensors, or do this part with numpy.fft on .numpy()."
)
_default = float32


def get_default_dtype() -> DType:
    """Return the dtype that Python floats become: float32 unless set."""
    return _default


def set_default_dtype(dtype: DTypeLike) -> None:
    """Make Python floats become `dtype`, a floating one."""
    global _default
    chosen = as_dtype(dtype)
    if chosen.kind != "f" or chosen is bfloat16:
        raise DTypeError(
            f"set_default_dtype: got {chosen}, expected a floating dtype of NumPy's. "
            "Use float32 or float64."
        )
    _default = chosen


def as_dtype(dtype: DTypeLike) -> DType:
    """Return the library's dtype for a NumPy dtype, a torch dtype, a Python type or a name.

    Raises:
        DTypeError: minitorch has no such dtype; lists those it has.
    """
    same = _SAME.get(id(dtype))
    if same is not None:
        return same
    name = str(dtype).removeprefix("torch.")
    name = {"float": "float32", "double": "float64", "half": "float16", "long": "int64"}.get(
        name, {"int": "int32", "short": "int16"}.get(name, name)
    )
    if name in DTYPES and not isinstance(dtype, type):
        return DTYPES[name]
    try:
        return DTYPES[np.dtype(dtype).name]
    except (TypeError, KeyError):
        if "complex" in name:
            raise DTypeError(f"dtype: got {dtype!r}: {NO_COMPLEX}") from None
        names = ", ".join(DTYPES)
        raise DTypeError(f"dtype: got {dtype!r}, expected one of {names}. Convert first.") from None


def graph_dtype(dtype: DTypeLike) -> DType:
    """Return `as_dtype`, but of Python's float the default: float64 to torch, not to TensorFlow."""
    return _default if dtype is float else as_dtype(dtype)


def finfo(dtype: DTypeLike = None) -> SimpleNamespace:
    """Return the limits of a floating dtype: bits, eps, max, min, tiny, smallest_normal.

    Raises:
        DTypeError: not a floating dtype.
    """
    kind = _default if dtype is None else as_dtype(dtype)
    if kind.kind != "f":
        raise DTypeError(f"finfo: got {kind}, expected a floating dtype. Use iinfo.")
    numpys = np.finfo(host_dtype(kind))  # bfloat16 has float32's exponents, and 8 digits
    eps, greatest, tiny = float(numpys.eps), float(numpys.max), float(numpys.tiny)
    if kind is bfloat16:
        eps, greatest = 2.0**-7, (2.0 - 2.0**-7) * 2.0**127
    limits = {"eps": eps, "max": greatest, "min": -greatest, "tiny": tiny}
    return SimpleNamespace(bits=8 * kind.itemsize, smallest_normal=tiny, dtype=kind, **limits)


def iinfo(dtype: DTypeLike) -> "np.iinfo[Any]":  # NumPy 2.0 has no index for it
    """Return the limits of an integer dtype: bits, max, min.

    Raises:
        DTypeError: not an integer dtype.
    """
    kind = as_dtype(dtype)
    if kind.kind not in "iu":
        raise DTypeError(f"iinfo: got {kind}, expected an integer dtype. Use finfo.")
    return np.iinfo(kind)


# ── devices ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Device:
    """A place for arrays: `cpu`, or `cuda` with an index. Equal to its name."""

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __repr__(self) -> str:
        return f"device('{self}')"

    def __eq__(self, other: object) -> bool:
        return str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))


CPU = Device("cpu")
_LIBRARIES = {"cpu": "numpy", "cuda": "torch"}
_NATIVE = {"cpu": "cpu", "cuda": "cuda"}  # what torch calls a type of device


def use_library(device_type: str, library: str, native: str | None = None) -> None:
    """Put the arrays of `library` ("numpy", "torch" or "cupy") behind a type of device.

    `native` is what torch calls that device, if not as we do.
    """
    if library not in ("numpy", "torch", "cupy") or (device_type, library) == ("cuda", "numpy"):
        raise ArgumentError(
            f"use_library: no arrays of {library!r} on {device_type!r}: expected numpy or torch "
            "for cpu, torch or cupy for cuda."
        )
    _LIBRARIES[device_type], _NATIVE[device_type] = library, native or device_type


def device(name: object = "cpu") -> Device:
    """Return the device called `name`: "cpu" (None too), "cuda", "cuda:1".

    Raises:
        DeviceError: there is no such device on this machine; says what there is.
    """
    if isinstance(name, Device):
        return name
    if name is None:
        return CPU
    text = f"cuda:{name}" if isinstance(name, int) else str(name)
    kind, _, index = text.partition(":")
    if kind not in _LIBRARIES or (index and not index.isdigit()):
        raise DeviceError(f"device: got {text!r}, expected 'cpu', 'cuda' or 'cuda:N'.")
    if kind == "cpu":
        return CPU
    place = Device(kind, int(index) if index else 0)
    count = cuda_device_count()
    if place.index is None or place.index >= count:
        raise DeviceError(
            f"device: {text!r} is not here: this machine has {count} CUDA devices. "
            "Use 'cpu', or install torch with CUDA and check the driver."
        )
    return place


def cuda_device_count() -> int:
    """Return how many CUDA devices the array library for CUDA sees; 0 when it is not installed."""
    try:
        if _LIBRARIES["cuda"] == "torch":
            return int(native_module().device_count())
        return int(importlib.import_module("cupy").cuda.runtime.getDeviceCount())
    except ImportError:
        return 0


def native_module() -> Any:
    """Return torch's module for CUDA devices: `torch.cuda`, or a stand-in's."""
    return importlib.import_module("torch").get_device_module(_NATIVE["cuda"])


def device_of(array: Array) -> Device:
    """Return where `array` lives."""
    if isinstance(array, _HOST):
        return CPU
    place = array.device
    if getattr(place, "type", "cuda") == "cpu":
        return CPU
    index = getattr(place, "index", None)
    return Device("cuda", place.id if index is None else index)


def namespace(array: object) -> Namespace:
    """Return the array API namespace of `array`'s library; NumPy's for Python numbers."""
    if isinstance(array, _HOST_OR_NUMBER):
        return np
    return _namespace_of(type(array).__module__.partition(".")[0])


def _namespace_of(library: str) -> Namespace:
    if library == "numpy":
        return np
    if library not in ("torch", "cupy"):
        raise DTypeError(
            f"array: got an object of {library!r}, expected a NumPy, torch or CuPy array. "
            "Convert it with numpy.asarray."
        )
    name = f"array_api_compat.{library}"
    module: Namespace = sys.modules.get(name) or importlib.import_module(name)
    return module


def namespace_on(place: Device) -> Namespace:
    """Return the namespace that makes arrays on `place`."""
    return _namespace_of(_LIBRARIES[place.type])


def native_device(place: Device) -> object:
    """Return `place` in the words of its own library, for `device=` of creation functions."""
    library = _LIBRARIES[place.type]
    if library == "cupy":
        return importlib.import_module("cupy").cuda.Device(place.index)
    return str(Device(_NATIVE[place.type], place.index))


# ── dtypes and arrays, whatever the library ─────────────────────────────────────────────────────


def dtype_of(array: Array) -> DType:
    """Return the library's dtype of `array`."""
    dtype = array.dtype
    return dtype if isinstance(dtype, np.dtype) else DTYPES[str(dtype).removeprefix("torch.")]


def host_dtype(dtype: DType) -> DType:
    """Return the dtype in which NumPy holds numbers that are to become `dtype`."""
    return float32 if dtype is bfloat16 else dtype


def native_dtype(xp: Namespace, dtype: DType) -> object:
    """Return `dtype` in the words of `xp`."""
    return dtype if xp is np else getattr(xp, "bool" if dtype is bool_ else dtype.name)


def cast(array: Array, dtype: DType) -> Array:
    """Return `array` as `dtype`, itself when it already is."""
    if isinstance(array, _HOST):
        if array.dtype is dtype and type(array) is np.ndarray:
            return array
        if dtype is bfloat16:
            return to_bfloat16(array)
        return (
            array.astype(dtype, copy=False) if isinstance(array, np.ndarray) else dtype.type(array)
        )
    xp = namespace(array)
    return xp.astype(array, native_dtype(xp, dtype), copy=False)


def check_fits(operation: str, number: object, dtype: DType) -> None:
    """Raise if an integer dtype has no such Python number; below 0 they wrap, as in torch.

    Raises:
        DTypeError: too large, infinite or NaN; names both.
    """
    if dtype.kind in "iu" and type(number) in (int, float):
        most = np.iinfo(dtype).max
        if not -most - 1 <= number <= most:  # type: ignore[operator]
            raise DTypeError(f"{operation}: got {number}, which {dtype} cannot hold. Use .float().")


def asarray(
    data: object, dtype: DType | None = None, place: Device = CPU, copy: bool = True
) -> Array:
    """Return an array on `place` from numbers, nested lists, or an array of any library."""
    xp = namespace_on(place)
    if xp is np:
        if isinstance(data, Halves) and dtype in (None, bfloat16):
            return data.copy() if copy else data
        host = to_numpy(data) if hasattr(data, "__array__") or hasattr(data, "cpu") else data
        if dtype is bfloat16:
            return to_bfloat16(np.array(host, dtype=float32))
        return np.array(host, dtype=dtype, copy=True if copy else None)
    native = None if dtype is None else native_dtype(xp, dtype)
    if isinstance(data, Halves):
        data, native = to_float32(data), native or xp.bfloat16
    if isinstance(data, _HOST):
        # torch reads neither negative strides nor scalars, and converts no array without axes
        data = np.array(data, None if dtype is None else host_dtype(dtype), order="C")
        copy = False  # it is one, and torch copies no array without axes to a device
    return xp.asarray(data, dtype=native, device=native_device(place), copy=copy or None)


def to_numpy(array: Any) -> Array:
    """Return `array` as a NumPy array; shares memory when it is on the CPU and no bfloat16."""
    if isinstance(array, np.ndarray):
        host: Array = to_float32(array)
        return host
    if hasattr(array, "detach"):
        if str(array.dtype) == "torch.bfloat16":
            array = array.float()
        return np.asarray(array.detach().cpu().numpy())
    if hasattr(array, "__cuda_array_interface__"):  # CuPy's; what else has `get` is a table
        return np.asarray(array.get())
    return np.asarray(array)


def on_host(array: Array) -> Array:
    """Return `array` as one of NumPy's or of `Halves`, its dtype kept."""
    return cast(to_numpy(array), dtype_of(array))


def move(array: Array, place: Device) -> Array:
    """Return `array` on `place`, itself when it already is there."""
    if device_of(array) == place:
        return array
    return asarray(to_numpy(array), dtype_of(array), place, copy=False)


_OWNERS = (np.ndarray, Halves)


def owner(array: Array) -> Array:
    """Return the object that owns the memory which `array` looks into."""
    if isinstance(array, np.ndarray):
        while True:
            base = array.base
            if not isinstance(base, np.ndarray):  # as_strided puts something between
                base = getattr(base, "base", None)
            if not isinstance(base, np.ndarray) or type(base) not in _OWNERS:
                return array  # a block of the allocator is no array's own
            array = base
    whole: Array | None = getattr(array, "_base", None)
    return array if whole is None else whole


def native_device_of(array: Array) -> dict[str, object]:
    """Return `device=` for a creation function that is to make an array beside `array`."""
    if isinstance(array, _HOST):
        return {}
    return {"device": array.device}


def copy_array(array: Array) -> Array:
    """Return a new array with the same numbers."""
    return array.copy() if hasattr(array, "copy") else namespace(array).clone(array)


def windows(
    x: Array,
    dims: tuple[int, ...],
    sizes: tuple[int, ...],
    steps: tuple[int, ...],
    spread: tuple[int, ...],
) -> Array:
    """Return a view of the windows of `x` along the axes `dims`: their places stay on those axes.

    It can be written to if `x` can, and no element lies in two windows.

    Args:
        x: any shape.
        dims: axes along which windows slide.
        sizes: elements of a window along each; these become new last axes.
        steps: distance between windows along each.
        spread: distance between elements of a window along each (dilation).
    """
    host = isinstance(x, np.ndarray)
    unit = x.itemsize if host else 1
    native: Any = x
    strides = [s // unit for s in x.strides] if host else list(native.stride())
    shape, jumps = list(x.shape), list(strides)
    for d, size, step, gap in zip(dims, sizes, steps, spread, strict=True):
        shape[d] = (x.shape[d] - gap * (size - 1) - 1) // step + 1
        jumps[d] = strides[d] * step
        shape.append(size)
        jumps.append(strides[d] * gap)
    if host:
        apart = spread == (1,) and steps >= sizes
        view = np.lib.stride_tricks.as_strided
        return view(x, shape, [j * unit for j in jumps], writeable=apart and x.flags.writeable)
    return namespace(x).as_strided(x, shape, jumps, native.storage_offset())
