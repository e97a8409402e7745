"""Rows of arrays by compiled kernels, where kernels can be compiled.

May import: arrays; compile, inside functions.
"""

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...arrays import allocator
from ...arrays.library import Array, DType, Namespace
from ...arrays.threads import get_num_threads

Rows = Sequence[tuple[Any, ...]]
FEW = 2**6  # elements, from which on a kernel over rows is faster than NumPy's calls
SOME = 2**8  # elements, from which on one is faster than a dozen of NumPy's calls
SEVERAL = 2**12  # elements, from which on one is faster than a few of them
LONG = 2**6  # elements of a row, from which on what it leaves of a vector costs little
MUCH = 2**17  # elements, from which on threads share a call of NumPy's
ROW_OF = {"add": "add", "subtract": "sub", "multiply": "mul", "divide": "div"}
MANY = 2**14  # elements, from which on a compiled kernel is worth its call


def fits(xp: Namespace, *arrays: Any, least: int = MANY) -> bool:
    """Tell whether kernels compute on these arrays: NumPy's, large, all of one dtype they know."""
    if xp is not np:
        return False
    dtype = arrays[0].dtype
    for a in arrays:
        if type(a) is not np.ndarray or a.size < least or a.dtype is not dtype:
            return False
    return compiles(dtype)


@functools.cache
def compiles(dtype: DType) -> bool:
    """Tell whether there can be kernels for numbers of this dtype."""
    from ...compile import engine
    from ...compile.rows import DTYPES

    return dtype.name in DTYPES and engine.available()


def convert(x: Any, dtype: DType) -> Any:
    """Return NumPy's float16 as float32, or the other way round."""
    if type(x) is np.ndarray and x.size >= SOME and x.flags.c_contiguous:
        from ...compile import halves

        if halves.available():
            return halves.convert(x)
    return x.astype(dtype)


@functools.cache
def kernel(dtype: DType, inputs: int | tuple[str, ...], steps: Rows) -> Callable[..., Array]:
    """Return the kernel of some rows, which reads and writes each number once.

    Args:
        inputs: how many there are, or which are a "float" and which a "bool".
    """
    from ...compile import kernels
    from ...compile.rows import Program, Step

    kinds = ("float",) * inputs if isinstance(inputs, int) else inputs
    return kernels.kernel(Program(dtype.name, kinds, tuple(Step(*step) for step in steps)))


DESCENT = (("mul", (2, 1)), ("sub", (0, -1)))  # of weights, gradient and learning rate


def descend(w: Array, g: Array, lr: object) -> bool:
    """Set w to w - lr g in one pass over memory, of the same bits; tell whether that could be."""
    if not fits(np, w, g) or not w.flags.c_contiguous or w.shape != g.shape:
        return False
    if np.may_share_memory(w, g):  # the gradient may be the transposed variable itself
        return False
    kernel(w.dtype, 3, DESCENT)(w, g, np.asarray(lr, w.dtype), out=w)
    return True


def row(
    xp: Namespace, name: str, plain: Callable[..., Array], *arrays: Any, least: int = FEW
) -> Array:
    """Return a row of arrays: by a kernel, of few elements by `plain(xp, *arrays)`."""
    if not fits(xp, *arrays, least=least):
        return plain(xp, *arrays)
    return in_order(_kernel_of(name, arrays), arrays)


def pair(xp: Namespace, name: str, plain: Callable[..., Array], a: Any, b: Any) -> Array:
    """Return a row of two arrays, or an array and a number, that broadcast."""
    if xp is not np:
        return plain(a, b)
    large, other = (a, b) if a.size >= b.size else (b, a)
    if not fits(xp, large, least=SOME) or other.dtype is not large.dtype:
        return plain(a, b)
    if type(other) is not np.ndarray:
        if other.ndim:
            return plain(a, b)
        a, b = np.asarray(a), np.asarray(b)
    return in_order(_kernel_of(name, (a, b)), (a, b))


def row_in_order(
    xp: Namespace, name: str, plain: Callable[..., Array], *arrays: Any, least: int
) -> Array:
    """Return the same of at least so many elements, in the order in which the last one lies.

    An array may repeat its numbers along axes, as the gradient of a mean does.
    """
    last = arrays[-1]
    large = xp is np and last.size >= least  # which costs least to find out
    if not large or not fits(xp, *arrays, least=least):
        return plain(xp, *arrays)
    if all(a.strides == last.strides and a.shape == last.shape for a in arrays):
        return in_order(_kernel_of(name, arrays), arrays)
    if any(a.shape != last.shape or not (a is last or 0 in a.strides) for a in arrays):
        return plain(xp, *arrays)
    order = sorted(range(last.ndim), key=lambda d: -last.strides[d])
    turned = [a.transpose(order) if a is last else _repeat(a.transpose(order)) for a in arrays]
    back = sorted(range(last.ndim), key=order.__getitem__)
    return _kernel_of(name, turned)(*turned).transpose(back)


