"""Rows of arrays by compiled kernels, where kernels can be compiled.

May import: arrays; compile, inside functions.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, DType, Namespace

Rows = Sequence[tuple[str, tuple[int, ...]]]
FEW = 2**6  # elements, from which on a kernel over rows is faster than NumPy's calls
MANY = 2**14  # elements, from which on a compiled kernel is worth its call


def fits(xp: Namespace, *arrays: Any, least: int = MANY) -> bool:
    """Tell whether kernels compute on these arrays: NumPy's, large, all of one dtype they know."""
    first = arrays[0]
    if xp is not np or not all(type(a) is np.ndarray and a.size >= least for a in arrays):
        return False
    return all(a.dtype is first.dtype for a in arrays) and _compiles(first.dtype)


@functools.cache
def _compiles(dtype: DType) -> bool:
    from ...compile import engine
    from ...compile.rows import DTYPES

    return dtype.name in DTYPES and engine.available()


@functools.cache
def kernel(dtype: DType, count: int, steps: Rows, reduction: str = "") -> Callable[..., Array]:
    """Return the kernel of some rows of `count` inputs, which reads and writes each number once."""
    from ...compile import kernels
    from ...compile.rows import Program, Step

    rows = tuple(Step(*step) for step in steps)
    return kernels.kernel(Program(dtype.name, ("float",) * count, rows, reduction))


def fits_rows(xp: Namespace, *arrays: Any) -> bool:
    """Tell whether kernels over rows compute on these arrays: NumPy's, all of one dtype."""
    first = arrays[0]
    if xp is not np or type(first) is not np.ndarray or first.size < FEW or not first.shape[-1]:
        return False
    dtype = first.dtype
    for other in arrays:
        if type(other) is not np.ndarray or other.dtype is not dtype:
            return False
    return _compiles(dtype)


def run_rows(name: str, arrays: Sequence[Array], number: float, **which: int) -> None:
    """Let a kernel over rows write the last ones of these arrays, all contiguous."""
    _runner()(name, arrays, number, **which)


@functools.cache
def _runner() -> Callable[..., None]:
    from ...compile import row_kernels

    return row_kernels.run


def over_rows(name: str, arrays: Sequence[Array], number: float, shape: Sequence[int]) -> Array:
    """Return a new array of this shape that a kernel over rows writes."""
    first = arrays[0]
    large = first.nbytes > allocator.LARGE
    out = allocator.cpu.empty(tuple(shape), first.dtype) if large else np.empty(shape, first.dtype)
    given = [a if a.flags.c_contiguous else np.ascontiguousarray(a) for a in arrays]
    run_rows(name, (*given, out), number)
    return out
