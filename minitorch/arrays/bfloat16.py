"""bfloat16: the upper half of a float32, in two bytes. NumPy has no such dtype.

`Halves` is the array that holds it: 16-bit patterns, which NumPy may move but not add up. Whatever
computes gets them as float32 (`to_float32`) and its result is rounded back (`to_bfloat16`), to the
nearest, ties to even. An operator of NumPy on a `Halves` does the same by itself and gives
float32, so that no code can take the patterns for numbers.

May import: nothing of ours. Source: Wang & Kanwar, BFloat16: the secret to high performance on
Cloud TPUs, 2019; the rounding is IEEE 754's.
"""

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, cast

import numpy as np


class BFloat16:
    """The dtype: what is asked of NumPy's dtypes, of one that NumPy does not know."""

    name = char = "bfloat16"
    kind = "f"
    itemsize = 2
    type = np.float32  # of a single number beside such an array
    is_floating_point = True

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return "bfloat16"


bfloat16 = cast("np.dtype", BFloat16())


class Halves(np.ndarray[tuple[int, ...]]):
    """An array of bfloat16 numbers."""

    @property
    def dtype(self) -> np.dtype:
        """`bfloat16`, though NumPy sees 16-bit integers."""
        return bfloat16

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        if isinstance(part, np.ndarray):
            return part
        return np.asarray(part, np.uint16).view(Halves)

    def __setitem__(self, index: Any, value: object) -> None:
        bits(self)[index] = bits(to_bfloat16(value))

    def astype(self, dtype: object, *args: object, **options: object) -> Any:
        """Return the numbers as another dtype."""
        return to_float32(self).astype(dtype, *args, **options)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "at":
            return NotImplemented
        out = options.pop("out", None)
        result = getattr(ufunc, method)(*widen(inputs), **options)
        if out is None:
            return result
        out[0][...] = result
        return out[0]

    def __array_function__(
        self, func: Callable[..., object], types: object, args: Any, kwargs: Any
    ) -> object:
        wide = {name: widen((value,))[0] for name, value in kwargs.items()}
        return func(*widen(args), **wide)


def bits(array: Halves) -> np.ndarray[tuple[int, ...]]:
    """Return the 16-bit patterns of `array`, in its memory."""
    return array.view(np.ndarray)


def to_float32(array: object) -> Any:
    """Return bfloat16 numbers as float32, which has them all; other arrays as they are."""
    if not isinstance(array, Halves):
        return array
    wide = bits(array).astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def widen(values: Sequence[Any]) -> list[Any]:
    """Return the values, also inside lists and tuples, `to_float32`."""
    return [
        type(value)(widen(value)) if type(value) in (list, tuple) else to_float32(value)
        for value in values
    ]


def to_bfloat16(array: object) -> Halves:
    """Return numbers rounded to bfloat16, in memory of their own unless they already are."""
    if isinstance(array, Halves):
        return array
    wide = np.asarray(array, np.float32)
    pattern = np.asarray(wide.view(np.uint32))
    rounded = np.asarray(pattern >> 16)
    rounded &= 1  # whether the last digit is odd: halves go to the even one
    rounded += 0x7FFF
    rounded += pattern
    rounded >>= 16
    halves = Halves(wide.shape, np.uint16)
    bits(halves)[...] = rounded
    is_nan = wide != wide
    if is_nan.any():
        bits(halves)[is_nan] = 0x7FC0
    return halves


def compute_widened(op: Any, compute: Callable[..., Any], xp: ModuleType, *arrays: Any) -> Any:
    """Return what an operator computes of arrays of which some are bfloat16.

    The result is rounded to bfloat16 when all floating inputs are; numbers (0-d) do not count.
    """
    if op.halves == "as they are":
        return compute(xp, *arrays)
    if op.halves == "moved":
        patterns = [bits(a) if isinstance(a, Halves) else a for a in arrays]
        return np.asarray(compute(xp, *patterns)).view(Halves)
    result = compute(xp, *widen(arrays))
    floats = [a for a in arrays if a.ndim and a.dtype.kind == "f"]
    keeps = result.dtype.kind == "f" and all(isinstance(a, Halves) for a in floats)
    return to_bfloat16(result) if keeps else result