def _repeat(a: Array) -> Array:
    """Return an array that repeats its numbers along axes, those that it has in rows.

    Short rows are written out: a kernel computes what is no whole vector of each under a mask.
    """
    picks, row = [], 1 if a.strides[-1] else LONG
    for size, step in zip(a.shape[::-1], a.strides[::-1], strict=True):
        picks.append(slice(None, None if step or row < LONG else 1))
        row *= size
    return np.broadcast_to(np.ascontiguousarray(a[tuple(picks[::-1])]), a.shape)


def in_order(
    kernel: Callable[..., Array], arrays: Sequence[Array], constants: Sequence[Array] = ()
) -> Array:
    """Return what a kernel gives for arrays, laid out as they are where all lie alike."""
    first = arrays[0]
    if first.flags.c_contiguous or any(
        a.shape != first.shape or not _alike(a, first) for a in arrays
    ):
        return kernel(*arrays, *constants)
    order = sorted(range(first.ndim), key=lambda d: -first.strides[d])
    back = sorted(range(first.ndim), key=order.__getitem__)
    return kernel(*(a.transpose(order) for a in arrays), *constants).transpose(back)


def _alike(a: Array, b: Array) -> bool:
    """Tell whether two arrays of one shape lie in one order; bools are smaller than numbers."""
    pairs = zip(a.strides, b.strides, strict=False)
    return a.shape == b.shape and all(x * b.itemsize == y * a.itemsize for x, y in pairs)


def where(condition: Any, a: Any, b: Any) -> Any:
    """Return `a` where the condition holds, else `b`: by a kernel, which guesses no branches."""
    arrays = [x for x in (a, b) if type(x) is np.ndarray and x.ndim]
    if type(condition) is not np.ndarray or not arrays or not fits(np, *arrays, least=SEVERAL):
        return np.where(condition, a, b)
    dtype = arrays[0].dtype
    if any(getattr(x, "dtype", dtype) is not dtype for x in (a, b)):
        return np.where(condition, a, b)
    numbers = [np.asarray(x, dtype) for x in (a, b) if not isinstance(x, np.ndarray) or not x.ndim]
    places = (0, 2, 1) if len(numbers) == 1 and arrays[0] is b else (0, 1, 2)
    choice = kernel(dtype, ("bool", "float", "float"), (("where", places),))
    return in_order(choice, (condition, *arrays), numbers)


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
    return compiles(dtype)


def run_rows(name: str, arrays: Sequence[Array], number: float, **which: int) -> None:
    """Let a kernel over rows write the last ones of these arrays, all contiguous."""
    _runner()(name, arrays, number, **which)


@functools.cache
def _runner() -> Callable[..., None]:
    from ...compile import row_kernels

    return row_kernels.run


def add_rows(into: Array, rows: Array, values: Array) -> bool:
    """Let a kernel add each row of values to the row of `into` that its number says, if it can."""
    if values.size < SOME or not fits_rows(np, into, values):
        return False
    run_rows("add_rows", (into, np.ascontiguousarray(rows), values), 0.0, rows=len(values))
    return True


def gather(x: Array, index: Array, dim: int) -> Array | None:
    """Return the elements of `x` at `index` along an axis, by a kernel if it can be."""
    if type(x) is np.ndarray and x.size <= index.size and not x.flags.c_contiguous:
        x = allocator.rows_of(x, x.shape)
    numbers = _as_floats(x)
    if not _fits_places(numbers, index, dim):
        return None
    out = allocator.empty(index.shape, numbers.dtype)
    return out.view(x.dtype) if _ran_places("gather", numbers, index, dim, out) else None


def _as_floats(a: Array) -> Array:
    """Return integers of 4 or 8 bytes as floats of the same bits, which may only be moved."""
    return a.view(f"f{a.itemsize}") if a.dtype.kind in "iu" and a.itemsize in (4, 8) else a


def pick(x: Array, places: Array) -> Array | None:
    """Return the columns of `x` that a vector names, by a kernel if it can be."""
    shape = (*x.shape[:-1], places.size)
    if places.ndim != 1 or math.prod(shape) < MANY:
        return None
    return gather(x, np.broadcast_to(places, shape), x.ndim - 1)


