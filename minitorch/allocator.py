"""A caching allocator: memory that is given back is kept, and handed out again.

Fresh memory costs as much as the arithmetic on it: a call to the driver on a GPU, a page fault for
every 4 KiB on a CPU. So memory is reserved from the system in segments and cut into blocks:
a request takes the smallest free block that fits, splits off what it does not need, and a block
that comes back is merged with free neighbours. Large results of operators on the CPU lie in such
blocks; an array's block comes back when the array and all its views are gone.

May import: nothing of minitorch. Source: the strategy of PyTorch's CUDA caching allocator
(Paszke et al., NeurIPS 2019, section 5.3).
"""

import bisect
import collections
import math
import mmap
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .arrays import Array

ALIGNMENT = 512
"""Bytes to which sizes are rounded: blocks stay aligned for vectors, and few sizes repeat often."""
SEGMENT = 2 * 2**20
"""Bytes reserved at least at a time."""
LARGE = 128 * 2**10
"""Bytes above which the C library asks the system for fresh pages, and the detour here pays."""


class Block:
    """A piece of a segment, free or in use, between its neighbours."""

    __slots__ = ("after", "before", "free", "offset", "segment", "size")

    def __init__(self, segment: Any, offset: int, size: int) -> None:
        self.segment, self.offset, self.size = segment, offset, size
        self.before: Block | None = None
        self.after: Block | None = None
        self.free = True


class Lease(np.ndarray[Any, Any]):
    """The bytes of one block: the base of the array that was asked for.

    A class of its own, as NumPy replaces a base of the same class by that one's base.
    """


