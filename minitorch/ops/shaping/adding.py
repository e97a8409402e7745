"""Addition at an advanced index, where equal indices add up: what the array API leaves out.

In NumPy's contiguous arrays an index of integers is the numbers of rows, of the last axes' elements
each. Rows are added by a kernel; short ones element by element, which NumPy is fast at.
"""

import importlib
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...arrays.library import Array, int64, namespace, owner
from ..elementwise import compiled

SHORT = 8  # elements of a row, below which a vector is mostly empty
_WHOLE = slice(None)


def add_at(into: Array, index: tuple[Any, ...], values: Array) -> Array:
    """Add `values` to `into` at an advanced index, in place; equal indices add up.

    Returns: `into`.
    """
    if isinstance(into, np.ndarray):
        if not into.ndim or not _add_rows(into, index, values):
            np.add.at(into, index, values)
        return into
    xp = namespace(into)
    places = xp.reshape(xp.arange(math.prod(into.shape), device=into.device), into.shape)[index]
    flat = xp.reshape(into, (-1,))
    moved = xp.reshape(xp.broadcast_to(values, places.shape), (-1,))
    if hasattr(flat, "index_add_"):
        flat.index_add_(0, xp.reshape(places, (-1,)), moved)
    else:
        importlib.import_module("cupyx").scatter_add(flat, xp.reshape(places, (-1,)), moved)
    if owner(flat) is not owner(into):  # a view with gaps was copied to lie flat
        into[...] = xp.reshape(flat, into.shape)
    return into


def _add_rows(into: Array, index: tuple[Any, ...], values: Array) -> bool:
    """Add values by numbers of rows, if the index is such that it can be; tell whether it did."""
    index = (*index, *(_WHOLE,) * (into.ndim - len(index)))
    first = next((d for d, item in enumerate(index) if type(item) is np.ndarray), 0)
    count = sum(type(item) is np.ndarray for item in index)
    arrays, others = index[first : first + count], (*index[:first], *index[first + count :])
    lead, sizes, tail = into.shape[:first], into.shape[first:][:count], into.shape[first + count :]
    together = all(type(item) is np.ndarray and item.dtype.kind in "iu" for item in arrays)
    whole = all(type(item) is slice and item == _WHOLE for item in others)
    if not (together and whole and into.size and into.flags.c_contiguous):
        return False
    numbers = row_numbers(arrays, sizes)
    if numbers is None:
        return False
    values = np.broadcast_to(values, (*lead, *numbers.shape, *tail))
    length = math.prod(tail)
    if length < SHORT and _add_each(into, numbers, values, math.prod(lead), length):
        return True
    if lead:
        starts = np.arange(math.prod(lead)) * math.prod(sizes)
        numbers = starts.reshape(-1, *(1,) * numbers.ndim) + numbers
    rows = numbers.reshape(-1)
    values = np.ascontiguousarray(values, into.dtype).reshape(len(rows), length)
    if length < SHORT:
        if length > 1:
            rows = (rows[:, None] * length + np.arange(length)).reshape(-1)
        np.add.at(into.reshape(-1), rows, values.reshape(-1))
    elif not compiled.add_rows(into.reshape(-1, length), rows, values):
        np.add.at(into.reshape(-1, length), rows, values)
    return True


def _add_each(into: Array, numbers: Array, values: Array, lead: int, length: int) -> bool:
    """Let a kernel add short rows, the same ones in each of `lead` parts, if it can."""
    shape = (lead, numbers.size, length)
    index = np.broadcast_to(numbers.reshape(-1, 1), shape)
    part = np.ascontiguousarray(values, into.dtype).reshape(shape)
    return compiled.scattered("scatter_add", into.reshape(lead, -1, length), index, 1, part)


def row_numbers(arrays: Sequence[Any], sizes: Sequence[int]) -> Array | None:
    """Return the numbers of elements of an array of these sizes, laid flat.

    Args:
        arrays: of integers, one an axis, which broadcast; negative ones count from the end.
    Returns: None where there are none, or one is no integer of its axis: the library says which.
    """
    numbers: Any = None
    for array, size in zip(arrays, sizes, strict=True):
        if not array.size:
            return None
        places = array if array.dtype == int64 else array.astype(int64)
        if not inside(places, size):
            places = np.where(places < 0, places + size, places)
            if not inside(places, size):
                return None
        numbers = places if numbers is None else numbers * size + places
    return numbers  # type: ignore[no-any-return]


def inside(places: Array, size: int) -> bool:
    """Tell whether all of some places are in range(size), which has one at least."""
    return find_outside(places, size) is None


def find_outside(numbers: Any, size: int) -> int | None:
    """Return one of some integers that is not in range(size); None where all are."""
    if isinstance(numbers, np.ndarray) and numbers.dtype == int64:
        whole = np.ascontiguousarray(numbers).view(np.uint64)  # what is below 0 is huge
        if np.maximum.reduce(whole, None, initial=0) < size:
            return None
    if not math.prod(numbers.shape):
        return None
    low, high = int(numbers.min()), int(numbers.max())
    return low if low < 0 else high if high >= size else None