def scattered(name: str, into: Array, index: Array, dim: int, values: Array) -> bool:
    """Let a kernel, "scatter" or "scatter_add", write values at `index` along an axis, if it can.

    Returns: whether it did. Where a place is none, nothing more may be done with `into`.
    """
    if values.shape != index.shape or values.dtype != into.dtype:
        return False
    if name == "scatter":
        into, values = _as_floats(into), _as_floats(values)
    if not _fits_places(into, index, dim):
        return False
    return _ran_places(name, into, index, dim, np.ascontiguousarray(values))


def _fits_places(x: Array, index: Array, dim: int) -> bool:
    """Tell whether kernels pick and add here: arrays in rows, equal in all axes but one."""
    if type(x) is not np.ndarray or not (x.flags.c_contiguous and x.size and index.size):
        return False
    others = slice(dim + 1, None)
    alike = x.shape[:dim] == index.shape[:dim] and x.shape[others] == index.shape[others]
    return alike and index.dtype.kind in "iu" and compiles(x.dtype)


def _ran_places(name: str, x: Array, index: Array, dim: int, values: Array) -> bool:
    inner = math.prod(x.shape[dim + 1 :])
    flags = np.zeros(1, np.int64)
    n, rows = x.shape[dim] * inner, index.shape[dim] * inner
    is_shared = dim > 0 and not any(index.strides[:dim])
    if is_shared:
        index = index[(0,) * dim]
    arrays = (x, np.ascontiguousarray(index, np.int64), flags, values)
    run_rows(name, arrays, float(is_shared), n=n, rows=rows, first=inner)
    return not flags[0]


@functools.cache
def class_kernels() -> Any:
    """Return the module whose kernels compute losses of a few classes, and their gradients."""
    from ...compile import class_cross_entropy

    return class_cross_entropy


def run_steps(
    name: str, a: Array, w: Array, order: Sequence[int], arrays: Mapping[str, Array]
) -> None:
    """Let a kernel take the steps of a recurrent layer; see `compile.time_steps.run`."""
    from ...compile import time_steps

    time_steps.run(name, a, w, order, arrays)


@functools.cache
def _has_avx_2_alone() -> bool:
    from ...compile import engine

    return engine.vector_registers() == (16, 256)


def attends(dtype: DType) -> bool:
    """Tell whether a kernel of attention is faster than BLAS for numbers of this dtype."""
    return compiles(dtype) and _has_avx_2_alone()


def attend(arrays: Sequence[Array], results: Sequence[Array], scale: float, causal: bool) -> bool:
    """Let a kernel write attention or its gradients, if it can; see `compile.attention.run`.

    A thread takes a matrix, in about half of the time of BLAS: fewer matrices than half the threads
    are BLAS's, which shares each.
    """
    lead, dtype = arrays[0].shape[:-2], arrays[0].dtype
    if len(lead) > 3 or not attends(dtype):
        return False
    if 2 * math.prod(lead) < get_num_threads():
        return False
    from ...compile import attention

    rows = [a if a.strides[-1] == a.itemsize else np.ascontiguousarray(a) for a in arrays]
    attention.run((*rows, *results), scale, causal)
    return True


def parallel_for(total: int, grain: int, body: Callable[[int, int], object]) -> None:
    """Let threads share `body(lo, hi)` over a range; see `compile.pool`."""
    if get_num_threads() == 1 or total <= grain:
        body(0, total)
        return
    from ...compile import pool

    pool.parallel_for(total, grain, body)


def call_on_threads(ufunc: Callable[..., Array], *arrays: Any) -> Array:
    """Return `ufunc` of NumPy arrays; threads share large ones that lie in one order."""
    first = arrays[0]
    if len(arrays) == 2 and _repeats(*arrays):
        return _kernel_of(ROW_OF[ufunc.__name__], arrays)(*arrays)
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


def _repeats(a: Any, b: Any) -> bool:
    """Tell whether one of two arrays is repeated for the other, which NumPy does row by row."""
    if type(a) is not np.ndarray or type(b) is not np.ndarray or a.shape == b.shape:
        return False
    alike = a.dtype is b.dtype and (a if a.size > b.size else b).flags.c_contiguous
    pairs = zip(a.shape[::-1], b.shape[::-1], strict=False)
    fit = alike and all(n == m or n == 1 or m == 1 for n, m in pairs)
    return fit and a.size > 1 < b.size and compiles(a.dtype)


def over_rows(
    name: str, arrays: Sequence[Array], number: float, shape: Sequence[int], **which: int
) -> Array:
    """Return a new array of this shape that a kernel over rows writes."""
    first = arrays[0]
    out = allocator.empty(tuple(shape), first.dtype)
    rows = [a if a.flags.c_contiguous else allocator.rows_of(a, a.shape) for a in arrays]
    _runner()(name, (*rows, out), number, **which)
    return out
