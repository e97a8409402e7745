"""New tensors: from data, filled with one number, or counting."""

import math
from typing import Any

import numpy as np

from . import arrays as _arrays
from .arrays import as_dtype, native_device, native_dtype
from .errors import ArgumentError
from .ops.movement import sizes
from .tensor import Tensor, tensor


def from_numpy(array: Any) -> Tensor:
    """Return a tensor that shares memory with a NumPy array."""
    as_dtype(array.dtype)
    return Tensor._new(array)


def full(
    size: Any,
    fill_value: Any,
    *,
    dtype: Any = None,
    device: Any = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Return a tensor of shape `size` filled with one number, whose dtype it has unless given."""
    place = _arrays.device(device)
    xp = _arrays.namespace_on(place)
    wanted = _arrays.scalar_dtype(fill_value) if dtype is None else as_dtype(dtype)
    place_of = {} if xp is np else {"device": native_device(place)}
    shape = sizes((size,))
    if any(n < 0 for n in shape):
        raise ArgumentError(f"full: got size {shape}, expected no negative size.")
    made = Tensor._new(xp.full(shape, fill_value, dtype=native_dtype(xp, wanted), **place_of))
    return made.requires_grad_() if requires_grad else made


def zeros(
    *size: Any, dtype: Any = None, device: Any = "cpu", requires_grad: bool = False
) -> Tensor:
    """Return zeros of shape `size`."""
    wanted = dtype or _arrays.get_default_dtype()
    return full(sizes(size), 0, dtype=wanted, device=device, requires_grad=requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = "cpu", requires_grad: bool = False) -> Tensor:
    """Return ones of shape `size`."""
    wanted = dtype or _arrays.get_default_dtype()
    return full(sizes(size), 1, dtype=wanted, device=device, requires_grad=requires_grad)


def arange(
    start: Any,
    end: Any = None,
    step: Any = 1,
    *,
    dtype: Any = None,
    device: Any = "cpu",
    requires_grad: bool = False,
) -> Tensor:
    """Return the numbers from `start` (0) up to but not `end`, `step` apart; integers stay so."""
    start, end = (0, start) if end is None else (start, end)
    if step == 0 or (end - start) * step < 0:
        raise ArgumentError(f"arange: got {start} to {end} in steps of {step}: it never arrives.")
    whole = all(isinstance(n, int) for n in (start, end, step))
    wanted = as_dtype(dtype) if dtype is not None else as_dtype("int64" if whole else float)
    count = math.ceil((end - start) / step)
    numbers = start + step * np.arange(count)
    return tensor(numbers, dtype=wanted, device=device, requires_grad=requires_grad)


def linspace(
    start: float, end: float, steps: int, *, dtype: Any = None, device: Any = "cpu"
) -> Tensor:
    """Return `steps` numbers from `start` to `end`, both included."""
    wanted = as_dtype(dtype or _arrays.get_default_dtype())
    return tensor(np.linspace(start, end, steps), dtype=wanted, device=device)


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = "cpu") -> Tensor:
    """Return ones on the diagonal of an (n, m) matrix of zeros."""
    wanted = as_dtype(dtype or _arrays.get_default_dtype())
    return tensor(np.eye(n, m), dtype=wanted, device=device)
