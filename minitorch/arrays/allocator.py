"""A caching allocator: memory that is given back is kept, and handed out again.

Fresh memory costs as much as the arithmetic on it: a call to the driver on a GPU, a page fault for
every 4 KiB on a CPU. So large results of operators on the CPU lie in blocks that are kept by size:
a request takes the one of its size that came back last, which is the warmest. An array's block
comes back when the array and all its views are gone.

Where much is held, blocks that are free side by side are joined, and cut anew.

May import: arrays, shapes, threads. Source: PyTorch's CUDA caching allocator (Paszke et al.,
NeurIPS 2019, section 5.3); the joining is put off until a size is missing, as in Lea's malloc.
"""

import bisect
import collections
import ctypes
import math
import mmap
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from . import threads
from .shapes import stretches

if TYPE_CHECKING:
    from .library import Array

PAGE = 4096
"""Bytes to which sizes are rounded: those of a page, so that few sizes repeat often."""
KEPT = 256 * 2**20
"""Bytes that may lie unused; more only where as much was in use at a time."""
PLENTY = 8 * 2**20
"""Bytes up to which every size has blocks of its own: joining and cutting would cost more."""
TURNED_FROM = 2**20
"""Products of numbers in a product of matrices: with fewer BLAS puts neither in another order."""
UNPACKED, UNPACKED_TURNED = 10**6, 1200
"""Products of numbers, up to which OpenBLAS may read matrices where they lie; of a matrix and a
turned one the results, too. Source: its sgemm_small_kernel_permit_skylakex.c."""
NEAR = 128 * 2**10
"""Bytes of a turned array up to which NumPy copies it as fast as by columns."""
COLUMNS, MOST_COLUMNS = 8, 64
"""Columns of a transposed matrix copied at a time: of more, rows whose size is a multiple of a page
push each other out of the nearest cache. Of half that multiple it has room for twice as many."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h


def keep_freed_memory() -> bool:
    """Let glibc keep what NumPy frees for what it asks for next; tell whether it is glibc's to do.

    It returns larger arrays to the system at once until one of 32 MiB was freed, and then keeps
    twice as much: a step's speed would depend on what came before. This begins with these limits;
    who has set some by the environment (MALLOC_TRIM_THRESHOLD_ and so on) keeps theirs.
    Source: mallopt(3).
    """
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # another C library
        return False
    return bool(mallopt(M_MMAP_THRESHOLD, 2**25) and mallopt(M_TRIM_THRESHOLD, 2**26))


LARGE = 2**20 if keep_freed_memory() else 2**17
"""Bytes above which the detour here pays, which takes as long as the arithmetic on a few 10,000
numbers. A C library that keeps nothing asks the system for fresh pages from 128 KiB on."""

PAGED = min(2**18, LARGE)
"""Bytes above which kernels write into whole pages: the C library's memory begins 16 bytes behind
a line of the caches, and every other vector that is read from it lies in two."""

_HOST = (np.ndarray, np.generic)


class Lease(np.ndarray[Any, Any]):
    """The bytes of one block: the base of the array that was asked for.

    A class of its own, as NumPy replaces a base of the same class by that one's base.
    """


class Piece(NamedTuple):
    """A part of one mapping of memory, which may be all of it."""

    memory: mmap.mmap
    start: int
    size: int


class Gaps:
    """Free pieces, of which no two lie side by side: neighbours are joined."""

    def __init__(self) -> None:
        self._by_start: dict[tuple[int, int], Piece] = {}
        self._by_end: dict[tuple[int, int], Piece] = {}
        self._sizes: list[tuple[int, int, int]] = []  # size, mapping and start, in order

    def add(self, piece: Piece) -> None:
        """Take a piece, and make one of it and its free neighbours."""
        memory, start, size = piece
        here = id(memory)
        if before := self._by_end.get((here, start)):
            self._remove(before)
            start, size = before.start, before.size + size
        if after := self._by_start.get((here, start + size)):
            self._remove(after)
            size += after.size
        joined = Piece(memory, start, size)
        self._by_start[here, start] = self._by_end[here, start + size] = joined
        bisect.insort(self._sizes, (size, here, start))

    def cut(self, size: int) -> Piece | None:
        """Return a piece of this size, of the smallest one that has it; None without one."""
        at = bisect.bisect_left(self._sizes, (size, 0, 0))
        if at == len(self._sizes):
            return None
        larger = self._by_start[self._sizes[at][1:]]
        self._remove(larger)
        if larger.size == size:
            return larger
        memory, start, _ = larger
        self.add(Piece(memory, start + size, larger.size - size))
        return Piece(memory, start, size)

    def drop_mappings(self) -> int:
        """Let go of the mappings that are free as a whole; return their bytes."""
        whole = [p for p in self._by_start.values() if p.size == len(p.memory)]
        for piece in whole:
            self._remove(piece)
        return sum(piece.size for piece in whole)

    def _remove(self, piece: Piece) -> None:
        memory, start, size = piece
        del self._by_start[id(memory), start], self._by_end[id(memory), start + size]
        del self._sizes[bisect.bisect_left(self._sizes, (size, id(memory), start))]


class CachingAllocator:
    """Blocks of memory, reused; `stats` counts what that saves.

    A block that was returned lately is found by its size. Where there is none, and much is held
    already, one is cut from the smallest gap that has room; if none has, all that are free are
    joined with their neighbours to gaps first.
    """

    def __init__(self) -> None:
        self._free: dict[int, list[Piece]] = {}
        self._gaps = Gaps()
        self._returned: collections.deque[Piece] = collections.deque()
        self._leases: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(
            ("reserved", "allocated", "peak_allocated", "hits", "misses"), 0
        )

    def stats(self) -> dict[str, int]:
        """Return the counters.

        reserved: bytes held from the system; allocated, peak_allocated: bytes handed out, now and
        at most; hits, misses: requests served from kept memory, or by the system.
        """
        with self._lock:
            self._collect()
            return dict(self._counts)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> "Array":
        """Return an array whose memory comes back by itself; its numbers are not set."""
        dtype = np.dtype(dtype)
        size = max(-(-math.prod(shape) * dtype.itemsize // PAGE), 1) * PAGE
        with self._lock:
            piece = self._take(size)
        lease = Lease((size,), np.uint8, piece.memory, piece.start)
        key = id(lease)
        self._leases[key] = weakref.ref(lease, lambda _: self._note_free(key, piece))
        return np.ndarray(shape, dtype, buffer=lease)

    def _note_free(self, key: int, piece: Piece) -> None:
        """Note that a block is free: called by finalizers, at any moment and in any thread."""
        self._leases.pop(key, None)
        self._returned.append(piece)

    def _take(self, size: int) -> Piece:
        self._collect()
        counts, free = self._counts, self._free.get(size)
        scarce = counts["reserved"] + size > PLENTY
        piece = free.pop() if free else self._cut(size) if scarce else None
        counts["hits" if piece else "misses"] += 1
        counts["allocated"] += size
        counts["peak_allocated"] = max(counts["peak_allocated"], counts["allocated"])
        if piece is not None:
            return piece
        if counts["reserved"] + size - counts["allocated"] > max(KEPT, counts["peak_allocated"]):
            counts["reserved"] -= self._gaps.drop_mappings()  # many sizes that do not come again
        counts["reserved"] += size
        return Piece(mmap.mmap(-1, size, access=mmap.ACCESS_COPY), 0, size)  # no fork writes to it

    def _collect(self) -> None:
        """Take back what was freed since the last call."""
        while self._returned:
            piece = self._returned.popleft()
            self._counts["allocated"] -= piece.size
            self._free.setdefault(piece.size, []).append(piece)

    def _cut(self, size: int) -> Piece | None:
        """Return a piece of what is free; None without room.

        What is kept by size stays so for as long as there is another way: who joins it each time
        ends up cutting each time.
        """
        piece = self._gaps.cut(size)
        if piece is None:
            for pieces in self._free.values():
                for free in pieces:
                    self._gaps.add(free)
            self._free.clear()
            piece = self._gaps.cut(size)
        return piece


cpu = CachingAllocator()
"""The allocator behind large results on the CPU."""


def empty(shape: tuple[int, ...], dtype: np.dtype) -> "Array":
    """Return an array whose numbers are not set, a large one in cached memory."""
    large = math.prod(shape) * dtype.itemsize > PAGED
    return cpu.empty(shape, dtype) if large else np.empty(shape, dtype)


def zeros(shape: tuple[int, ...], dtype: np.dtype) -> "Array":
    """Return an array of zeros, a large one in cached memory; both are written as bytes."""
    if math.prod(shape) * dtype.itemsize <= LARGE:
        return np.zeros(shape, dtype)
    array = cpu.empty(shape, dtype)
    array.reshape(-1).view(np.uint8).fill(0)
    return array


def result_of(ufunc: Callable[..., "Array"], *arrays: object) -> "Array":
    """Return `ufunc` of NumPy arrays, of one floating dtype, with a large result in cached memory.

    That is where the result has the shape of the largest input, in rows; else NumPy decides.
    """
    like = max(arrays, key=_nbytes) if len(arrays) > 1 else arrays[0]
    if type(like) is not np.ndarray or like.nbytes <= LARGE or not like.flags.c_contiguous:
        return ufunc(*arrays)
    for other in arrays:
        if other is not like and not (
            isinstance(other, _HOST)
            and other.dtype is like.dtype
            and (other.shape == like.shape or stretches(other.shape, like.shape))
        ):
            return ufunc(*arrays)
    if like.dtype.kind != "f":
        return ufunc(*arrays)
    return ufunc(*arrays, out=cpu.empty(like.shape, like.dtype))


def _nbytes(array: object) -> int:
    size: int = getattr(array, "nbytes", 0)
    return size


def matrix_product(a: "Array", b: "Array") -> "Array":
    """Return the matrix product of NumPy arrays, a large one in cached memory."""
    product: Array
    rows, terms, columns = a.shape[-2], a.shape[-1], b.shape[-1]
    is_large = rows * terms * columns >= TURNED_FROM
    if terms == 1 == b.shape[-2]:  # NumPy's multiplication takes a quarter of BLAS's time
        product = np.multiply(a, b, out=_result(a, b, rows, columns))
    elif is_large and (step := _rows_at_a_time(a, b)):
        product = _product_by_rows(a, b, step)
    elif is_large and _is_faster_turned(a, b):
        product = empty((rows, columns), a.dtype)
        np.copyto(product, np.matmul(b.T, a.T).T)
    else:
        product = np.matmul(a, b, out=_result(a, b, rows, columns))
    return product


def _result(a: "Array", b: "Array", rows: int, columns: int) -> "Array | None":
    """Return cached memory for a large product of matrices; None where NumPy finds some."""
    if rows * columns * a.itemsize <= LARGE or not _is_plain(a, b):
        return None
    return cpu.empty((rows, columns), a.dtype)


def _is_plain(a: "Array", b: "Array") -> bool:
    return a.ndim == 2 == b.ndim and a.dtype is b.dtype and a.shape[1] == len(b)


def _is_faster_turned(a: "Array", b: "Array") -> bool:
    """Tell whether BLAS computes few rows times a turned matrix faster the other way round.

    It puts both in an order of its own, and takes up to twice as long to read the matrix as the
    second one by its columns; what is computed turned has to be copied.
    """
    rows, terms = a.shape[-2:]
    return 1 < rows <= terms // 4 and b.flags.f_contiguous and _is_plain(a, b)


def _rows_at_a_time(a: "Array", b: "Array") -> int:
    """Return of how many rows at a time BLAS computes the product faster; 0 for all at once.

    It does not pack so few, and takes one thread for them. Where `b` is turned that is faster for
    few results of many terms each.
    """
    is_small = threads.reads_small_products()
    if not (is_small and a.dtype.char == "f" and _is_plain(a, b) and a.flags.c_contiguous):
        return 0
    step = UNPACKED // b.size
    if not b.flags.c_contiguous:
        terms, columns = b.shape
        few = b.flags.f_contiguous and terms >= 2 * columns
        step = min(step, UNPACKED_TURNED // columns) if few else 0
    return step - step % (16 if step > 16 else 4)  # whole blocks of BLAS's kernels


def _product_by_rows(a: "Array", b: "Array", step: int) -> "Array":
    whole, columns = len(a) - len(a) % step, b.shape[1]
    product = empty((len(a), columns), a.dtype)
    blocks = product[:whole].reshape(-1, step, columns)
    np.matmul(a[:whole].reshape(-1, step, len(b)), b, out=blocks)
    if whole < len(a):
        np.matmul(a[whole:], b, out=product[whole:])
    return product


def empty_as(array: "Array", shape: tuple[int, ...]) -> "Array":
    """Return an array of this shape and the dtype of `array`, whose axes lie in memory as its do.

    As many axes as `array` has; the last one stays last. The numbers are not set.
    """
    if array.flags.c_contiguous:
        return empty(shape, array.dtype)
    steps, axes = array.strides[:-1], list(range(len(shape)))
    order = sorted(axes[:-1], key=steps.__getitem__, reverse=True)
    if 0 in steps or order == axes[:-1]:  # something is repeated, or in order
        return empty(shape, array.dtype)
    order += axes[-1:]
    array_in_order = empty(tuple(map(shape.__getitem__, order)), array.dtype)
    return array_in_order.transpose(sorted(axes, key=order.__getitem__))


def zeros_as(array: "Array") -> "Array":
    """Return zeros of the shape and dtype of an array, which lie in memory as it does."""
    if array.flags.c_contiguous:
        return zeros(array.shape, array.dtype)
    like = empty_as(array, array.shape)
    like.fill(0)
    return like


def rows_of(view: "Array", shape: tuple[int, ...]) -> "Array":
    """Return a strided view of NumPy memory under another shape, its elements in rows."""
    if view.nbytes <= NEAR or view.flags.c_contiguous:
        return np.ascontiguousarray(view).reshape(shape)
    out = empty(view.shape, view.dtype)
    step = view.shape[-1]
    if view.ndim == 2 and view.flags.f_contiguous:
        apart = PAGE // math.gcd(PAGE, step * view.itemsize)
        step = min(COLUMNS * apart, MOST_COLUMNS)
    for start in range(0, view.shape[-1], step):
        out[..., start : start + step] = view[..., start : start + step]
    return out.reshape(shape)
