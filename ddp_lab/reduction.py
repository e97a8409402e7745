"""Reductions by name: what `op="sum"` does to two arrays of a dtype.

Every operation here is commutative, so the order of its two arguments leaves the bits unchanged.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ddp_lab.errors import InvalidArgument
from ddp_lab.transport.base import NDArray
from ddp_lab.transport.header import dtype_name

Combine: TypeAlias = Callable[[NDArray, NDArray, NDArray], object]

# NumPy has no bfloat16; a field of that name keeps the two bytes apart from any other dtype.
BFLOAT16 = np.dtype([("bfloat16", np.uint16)])

UFUNCS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "band": np.bitwise_and,
    "bor": np.bitwise_or,
    "bxor": np.bitwise_xor,
}
OPERATIONS = (*UFUNCS, "avg")

# NumPy's kinds of dtypes that an operation is for, where not all of them, and what to call these
BITS, IN_ORDER = ("biu", "integers or bool"), ("biuf", "real numbers or bool")
KINDS = {
    "avg": ("iufc", "numbers"),
    "band": BITS,
    "bor": BITS,
    "bxor": BITS,
    "max": IN_ORDER,
    "min": IN_ORDER,
}


def combiner(op: str, dtype: np.dtype[Any]) -> Combine:
    """Return `combine(a, b, out)`, which writes `a op b` to `out`; `out` may be `a` or `b`.

    Raises:
        InvalidArgument: there is no operation of this name.
    """
    ufunc = UFUNCS.get(op)
    if ufunc is None:
        raise unknown("combine", op)
    if dtype == BFLOAT16:
        return lambda a, b, out: _combine_bfloat16(ufunc, a, b, out)
    return lambda a, b, out: ufunc(a, b, out=out)  # NumPy deprecates `out` by position


def unknown(operation: str, op: object) -> InvalidArgument:
    """Return the error for a reduction that there is not."""
    return InvalidArgument(
        f"{operation}: unknown operation: got {op!r}, expected one of {', '.join(OPERATIONS)}. "
        "Choose one of these names."
    )


def combine(into: NDArray, other: NDArray, op: str) -> None:
    """Combine `other` into `into`, element by element, in place."""
    if isinstance(into, np.ndarray):
        combiner(op, into.dtype)(into, other, into)
    else:
        into.combine(other, op)  # an array of some device


def check_operation(operation: str, op: str, dtype: np.dtype[Any]) -> None:
    """Raise `InvalidArgument` unless `op` can be applied to arrays of `dtype`."""
    if not isinstance(op, str) or op not in OPERATIONS:
        raise unknown(operation, op)
    kinds, expected = KINDS.get(op, ("biufc", "numbers"))
    if dtype.kind not in kinds and not (dtype == BFLOAT16 and "f" in kinds):
        raise InvalidArgument(
            f"{operation}: {op!r} is not defined for this dtype: got {dtype_name(dtype)}, "
            f"expected {expected}. Convert the array first."
        )


def divide(array: NDArray, by: int) -> None:
    """Divide in place, as the last step of an average; integers round toward zero, as in NCCL."""
    if not isinstance(array, np.ndarray):
        array.divide(by)
    elif array.dtype == BFLOAT16:
        bits = array["bfloat16"]
        bits[...] = from_float32(to_float32(bits) / np.float32(by))
    elif array.dtype.kind in "iu":
        array -= np.fmod(array, array.dtype.type(by))
        array //= array.dtype.type(by)
    else:
        np.divide(array, by, out=array)


def to_float32(bits: NDArray) -> NDArray:
    """Return the values of bfloat16 `bits` (uint16) as float32, exactly."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def from_float32(values: NDArray) -> NDArray:
    """Return bfloat16 bits (uint16), rounded to nearest with ties to even; NaN stays NaN."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    odd = (bits >> np.uint32(16)) & np.uint32(1)
    rounded = ((bits + (np.uint32(0x7FFF) + odd)) >> np.uint32(16)).astype(np.uint16)
    return np.where(np.isnan(values), np.uint16(0x7FC0), rounded)


def _combine_bfloat16(ufunc: np.ufunc, a: NDArray, b: NDArray, out: NDArray) -> None:
    if not isinstance(out, np.ndarray):
        ufunc(a, b, out=out)  # an array of some device, which has bfloat16 of its own
        return
    left, right = to_float32(a["bfloat16"]), to_float32(b["bfloat16"])
    out["bfloat16"] = from_float32(ufunc(left, right))
