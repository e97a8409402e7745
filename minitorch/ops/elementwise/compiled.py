"""Rows of large arrays by compiled kernels, where kernels can be compiled.

May import: arrays; compile, inside functions.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays.library import Array, Namespace

Rows = Sequence[tuple[str, tuple[int, ...]]]
MANY = 2**14  # elements, from which on a compiled kernel is worth its call


def fits(xp: Namespace, *arrays: Any) -> bool:
    """Tell whether kernels compute on these arrays: NumPy's, large, all of one dtype they know."""
    first = arrays[0]
    if xp is not np or not all(type(a) is np.ndarray and a.size >= MANY for a in arrays):
        return False
    return all(a.dtype is first.dtype for a in arrays) and _compiles(first.dtype.name)


@functools.cache
def _compiles(dtype: str) -> bool:
    from ...compile import engine
    from ...compile.rows import DTYPES

    return dtype in DTYPES and engine.available()


@functools.cache
def kernel(dtype: str, count: int, steps: Rows, reduction: str = "") -> Callable[..., Array]:
    """Return the kernel of some rows of `count` inputs, which reads and writes each number once."""
    from ...compile import kernels
    from ...compile.rows import Program, Step

    rows = tuple(Step(*step) for step in steps)
    return kernels.kernel(Program(dtype, ("float",) * count, rows, reduction))


def over_rows(array: Array, steps: Rows, fold: str, *more: Array) -> Array:
    """Return the fold of each row, with the row put back as size 1."""
    found = kernel(array.dtype.name, 1 + len(more), steps, fold)(array, *more, axes=1)
    return found[..., None]
