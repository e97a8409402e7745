"""One piece of memory that all ranks of a run see, without a name and so with nothing to leave.

    board        what each rank does
    rendezvous   for each communicator and rank: two flags, two headers, two mailboxes
    rings        for each ordered pair of ranks: a queue of messages
    arenas       for each rank: the buffers it hands out

The memory is a memfd; pages that nobody touches cost nothing. When the last process that has it
open ends, by whatever cause, it is gone.
"""

import ctypes
import functools
import mmap
import os
import tempfile
import threading
from typing import Any

import numpy as np

from ddp_lab.errors import OutOfSharedMemory
from ddp_lab.transport.base import NDArray

SLOT_BYTES = 2048  # a header of the board: call sites can be long
BOARD_BYTES = 4096 + 16 * SLOT_BYTES
MAX_RENDEZVOUS = 64  # communicators with a rendezvous of their own; later ones send messages
MAILBOX_BYTES = 16 * 1024
RENDEZVOUS_BYTES = 4096 + 2 * MAILBOX_BYTES
RING_BYTES = 256 * 1024
ARENA_BYTES = 8 << 30  # of addresses, not of memory
SMALLEST_ARENA_BYTES = 64 << 20


class Layout:
    """Where everything lies, for a number of ranks."""

    def __init__(self, size: int, arena_bytes: int) -> None:
        self.size = size
        self.arena_bytes = arena_bytes
        self.first_rendezvous = size * BOARD_BYTES
        self.rings = self.first_rendezvous + MAX_RENDEZVOUS * size * RENDEZVOUS_BYTES
        self.arenas = self.rings + size * size * RING_BYTES
        self.total = self.arenas + size * arena_bytes

    def board(self, rank: int) -> int:
        """Return the offset of a rank's entry."""
        return rank * BOARD_BYTES

    def rendezvous(self, context: int, rank: int) -> int:
        """Return the offset of a rank's place in a communicator's rendezvous."""
        return self.first_rendezvous + (context * self.size + rank) * RENDEZVOUS_BYTES

    def ring(self, src: int, dst: int) -> int:
        """Return the offset of the queue from `src` to `dst`."""
        return self.rings + (src * self.size + dst) * RING_BYTES

    def arena(self, rank: int) -> int:
        """Return the offset of a rank's arena."""
        return self.arenas + rank * self.arena_bytes


class Segment:
    """The mapped memory. `create` it once, then `Segment(fd, size, arena_bytes)` in each rank."""

    def __init__(self, fd: int, size: int, arena_bytes: int) -> None:
        self.fd = fd
        self.layout = Layout(size, arena_bytes)
        self.map = mmap.mmap(fd, self.layout.total)
        self.bytes = memoryview(self.map)
        self.words = self.bytes.cast("q")
        self.array: NDArray = np.frombuffer(self.map, np.uint8)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        self.view = functools.lru_cache(maxsize=1024)(self._view)

    def __reduce__(self) -> str:
        raise TypeError("shared memory belongs to the ranks of one run and cannot be sent")

    @classmethod
    def create(cls, size: int, arena_bytes: int = ARENA_BYTES) -> "Segment":
        """Return a new segment for `size` ranks, with arenas as large as the system allows."""
        while True:
            fd = _anonymous_file()
            try:
                os.ftruncate(fd, Layout(size, arena_bytes).total)
                return cls(fd, size, arena_bytes)
            except OSError as error:
                os.close(fd)
                arena_bytes //= 2
                if arena_bytes < SMALLEST_ARENA_BYTES:
                    raise OutOfSharedMemory(
                        f"launch: no shared memory for {size} ranks: {error}. Raise the limit on "
                        "address space or file size, or use transport='threads'. "
                        "Help: when_it_does_not_work.html#too-little-memory"
                    ) from error

    def _view(self, offset: int, count: int, dtype: np.dtype[Any]) -> NDArray:
        """Return `count` elements at `offset`; `view` does the same and remembers."""
        return self.array[offset : offset + count * dtype.itemsize].view(dtype)

    def offset_of(self, array: NDArray) -> int:
        """Return where in the arenas a contiguous array lies, -1 if it does not."""
        offset: int = array.__array_interface__["data"][0] - self.address
        layout = self.layout
        inside = layout.arenas <= offset and offset + array.nbytes <= layout.total
        return offset if inside else -1

    def close(self) -> None:
        """Close the descriptor; the mapping goes with the last array in it."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


def _anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("ddp_lab", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


class Block:
    """Memory of an arena, given back when the last array over it is gone."""

    __slots__ = ("__array_interface__", "_arena", "_offset", "_size")

    def __init__(self, arena: "Arena", offset: int, size: int, n_bytes: int) -> None:
        self._arena = arena
        self._offset = offset
        self._size = size
        self.__array_interface__: dict[str, Any] = {
            "version": 3,
            "shape": (n_bytes,),
            "typestr": "|u1",
            "data": (arena.address + offset, False),
        }

    def __del__(self) -> None:
        self._arena.free(self._offset, self._size)


class Arena:
    """One rank's part of the segment, handed out in blocks and reused.

    Sizes are rounded up to four steps an octave, so a freed block fits the next one of its kind.
    Only the rank that owns an arena allocates in it, from any thread. A block is freed without the
    lock, for that may happen wherever the garbage collector runs: CPython's list operations are
    atomic.
    """

    def __init__(self, segment: Segment, rank: int) -> None:
        start = segment.layout.arena(rank)
        self.address = segment.address
        self._map = segment.map  # the mapping goes with the last array in it
        self._next = start
        self._end = start + segment.layout.arena_bytes
        self._free: dict[int, list[int]] = {}
        self._lock = threading.Lock()

    def allocate(self, n_bytes: int) -> tuple[int, int] | None:
        """Return offset and size of a block of at least `n_bytes`, None if there is no room."""
        size = round_up(n_bytes)
        with self._lock:
            free = self._free.get(size)
            if free:
                return free.pop(), size
            if self._next + size > self._end:
                return None
            offset = self._next
            self._next += size
            return offset, size

    def free(self, offset: int, size: int) -> None:
        """Take a block back."""
        self._free.setdefault(size, []).append(offset)

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray | None:
        """Return an array in a block of its own, None if there is no room."""
        n_bytes = dtype.itemsize
        for n in shape:
            n_bytes *= n
        block = self.allocate(max(n_bytes, 1))
        if block is None:
            return None
        whole = np.asarray(Block(self, *block, n_bytes))
        return whole.view(dtype).reshape(shape)


def round_up(n_bytes: int) -> int:
    """Return the next size at or above `n_bytes`, at least 64, four sizes to each octave."""
    if n_bytes <= 256:
        return max(64, (n_bytes + 63) & ~63)
    step = 1 << ((n_bytes - 1).bit_length() - 3)
    return (n_bytes + step - 1) & -step