class CachingAllocator:
    """Blocks of memory, reused; `stats` counts what that saves."""

    def __init__(self, segment_bytes: int = SEGMENT) -> None:
        self._segment_bytes = segment_bytes
        self._free: list[tuple[int, int, Block]] = []  # by size; the id makes the order total
        self._returned: collections.deque[Block] = collections.deque()
        self._leases: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(
            ("reserved", "allocated", "peak_allocated", "hits", "misses", "splits", "merges"), 0
        )

    def stats(self) -> dict[str, int]:
        """Return the counters.

        reserved: bytes held from the system; allocated, peak_allocated: bytes handed out, now and
        at most; hits, misses: requests served from cached memory, or by a new segment; splits and
        merges: of blocks.
        """
        with self._lock:
            self._collect()
            return dict(self._counts)

    def reset_peak(self) -> None:
        """Count the most bytes handed out anew."""
        with self._lock:
            self._collect()
            self._counts["peak_allocated"] = self._counts["allocated"]

    def malloc(self, nbytes: int) -> Block:
        """Return a block of at least `nbytes`, best fit."""
        size = max(-(-nbytes // ALIGNMENT), 1) * ALIGNMENT
        with self._lock:
            block = self._last_returned(size)
            if block is not None:
                self._counts["hits"] += 1
                return block
            self._collect()
            at = bisect.bisect_left(self._free, (size, 0))
            hit = at < len(self._free)
            self._counts["hits" if hit else "misses"] += 1
            block = self._free.pop(at)[2] if hit else self._reserve(size)
            block.free = False
            self._split(block, size)
            counts = self._counts
            counts["allocated"] += block.size
            counts["peak_allocated"] = max(counts["peak_allocated"], counts["allocated"])
            return block

    def free(self, block: Block) -> None:
        """Give a block back; safe to call from a finalizer, at any moment and in any thread."""
        self._returned.append(block)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> "Array":
        """Return an array whose memory comes back by itself; its numbers are not set."""
        dtype = np.dtype(dtype)
        block = self.malloc(math.prod(shape) * dtype.itemsize)
        lease = Lease((block.size,), np.uint8, block.segment, block.offset)
        key = id(block)
        self._leases[key] = weakref.ref(lease, lambda _: self._ended(key, block))
        return np.ndarray(shape, dtype, buffer=lease)

    def _ended(self, key: int, block: Block) -> None:
        self._leases.pop(key, None)
        self._returned.append(block)

    def empty_cache(self) -> None:
        """Hand segments back to the system that are free as a whole."""
        with self._lock:
            self._collect()
            whole = [e for e in self._free if e[2].before is None and e[2].after is None]
            self._free = [entry for entry in self._free if entry not in whole]
            self._counts["reserved"] -= sum(entry[0] for entry in whole)

    def _last_returned(self, size: int) -> Block | None:
        """Take the block that came back last, where it is of this very size: it is the warmest."""
        if not self._returned:
            return None
        block = self._returned.pop()  # finalizers append at any moment
        if block.size == size:
            return block
        self._returned.append(block)
        return None

    def _collect(self) -> None:
        """Take back what was freed since the last call."""
        while self._returned:
            block = self._returned.popleft()
            self._counts["allocated"] -= block.size
            block.free = True
            self._enter(self._merged(block))

    def _enter(self, block: Block) -> None:
        bisect.insort(self._free, (block.size, id(block), block))

    def _remove(self, block: Block) -> None:
        del self._free[bisect.bisect_left(self._free, (block.size, id(block)))]

    def _reserve(self, size: int) -> Block:
        wanted = -(-size // self._segment_bytes) * self._segment_bytes
        self._counts["reserved"] += wanted
        private = mmap.mmap(-1, wanted, access=mmap.ACCESS_COPY)  # not written to by a fork
        return Block(private, 0, wanted)

    def _split(self, block: Block, size: int) -> None:
        if block.size - size < ALIGNMENT:
            return
        rest = Block(block.segment, block.offset + size, block.size - size)
        rest.before, rest.after, block.after, block.size = block, block.after, rest, size
        if rest.after is not None:
            rest.after.before = rest
        self._counts["splits"] += 1
        self._enter(rest)

    def _merged(self, block: Block) -> Block:
        """Return the block joined with its free neighbours."""
        first, second = block.before, block.after
        if second is not None and second.free:
            self._remove(second)
            block = self._join(block, second)
        if first is not None and first.free:
            self._remove(first)
            block = self._join(first, block)
        return block

    def _join(self, first: Block, second: Block) -> Block:
        first.size += second.size
        first.after = second.after
        if first.after is not None:
            first.after.before = first
        self._counts["merges"] += 1
        return first


cpu = CachingAllocator()
"""The allocator behind large results on the CPU."""


def result_of(ufunc: Callable[..., "Array"], *arrays: object) -> "Array":
    """Return `ufunc` of NumPy arrays, of one floating dtype, with a large result in cached memory.

    That is where the result has the shape of the largest input, in rows; else NumPy decides.
    """
    like = max(arrays, key=_nbytes) if len(arrays) > 1 else arrays[0]
    if type(like) is not np.ndarray or like.nbytes <= LARGE or not like.flags.c_contiguous:
        return ufunc(*arrays)
    for other in arrays:
        if other is not like and not (
            isinstance(other, np.ndarray | np.generic)
            and other.dtype is like.dtype
            and (other.shape == like.shape or _fits(other.shape, like.shape))
        ):
            return ufunc(*arrays)
    if like.dtype.kind != "f":
        return ufunc(*arrays)
    return ufunc(*arrays, out=cpu.empty(like.shape, like.dtype))


def _nbytes(array: object) -> int:
    size: int = getattr(array, "nbytes", 0)
    return size


def _fits(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    lead = len(to) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, to[lead:], strict=True))


def matrix_product(a: "Array", b: "Array") -> "Array":
    """Return the matrix product of NumPy arrays, a large one in cached memory."""
    out = None
    if a.ndim == 2 == b.ndim and a.dtype is b.dtype and a.shape[1] == b.shape[0]:
        shape = (a.shape[0], b.shape[1])
        if shape[0] * shape[1] * a.itemsize > LARGE:
            out = cpu.empty(shape, a.dtype)
    product: Array = a @ b if out is None else np.matmul(a, b, out=out)
    return product


def rows_of(view: "Array", shape: tuple[int, ...]) -> "Array":
    """Return a copy of a strided view of NumPy memory under another shape."""
    if view.nbytes <= LARGE:
        return view.reshape(shape)
    out = cpu.empty(view.shape, view.dtype)
    np.copyto(out, view)
    return out.reshape(shape)
