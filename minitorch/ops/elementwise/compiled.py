"""Rows of arrays by compiled kernels, where kernels can be compiled.

May import: arrays; compile, inside functions.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, DType, Namespace
from ...arrays.threads import get_num_threads

Rows = Sequence[tuple[str, tuple[int, ...]]]
FEW = 2**6  # elements, from which on a kernel over rows is faster than NumPy's calls
SOME = 2**8  # elements, from which on one is faster than a dozen of NumPy's calls
MUCH = 2**17  # elements, from which on threads share a call of NumPy's
FEW_TERMS = 2**7  # of a product, up to which a kernel that packs once is faster than BLAS
MANY_ROWS = 2**8  # of B, from which on that is so
MANY = 2**14  # elements, from which on a compiled kernel is worth its call


def fits(xp: Namespace, *arrays: Any, least: int = MANY) -> bool:
    """Tell whether kernels compute on these arrays: NumPy's, large, all of one dtype they know."""
    if xp is not np:
        return False
    dtype = arrays[0].dtype
    for a in arrays:
        if type(a) is not np.ndarray or a.size < least or a.dtype is not dtype:
            return False
    return _compiles(dtype)


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


def row(xp: Namespace, name: str, plain: Callable[..., Array], *arrays: Any) -> Array:
    """Return a row of arrays: by a kernel, of few elements by `plain(xp, *arrays)`."""
    if not fits(xp, *arrays, least=SOME):
        return plain(xp, *arrays)
    return _kernel_of(name, arrays)(*arrays)


def row_in_order(
    xp: Namespace, name: str, plain: Callable[..., Array], *arrays: Any, least: int
) -> Array:
    """Return the same of at least so many elements, in the order in which they lie in memory."""
    first = arrays[0]
    large = xp is np and first.size >= least  # which costs least to find out
    strides = first.strides if large and fits(xp, *arrays, least=least) else ()
    if not strides or any(a.strides != strides or a.shape != first.shape for a in arrays):
        return plain(xp, *arrays)
    if first.flags.c_contiguous:
        return _kernel_of(name, arrays)(*arrays)
    order = sorted(range(first.ndim), key=lambda d: -strides[d])
    turned = [a.transpose(order) for a in arrays]
    if not turned[0].flags.c_contiguous:
        return plain(xp, *arrays)
    back = sorted(range(first.ndim), key=order.__getitem__)
    return _kernel_of(name, arrays)(*turned).transpose(back)


def _kernel_of(name: str, arrays: Sequence[Array]) -> Callable[..., Array]:
    return kernel(arrays[0].dtype, len(arrays), ((name, tuple(range(len(arrays)))),))


def fits_rows(xp: Namespace, first: Any, *others: Any) -> bool:
    """Tell whether kernels over rows compute on these arrays: NumPy's, all of one dtype."""
    if xp is not np or type(first) is not np.ndarray or first.size < FEW:
        return False
    dtype = first.dtype
    for other in others:
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


def run_steps(name: str, a: Array, w: Array, order: Sequence[int], arrays: Sequence[Array]) -> bool:
    """Let a kernel take the steps of a recurrent layer, if there can be one; tell whether it did.

    See `compile.time_steps.run`; there is none of arrays that are not contiguous, or empty.
    """
    if not _compiles(a.dtype) or not a.size or not all(x.flags.c_contiguous for x in arrays):
        return False
    from ...compile import time_steps

    time_steps.run(name, a, w, order, arrays)
    return True


class TurnedRows:
    """Products with the rows of B (..., N, K): A (..., M, K) @ Bᵀ, for many A and the same B.

    A single matrix of few terms is packed once, for a kernel; other products are BLAS's.
    """

    def __init__(self, b: Array) -> None:
        self._b = b
        self._packed: Array | None = None
        *lead, rows, terms = b.shape
        few = 0 < terms <= FEW_TERMS and rows >= MANY_ROWS and math.prod(lead) == 1
        self._packs = few and _compiles(b.dtype)

    def product(self, a: Array, count: int) -> Array:
        """Return the product with the first `count` rows of B, (..., M, count)."""
        if not self._packs or a.shape[-2] < FEW or a.strides[-1] != a.itemsize:
            product: Array = np.matmul(a, self._b[..., :count, :].swapaxes(-1, -2))
            return product
        from ...compile import panels, short_products

        first = (0,) * (a.ndim - 2)
        if self._packed is None:
            self._packed = panels.packed(self._b[first][None])
        out = np.empty((*a.shape[:-1], count), a.dtype)
        short_products.product(a[first], self._packed, out[first])
        return out


def parallel_for(total: int, grain: int, body: Callable[[int, int], object]) -> None:
    """Let threads share `body(lo, hi)` over a range; see `compile.pool`."""
    if get_num_threads() == 1 or total <= grain:
        body(0, total)
        return
    from ...compile import pool

    pool.parallel_for(total, grain, body)


def shared(ufunc: Callable[..., Array], *arrays: Any) -> Array:
    """Return `ufunc` of NumPy arrays; threads share large ones that lie in one order."""
    first = arrays[0]
    large = type(first) is np.ndarray and first.size >= MUCH and first.dtype.kind == "f"
    if (
        not large
        or get_num_threads() == 1
        or any(type(a) is not np.ndarray or a.dtype is not first.dtype for a in arrays)
        or any(a.shape != first.shape or not a.flags.c_contiguous for a in arrays)
    ):
        return allocator.result_of(ufunc, *arrays)
    out = allocator.cpu.empty(first.shape, first.dtype)
    *flat, result = (a.reshape(-1) for a in (*arrays, out))

    def compute(lo: int, hi: int) -> None:
        ufunc(*(a[lo:hi] for a in flat), out=result[lo:hi])

    parallel_for(first.size, MUCH // 4, compute)
    return out


def over_rows(name: str, arrays: Sequence[Array], number: float, shape: Sequence[int]) -> Array:
    """Return a new array of this shape that a kernel over rows writes."""
    first = arrays[0]
    out = allocator.empty(tuple(shape), first.dtype)
    _runner()(name, (*map(np.ascontiguousarray, arrays), out), number)
    return out
